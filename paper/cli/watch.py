"""Progress of several runs at once: a table that changes on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from torchfru.cli.common import measure_on_test

if TYPE_CHECKING:
    from ..plan import Planned, Progress
    from ..runner import Running

HEARTBEAT = 60.0  # seconds between lines on a run, where there is no terminal


class Watch:
    """Shows progress: a table that changes on a terminal, lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, transient=True, refresh_per_second=4)
        self.told: dict[Planned, tuple[float, int]] = {}  # when, and of how many epochs

    def __enter__(self) -> Watch:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def began(self, progress: Progress) -> None:
        done = len(progress.epochs)
        self.told[progress.run] = (time.monotonic(), done)
        if not self.console.is_terminal:
            self.say(f"started   {progress.run}{f', after {done} epochs' if done else ''}")

    def ended(self, progress: Progress) -> None:
        ending = "stopped" if progress.kind in ("cut off", "missing") else progress.kind
        self.say(f"{ending:9} {progress.run}: {progress.why or achieved(progress)}")

    def tick(self, running: Sequence[Running]) -> None:
        if self.console.is_terminal:
            self.live.update(_running_table(running))
            return
        now = time.monotonic()
        for job in running:
            (when, epochs), done = self.told[job.run], len(job.progress.epochs)
            if now - when >= HEARTBEAT and done > epochs:
                self.told[job.run] = (now, done)
                self.say(f"running   {job.run}: {', '.join(_state(job))}")


def _running_table(running: Sequence[Running]) -> Table:
    table = Table("experiment", "model", "seed", "epochs", "test", "time", box=box.SIMPLE_HEAD)
    for job in running:
        seed = "" if job.run.seed is None else str(job.run.seed)
        table.add_row(job.run.experiment, job.run.name, seed, *_state(job))
    return table


def _state(job: Running) -> tuple[str, str, str]:
    config, done = job.run.config, len(job.progress.epochs)
    epochs = "" if config is None else f"{done} of {config.training.epochs}"
    return epochs, measure_on_test(job.progress.last), f"{duration(job.seconds_left())} left"


def achieved(progress: Progress) -> str:
    """How far a run came, in how much time."""
    config, took = progress.run.config, duration(progress.seconds)
    if config is None or progress.kind == "missing":
        return took
    epochs = f"{len(progress.epochs)} of {config.training.epochs} epochs"
    test = "diverged" if progress.diverged else measure_on_test(progress.last)
    return ", ".join(part for part in (epochs, test, took) if part)


def duration(seconds: float) -> str:
    """
    >>> duration(45), duration(200), duration(8000)
    ('45 s', '3 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
