"""A run: its name, its files, its lock, and where to resume it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..io import remove_leftovers, require_writable
from ..records import LOCK, RunResult, best_epoch, checkpoint_folder, record_path
from .checkpoint import DAMAGED, EARLIER, NAME, Checkpoint, DamagedError
from .config import RunConfig, TrainingConfig


class RunBusyError(RuntimeError):
    """Another process trains the same run."""


@dataclass(frozen=True)
class Run:
    """A configuration, the names and the seed of its run, and the paths of its files."""

    experiment: str
    model: str
    seed: int
    config: RunConfig
    results: Path = field(default_factory=lambda: Path("results"))

    @property
    def record(self) -> Path:
        return record_path(self.results, self.experiment, self.model, self.seed)

    @property
    def folder(self) -> Path:
        return checkpoint_folder(self.results, self.experiment, self.model, self.seed)

    @property
    def checkpoint(self) -> Path:
        return self.folder / NAME


def require_place(run: Run) -> None:
    """Refuse results that could not be written, before any work is done for them."""
    for folder in (run.record.parent, run.folder):
        require_writable("--results", folder)


@contextmanager
def locked(run: Run, patience: float) -> Iterator[None]:
    """Keep other processes from training the same run. The lock ends with the process."""
    run.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(run.folder / LOCK)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        raise RunBusyError(
            f"{run.experiment} {run.model} seed {run.seed} is being trained by another process; "
            "wait for it to end, or choose another --seed or --results"
        ) from None
    try:
        for path in (run.checkpoint, run.record):
            remove_leftovers(path)
        yield
    finally:
        lock.release()


def resume_from(run: Run, first: bool = True) -> Checkpoint | None:
    """The last good checkpoint of this run: same seed, same settings; None before the first.

    The first process reports a damaged newer one, and renames it.
    """
    newest, earlier, damage = run.checkpoint, run.folder / EARLIER, None
    if not newest.exists() and not earlier.exists():
        return None
    try:
        checkpoint = Checkpoint.load(newest if newest.exists() else earlier)
    except DamagedError as error:
        if not (newest.exists() and earlier.exists()):
            raise
        checkpoint, damage = Checkpoint.load(earlier), error
    if checkpoint.seed != run.seed:
        raise ValueError(
            f"{run.checkpoint} is of seed {checkpoint.seed}, not {run.seed}; bring the right one "
            "back to resume, or leave --resume out to start again"
        )
    _require_same_settings(run, checkpoint.config)
    if damage is not None and first:
        after = f"resuming from the one before it, after epoch {len(checkpoint.epochs)}"
        print(f"torchfru: {damage}; {after}", file=sys.stderr)
        os.replace(newest, run.folder / DAMAGED)
        os.replace(earlier, newest)
    return checkpoint


def finished_record(run: Run, begin: Checkpoint | None) -> RunResult | None:
    """The record of a run that needs no more training, brought up to date.

    A record alone suffices, since records travel without checkpoints; and a checkpoint alone
    suffices to resume, with or without a record.
    """
    if not run.record.exists():
        return None
    try:
        record = RunResult.load(run.record)
    except ValueError as error:
        if begin is not None:
            return None  # written anew from the checkpoint
        raise ValueError(f"{error}; leave --resume out to start again") from None
    if (record.experiment, record.model, record.seed) != (run.experiment, run.model, run.seed):
        raise ValueError(
            f"{run.record} is the record of {record.experiment} {record.model} seed {record.seed}; "
            "bring the right one back to resume, or leave --resume out to start again"
        )
    if begin is not None:
        record.epochs, record.diverged = begin.epochs, begin.diverged
        record.measurements = begin.measurements
    elif record.status == "finished":
        _require_same_settings(run, record.config)
    else:
        return None
    if not is_over(run.config.training, record.epochs, record.diverged):
        return None
    if record.status != "finished":  # killed before the record, or now fewer epochs
        record.status, record.config = "finished", run.config.to_dict()
        record.seconds = round(sum(epoch["seconds"] for epoch in record.epochs), 3)
        record.save(run.record)
    return record


def _require_same_settings(run: Run, config: dict[str, Any]) -> None:
    prolonging: tuple[str, ...] = ("training.epochs=", "training.max_minutes=")
    if run.config.training.steps is not None:  # of which more epochs get less each
        prolonging = prolonging[1:]
    try:
        changes = run.config.changes_since(config)
    except ValueError as error:
        raise ValueError(
            f"{run.record} was begun with settings that cannot be read ({error}); leave --resume "
            "out to start again"
        ) from None
    for change in changes:
        if not change.startswith(prolonging):
            raise ValueError(
                f"{run.record} was begun with {change}; give the same settings to resume it, or "
                f"leave --resume out to start again"
            )


def is_over(training: TrainingConfig, epochs: list[dict[str, Any]], diverged: bool) -> bool:
    """Whether a run needs no more training.

    All epochs are done, it diverged, time is up, or it did not get better for too long.

    >>> is_over(TrainingConfig(max_minutes=1.5), [{"seconds": 60.0}], diverged=False)
    False
    >>> is_over(TrainingConfig(max_minutes=1.5), 2 * [{"seconds": 60.0}], diverged=False)
    True
    """
    minutes = sum(epoch["seconds"] for epoch in epochs) / 60
    late = training.max_minutes is not None and minutes > training.max_minutes
    waited = len(epochs) - (best_epoch(epochs) or 0)
    stopped = training.patience is not None and waited >= training.patience
    return diverged or late or stopped or len(epochs) >= training.epochs


def archive_previous(run: Run) -> None:
    """Rename the record and checkpoint of the previous run to ``previous.*``."""
    for path, name in ((run.record, "previous.json"), (run.checkpoint, "previous.safetensors")):
        if path.exists():
            run.folder.mkdir(parents=True, exist_ok=True)
            shutil.move(path, run.folder / name)
    (run.folder / EARLIER).unlink(missing_ok=True)
