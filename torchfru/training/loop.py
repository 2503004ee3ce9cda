"""The training loop, from a configuration to a recorded run.

:func:`run_experiment` opens or resumes a run; :class:`Training` does its epochs. Lightning Fabric
starts the processes and wraps the model for them; everything else is here.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torch.distributed import ReduceOp

from .. import records
from ..data import DataSpec, SequenceData, load
from ..data.scaling import standardize
from ..nn import AnyModel, Committee, SequenceModel
from ..records import RunResult, best_epoch, nan_to_none
from .batches import Batch, Batches, derive_seed, split_data
from .checkpoint import Checkpoint, optimizer_tensors, restore_optimizer, restore_weights
from .config import RunConfig, TrainingConfig
from .forecast import least_gain, measure_forecasts, start_forecast
from .objective import count_beside, every_step, first_output, is_accuracy, loss_sum, measures
from .outcome import outcome
from .process import (
    denormals_flushed,
    launch,
    leave,
    memory_kept,
    quiet,
    require_accelerator,
    signals_deferred,
    stopped_by_signals,
    threads_used,
    useful_threads,
)
from .run import (
    Run,
    archive_previous,
    finished_record,
    is_over,
    locked,
    require_place,
    resume_from,
)

# Sequences measured at once, and the steps that they may have together: speed, and memory.
TEST_BATCH, TEST_STEPS = 256, 250_000
TIMED = ("forward", "backward", "step", "test")


class Hook:
    """Called by the loop in every process. Each method does nothing unless a subclass says so."""

    probes = False  # whether it makes the measurements that ``training.probe_every`` asks for

    def on_start(self, training: Training) -> None:
        """Before the first epoch of this process."""

    def on_batch(self, training: Training) -> None:
        """After each step of the optimizer."""

    def on_epoch(self, training: Training) -> None:
        """After each epoch, before it is saved. ``training.stop = True`` makes it the last."""

    def on_end(self, training: Training) -> None:
        """After the last epoch, or an error."""


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
    hooks: Sequence[Hook] = (),
    patience: float = 0.0,
    keep_outcome: bool = True,
) -> RunResult | None:
    """Train, and keep the record and the checkpoint up to date after each epoch.

    Args:
        resume: continue from the run's checkpoint, if there is one. The result is the same, bit
            for bit, as that of a run without interruption.
        data, data_dir: the data, or the folder to look for their files in.
        parts: measured after each epoch: "test", and "validation" where ``data.validation`` holds
            back a share of the training data.
        devices, nodes: processes on each machine, and machines.
        hooks: called at the start, after each batch and after each epoch.
        patience: seconds to wait while another process trains the same run (-1: no limit) before
            :class:`RunBusyError`.
        keep_outcome: keep the :class:`~torchfru.records.Outcome` of the last epoch in the record.

    Returns:
        The record, in the first process; None in the others.
    """
    _require_measures(run.config, hooks)
    require_accelerator(accelerator)
    require_place(run)
    if data is None and not (resume and run.record.exists()):
        data = _load(run, data_dir)  # an error in the settings leaves no folder behind
    with quiet(), denormals_flushed(), memory_kept(), ExitStack() as held:
        fabric = launch(run.folder, devices, nodes, accelerator)
        begin, over = _open(fabric, run, resume, patience, held)
        if over is None:
            data = _load(run, data_dir) if data is None else data
            training = Training(fabric, nodes, run, data, parts, hooks, begin, keep_outcome)
            training.fit()
            over = training.record
        leave(fabric)
        return over if fabric.is_global_zero else None


def _require_measures(config: RunConfig, hooks: Sequence[Hook]) -> None:
    """Refuse settings whose measures nothing makes."""
    training = config.training
    if training.probe_every is not None and not any(hook.probes for hook in hooks):
        raise ValueError(
            "training.probe_every needs a hook that measures, as that of the paper's gradients: "
            "python -m paper reproduce gradients"
        )
    if training.patience is not None and not training.keep_best:
        raise ValueError("training.patience needs training.keep_best=true")
    if training.keep_best and not config.data.validation:
        raise ValueError("training.keep_best needs data.validation, the share that judges: 0.1")


def _open(
    fabric: Fabric, run: Run, resume: bool, patience: float, held: ExitStack
) -> tuple[Checkpoint | None, RunResult | None]:
    """The checkpoint to resume from, and the record of a run that needs no more training.

    The first process looks first, and holds the run's lock. If that fails, the others end without
    a word: one line is enough.
    """
    begin, over, problem = None, None, None
    if fabric.is_global_zero:
        try:
            held.enter_context(locked(run, patience))
            begin = resume_from(run) if resume else None
            over = finished_record(run, begin) if resume else None
        except Exception as error:
            problem = error
    if fabric.broadcast(problem is not None):
        raise problem or SystemExit(1)
    over = fabric.broadcast(over)
    if resume and not fabric.is_global_zero:
        begin = resume_from(run, first=False)
    return begin, over


class Training:
    """One run in progress. ``epochs`` has the measures of each one that is done."""

    def __init__(
        self,
        fabric: Fabric,
        nodes: int,
        run: Run,
        data: SequenceData,
        parts: Sequence[str],
        hooks: Sequence[Hook],
        begin: Checkpoint | None,
        keep_outcome: bool,
    ) -> None:
        self.fabric, self.nodes, self.hooks = fabric, nodes, hooks
        self.run = run
        self.data = standardize(data) if run.config.data.scale else data
        self.config = run.config.training
        self.stop = False  # set by a hook: the current epoch is the last
        self.keep_outcome = keep_outcome
        self._set_progress(begin)
        self._set_batches(parts)
        self._set_model(begin)
        self.threads = self._useful_threads()
        self.record = self._new_record()
        if begin is None and fabric.is_global_zero:
            archive_previous(run)
        self._save_record()

    def _set_progress(self, begin: Checkpoint | None) -> None:
        if begin is not None and begin.data.get("checksums") != self.data.checksums:
            raise ValueError(
                f"{self.run.record} was begun with other data (their checksums differ); bring them "
                "back to resume it, or leave --resume out to start again"
            )
        done = begin or Checkpoint({}, {}, config={}, seed=self.run.seed, step=0)
        self.step, self.diverged = done.step, done.diverged
        self.epochs, self.measurements = list(done.epochs), dict(done.measurements)
        self.best = done.best  # weights, with keep_best
        self.seconds = dict.fromkeys((*TIMED, "other"), 0.0) | done.split
        self._require_same_start()

    def _set_batches(self, parts: Sequence[str]) -> None:
        if self.data.vocab_size is not None and (self.config.noise or self.config.jitter):
            raise ValueError("training.noise and training.jitter are for numbers, not for tokens")
        splits = split_data(self.data, self.run.config.data)
        self.first = first_output(self.data.task, self.data.train, self.data.test)
        shared = {"rank": self.fabric.global_rank, "world": self.fabric.world_size}
        config, task = self.config, self.data.task
        steps = None if config.steps is None else -(-config.steps // config.epochs)
        self.train_batches = Batches(
            splits["train"], task, config.batch_size, steps=steps, seed=self.run.seed, **shared
        )
        most = max(1, min(TEST_BATCH, TEST_STEPS // self.data.seq_len))
        self.measured = {
            part: Batches(splits[part], task, most, **shared)
            for part in splits
            if part in parts or part == "validation"
        }

    def _set_model(self, begin: Checkpoint | None) -> None:
        self.model = build_model(self.run.config, self.data, self.run.seed)
        if begin is None:
            self.measurements |= start_forecast(self.model, self.data, self.train_batches.split)
        else:
            restore_weights(self.model, begin, self.run.checkpoint)
        self.module = self.fabric.setup_module(self.model)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        fused = self.fabric.device.type in ("cpu", "cuda")  # the same update, several times faster
        decay = self.config.weight_decay or 0.0  # without it AdamW is Adam
        self.optimizer = torch.optim.AdamW(trained, self.config.lr, weight_decay=decay, fused=fused)
        if begin is not None:
            restore_optimizer(self.optimizer, begin.optimizer)

    def _useful_threads(self) -> int:
        alone = self.model.count_parameters() // self.run.config.model.members
        return useful_threads(self.config.batch_size * self.data.seq_len * alone)

    # The loop ------------------------------------------------------------------------------

    def fit(self) -> None:
        """Train until the last epoch, divergence, the end of the time, or a hook's wish."""
        try:
            with stopped_by_signals(), threads_used(self.threads):
                self._call("on_start")
                self._measure_start()
                while not (self.stop or is_over(self.config, self.epochs, self.diverged)):
                    self._run_epoch()
        except KeyboardInterrupt:
            done, planned = len(self.record.epochs), self.config.epochs
            raise InterruptedError(
                f"stopped after {done} of {planned} epochs; continue with --resume"
            ) from None
        finally:
            if self.fabric.is_global_zero and self.record.status == "running":
                self.record.status = "stopped"
                self.record.save(self.run.record)
            self._call("on_end")

    def _measure_start(self) -> None:
        """A model that begins as a naive forecast is a candidate for the best one as it is."""
        if self.config.keep_best and self.model.naive is not None and not self.epochs:
            gain = least_gain(self.measured["validation"].split)
            self.measurements["start"] = {**self._measures(), "least_gain": gain}
            self._keep_best()

    def _best_epoch(self) -> int | None:
        return best_epoch(self.epochs, self.measurements.get("start"))

    def _keep_best(self) -> None:
        self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        if self.data.horizon is not None:
            parts = {part: batches.split for part, batches in self.measured.items()}
            self.measurements |= measure_forecasts(self.model, self.data, parts)

    def _measures(self) -> dict[str, float]:
        """The measures of all measured parts."""
        found = {part: self._measure(batches) for part, batches in self.measured.items()}
        measured: dict[str, float] = {}
        for part, sums in found.items():
            measured |= measures(self.data.task, part, *self._over_processes(sums))
        return measured

    def _run_epoch(self) -> None:
        start, timed = time.perf_counter(), sum(self.seconds[part] for part in TIMED)
        torch.manual_seed(derive_seed(self.run.seed, len(self.epochs), self.fabric.global_rank))
        totals, last = self._train_epoch()
        measured = self._measures()
        loss, _, terms, _ = self._over_processes(totals)
        record = {"epoch": len(self.epochs) + 1, "train_loss": loss / max(terms, 1), **measured}
        loss, _, terms, _ = self._over_processes(last)  # a recovered bad batch is not divergence
        if not loss / max(terms, 1) <= self.config.max_loss:  # or not a number
            self.diverged = True
        self.fabric.log_dict(record, self.step)
        elapsed = time.perf_counter() - start
        self.seconds["other"] += elapsed - (sum(self.seconds[part] for part in TIMED) - timed)
        # the slowest process: all of them must decide alike whether time is up
        slowest = torch.tensor(elapsed, dtype=torch.float64, device=self.fabric.device)
        record["seconds"] = round(self._over_processes(slowest, ReduceOp.MAX), 3)
        self.epochs.append(nan_to_none(record))
        if self.config.keep_best and self._best_epoch() == len(self.epochs):
            self._keep_best()
        self._call("on_epoch")
        if self.stop or is_over(self.config, self.epochs, self.diverged):
            self._add_outcome()
        self._save()

    def _train_epoch(self) -> tuple[Tensor, Tensor]:
        """The sums of an epoch (see :func:`_add`), and those of its last batch."""
        self.model.train()
        totals, last = self._zeros(), self._zeros()
        for batch in self.train_batches.epoch(len(self.epochs)):
            loss = self._train_batch(batch)
            last = self._zeros()
            if batch.terms:
                _add(last, loss, batch.terms)
                _add(totals, loss, batch.terms)
            self._call("on_batch")
            if self.diverged:
                break
        return totals, last

    def _train_batch(self, batch: Batch) -> Tensor:
        """One step of the optimizer; gives the summed loss before it."""
        batch = self._augmented(batch.to(self.fabric.device))
        with self._timed("forward"):
            output, targets = self._outputs(self.module, batch)
            smoothing = self.config.label_smoothing or 0.0
            unit = self.model.loss_unit(batch.inputs.shape[1], batch.lengths)
            each = output if isinstance(self.model, Committee) else [output]
            options = (targets, batch.lengths, smoothing, unit)
            loss = torch.stack([loss_sum(self.data.task, one, *options) for one in each]).sum()
        with self._timed("backward"):
            self.optimizer.zero_grad()
            self.fabric.backward(loss * batch.scale(self.fabric.world_size))
        with self._timed("step"):
            self._clip()
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(self.config, self.step, len(self.train_batches))
            self.optimizer.step()
        self.step += 1
        return loss.detach() / len(each)

    def _augmented(self, batch: Batch) -> Batch:
        """The batch with a random factor for each sequence, and noise at each step."""
        x = batch.inputs
        if self.config.jitter is not None:
            x = x * (1 + self.config.jitter * torch.randn_like(x[:, :1, :1]))
        if self.config.noise is not None:
            x = x + self.config.noise * torch.randn_like(x)
        return batch._replace(inputs=x)

    def _clip(self) -> None:
        """Bound the gradient; one that is not finite ends the run, and changes no weight.

        All processes have the same gradient here, so all of them decide the same.
        """
        limit = self.config.clip or float("inf")
        each = self.model.members if isinstance(self.model, Committee) else [self.model]
        norms = [nn.utils.clip_grad_norm_(one.parameters(), limit) for one in each]
        if not bool(torch.stack(norms).isfinite().all()):
            self.model.zero_grad(set_to_none=True)
            self.diverged = True

    @torch.inference_mode()
    def _measure(self, batches: Batches) -> Tensor:
        """The sums of a part of the data (see :func:`_add`)."""
        self.model.eval()
        sums = self._zeros()
        for batch in batches:
            with self._timed("test"):
                output, targets = self._outputs(self.model, batch.to(self.fabric.device))
                loss = loss_sum(self.data.task, output, targets, batch.lengths)
                beside = count_beside(self.data.task, output, targets)
            if batch.terms:
                _add(sums, loss, batch.terms, *beside)
        return sums

    def _add_outcome(self) -> None:
        """Keep the predictions for the test part, or else for the one held back from training."""
        if not self.keep_outcome or self.diverged or not self.measured:
            return
        part = min(self.measured)  # "test" before "validation"
        model, epoch = self.model, len(self.epochs)
        if self.best:  # the weights that the run ends with
            model, epoch = copy.deepcopy(model), self._best_epoch() or 0
            model.load_state_dict(self.best)
        model.eval()
        kept = outcome(
            self.data,
            part,
            epoch,
            self.measured[part],
            lambda batch: self._outputs(model, batch.to(self.fabric.device)),
            self._over_processes,
        )
        if kept is not None:
            self.measurements["outcome"] = kept

    def _outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """The model's outputs from the first step that counts, and the targets beside them."""
        output = model(batch.inputs, batch.lengths, output_from=self.first)
        return output, batch.targets[:, self.first :] if self.first else batch.targets

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Add the seconds of the block to a part. A GPU may still be at work when it ends."""
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start

    def _call(self, event: str) -> None:
        for hook in self.hooks:
            getattr(hook, event)(self)

    # Files, in the first process only -----------------------------------------------------

    def _new_record(self) -> RunResult:
        run, machine = self.run, records.hardware(self.fabric.world_size // self.nodes, self.nodes)
        return RunResult(
            experiment=run.experiment,
            model=run.model,
            seed=run.seed,
            config=run.config.to_dict(),
            parameters=self.model.count_parameters(),
            parameters_with_embedding=self.model.count_parameters(embedding=True),
            versions=records.versions(),
            commit=records.commit(),
            data=dict(self.data.checksums),
            hardware=machine | {"threads": self.threads},
        )

    def _save(self) -> None:
        """The checkpoint first, since a record can be made out of it; a stop waits for both."""
        if self.fabric.is_global_zero:
            checkpoint = Checkpoint(
                weights=self.model.state_dict(),
                optimizer=optimizer_tensors(self.optimizer),
                config=self.run.config.to_dict(),
                seed=self.run.seed,
                step=self.step,
                diverged=self.diverged,
                epochs=self.epochs,
                split=self.seconds,
                data=self.data.to_dict(),
                measurements=self.measurements,
                best=self.best,
            )
            with signals_deferred():
                checkpoint.save(self.run.checkpoint)
                self._save_record()

    def _save_record(self) -> None:
        if not self.fabric.is_global_zero:
            return
        record = self.record
        # copies: the epoch after it is in no record before it is in a checkpoint
        record.epochs, record.diverged = list(self.epochs), self.diverged
        record.measurements = dict(self.measurements)
        record.seconds = round(sum(epoch["seconds"] for epoch in self.epochs), 3)
        record.split = {part: round(value, 3) for part, value in self.seconds.items()}
        over = is_over(self.config, self.epochs, self.diverged)
        record.status = "finished" if over else "running"
        record.save(self.run.record)

    # Several processes --------------------------------------------------------------------

    def _zeros(self) -> Tensor:
        precise = self.fabric.device.type != "mps"  # Apple's GPUs have no float64
        dtype = torch.float64 if precise else torch.float32
        return torch.zeros(4, dtype=dtype, device=self.fabric.device)

    def _over_processes(self, values: Tensor, how: ReduceOp.RedOpType = ReduceOp.SUM) -> Any:
        if self.fabric.world_size > 1:
            torch.distributed.all_reduce(values, how)
        return values.tolist()

    def _require_same_start(self) -> None:
        done = torch.tensor(len(self.epochs), device=self.fabric.device)
        least, most = (
            self._over_processes(done.clone(), end) for end in (ReduceOp.MIN, ReduceOp.MAX)
        )
        if least != most:
            raise RuntimeError(
                f"the processes would resume after different epochs ({least} and {most}); put "
                "--results into a folder that all machines share"
            )


def build_model(config: RunConfig, data: DataSpec, seed: int) -> AnyModel:
    """The model for these data, its weights determined by the seed."""
    options = config.model.options()
    options |= {
        "input_size": data.input_size,
        "output_size": data.output_size,
        "seq_len": data.seq_len,
        "horizon": data.horizon,
        "every_step": every_step(data.task),
        "vocab_size": data.vocab_size,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed))
        models = [SequenceModel(**options) for _ in range(config.model.members)]
    return models[0] if len(models) == 1 else Committee(models, is_accuracy(data.task))


def learning_rate(training: TrainingConfig, step: int, steps_per_epoch: int) -> float:
    """The rate of a step, counted from 0.

    >>> learning_rate(TrainingConfig(lr=0.1, lr_decay=0.5), 2999, steps_per_epoch=100)
    0.025
    >>> cycle = TrainingConfig(lr=0.1, schedule="one-cycle", epochs=10)
    >>> [round(learning_rate(cycle, step, steps_per_epoch=10), 4) for step in (0, 4, 9, 54, 99)]
    [0.002, 0.0429, 0.098, 0.05, 0.0]
    """
    if training.schedule == "steps":
        return training.lr * training.lr_decay ** (step // training.decay_every)
    total = training.epochs * steps_per_epoch
    warm = max(1.0, training.warmup * total)
    done = (step + 1) / (warm + 1) if step < warm else 1 - (step + 1 - warm) / (total - warm)
    return training.lr * (1 - math.cos(math.pi * done)) / 2


def _load(run: Run, data_dir: Path | None) -> SequenceData:
    return load(run.config.data.name, data_dir=data_dir, **run.config.data.options())


def _add(
    sums: Tensor, loss: Tensor, terms: int, beside: Tensor | float = 0.0, beside_terms: int = 0
) -> None:
    sums[0] += loss
    sums[1] += beside
    sums[2] += terms
    sums[3] += beside_terms
