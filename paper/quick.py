"""Every experiment at a tiny size: the whole path from data to report, within minutes.

The numbers mean nothing; that they come about does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torchfru.data import DATASETS, available
from torchfru.experiments.config import RunConfig

from .experiments import find_run
from .tasks import MEASURING, Task

MODELS = {
    "mix-poly-5": ("rnn", "lstm", "sru", "fru"),
    "mix-sin": ("fru",),
    "gradients": ("rnn", "lstm", "sru", "fru"),
    "pixel-mnist": ("lstm", "fru-60-10"),
    "permuted-mnist": ("fru-60-10",),
    "imdb": ("fru-5-10",),
    "frequencies": ("steps28-20-0.25-28",),
    "bases": ("mix-poly-5-legendre",),
    "memory": ("adding-100-lstm", "adding-100-fru", "copy-100-fru"),
}
MEASURED = (("beijing", "fits"), ("mix-poly-5", "simple"), ("mix-sin", "simple"))
SEQUENCES, EPOCHS, MINUTES = 60, 2, 0.2


def quick_tasks() -> list[Task]:
    """The tiny runs, and the measurements, which are small as they are."""
    measured = [Task(*pair, None, MEASURING, None) for pair in MEASURED]
    runs = [
        Task(experiment, model, 0, MINUTES, tiny(find_run(experiment, model)))
        for experiment, models in MODELS.items()
        for model in models
    ]
    return measured + runs


def tiny(config: RunConfig) -> RunConfig:
    """The same run on few sequences, for few epochs."""
    probe = None if config.training.probe_every is None else 1
    if DATASETS[config.data.name].needs_download:
        data = replace(config.data, limit=SEQUENCES)
    else:
        data = replace(config.data, size=SEQUENCES)
    return replace(
        config,
        data=data,
        training=replace(config.training, epochs=EPOCHS, probe_every=probe),
    )


def without_data(tasks: list[Task], data_dir: Path | None) -> list[Task]:
    """Those whose data are not at hand and would have to be fetched."""
    return [task for task in tasks if not available(data_name(task), data_dir=data_dir)]


def data_name(task: Task) -> str:
    """Which data a task reads; a measurement those of the experiment's first run."""
    config = task.config or find_run(task.experiment, "fru")
    return config.data.name
