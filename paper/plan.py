"""The runs of `python -m paper reproduce`, the most worth knowing first.

Minutes are those of one core with a second run beside: as the committed records say, and for what
has no record yet, an estimate. All of it takes two such cores about 30 hours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from torchfru.io import did_you_mean
from torchfru.records import JsonFile, RunResult, checkpoint_folder, record_path
from torchfru.training.config import RunConfig

from .experiments import BASES, CONVOLUTIONAL, EXPERIMENTS, KINDS

Kind = Literal["finished", "cut off", "missing", "refused", "failed", "busy"]

SYNTHETIC = ("mix-poly-5", "mix-sin", "mix-poly-10", "mix-poly-15")
MNIST = ("pixel-mnist", "permuted-mnist")
SHORT_MNIST = ("pixel-mnist-196", "permuted-mnist-196")

# A run of two experiments is trained once, in the one on the right.
SHARED_RUNS = {
    ("bases", "permuted-fourier"): ("permuted-mnist", "fru-60-10"),
    ("bases", "mix-poly-5-fourier"): ("mix-poly-5", "fru"),
    ("frequencies", "steps784-60-0.25-784"): ("pixel-mnist", "fru-60-10"),
}


@dataclass
class Measurement(JsonFile):
    """A measurement without training: its numbers and their origin."""

    kind: ClassVar = "measurement"
    experiment: str
    name: str
    values: dict[str, Any]
    seconds: float = 0.0
    commit: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)  # checksums
    hardware: dict[str, Any] = field(default_factory=dict)


def measurement_path(results: Path, experiment: str, name: str) -> Path:
    """Where a measurement without training is: ``results/<experiment>/<name>.json``."""
    return results / experiment / f"{name}.json"


@dataclass(frozen=True)
class Planned:
    """A run, or a measurement without training, which has neither seed nor configuration."""

    experiment: str
    name: str  # of the model, or of the measurement
    seed: int | None = None
    minutes: float = 0.1  # on one core, roughly
    config: RunConfig | None = None

    def __str__(self) -> str:
        seed = "" if self.seed is None else f" seed {self.seed}"
        return f"{self.experiment} {self.name}{seed}"

    def record(self, results: Path) -> Path:
        if self.seed is None:
            return measurement_path(results, self.experiment, self.name)
        return record_path(results, self.experiment, self.name, self.seed)

    def folder(self, results: Path) -> Path:
        """The folder of its log, its lock and its checkpoint."""
        return checkpoint_folder(results, self.experiment, self.name, self.seed or 0)

    def progress(self, results: Path) -> Progress:
        """How far it is, by its record."""
        path = self.record(results)
        if not path.exists():
            return Progress(self, "missing")
        try:
            if self.config is None:
                return Progress(self, "finished", seconds=Measurement.load(path).seconds)
            record = RunResult.load(path)
        except ValueError as error:
            return Progress(self, "refused", why=f"{error}: left alone")
        try:
            changed = self.config.changes_since(record.config)
        except ValueError:  # some other JSON in the place of the configuration
            return Progress(self, "refused", why=f"{path} is not a run record: left alone")
        if changed:
            why = f"{path} has {changed[0]}: left alone"
            return Progress(self, "refused", record.seconds, record.epochs, record.diverged, why)
        kind: Kind = "finished" if record.status == "finished" else "cut off"
        return Progress(self, kind, record.seconds, record.epochs, record.diverged)


@dataclass(frozen=True)
class Progress:
    """How far a run is; ``why`` is one line on what went wrong.

    Of a record: finished, cut off, missing, or refused, if it has other settings and must not be
    touched. Of a process that has ended also failed, or busy, if another one has the lock.
    """

    run: Planned
    kind: Kind
    seconds: float = 0.0
    epochs: Sequence[dict[str, Any]] = ()
    diverged: bool = False
    why: str = ""

    @property
    def last(self) -> dict[str, Any]:
        """The measures of the last epoch; empty before there is one."""
        return self.epochs[-1] if self.epochs else {}

    def seconds_left(self, running: float = 0.0) -> float:
        """By the mean epoch so far; by the plan before there is one, less ``running`` seconds."""
        if self.kind in ("finished", "refused"):
            return 0.0
        if self.run.config is None or not self.epochs:
            return max(0.0, 60 * self.run.minutes - running)
        training, spent = self.run.config.training, sum(epoch["seconds"] for epoch in self.epochs)
        left = (training.epochs - len(self.epochs)) * spent / len(self.epochs)
        limit = training.max_minutes
        return left if limit is None else min(left, max(0.0, 60 * limit - spent))


def select(names: Collection[str], seeds: Collection[int] | None = None) -> list[Planned]:
    """The plan for these experiments, or for ``all``, in its order.

    Runs of other experiments that these ones show are included.

    >>> [str(run) for run in select(["gradients"])][:2]
    ['gradients fru seed 0', 'gradients rnn seed 0']
    """
    known = list(dict.fromkeys(run.experiment for run in (*PLAN, *MEASUREMENTS)))
    for name in names:
        if name not in (*known, "all"):
            hint = did_you_mean(name, [*known, "all", "quick"])
            raise ValueError(f"there is nothing to reproduce called {name!r}; {hint}")
    wanted = known if "all" in names else names
    shared = [there for (name, _), there in SHARED_RUNS.items() if name in wanted]
    measurements = [planned for planned in MEASUREMENTS if planned.experiment in wanted]
    runs = [
        run
        for run in PLAN
        if run.experiment in wanted or (run.experiment, run.name) in shared
        if seeds is None or run.seed in seeds
    ]
    return measurements + runs


# The plan ----------------------------------------------------------------------------------


def _runs(
    experiments: str | tuple[str, ...], minutes: dict[str, float], seeds: Iterable[int] = (0,)
) -> tuple[Planned, ...]:
    """A run for each experiment, seed and model, whose minutes are given."""
    names = (experiments,) if isinstance(experiments, str) else experiments
    return tuple(
        Planned(name, model, seed, cost, EXPERIMENTS[name][model])
        for name in names
        for seed in seeds
        for model, cost in minutes.items()
    )


def _frequencies(steps: int, minutes: float) -> dict[str, float]:
    names = (n for n in EXPERIMENTS["frequencies"] if ("frequencies", n) not in SHARED_RUNS)
    return {name: minutes for name in names if f"steps{steps}-" in name}


def _bases(task: str, minutes: float) -> dict[str, float]:
    return {f"{task}-{basis}": minutes for basis in BASES if basis != "fourier"}


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

# The recipe, and the protocol of 196 steps, in which every baseline is trained to the end.
_RECIPE_MEMORY: dict[str, float] = {
    name: 8 for name in EXPERIMENTS["memory"] if name.endswith("-recipe")
}
_RECIPE = (
    *_runs(MNIST, {"fru-recipe": 12}, seeds=(0, 1, 2)),
    *_runs("imdb", {"fru-recipe": 3}, seeds=(0, 1, 2)),
    *_runs(SYNTHETIC, {"fru-recipe": 4}, seeds=(0, 1, 2)),
    *_runs("memory", _RECIPE_MEMORY, seeds=(0, 1, 2)),
    *_runs(SYNTHETIC, {"lstm-recipe": 10, "sru-recipe": 15}),
)
_SHORT = (
    *_runs(SHORT_MNIST, {"fru": 3, "fru-recipe": 4}, seeds=(0, 1, 2)),
    *_runs(SHORT_MNIST, {"rnn": 10, "lstm": 20, "gru": 20, "sru": 25}),
    *_runs(SHORT_MNIST, {"lstm-recipe": 20, "gru-recipe": 20}),
    *_runs("ablation", dict.fromkeys(EXPERIMENTS["ablation"], 3.0)),
    *_runs("time-to-accuracy", {"permuted-mnist": 5, "pixel-mnist": 8}),
)

# Depth: the deepest first, then every kind of network, then further seeds.
_MLP_MINUTES = {10: 0.5, 30: 0.7, 100: 1.3, 300: 3.0}
_CNN_MINUTES = {10: 0.7, 50: 2.6}
_DEEPEST = 10.0


def _deep(minutes: dict[int, float], shape: str, kinds: Iterable[str] = KINDS) -> dict[str, float]:
    return {f"{kind}-{shape}-{n}": cost for n, cost in minutes.items() for kind in kinds}


_SHALLOWER = _deep(_MLP_MINUTES, "mlp") | _deep(_CNN_MINUTES, CONVOLUTIONAL)
_DEPTH = (
    *_runs("depth", _deep({1000: _DEEPEST}, "mlp", KINDS[::-1])),
    *_runs("depth", _SHALLOWER),
    *_runs("depth", _deep({200: _DEEPEST}, CONVOLUTIONAL, KINDS[::-1])),
    *_runs("depth", _SHALLOWER, seeds=(1, 2)),
    *_runs("depth", _deep({1000: _DEEPEST}, "mlp", KINDS[::-1]), seeds=(1, 2)),
)

PLAN: tuple[Planned, ...] = (
    *_FIRST,
    *_TUNED,
    *_RECIPE,
    *_TABLES,
    *_SEEDS,
    *_SHORT,
    *_DEPTH,
    *_REST,
    *_LONG_SEEDS,
)

# Measurements without training: seconds each.
MEASUREMENTS: tuple[Planned, ...] = (
    Planned("beijing", "fits"),
    *(Planned(experiment, "simple") for experiment in SYNTHETIC),
)
