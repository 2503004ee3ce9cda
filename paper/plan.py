"""The runs of `python -m paper reproduce`, the most worth knowing first.

Minutes are those of one core with a second run beside: as the committed records say, and for what
has no record yet, an estimate. All of it takes two such cores about 22 hours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .experiments import EXPERIMENTS

SYNTHETIC = ("mix-poly-5", "mix-sin", "mix-poly-10", "mix-poly-15")
MNIST = ("pixel-mnist", "permuted-mnist")


# What stands in two experiments is trained once, in the one on the right.
SAME = {
    ("bases", "permuted-fourier"): ("permuted-mnist", "fru-60-10"),
    ("bases", "mix-poly-5-fourier"): ("mix-poly-5", "fru"),
    ("frequencies", "steps784-60-0.25-784"): ("pixel-mnist", "fru-60-10"),
}


@dataclass(frozen=True)
class Planned:
    """A run of the plan; its settings are those of the experiment."""

    experiment: str
    model: str
    seed: int
    minutes: float  # on one core, roughly


def _runs(
    experiments: str | tuple[str, ...],
    minutes: dict[str, float],
    seeds: Iterable[int] = (0,),
) -> tuple[Planned, ...]:
    """A run for each experiment, seed and model, whose minutes are given."""
    names = (experiments,) if isinstance(experiments, str) else experiments
    return tuple(
        Planned(name, model, seed, cost)
        for name in names
        for seed in seeds
        for model, cost in minutes.items()
    )


def _frequencies(steps: int, minutes: float) -> dict[str, float]:
    names = (n for n in EXPERIMENTS["frequencies"] if ("frequencies", n) not in SAME)
    return {name: minutes for name in names if f"steps{steps}-" in name}


def _bases(task: str, minutes: float) -> dict[str, float]:
    return {f"{task}-{basis}": minutes for basis in ("chebyshev", "legendre", "walsh")}


def _memory(length: int, minutes: dict[str, float]) -> tuple[Planned, ...]:
    problems = ("adding", "copy")
    named = {f"{p}-{length}-{model}": cost for p in problems for model, cost in minutes.items()}
    return _runs("memory", named)


_TUNED = (
    *_runs(MNIST, {"fru-60-10-tuned": 26}, seeds=(0, 1, 2)),
    *_runs("imdb", {"fru-5-10-tuned": 14}, seeds=(0, 1, 2)),
)

_FIRST = (
    *_runs(MNIST, {"fru-60-10": 23}),
    *_runs("imdb", {"fru-5-10": 11}),
    *_runs("mix-poly-5", {"fru": 5, "lstm": 24, "rnn": 11, "sru": 34}),
    *_runs("memory", {"adding-100-fru": 1, "adding-1000-fru": 6, "copy-100-fru": 4}),
    *_runs("bases", _bases("mix-poly-5", 5)),
    *_runs("mix-sin", {"fru": 5}),
    *_runs("gradients", {"fru": 3, "rnn": 10, "sru": 37, "lstm": 22}),
    *_runs("frequencies", _frequencies(28, 2.5)),
    *_runs("mix-sin", {"rnn": 11, "sru": 34, "lstm": 24}),
)

_TABLES = (
    *_runs("imdb", {"fru-1-10": 12}),
    *_runs("pixel-mnist", {"fru-40-10": 22}),
    *_runs(("mix-poly-10", "mix-poly-15"), {"fru": 5, "rnn": 11, "sru": 34, "lstm": 24}),
    *_runs(
        SYNTHETIC,
        {"fru-released": 2, "rnn-released": 10, "sru-released": 14, "lstm-released": 25},
    ),
    *_runs("imdb", {"rnn": 25, "sru": 66, "lstm": 64}),
    *_runs(MNIST, {"rnn": 47, "sru": 50, "lstm": 60}),
)

_SEEDS = (
    *_runs(MNIST, {"fru-60-10": 23}, seeds=(1, 2)),
    *_runs("imdb", {"fru-5-10": 11, "fru-1-10": 12}, seeds=(1, 2)),
    *_runs(SYNTHETIC, {"fru": 5, "fru-released": 2}, seeds=(1, 2)),
    *_runs("gradients", {"fru": 3}, seeds=(1, 2)),
    *_runs("pixel-mnist", {"fru-40-10": 22}, seeds=(1, 2)),
    *_runs("bases", _bases("mix-poly-5", 5), seeds=(1, 2)),
    *_runs("frequencies", _frequencies(28, 2.5), seeds=(1, 2)),
    *_runs("memory", {"adding-100-fru": 1, "adding-1000-fru": 6}, seeds=(1, 2)),
    *_runs("memory", {"copy-100-fru": 4, "copy-1000-fru": 10}, seeds=(1, 2)),
)

_REST = (
    *_runs("bases", _bases("permuted", 23)),
    *_memory(100, {"rnn": 6, "sru": 10, "lstm": 21}),
    *_runs("memory", {"copy-1000-fru": 10, "adding-10000-fru": 22, "copy-10000-fru": 25}),
    *_memory(1000, {"rnn": 11, "sru": 11, "lstm": 13}),
    *_runs("frequencies", _frequencies(784, 28)),
    *_memory(10_000, {"rnn": 19, "sru": 8, "lstm": 25}),
)

_LONG_SEEDS = (
    *_runs("bases", _bases("permuted", 20), seeds=(1, 2)),
    *_runs("memory", {"adding-10000-fru": 20, "copy-10000-fru": 20}, seeds=(1, 2)),
    *_runs("frequencies", _frequencies(784, 22), seeds=(1, 2)),
)

PLAN: tuple[Planned, ...] = (*_FIRST, *_TUNED, *_TABLES, *_SEEDS, *_REST, *_LONG_SEEDS)

# Measurements without training, by experiment and name: seconds each.
MEASUREMENTS: tuple[tuple[str, str], ...] = (
    ("beijing", "fits"),
    *((experiment, "simple") for experiment in SYNTHETIC),
)
