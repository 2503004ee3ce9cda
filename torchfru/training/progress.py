"""A progress bar for a run, with the time that is left, and a line for each epoch."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from .module import RunModule


class ProgressBar(Callback):
    """Shows the share of all batches that are done, in the first process only."""

    def __init__(self, title: str, console: Console, lines: bool = True) -> None:
        self.title = title
        self.console = console
        self.lines = lines
        self.progress: Progress | None = None
        self.task = TaskID(0)
        self.printed = 0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        assert isinstance(module, RunModule)
        done, per_epoch = module.epoch, int(trainer.num_training_batches)
        epochs = done + (trainer.max_epochs or 0)
        self.printed = done
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self.console,
            transient=True,
        )
        self.progress.start()
        self.task = self.progress.add_task(
            self.title, total=epochs * per_epoch, completed=done * per_epoch
        )

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.progress is not None:
            self.progress.advance(self.task)

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._print_epochs(module)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._print_epochs(module)
        self._stop()

    def on_exception(self, trainer: Trainer, module: LightningModule, error: BaseException) -> None:
        self._stop()

    def _print_epochs(self, module: LightningModule) -> None:
        """A line for each epoch that has ended since the last time."""
        if self.progress is not None and self.lines:
            assert isinstance(module, RunModule)
            for epoch in module.epochs[self.printed :]:
                self.console.print(describe_epoch(epoch), highlight=False)
            self.printed = module.epoch

    def _stop(self) -> None:
        if self.progress is not None:
            self.progress.stop()


def describe_epoch(epoch: dict[str, Any]) -> str:
    """One line on an epoch.

    >>> describe_epoch({"epoch": 3, "train_loss": 0.25, "test_accuracy": 97.5, "seconds": 4.2})
    'epoch 3: train loss 0.25, test accuracy 97.50 %, 4.2 s'
    """
    words = [
        f"{name.replace('_', ' ')} {format_measure(name, value)}"
        for name, value in epoch.items()
        if name not in ("epoch", "seconds")
    ]
    return f"epoch {epoch['epoch']}: {', '.join(words)}, {epoch['seconds']:.1f} s"


def format_measure(name: str, value: float | None) -> str:
    """A measure with the digits that it deserves."""
    if value is None:
        return "not finite"
    return f"{value:.2f} %" if name.endswith("accuracy") else f"{value:.4g}"
