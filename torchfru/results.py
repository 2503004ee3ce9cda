"""The record of a run or a measurement: JSON in, JSON out, never half-written.

This file needs nothing but Python, so that a report is built without torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from .io import file_problem, fits, reason, write_atomically

Status = Literal["running", "finished"]
LARGEST_RECORD = 1 << 28  # bytes


@dataclass
class RunResult:
    """What was run, where, and what came of it, epoch by epoch.

    Each of ``epochs`` has ``epoch`` (from 1), ``train_loss``, ``seconds``, and a measure for each
    part that was looked at: ``test_loss`` with ``test_accuracy`` (percent) or ``test_mse``. A
    number that was not finite is None. ``status`` is "running" until the last epoch is done, the
    run has diverged, or ``training.max_minutes`` are used up; a run that was cut off stays so.
    ``measurements`` holds what was measured besides, as ``gradients`` of the experiment of that
    name.
    """

    experiment: str
    model: str
    seed: int
    config: dict[str, Any]
    parameters: int
    status: Status = "running"
    diverged: bool = False
    seconds: float = 0.0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    split: dict[str, float] = field(default_factory=dict)  # seconds by what they went into
    parameters_with_embedding: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    data: dict[str, str] = field(default_factory=dict)  # checksums
    hardware: dict[str, Any] = field(default_factory=dict)
    measurements: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the record, all of it or nothing."""
        _write(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> RunResult:
        """Read a record, or say in one line what is wrong with the file."""
        record = cls(**_read(path, "run record", cls))
        if not all(isinstance(section, dict) for section in record.config.values()):
            raise ValueError(f"{path} is not a run record: its config has no sections")
        for epoch in record.epochs:
            if not all(fits(value, float | None) for value in epoch.values()):
                raise ValueError(f"{path} is not a run record: an epoch holds what is no number")
        return record

    @property
    def last(self) -> dict[str, Any]:
        """The last epoch's measures; empty before there is one."""
        return self.epochs[-1] if self.epochs else {}


@dataclass
class Measurement:
    """What was measured without training: its numbers, and where they come from."""

    experiment: str
    name: str
    values: dict[str, Any]
    seconds: float = 0.0
    commit: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)  # checksums
    hardware: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the measurement, all of it or nothing."""
        _write(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> Measurement:
        """Read a measurement, or say in one line what is wrong with the file."""
        return cls(**_read(path, "measurement", cls))


@dataclass
class SweepResult:
    """Settings that were tried, each judged on data held back from training.

    ``config`` has what all points share; a point of ``points`` has ``lr``, ``lr_decay``, ``state``
    and ``score``, an accuracy in percent or a mean squared error, None where it diverged.
    """

    experiment: str
    model: str
    seed: int
    direction: str  # "maximize" or "minimize"
    config: dict[str, Any]
    points: list[dict[str, Any]]

    def save(self, path: Path) -> None:
        """Write the sweep, all of it or nothing."""
        _write(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> SweepResult:
        """Read a sweep, or say in one line what is wrong with the file."""
        return cls(**_read(path, "sweep", cls))


def record_path(results: Path, experiment: str, model: str, seed: int) -> Path:
    """Where the record of a run is: ``results/<experiment>/<model>-seed<k>.json``."""
    return results / experiment / f"{model}-seed{seed}.json"


def measurement_path(results: Path, experiment: str, name: str) -> Path:
    """Where a measurement without training is: ``results/<experiment>/<name>.json``."""
    return results / experiment / f"{name}.json"


def sweep_path(results: Path, experiment: str, name: str) -> Path:
    """Where the summary of a sweep is: ``results/<experiment>/sweep-<name>.json``."""
    return results / experiment / f"sweep-{name}.json"


def checkpoint_folder(results: Path, experiment: str, model: str, seed: int) -> Path:
    """Where its checkpoint and logs are: beside the records, in a folder that git ignores."""
    results = results.absolute()
    return results.parent / "checkpoints" / results.name / experiment / f"{model}-seed{seed}"


def iter_records(results: Path) -> Iterator[Path]:
    """The records under a folder, in order of their names."""
    paths = sorted(results.glob("*/*-seed*.json"))
    return (path for path in paths if not path.name.startswith("sweep-"))


def iter_sweeps(results: Path) -> Iterator[Path]:
    """The sweeps under a folder, in order of their names."""
    return iter(sorted(results.glob("*/sweep-*.json")))


def finite(value: Any) -> Any:
    """The same value with None for every number that JSON cannot write."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _write(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(finite(content), indent=1) + "\n")


def _read(path: Path, what: str, kind: type) -> dict[str, Any]:
    """The fields of ``kind`` that a file holds, of the right types.

    Fields that ``kind`` does not have are left out: another version may have written them.
    """
    content = _read_json(path, what)
    known = {item.name: item for item in fields(kind)}
    required = {name for name, item in known.items() if _has_no_default(item)}
    missing = required - set(content)
    if missing:
        raise ValueError(f"{path} is not a {what}: it has no {', '.join(sorted(missing))}")
    hints = get_type_hints(kind)
    found = {key: value for key, value in content.items() if key in known}
    for name, value in found.items():
        if not fits(value, hints[name]):
            text = json.dumps(value)
            shown = text if len(text) <= 40 else f"{text[:40]}..."
            raise ValueError(f"{path} is not a {what}: its {name} cannot be {shown}")
    return found


def _read_json(path: Path, what: str) -> dict[str, Any]:
    problem = file_problem(path)
    if problem is not None:
        raise ValueError(
            f"there is no {what} {path}" if problem.startswith("no such") else f"{path}: {problem}"
        )
    try:
        if path.stat().st_size > LARGEST_RECORD:
            raise ValueError("too large")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({reason(error)}); check its permissions"
        ) from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not a {what}: it is not JSON, or was cut off") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a {what}: it holds no JSON object")
    return content


def _has_no_default(item: Field[Any]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING
