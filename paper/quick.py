"""Every experiment at a tiny size: the whole path from data to report, within minutes.

The numbers mean nothing; that they can be computed does.
"""

from __future__ import annotations

from dataclasses import replace

from torchfru.data import DATASETS
from torchfru.training.config import RunConfig

from .experiments import EXPERIMENTS
from .plan import Planned

MODELS = {
    "mix-poly-5": ("rnn", "lstm", "sru", "fru"),
    "mix-sin": ("fru",),
    "gradients": ("rnn", "lstm", "sru", "fru"),
    "pixel-mnist": ("lstm", "fru-60-10"),
    "permuted-mnist": ("fru-60-10",),
    "imdb": ("fru-5-10",),
    "frequencies": ("steps28-20-0.25-28",),
    "bases": ("mix-poly-5-legendre",),
    "depth": ("plain-mlp-10", "fourier-mlp-10", "fourier-conv-10"),
    "memory": ("adding-100-lstm", "adding-100-fru", "copy-100-fru"),
}
MEASURED = (("beijing", "fits"), ("mix-poly-5", "simple"), ("mix-sin", "simple"))
SEQUENCES, EPOCHS, MINUTES = 60, 2, 0.2


def quick_plan() -> list[Planned]:
    """The tiny runs, and the measurements, which are small as they are."""
    runs = [
        Planned(experiment, model, 0, MINUTES, tiny(EXPERIMENTS[experiment][model]))
        for experiment, models in MODELS.items()
        for model in models
    ]
    return [Planned(*names) for names in MEASURED] + runs


def tiny(config: RunConfig) -> RunConfig:
    """The same run on few sequences, for few epochs."""
    probe = None if config.training.probe_every is None else 1
    size = {"limit" if DATASETS[config.data.name].needs_download else "size": SEQUENCES}
    return replace(
        config,
        data=replace(config.data, **size),  # type: ignore[arg-type]
        training=replace(config.training, epochs=EPOCHS, probe_every=probe),
    )


def data_name(planned: Planned) -> str:
    """The data that it reads; a measurement reads those of the experiment's first run."""
    return (planned.config or EXPERIMENTS[planned.experiment]["fru"]).data.name
