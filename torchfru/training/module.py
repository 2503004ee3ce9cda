"""One run as Lightning sees it: what a step, a test and the end of an epoch do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, LightningModule
from torch import Tensor

from ..data import DataSpec, SequenceData, Split
from ..experiments.config import RunConfig, TrainingConfig
from ..nn import SequenceModel
from ..results import finite
from .batches import Batch, Batches, mix
from .checkpoint import Checkpoint, optimizer_tensors, restore_optimizer
from .clock import Clock
from .objective import count_correct, every_step, first_answer, loss_sum, measures
from .probe import GradientProbe

# Sequences tested at once, and the steps that they may have together: speed, and memory.
TEST_BATCH, TEST_STEPS = 256, 250_000


class RunModule(LightningModule):
    """Trains a :class:`SequenceModel` on a task, and keeps the numbers of every epoch.

    ``parts`` names the data that are measured after each epoch. ``on_epoch`` is called after
    that, in every process. ``begin`` is the checkpoint to go on from.
    """

    def __init__(
        self,
        config: RunConfig,
        data: SequenceData,
        seed: int,
        parts: tuple[str, ...],
        on_epoch: Callable[[RunModule], None],
        begin: Checkpoint | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.task = data.task
        self.first = first_answer(data.task, data.train.targets, data.test.targets)
        self.seed = seed
        self.parts = parts
        self.on_epoch = on_epoch
        self.model = build_model(config, data, seed)
        self.begin = begin
        self.step = 0 if begin is None else begin.step
        self.diverged = False if begin is None else begin.diverged
        self.epochs: list[dict[str, Any]] = [] if begin is None else list(begin.epochs)
        self.measurements: dict[str, Any] = {} if begin is None else dict(begin.measurements)
        self.clock = Clock(None if begin is None else begin.split)
        self.probe = None if config.training.probe_every is None else GradientProbe(data)
        self._sums: dict[str, Tensor] = {}
        self._last: tuple[Tensor, int] = (torch.zeros(()), 0)  # the last batch's loss and terms

    @property
    def epoch(self) -> int:
        """The number of epochs that are done."""
        return len(self.epochs)

    # Training ----------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        fused = self.device.type in ("cpu", "cuda")  # the same update, several times faster
        training = self.config.training
        decay = training.weight_decay or 0.0  # without it AdamW is Adam
        optimizer = torch.optim.AdamW(trained, training.lr, weight_decay=decay, fused=fused)
        if self.begin is not None:
            restore_optimizer(optimizer, self.begin.optimizer)
        return optimizer

    def on_fit_start(self) -> None:
        if self.trainer.world_size > 1:
            self._require_same_start()

    def _require_same_start(self) -> None:
        least = torch.tensor(self.epoch, device=self.device)
        most = least.clone()
        torch.distributed.all_reduce(least, torch.distributed.ReduceOp.MIN)
        torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
        if least != most:
            raise RuntimeError(
                f"the processes would resume after different epochs ({int(least)} and "
                f"{int(most)}); put --results into a folder that all machines share"
            )

    def on_train_start(self) -> None:
        if self.epoch == 0:
            self._probe()

    def on_train_epoch_start(self) -> None:
        self.clock.start_epoch()
        torch.manual_seed(mix(self.seed, self.epoch, self.global_rank))  # for dropout
        self._sums = {part: self._zeros() for part in ("train", *self.parts)}

    def training_step(self, batch: Batch, index: int) -> Tensor:
        with self.clock.part("forward"):
            output, targets = self._answers(batch)
            total = loss_sum(self.task, output, targets, batch.lengths)
        if batch.terms:
            self._add("train", total.detach(), 0.0, batch.terms)
        self._last = (total.detach(), batch.terms)
        return total * batch.scale(self.trainer.world_size)

    def _answers(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The model's answers, from the first that counts, and the targets beside them."""
        output = self.model(batch.inputs, batch.lengths, output_from=self.first)
        return output, batch.targets[:, self.first :] if self.first else batch.targets

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        with self.clock.part("backward"):
            loss.backward()

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        with self.clock.part("step"):
            self._clip()

    def _clip(self) -> None:
        """Bound the gradient; one that is not finite ends the run, and changes no weight.

        All processes have the same gradient here, so all of them decide the same.
        """
        limit = self.config.training.clip or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        if not bool(norm.isfinite()):
            self.model.zero_grad(set_to_none=True)
            self._diverge()

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Any,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(self.config.training, self.step)
        waiting = 0.0

        def closure() -> Any:
            nonlocal waiting
            start = time.perf_counter()
            assert optimizer_closure is not None
            result = optimizer_closure()
            waiting = time.perf_counter() - start
            return result

        before, start = self.clock.seconds["step"], time.perf_counter()
        super().optimizer_step(epoch, batch_idx, optimizer, closure)
        # the clipping, inside of this call but after the closure, is counted already
        clipping = self.clock.seconds["step"] - before
        self.clock.seconds["step"] += time.perf_counter() - start - waiting - clipping
        self.step += 1

    def _diverge(self) -> None:
        self.diverged = True
        self.trainer.should_stop = True

    # Testing -----------------------------------------------------------------------------

    def validation_step(self, batch: Batch, index: int, dataloader_idx: int = 0) -> None:
        with self.clock.part("test"):
            output, targets = self._answers(batch)
            total = loss_sum(self.task, output, targets, batch.lengths)
            correct = count_correct(self.task, output, targets)
        if batch.terms:
            self._add(self.parts[dataloader_idx], total, correct, batch.terms)

    def on_train_epoch_end(self) -> None:
        self._sums["last"] = self._zeros()
        if self._last[1]:
            self._add("last", self._last[0], 0.0, self._last[1])
        sums = {part: self._over_processes(values) for part, values in self._sums.items()}
        loss, _, terms = sums["train"]
        record: dict[str, Any] = {"epoch": self.epoch + 1, "train_loss": loss / max(terms, 1)}
        for part in self.parts:
            record |= measures(self.task, part, *sums[part])
        last, _, terms = sums["last"]  # one bad batch that was got over is not divergence
        if not last / max(terms, 1) <= self.config.training.max_loss:  # or not a number
            self._diverge()
        self.log_dict({key: float(value) for key, value in record.items() if key != "epoch"})
        record["seconds"] = round(self._slowest(self.clock.end_epoch()), 3)
        self.epochs.append(finite(record))
        self._probe()
        if is_over(self.config.training, self.epochs, self.diverged):
            self.trainer.should_stop = True
        self.on_epoch(self)

    def _probe(self) -> None:
        """The gradients, if it is time for them; that takes none of the epoch's seconds."""
        every = self.config.training.probe_every
        if self.probe is None or every is None or self.epoch % every:
            return
        entries = self.measurements.setdefault("gradients", [])
        entries.append({"epoch": self.epoch, **finite(self.probe(self.model))})

    def checkpoint(self, data: dict[str, Any]) -> Checkpoint:
        """The state after the last whole epoch."""
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        return Checkpoint(
            weights=self.model.state_dict(),
            optimizer=optimizer_tensors(optimizer),
            config=self.config.to_dict(),
            seed=self.seed,
            step=self.step,
            diverged=self.diverged,
            epochs=self.epochs,
            split=self.clock.seconds,
            data=data,
            measurements=self.measurements,
        )

    # Sums over batches and processes: loss, correct answers, terms ------------------------

    def _zeros(self) -> Tensor:
        precise = self.device.type != "mps"  # Apple's GPUs have no float64
        dtype = torch.float64 if precise else torch.float32
        return torch.zeros(3, dtype=dtype, device=self.device)

    def _add(self, part: str, loss: Tensor, correct: Tensor | float, terms: int) -> None:
        sums = self._sums[part]
        sums[0] += loss
        sums[1] += correct
        sums[2] += terms

    def _over_processes(self, values: Tensor) -> tuple[float, float, float]:
        if self.trainer.world_size > 1:
            torch.distributed.all_reduce(values)
        loss, correct, terms = values.tolist()
        return loss, correct, terms

    def _slowest(self, seconds: float) -> float:
        """The most of all processes: all of them must decide alike whether time is up."""
        if self.trainer.world_size == 1:
            return seconds
        most = torch.tensor(seconds, device=self.device)
        torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
        return float(most)

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        return batch if device.type == "cpu" else batch.to(device)


class RunData(LightningDataModule):
    """The batches of a run: each process takes its own share of every one."""

    def __init__(self, module: RunModule, train: Split, parts: dict[str, Split]) -> None:
        super().__init__()
        self.module = module
        self.train = train
        self.test_parts = parts

    def train_dataloader(self) -> Batches:
        size = self.module.config.training.batch_size
        return self._batches(self.train, size, epoch=lambda: self.module.epoch)

    def val_dataloader(self) -> list[Batches]:
        return [
            self._batches(split, max(1, min(TEST_BATCH, TEST_STEPS // split.inputs.shape[1])))
            for split in self.test_parts.values()
        ]

    def _batches(self, split: Split, size: int, epoch: Callable[[], int] | None = None) -> Batches:
        trainer = self.module.trainer
        return Batches(
            split,
            self.module.task,
            size,
            seed=self.module.seed,
            epoch=epoch,
            rank=trainer.global_rank,
            world=trainer.world_size,
        )


def build_model(config: RunConfig, data: DataSpec, seed: int) -> SequenceModel:
    """The model for these data, its weights determined by the seed."""
    options = config.to_dict()["model"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(mix(seed))
        return SequenceModel(
            options.pop("layer"),
            data.input_size,
            data.output_size,
            seq_len=data.seq_len,
            every_step=every_step(data.task),
            vocab_size=data.vocab_size,
            **options,
        )


def is_over(training: TrainingConfig, epochs: list[dict[str, Any]], diverged: bool) -> bool:
    """Whether a run has nothing left to do: no epoch, or no time for another one.

    >>> is_over(TrainingConfig(max_minutes=1.5), [{"seconds": 60.0}], diverged=False)
    False
    >>> is_over(TrainingConfig(max_minutes=1.5), 2 * [{"seconds": 60.0}], diverged=False)
    True
    """
    minutes = sum(epoch["seconds"] for epoch in epochs) / 60
    late = training.max_minutes is not None and minutes > training.max_minutes
    return diverged or late or len(epochs) >= training.epochs


def learning_rate(training: TrainingConfig, step: int) -> float:
    """The rate of a step, counted from 0: times the decay after every ``decay_every`` steps.

    >>> learning_rate(TrainingConfig(lr=0.1, lr_decay=0.5), 2999)
    0.025
    """
    return training.lr * training.lr_decay ** (step // training.decay_every)
