"""Run one experiment: from its configuration to its record, going on where it was cut off."""

from __future__ import annotations

import logging
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from ..data import SequenceData, Split, load
from ..experiments.config import DataConfig, RunConfig
from ..io import remove_leftovers
from ..results import RunResult, checkpoint_folder, record_path
from . import environment
from .batches import at_most, hold_back
from .checkpoint import (
    EARLIER,
    NAME,
    Checkpoint,
    clean,
    discard_damaged,
    load_newest,
    restore_weights,
)
from .module import RunData, RunModule, is_over


class RunBusyError(RuntimeError):
    """Another process trains the same run."""


@dataclass(frozen=True)
class Run:
    """A configuration with what else names a run, and where its files go."""

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


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Take denormal numbers for zeros, and leave the processor as it was found.

    Gradients that vanish over hundreds of steps end as denormal numbers, which a CPU is slow
    with: nn.LSTM's backward pass over 784 steps takes ten times as long. The setting is a
    thread's own; those that torch starts later on take it over from this one.
    """
    before = sys.float_info.min / 2 == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@denormals_flushed()
def run_experiment(
    run: Run,
    *,
    resume: bool = False,
    data: SequenceData | None = None,
    data_dir: Path | None = None,
    parts: Sequence[str] = ("test",),
    devices: int = 1,
    nodes: int = 1,
    accelerator: str = "auto",
    callbacks: Sequence[Callback] = (),
    patience: float = 0.0,
) -> RunResult | None:
    """Train, and keep the record and the checkpoint up to date after each epoch.

    Gives the record, in the first process; None in the others. With ``resume`` the run goes on
    from its checkpoint, if there is one, and ends as one that was never cut off. ``parts`` are
    measured after each epoch: "test", and "validation" where ``data.validation`` holds some back.
    Where another process trains the same run, this one waits for ``patience`` seconds (-1: for as
    long as it takes) and then raises :class:`RunBusyError`.
    """
    with quiet():
        trainer = _trainer(run, devices, nodes, accelerator, callbacks)
    if data is None and not (resume and run.record.exists()):
        data = _load(run, data_dir)  # an error in the settings leaves no folder behind
    with _locked(run, patience) if trainer.is_global_zero else nullcontext():
        begin = find_checkpoint(run, trainer.is_global_zero) if resume else None
        over = finished_record(run, begin) if resume else None
        if over is not None:
            return over
        data = _load(run, data_dir) if data is None else data
        if begin is not None:
            _require_same_data(run, begin, data)
        splits = _split(data, run.config.data)
        measured = {part: splits[part] for part in _parts(run.config, parts)}
        recorder = Recorder(run, data, trainer)
        module = RunModule(run.config, data, run.seed, tuple(measured), recorder, begin)
        if begin is not None:
            restore_weights(module.model, begin, run.checkpoint)
        recorder.start(module, fresh=begin is None)
        if not is_over(run.config.training, module.epochs, module.diverged):
            trainer.fit_loop.max_epochs = run.config.training.epochs - module.epoch
            with quiet():
                _fit(trainer, module, RunData(module, splits["train"], measured))
        return recorder.record if trainer.is_global_zero else None


def _load(run: Run, data_dir: Path | None) -> SequenceData:
    return load(run.config.data.name, data_dir=data_dir, **run.config.data.options())


@contextmanager
def _locked(run: Run, patience: float) -> Iterator[None]:
    """Keep other processes from training the same run; whatever ends this one frees it."""
    run.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(run.folder / "lock")
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        raise RunBusyError(
            f"{run.experiment} {run.model} seed {run.seed} is being trained by another process; "
            "wait for it to end, or choose another --seed or --results"
        ) from None
    try:
        clean(run.folder)
        remove_leftovers(run.record)
        yield
    finally:
        lock.release()


def _fit(trainer: Trainer, module: RunModule, data: RunData) -> None:
    try:
        trainer.fit(module, data)
    except SystemExit:  # what Lightning makes of Ctrl-C and of SIGTERM
        raise InterruptedError(
            f"stopped after {module.epoch} of {module.config.training.epochs} epochs; go on with "
            "--resume"
        ) from None


class Recorder:
    """Keeps a run's files true, in the first of its processes."""

    def __init__(self, run: Run, data: SequenceData, trainer: Trainer) -> None:
        self.run = run
        self.data = data
        self.trainer = trainer
        self.record = RunResult(
            experiment=run.experiment,
            model=run.model,
            seed=run.seed,
            config=run.config.to_dict(),
            parameters=0,
            versions=environment.versions(),
            commit=environment.commit(),
            data=dict(data.checksums),
            hardware=environment.hardware(trainer.num_devices, trainer.num_nodes),
        )

    def start(self, module: RunModule, fresh: bool) -> None:
        """The first record, before any epoch; what an earlier run left is put aside."""
        self.record.parameters = module.model.count_parameters()
        self.record.parameters_with_embedding = module.model.count_parameters(embedding=True)
        if not self.trainer.is_global_zero:
            return
        if fresh:
            put_aside(self.run)
        self._save(module)

    def __call__(self, module: RunModule) -> None:
        """After an epoch: the checkpoint first, since a record can be made out of it."""
        if self.trainer.is_global_zero:
            module.checkpoint(self.data.to_dict()).save(self.run.checkpoint)
            self._save(module)

    def _save(self, module: RunModule) -> None:
        record, training = self.record, self.run.config.training
        record.epochs, record.diverged = module.epochs, module.diverged
        record.measurements = module.measurements
        record.seconds = round(sum(epoch["seconds"] for epoch in module.epochs), 3)
        record.split = {part: round(value, 3) for part, value in module.clock.seconds.items()}
        over = is_over(training, module.epochs, module.diverged)
        record.status = "finished" if over else "running"
        record.save(self.run.record)


def find_checkpoint(run: Run, first: bool = True) -> Checkpoint | None:
    """The last good checkpoint of this run: same seed, same settings; None before the first.

    The first process says what was wrong with a newer one, and puts that out of the way.
    """
    checkpoint, damage = load_newest(run.folder)
    if checkpoint is None:
        return None
    if checkpoint.seed != run.seed:
        raise ValueError(
            f"{run.checkpoint} is of seed {checkpoint.seed}, not {run.seed}; bring the right one "
            "back to resume, or leave --resume out to start again"
        )
    _require_same_settings(run, checkpoint.config)
    if damage and first:
        print(f"torchfru: {damage}", file=sys.stderr)
        discard_damaged(run.folder)
    return checkpoint


def finished_record(run: Run, begin: Checkpoint | None) -> RunResult | None:
    """The record of a run that has nothing left to do, brought up to date.

    A record alone suffices, since records travel without checkpoints; and a checkpoint alone
    suffices to resume, whatever became of the record.
    """
    record = _readable_record(run, begin)
    if record is None:
        return None
    if begin is not None:
        record.epochs, record.diverged = begin.epochs, begin.diverged
        record.measurements = begin.measurements
    elif record.status == "finished":
        _require_same_settings(run, record.config)
    else:
        return None
    if not is_over(run.config.training, record.epochs, record.diverged):
        return None
    if record.status != "finished":  # killed between checkpoint and record, or allowed less now
        record.status, record.config = "finished", run.config.to_dict()
        record.seconds = round(sum(epoch["seconds"] for epoch in record.epochs), 3)
        record.save(run.record)
    return record


def _readable_record(run: Run, begin: Checkpoint | None) -> RunResult | None:
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
    return record


def _require_same_settings(run: Run, config: dict[str, Any]) -> None:
    prolonging = ("training.epochs=", "training.max_minutes=")
    for change in run.config.changes_since(config):
        if not change.startswith(prolonging):
            raise ValueError(
                f"{run.record} was begun with {change}; give the same settings to resume it, or "
                f"leave --resume out to start again"
            )


def _require_same_data(run: Run, begin: Checkpoint, data: SequenceData) -> None:
    if begin.data.get("checksums") != data.checksums:
        raise ValueError(
            f"{run.record} was begun with other data (their checksums differ); bring them back to "
            f"resume it, or leave --resume out to start again"
        )


def put_aside(run: Run) -> None:
    """Keep the last run's record and checkpoint under another name; a new run starts clean."""
    for path, name in ((run.record, "previous.json"), (run.checkpoint, "previous.safetensors")):
        if path.exists():
            run.folder.mkdir(parents=True, exist_ok=True)
            shutil.move(path, run.folder / name)
    (run.folder / EARLIER).unlink(missing_ok=True)


def _trainer(
    run: Run,
    devices: int,
    nodes: int,
    accelerator: str,
    callbacks: Sequence[Callback],
) -> Trainer:
    folder = str(run.folder)
    return Trainer(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy="ddp" if devices * nodes > 1 else "auto",
        callbacks=list(callbacks),
        logger=[CSVLogger(folder, "logs"), TensorBoardLogger(folder, "tensorboard")],
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )


def _split(data: SequenceData, config: DataConfig) -> dict[str, Split]:
    splits = {"train": data.train, "test": data.test}
    if config.validation > 0:
        splits["train"], splits["validation"] = hold_back(data.train, config.validation)
    return {part: at_most(split, config.limit) for part, split in splits.items()}


def _parts(config: RunConfig, parts: Sequence[str]) -> list[str]:
    held_back = config.data.validation > 0 and "validation" not in parts
    return [*parts, "validation"] if held_back else list(parts)


@contextmanager
def quiet() -> Iterator[None]:
    """Without Lightning's remarks on hardware, loaders and logging folders."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"lightning\..*")
        yield
