"""The records of a folder, as the report looks at them: by model, and against the plan."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from torchfru.records import RunResult, SweepResult
from torchfru.training.config import RunConfig, differences

from ..experiments import EXPERIMENTS
from ..plan import MEASUREMENTS, PLAN, SHARED_RUNS, Measurement, Planned

Status = Literal["comparable", "shorter", "changed", "diverged", "missing"]
NUMBERS = (int, float)
NORMS = ("l1", "l2", "linf")


@dataclass(frozen=True)
class Record:
    """A run's record with its name, ``experiment/model-seed0``."""

    name: str
    run: RunResult
    config: RunConfig

    @property
    def finished(self) -> bool:
        return self.run.status == "finished"

    @property
    def usable(self) -> bool:
        """Whether its last epoch's measure is a result."""
        return self.finished and not self.run.diverged and bool(self.run.epochs)

    @property
    def progress(self) -> str:
        """How far it got, "12 of 100 epochs, 45 minutes"."""
        done, planned = len(self.run.epochs), self.config.training.epochs
        return f"{done} of {planned} epochs, {self.run.seconds / 60:.0f} minutes"

    @property
    def changes(self) -> list[str]:
        """The settings that are not the experiment's own."""
        return changes(self.run.experiment, self.run.model, self.config)

    @property
    def excess(self) -> str:
        """The last test loss, where in training it would be divergence; or nothing."""
        last, limit = self.run.last, self.config.training.max_loss
        for loss in (last[name] for name in ("test_loss", "test_mse") if name in last):
            if loss is None or loss > limit:
                return "not finite" if loss is None else f"{loss:.1e}"
        return ""

    def curve(self, measure: str) -> list[tuple[int, float, float]]:
        """(epoch, minutes so far, measure) of every epoch that has a finite one."""
        minutes, points = 0.0, []
        for epoch in self.run.epochs:
            minutes += (epoch.get("seconds") or 0.0) / 60
            if isinstance(epoch.get(measure), NUMBERS):
                points.append((epoch["epoch"], minutes, epoch[measure]))
        return points


@dataclass(frozen=True)
class Group:
    """The runs of a model in an experiment, by seed."""

    experiment: str
    model: str
    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.model}"

    @property
    def parameters(self) -> int:
        """Number of trainable parameters; 0 where there are no runs."""
        return self.records[0].run.parameters if self.records else 0

    @property
    def usable(self) -> list[Record]:
        return [record for record in self.records if record.usable]

    @property
    def diverged(self) -> list[Record]:
        return [record for record in self.records if record.run.diverged]

    @property
    def unfinished(self) -> list[Record]:
        return [record for record in self.records if not record.finished]

    @property
    def epochs(self) -> int:
        """Of the run that was trained least, of those that count."""
        return min((len(record.run.epochs) for record in self.usable), default=0)

    @property
    def planned_epochs(self) -> int:
        """The epochs that the experiment asks for, or the runs, where those are more."""
        own = EXPERIMENTS.get(self.experiment, {}).get(self.model)
        configs = [record.config for record in self.records] + ([] if own is None else [own])
        return max((config.training.epochs for config in configs), default=0)

    @property
    def changes(self) -> list[str]:
        """The settings of its runs that are not the experiment's own."""
        every = (change for record in self.records for change in record.changes)
        return list(dict.fromkeys(every))

    @property
    def status(self) -> Status:
        """Whether its mean can be held against others: trained to the end, as planned."""
        if not self.usable:
            return "diverged" if self.diverged else "missing"
        if self.epochs < self.planned_epochs:
            return "shorter"
        return "changed" if self.changes else "comparable"

    @property
    def comparable(self) -> bool:
        return self.status == "comparable"

    def last(self, measure: str) -> list[float]:
        """The last epoch's measure of each run that counts."""
        values = (record.run.last.get(measure) for record in self.usable)
        return [value for value in values if isinstance(value, NUMBERS)]

    def mean(self, measure: str) -> float | None:
        values = self.last(measure)
        return statistics.fmean(values) if values else None


@dataclass(frozen=True)
class Sweep:
    """A sweep with its name, ``experiment/sweep-model-0``, and what its points share."""

    name: str
    result: SweepResult
    config: RunConfig

    @property
    def changes(self) -> list[str]:
        """The settings of all its points that are not the experiment's own."""
        varied = ("training.lr ", "training.lr_decay ", "training.epochs ", "data.validation ")
        every = changes(self.result.experiment, self.result.model, self.config)
        return [change for change in every if not change.startswith(varied)]


@dataclass(frozen=True)
class Library:
    """All records of a folder; ``broken`` says of each that could not be read what is wrong."""

    folder: Path
    runs: tuple[Record, ...]
    measurements: dict[str, Measurement]
    broken: dict[str, str]
    sweeps: tuple[Sweep, ...] = ()

    @cached_property
    def groups(self) -> dict[tuple[str, str], Group]:
        found: dict[tuple[str, str], list[Record]] = {}
        for record in self.runs:
            found.setdefault((record.run.experiment, record.run.model), []).append(record)
        return {key: Group(*key, tuple(records)) for key, records in found.items()}

    def group(self, experiment: str, model: str) -> Group:
        """The runs of a model, or the same ones of another experiment; empty if there are none."""
        key = (experiment, model)
        none = Group(experiment, model, ())
        return self.groups.get(key) or self.groups.get(SHARED_RUNS.get(key, key)) or none

    def models(self, experiment: str) -> list[str]:
        """The experiment's models that are planned or recorded, without those of the recipe."""
        known = {planned.name for planned in PLAN if planned.experiment == experiment}
        known |= {model for name, model in [*self.groups, *SHARED_RUNS] if name == experiment}
        return [m for m in EXPERIMENTS[experiment] if m in known and not m.endswith("-recipe")]

    def values(self, name: str) -> dict[str, Any]:
        """The values of the measurement ``experiment/name``; empty where there is none."""
        return self.measurements[name].values if name in self.measurements else {}

    @cached_property
    def missing(self) -> dict[Planned, str]:
        """The plan's runs and measurements without a finished record, and how far each got."""
        found = {record.name: record for record in self.runs}
        missing = {}
        for planned in (*PLAN, *MEASUREMENTS):
            name = f"{planned.experiment}/{planned.record(self.folder).stem}"
            record = found.get(name)
            if record is not None and not record.finished:
                missing[planned] = f"unfinished, {record.progress}"
            elif record is None and name not in self.measurements:
                missing[planned] = "cannot be read" if name in self.broken else "not begun"
        return missing


def changes(experiment: str, model: str, config: RunConfig) -> list[str]:
    """The settings that are not the experiment's own, each with both values."""
    own = EXPERIMENTS.get(experiment, {}).get(model)
    if own is None:
        return ["the experiment has no settings of its own"]
    return told_differences(config, own)


def told_differences(config: RunConfig, other: RunConfig) -> list[str]:
    """The settings in which the first is not as the second, each with both values.

    A bound on the minutes is left out: it shows in the number of epochs.
    """
    found = differences(config, other)
    found.pop("training.max_minutes", None)
    return [f"{name} {_said(ours)} instead of {_said(own)}" for name, (ours, own) in found.items()]


def _said(value: Any) -> Any:
    return "unset" if value is None else value
