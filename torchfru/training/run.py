"""Run one experiment: from its configuration to its record, going on where it was cut off."""

from __future__ import annotations

import logging
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from ..data import SequenceData, Split, load
from ..experiments.config import DataConfig, RunConfig
from ..results import RunResult, checkpoint_folder, record_path
from . import environment
from .batches import at_most, hold_back
from .checkpoint import Checkpoint, restore_weights
from .module import RunData, RunModule, is_over

CHECKPOINT = "last.safetensors"


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
        return self.folder / CHECKPOINT


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
) -> RunResult | None:
    """Train, and keep the record and the checkpoint up to date after each epoch.

    Gives the record, in the first process; None in the others. With ``resume`` the run goes on
    from its checkpoint, if there is one, and ends as one that was never cut off. ``parts`` are
    measured after each epoch: "test", and "validation" where ``data.validation`` holds some back.
    """
    begin = find_checkpoint(run) if resume else None
    over = finished_record(run, begin) if resume else None
    if over is not None:
        return over
    done = 0 if begin is None else len(begin.epochs)
    if data is None:
        data = load(run.config.data.name, data_dir=data_dir, **run.config.data.options())
    if begin is not None:
        _require_same_data(run, begin, data)
    splits = _split(data, run.config.data)
    measured = {part: splits[part] for part in _parts(run.config, parts)}
    with quiet():
        left = run.config.training.epochs - done
        trainer = _trainer(run, left, devices, nodes, accelerator, callbacks)
        recorder = Recorder(run, data, trainer)
        module = RunModule(run.config, data, run.seed, tuple(measured), recorder, begin)
        if begin is not None:
            restore_weights(module.model, begin, run.checkpoint)
        recorder.start(module, fresh=begin is None)
        _fit(trainer, module, RunData(module, splits["train"], measured))
    return recorder.record if trainer.is_global_zero else None


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


def find_checkpoint(run: Run) -> Checkpoint | None:
    """The checkpoint of a run that was begun with the same settings, if it was begun at all."""
    if not run.checkpoint.exists():
        return None
    checkpoint = Checkpoint.load(run.checkpoint)
    _require_same_settings(run, checkpoint.config)
    return checkpoint


def finished_record(run: Run, begin: Checkpoint | None) -> RunResult | None:
    """The record of a run that has nothing left to do, brought up to date.

    A record alone suffices, since records travel without checkpoints.
    """
    if not run.record.exists():
        return None
    record = RunResult.load(run.record)
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


def _trainer(
    run: Run,
    epochs: int,
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
        max_epochs=epochs,
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
