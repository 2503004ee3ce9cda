"""Other bounded bases in the Fourier basis's place: the paper's theorem allows any. Ours."""

from __future__ import annotations

from dataclasses import replace

from torchfru.experiments.config import RunConfig
from torchfru.experiments.mnist import EXPERIMENTS as MNIST
from torchfru.experiments.synthetic import EXPERIMENTS as SYNTHETIC

TASKS = {
    "permuted": MNIST["permuted-mnist"]["fru-60-10"],
    "mix-poly-5": SYNTHETIC["mix-poly-5"]["fru"],
}
BASES = ("fourier", "chebyshev", "legendre", "walsh")


def _with_basis(run: RunConfig, basis: str) -> RunConfig:
    return replace(run, model=replace(run.model, basis=basis))


EXPERIMENTS = {
    "bases": {
        f"{task}-{basis}": _with_basis(run, basis) for task, run in TASKS.items() for basis in BASES
    }
}
