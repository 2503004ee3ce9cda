"""From a folder to its records; a file that is none is named, and left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from torchfru.io import printable, typed
from torchfru.records import RunResult, SweepResult, iter_records, iter_sweeps
from torchfru.training.config import RunConfig

from ..experiments import EXPERIMENTS
from ..plan import MEASUREMENTS, Measurement
from .records import NORMS, Library, Record, Sweep

T = TypeVar("T")


def read_library(folder: Path) -> Library:
    """Read every record under a folder. One that cannot be read is named, and left out."""
    paths = [planned.record(folder) for planned in MEASUREMENTS]
    runs = {_name(path): _attempt(_read_run, path) for path in iter_records(folder)}
    measured = {_name(p): _attempt(_read_measurement, p) for p in paths if p.exists()}
    sweeps = {_name(path): _attempt(_read_sweep, path) for path in iter_sweeps(folder)}
    if not (runs or measured):
        raise ValueError(
            f"there are no run records in {folder}; python -m paper reproduce or torchfru train "
            "write some"
        )
    return Library(
        folder,
        tuple(found for found in runs.values() if isinstance(found, Record) and _ours(found)),
        {name: found for name, found in measured.items() if isinstance(found, Measurement)},
        {n: found for n, found in (runs | measured | sweeps).items() if isinstance(found, str)},
        tuple(found for found in sweeps.values() if isinstance(found, Sweep) and _ours(found)),
    )


def _ours(found: Record | Sweep) -> bool:
    """Whether it is about an experiment of the paper, on its data, and not about a user's file."""
    experiment = found.name.partition("/")[0]
    data = {config.data.name for config in EXPERIMENTS.get(experiment, {}).values()}
    return found.config.data.name in data


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _attempt(read: Callable[[Path], T], path: Path) -> T | str:
    """The content of a file, or a line that says why it cannot be read."""
    try:
        return read(path)
    except ValueError as error:
        return printable(error)


def _read_run(path: Path) -> Record:
    run = RunResult.load(path)
    name = _name(path)
    if name != f"{run.experiment}/{run.model}-seed{run.seed}":
        raise ValueError(
            f"{path} is the record of {run.experiment} {run.model}, seed {run.seed}, by its "
            "content; give the file its own name back"
        )
    with _shape(path, "run record"):
        config = RunConfig.from_dict(run.config)
        _require([epoch["epoch"] for epoch in run.epochs], list[float])
        for probe in run.measurements.get("gradients", []):
            _require(probe["epoch"], float)
            places, norms = ("layer", ("l2",)) if run.experiment == "depth" else ("step", NORMS)
            _require(probe[places], list[float])
            for norm in norms:
                _require(probe[norm], list[float | None], len(probe[places]))
    return Record(name, run, config)


def _read_measurement(path: Path) -> Measurement:
    found = Measurement.load(path)
    with _shape(path, "measurement"):
        if found.name != "fits":
            _require(found.values, dict[str, float])
            return found
        _require(found.values["start"], float)
        _require(found.values["series"], list[float])
        for family in found.values["fits"].values():
            for terms in found.values["terms"]:
                fit = family[str(terms)]
                _require([fit["rmse"], fit["largest_coefficient"]], list[float])
                _require(fit["curve"], list[float], len(found.values["series"]))
    return found


def _read_sweep(path: Path) -> Sweep:
    found = SweepResult.load(path)
    with _shape(path, "sweep"):
        config = RunConfig.from_dict(found.config)
        for point in found.points:
            _require([point["lr"], point["lr_decay"], point["score"] or 0.0], list[float])
    return Sweep(_name(path), found, config)


@contextmanager
def _shape(path: Path, what: str) -> Iterator[None]:
    """JSON of another shape than a record's is an error that names the file."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is not a {what}: {problem}") from None


def _require(value: Any, hint: Any, length: int | None = None) -> None:
    try:
        typed(value, hint)
    except ValueError:
        raise ValueError(f"{json.dumps(value)[:40]} holds a value that is no number") from None
    if length is not None and len(value) != length:
        raise ValueError(f"a curve has {len(value)} values for {length} steps")
