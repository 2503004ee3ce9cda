"""The record of a run: JSON files, paths, and provenance.

Nothing here imports torch before a run takes place, so that a report is built without it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from .io import file_problem, from_json, reason, typed, write_atomically

Status = Literal["running", "stopped", "finished"]
LARGEST_RECORD = 1 << 28  # bytes
LOCK = "lock"  # the file in a run's folder that its process holds
PACKAGES = ("torchfru", "torch", "numpy", "lightning", "numba")

T = TypeVar("T", bound="JsonFile")


@dataclass
class JsonFile:
    """A dataclass that is kept in a JSON file."""

    kind: ClassVar = "record"  # its name in error messages

    def save(self, path: Path) -> None:
        """Write the file as a whole or not at all."""
        write_atomically(path, json.dumps(nan_to_none(asdict(self)), indent=1) + "\n")

    @classmethod
    def load(cls: type[T], path: Path) -> T:
        """Read the file, or say in one line what is wrong with it.

        Fields that the class does not have are left out: another version may have written them.
        """
        problem = file_problem(path)
        if problem is not None:
            missing = problem.startswith("no such")
            raise ValueError(f"there is no {cls.kind} {path}" if missing else f"{path}: {problem}")
        try:
            if path.stat().st_size > LARGEST_RECORD:
                raise ValueError("too large")
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(
                f"{path} cannot be read ({reason(error)}); check its permissions"
            ) from None
        except (ValueError, RecursionError):
            raise ValueError(
                f"{path} is not a {cls.kind}: it is not JSON, or was cut off"
            ) from None
        try:
            return from_json(cls, content)
        except ValueError as error:
            raise ValueError(f"{path} is not a {cls.kind}: {error}") from None


@dataclass(frozen=True)
class Forecast:
    """The true values of a channel in a window of the data, and the forecast of each."""

    window: int  # its number in the part, from 0
    channel: str
    truth: list[float | None]
    forecast: list[float | None]

    def __post_init__(self) -> None:
        if len(self.truth) != len(self.forecast):
            raise ValueError("a forecast has another length than the truth")


@dataclass(frozen=True)
class Outcome:
    """A model's predictions for a part of the data, small enough for the record of its run.

    Attributes:
        part: "test" or "validation".
        epoch: the epoch after which they were made.
        classes: the names of the classes, in order; empty for other tasks.
        counts: sequences or steps by true and then by predicted class, without the zeros.
        forecasts: a few windows.
    """

    part: str
    epoch: int
    classes: list[str] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    forecasts: list[Forecast] = field(default_factory=list)

    def __post_init__(self) -> None:
        named = {*self.counts, *(name for row in self.counts.values() for name in row)}
        if not named <= set(self.classes):
            raise ValueError("it counts a class that it does not name")
        if any(count < 1 for row in self.counts.values() for count in row.values()):
            raise ValueError("a count is less than 1")


@dataclass
class RunResult(JsonFile):
    """A run: its settings, its origin, and its measures epoch by epoch.

    Each of ``epochs`` has ``epoch`` (from 1), ``train_loss``, ``seconds``, and a measure for each
    measured part: ``test_loss`` with ``test_accuracy`` (percent) or ``test_mse``. A
    number that was not finite is None. ``status`` is "finished" once the last epoch is done, the
    run has diverged, or ``training.max_minutes`` are used up. A run that was interrupted is
    "stopped"; one whose process was killed stays "running". ``measurements`` has the entries of
    hooks, and :attr:`outcome`.
    """

    kind: ClassVar = "run record"
    experiment: str
    model: str
    seed: int
    config: dict[str, dict[str, Any]]  # by section: data, model, training
    parameters: int
    status: Status = "running"
    diverged: bool = False
    seconds: float = 0.0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    split: dict[str, float] = field(default_factory=dict)  # seconds by phase of the loop
    parameters_with_embedding: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    data: dict[str, str] = field(default_factory=dict)  # checksums
    hardware: dict[str, Any] = field(default_factory=dict)
    measurements: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> RunResult:
        """Read a record, or say in one line what is wrong with the file."""
        record = super().load(path)
        try:
            typed(record.epochs, list[dict[str, float | None]])
        except ValueError:
            raise ValueError(
                f"{path} is not a run record: an epoch holds a value that is no number"
            ) from None
        return record

    @property
    def outcome(self) -> Outcome | None:
        """The predictions at the end, if the run kept them; a ValueError if they are damaged."""
        kept = self.measurements.get("outcome")
        return None if kept is None else from_json(Outcome, kept)

    @property
    def last(self) -> dict[str, Any]:
        """The measures of the weights that a run ends with; empty before there are any.

        These are the last epoch's, or with ``training.keep_best`` those of the best one, or of
        the start.
        """
        start = self.measurements.get("start")
        keeps_best = self.config.get("training", {}).get("keep_best")
        best = best_epoch(self.epochs, start) if keeps_best else None
        if best == 0:
            kept = {name: value for name, value in (start or {}).items() if name != "least_gain"}
            return {"epoch": 0, "seconds": 0.0, **kept}
        return self.epochs[(best or 0) - 1] if self.epochs else {}


def best_epoch(epochs: list[dict[str, Any]], start: dict[str, Any] | None = None) -> int | None:
    """The first epoch, counted from 1, with the least loss on the validation part.

    0 is the start, where it was measured: training has to be better by its ``least_gain`` to be
    worth it, since the least of many losses is so in part by chance.

    >>> best_epoch([{"validation_loss": 2.0}, {"validation_loss": 1.0}, {"validation_loss": 1.0}])
    2
    >>> best_epoch([{"validation_mse": 0.995}], {"validation_mse": 1.0, "least_gain": 0.01})
    0
    """
    losses = [epoch.get("validation_loss", epoch.get("validation_mse")) for epoch in epochs]
    known = [loss for loss in losses if loss is not None]
    if start is not None:
        limit = (1 - start.get("least_gain", 0.0)) * start.get("validation_mse", math.inf)
        if not min(known, default=math.inf) < limit:
            return 0
    return losses.index(min(known)) + 1 if known else None


@dataclass
class SweepResult(JsonFile):
    """Settings that were tried, each judged on data held back from training.

    ``config`` has the settings that all points share. A point has ``lr``, ``lr_decay``, ``state``
    and ``score``: an accuracy in percent or a mean squared error, None where it diverged.
    """

    kind: ClassVar = "sweep"
    experiment: str
    model: str
    seed: int
    direction: str  # "maximize" or "minimize"
    config: dict[str, Any]
    points: list[dict[str, Any]]


def record_path(results: Path, experiment: str, model: str, seed: int) -> Path:
    """The path of a run's record: ``results/<experiment>/<model>-seed<k>.json``."""
    return results / experiment / f"{model}-seed{seed}.json"


def sweep_path(results: Path, experiment: str, name: str) -> Path:
    """The path of a sweep's summary: ``results/<experiment>/sweep-<name>.json``."""
    return results / experiment / f"sweep-{name}.json"


def checkpoint_folder(results: Path, experiment: str, model: str, seed: int) -> Path:
    """The folder of a run's checkpoint and logs, beside the records; git ignores it."""
    results = results.absolute()
    return results.parent / "checkpoints" / results.name / experiment / f"{model}-seed{seed}"


def folder_beside(path: Path, record: RunResult) -> Path:
    """The folder of the checkpoint and logs of the run whose record is at this path."""
    place = path.absolute().parent
    return checkpoint_folder(place.parent, place.name, record.model, record.seed)


def is_being_trained(path: Path, record: RunResult) -> bool | None:
    """Whether a process holds the lock of a run; None if that cannot be seen from here."""
    lock = folder_beside(path, record) / LOCK
    try:
        from filelock import FileLock, Timeout

        if not lock.exists():
            return None
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True
    except (ImportError, OSError, ValueError):  # ValueError: a name with a zero byte
        return None


def iter_records(results: Path) -> Iterator[Path]:
    """The records under a folder, that of all experiments or of one, in order of their names."""
    paths = sorted({*results.glob("*/*-seed*.json"), *results.glob("*-seed*.json")})
    return (path for path in paths if not path.name.startswith("sweep-"))


def iter_sweeps(results: Path) -> Iterator[Path]:
    """The sweeps under a folder, in order of their names."""
    return iter(sorted(results.glob("*/sweep-*.json")))


# Provenance ------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def commit() -> str | None:
    """The commit of this package's source, with "-dirty" where it was changed; None outside git."""
    folder = Path(__file__).parents[1]
    if not (folder / ".git").exists():
        return None
    head = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", "torchfru")
    return f"{head}-dirty" if head and changed else head


def hardware(devices: int, nodes: int) -> dict[str, Any]:
    """The machine of this process, and the devices and machines of its run."""
    import torch

    found = {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": devices,
        "nodes": nodes,
        "system": f"{platform.system()} {platform.machine()}",
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def nan_to_none(value: Any) -> Any:
    """The same value with None for every number that JSON cannot write."""
    if isinstance(value, dict):
        return {key: nan_to_none(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [nan_to_none(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
