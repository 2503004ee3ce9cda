"""Experiments by name: for each, the models and the settings that its runs use.

The settings are those of the paper's authors where they published any; a family's file says so.
"""

from __future__ import annotations

from pathlib import Path

from ..io import did_you_mean
from . import beijing, custom, imdb, memory, mnist, synthetic
from .config import DataConfig, ModelConfig, RunConfig, TrainingConfig
from .override import override

__all__ = [
    "EXPERIMENTS",
    "DataConfig",
    "ModelConfig",
    "RunConfig",
    "TrainingConfig",
    "find_run",
    "override",
    "record_name",
]

EXPERIMENTS: dict[str, dict[str, RunConfig]] = {
    **synthetic.EXPERIMENTS,
    **mnist.EXPERIMENTS,
    **imdb.EXPERIMENTS,
    **beijing.EXPERIMENTS,
    **memory.EXPERIMENTS,
}


def find_run(experiment: str, model: str) -> RunConfig:
    """The settings of a model in an experiment; a path is an experiment on the user's own data.

    >>> find_run("pixel-mnist", "fru").training.lr
    0.005
    >>> find_run("pixel-mnst", "fru")
    Traceback (most recent call last):
    ValueError: there is no experiment 'pixel-mnst'; did you mean 'pixel-mnist'?
    """
    models = EXPERIMENTS.get(experiment)
    if models is None and _is_path(experiment):
        models = custom.models(experiment)
    if models is None:
        raise ValueError(
            f"there is no experiment {experiment!r}; {did_you_mean(experiment, EXPERIMENTS)}"
        )
    if model not in models:
        raise ValueError(f"{experiment} has no model {model!r}; {did_you_mean(model, models)}")
    return models[model]


def record_name(experiment: str) -> str:
    """The folder of an experiment's records: its name, or that of the user's file."""
    return Path(experiment).stem if experiment not in EXPERIMENTS else experiment


def _is_path(name: str) -> bool:
    return Path(name).suffix != "" or Path(name).exists()
