"""The experiments of the paper by name: those of the library, and those for the paper only."""

from __future__ import annotations

from torchfru import experiments as library
from torchfru.experiments.config import RunConfig

from . import bases, frequencies, gradients

EXPERIMENTS: dict[str, dict[str, RunConfig]] = {
    **library.EXPERIMENTS,
    **gradients.EXPERIMENTS,
    **frequencies.EXPERIMENTS,
    **bases.EXPERIMENTS,
}


def find_run(experiment: str, model: str) -> RunConfig:
    """The settings of a model in an experiment."""
    return EXPERIMENTS[experiment][model]
