"""Several runs at once, as they go on: a table that changes on a terminal, lines elsewhere."""

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
    from ..runner import Outcome, Running
    from ..tasks import State, Task

HEARTBEAT = 60.0  # seconds between lines on a running task, where there is no terminal


class Watch:
    """Shows what goes on: a table that changes on a terminal, lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, transient=True, refresh_per_second=4)
        self.told: dict[Task, tuple[float, int]] = {}  # when, and of how many epochs

    def __enter__(self) -> Watch:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def began(self, task: Task, state: State) -> None:
        self.told[task] = (time.monotonic(), state.epochs)
        after = f", after {state.epochs} epochs" if state.epochs else ""
        if not self.console.is_terminal:
            self.say(f"started   {task}{after}")

    def ended(self, outcome: Outcome) -> None:
        detail = outcome.why or achieved(outcome.task, outcome.state)
        self.say(f"{outcome.ending:9} {outcome.task}: {detail}")

    def tick(self, running: Sequence[Running]) -> None:
        if self.console.is_terminal:
            self.live.update(_running_table(running))
            return
        now = time.monotonic()
        for job in running:
            when, epochs = self.told[job.task]
            if now - when >= HEARTBEAT and job.epochs > epochs:
                self.told[job.task] = (now, job.epochs)
                self.say(f"running   {job.task}: {', '.join(_progress(job))}")


def _running_table(running: Sequence[Running]) -> Table:
    table = Table("experiment", "model", "seed", "epochs", "test", "time", box=box.SIMPLE_HEAD)
    for job in running:
        seed = "" if job.task.seed is None else str(job.task.seed)
        table.add_row(job.task.experiment, job.task.name, seed, *_progress(job))
    return table


def _progress(job: Running) -> tuple[str, str, str]:
    of = "" if job.task.config is None else f"{job.epochs} of {job.task.config.training.epochs}"
    return of, measure_on_test(job.last), f"{duration(job.seconds_left())} left"


def achieved(task: Task, state: State) -> str:
    """How far a task came, in how much time."""
    if task.config is None or state.record is None:
        return duration(state.seconds)
    of = task.config.training.epochs
    test = "diverged" if state.record.diverged else measure_on_test(state.record.last)
    parts = (f"{state.epochs} of {of} epochs", test, duration(state.seconds))
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
