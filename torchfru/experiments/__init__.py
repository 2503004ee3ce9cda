"""Experiments by name: for each, the models and the settings that its runs use.

The settings are those of the paper's authors where they published any; a family's file says so.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..io import did_you_mean, file_problem, file_sha256
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


def record_name(experiment: str, config: RunConfig) -> str:
    """The folder of a run's records: the experiment, or the user's file and a digest of it.

    Files of one name in two folders, or one that is called like an experiment, stay apart.
    """
    known = {run.data.name for runs in EXPERIMENTS.values() for run in runs.values()}
    if config.data.name in known:
        return experiment
    path = Path(config.data.name).expanduser()
    if problem := file_problem(path):
        raise ValueError(f"{path}: {problem}")
    stem = re.sub(r"[^\w.-]+", "_", path.stem)
    return f"{stem}-{file_sha256(path)[:8]}"


def _is_path(name: str) -> bool:
    return Path(name).suffix != "" or Path(name).exists()
