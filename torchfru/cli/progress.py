"""A progress bar for a run with the remaining time, and a line for each epoch."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID

from ..io import printable
from ..training import Hook, Training


class ProgressBar(Hook):
    """Shows the share of batches done, in the first process only."""

    def __init__(self, title: str, console: Console) -> None:
        self.title = escape(printable(title))  # the name of a file may hold markup
        self.console = console
        self.progress: Progress | None = None
        self.task = TaskID(0)

    def on_start(self, training: Training) -> None:
        if not training.fabric.is_global_zero:
            return
        done, per_epoch = len(training.epochs), len(training.train_batches)
        self.progress = Progress(console=self.console, transient=True)
        self.progress.start()
        self.task = self.progress.add_task(
            self.title, total=training.config.epochs * per_epoch, completed=done * per_epoch
        )

    def on_batch(self, training: Training) -> None:
        if self.progress is not None:
            self.progress.advance(self.task)

    def on_epoch(self, training: Training) -> None:
        if self.progress is not None:
            self.console.print(describe_epoch(training.epochs[-1]), highlight=False)

    def on_end(self, training: Training) -> None:
        if self.progress is not None:
            self.progress.stop()


def describe_epoch(epoch: dict[str, Any]) -> str:
    """One line on an epoch.

    >>> describe_epoch({"epoch": 3, "train_loss": 0.25, "test_accuracy": 97.5, "seconds": 4.2})
    'epoch 3: train loss 0.25, test accuracy 97.50 %, 4.2 s'
    """
    words = []
    for name, value in epoch.items():
        if name not in ("epoch", "seconds"):
            form = "{:.2f} %" if name.endswith("accuracy") else "{:.4g}"
            shown = "not finite" if value is None else form.format(value)
            words.append(f"{name.replace('_', ' ')} {shown}")
    return f"epoch {epoch['epoch']}: {', '.join(words)}, {epoch['seconds']:.1f} s"
