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
    from ..runner import Outcome, Running

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

    def began(self, run: Planned, progress: Progress) -> None:
        self.told[run] = (time.monotonic(), progress.epochs)
        after = f", after {progress.epochs} epochs" if progress.epochs else ""
        if not self.console.is_terminal:
            self.say(f"started   {run}{after}")

    def ended(self, outcome: Outcome) -> None:
        detail = outcome.why or achieved(outcome.run, outcome.progress)
        self.say(f"{outcome.ending:9} {outcome.run}: {detail}")

    def tick(self, running: Sequence[Running]) -> None:
        if self.console.is_terminal:
            self.live.update(_running_table(running))
            return
        now = time.monotonic()
        for job in running:
            when, epochs = self.told[job.run]
            if now - when >= HEARTBEAT and job.epochs > epochs:
                self.told[job.run] = (now, job.epochs)
                self.say(f"running   {job.run}: {', '.join(_progress(job))}")


def _running_table(running: Sequence[Running]) -> Table:
    table = Table("experiment", "model", "seed", "epochs", "test", "time", box=box.SIMPLE_HEAD)
    for job in running:
        seed = "" if job.run.seed is None else str(job.run.seed)
        table.add_row(job.run.experiment, job.run.name, seed, *_progress(job))
    return table


def _progress(job: Running) -> tuple[str, str, str]:
    of = "" if job.run.config is None else f"{job.epochs} of {job.run.config.training.epochs}"
    return of, measure_on_test(job.last), f"{duration(job.seconds_left())} left"


def achieved(run: Planned, progress: Progress) -> str:
    """How far a run came, in how much time."""
    if run.config is None or progress.record is None:
        return duration(progress.seconds)
    of = run.config.training.epochs
    test = "diverged" if progress.record.diverged else measure_on_test(progress.record.last)
    parts = (f"{progress.epochs} of {of} epochs", test, duration(progress.seconds))
    return ", ".join(part for part in parts if part)


def duration(seconds: float) -> str:
    """
    >>> duration(45), duration(200), duration(8000)
    ('45 s', '3 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
