"""A progress bar for programs and notebooks, with the current score."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm

from ..training import Hook, Training


class StepBar(Hook):
    """Counts the steps of the optimizer; shown on terminals and in notebooks."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: Any = None

    def on_start(self, training: Training) -> None:
        total = training.config.epochs * len(training.train_batches)
        self.bar = tqdm(
            desc=self.title,
            total=total,
            initial=training.step,
            unit="step",
            leave=False,
            disable=None,
        )

    def on_batch(self, training: Training) -> None:
        self.bar.update()

    def on_epoch(self, training: Training) -> None:
        shown = {k: v for k, v in training.epochs[-1].items() if k not in ("epoch", "seconds")}
        self.bar.set_postfix(shown)

    def on_end(self, training: Training) -> None:
        if self.bar is not None:
            self.bar.close()
