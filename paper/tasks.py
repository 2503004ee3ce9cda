"""What there is to do, and how far it is done, as the records say."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchfru.experiments.config import RunConfig
from torchfru.results import (
    Measurement,
    RunResult,
    checkpoint_folder,
    measurement_path,
    record_path,
)

from .experiments import find_run
from .plan import MEASUREMENTS, PLAN, SAME

Kind = Literal["finished", "cut off", "missing", "refused"]

MEASURING = 0.1  # minutes that a measurement without training takes, roughly


@dataclass(frozen=True)
class Task:
    """A run, or a measurement without training, which has neither seed nor configuration."""

    experiment: str
    name: str  # of the model, or of the measurement
    seed: int | None
    minutes: float  # an estimate, on one core
    config: RunConfig | None

    def __str__(self) -> str:
        seed = "" if self.seed is None else f" seed {self.seed}"
        return f"{self.experiment} {self.name}{seed}"

    def record(self, results: Path) -> Path:
        if self.seed is None:
            return measurement_path(results, self.experiment, self.name)
        return record_path(results, self.experiment, self.name, self.seed)

    def folder(self, results: Path) -> Path:
        """Where its log, its lock and its checkpoint are."""
        return checkpoint_folder(results, self.experiment, self.name, self.seed or 0)


@dataclass(frozen=True)
class State:
    """How far a task is. ``refused`` is a record that must not be touched; ``why`` says why."""

    kind: Kind
    record: RunResult | None = None
    seconds: float = 0.0
    why: str = ""

    @property
    def epochs(self) -> int:
        return 0 if self.record is None else len(self.record.epochs)


def plan_tasks(names: Collection[str], seeds: Collection[int] | None = None) -> list[Task]:
    """The tasks of these experiments, or of ``all``, in the order of the plan.

    Among them are runs of other experiments that these ones show, too.

    >>> [str(task) for task in plan_tasks(["gradients"])][:2]
    ['gradients fru seed 0', 'gradients rnn seed 0']
    """
    known = list(
        dict.fromkeys([run.experiment for run in PLAN] + [name for name, _ in MEASUREMENTS])
    )
    for name in names:
        if name not in (*known, "all"):
            raise ValueError(f"there is nothing to reproduce called {name!r}; {_near(name, known)}")
    wanted = known if "all" in names else names
    shared = [there for (name, _), there in SAME.items() if name in wanted]
    measured = [Task(*pair, None, MEASURING, None) for pair in MEASUREMENTS if pair[0] in wanted]
    runs = [
        Task(run.experiment, run.model, run.seed, run.minutes, find_run(run.experiment, run.model))
        for run in PLAN
        if run.experiment in wanted or (run.experiment, run.model) in shared
        if seeds is None or run.seed in seeds
    ]
    return measured + runs


def inspect(task: Task, results: Path) -> State:
    """What the task's record says of it."""
    path = task.record(results)
    if not path.exists():
        return State("missing")
    try:
        if task.config is None:
            return State("finished", seconds=Measurement.load(path).seconds)
        record = RunResult.load(path)
        changed = task.config.changes_since(record.config)
    except ValueError as error:
        return State("refused", why=f"{error}: left alone")
    except AttributeError:  # some other JSON in the place of the configuration
        return State("refused", why=f"{path} is not a run record: left alone")
    kind: Kind = "finished" if record.status == "finished" else "cut off"
    if changed:
        why = f"{path} has {changed[0]}: left alone"
        return State("refused", record, record.seconds, why)
    return State(kind, record, record.seconds)


def minutes_left(task: Task, state: State) -> float:
    """The estimate, less what is done."""
    if state.kind in ("finished", "refused"):
        return 0.0
    return max(task.minutes - state.seconds / 60, 0.1)


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}, all and quick"
