"""Several tasks at once, each in a process of its own, in the order of their worth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torchfru.results import RunResult

from .tasks import State, Task, inspect
from .worker import BUSY, Job

POLL = 0.2  # seconds between looks at the processes
PATIENCE = 15.0  # seconds that a process gets to end by itself

Ending = Literal["finished", "stopped", "failed", "refused", "busy"]


@dataclass(frozen=True)
class Outcome:
    """How a task ended, and its record's state; ``why`` is one line on what went wrong."""

    task: Task
    ending: Ending
    state: State
    why: str = ""


@dataclass
class Running:
    """A task in progress; its record, as it was after the last whole epoch."""

    task: Task
    process: subprocess.Popen[bytes]
    path: Path
    log: Path
    since: float = field(default_factory=time.monotonic)
    record: RunResult | None = None
    _stamp: int = 0

    def look(self) -> None:
        """Read the record again if it has changed."""
        if self.task.config is None:
            return
        try:
            stamp = self.path.stat().st_mtime_ns
            if stamp != self._stamp:
                self._stamp, self.record = stamp, RunResult.load(self.path)
        except (OSError, ValueError):
            return  # not there yet, or just being put aside: the next look will tell

    @property
    def last(self) -> dict[str, Any]:
        return {} if self.record is None else self.record.last

    @property
    def epochs(self) -> int:
        return 0 if self.record is None else len(self.record.epochs)

    def seconds_left(self) -> float:
        """By the mean epoch so far; by the plan before there is one."""
        config = self.task.config
        if config is None or self.record is None or not self.epochs:
            return max(0.0, 60 * self.task.minutes - (time.monotonic() - self.since))
        spent = sum(epoch["seconds"] for epoch in self.record.epochs)
        left = (config.training.epochs - self.epochs) * spent / self.epochs
        limit = config.training.max_minutes
        return left if limit is None else min(left, max(0.0, 60 * limit - spent))


class Runner:
    """Does tasks until none or no time is left.

    ``budget`` is in seconds: when it is used up, no task is begun, and those in progress end
    after their epoch and can be resumed. ``began`` and ``ended`` are told of each task, ``tick``
    of all that are in progress, several times a second. ``stop``, also from a signal's handler,
    ends all at once; what is lost is the epoch in progress.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        results: Path,
        *,
        data_dir: Path | None = None,
        jobs: int = 1,
        threads: int = 1,
        budget: float | None = None,
        began: Callable[[Task, State], None] = lambda task, state: None,
        ended: Callable[[Outcome], None] = lambda outcome: None,
        tick: Callable[[Sequence[Running]], None] = lambda running: None,
    ) -> None:
        self.waiting = deque(tasks)
        self.results = results
        self.data_dir = data_dir
        self.jobs = jobs
        self.threads = threads
        self.deadline = None if budget is None else time.time() + budget
        self.began, self.ended, self.tick = began, ended, tick
        self.running: list[Running] = []
        self.outcomes: list[Outcome] = []
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def run(self) -> list[Outcome]:
        """All outcomes; whatever ends this call, no process of it is left behind."""
        try:
            while not self.stopped and (self.running or (self.waiting and not self._late())):
                self._begin()
                time.sleep(POLL)
                for job in list(self.running):
                    job.look()
                    if job.process.poll() is not None:
                        self._end(job)
                self.tick(self.running)
        finally:
            self._stop_all()
        return self.outcomes

    def _late(self) -> bool:
        return self.deadline is not None and time.time() > self.deadline

    def _begin(self) -> None:
        while self.waiting and len(self.running) < self.jobs and not self._late():
            task = self.waiting.popleft()
            state = inspect(task, self.results)
            if state.kind == "finished":
                continue
            if state.kind == "refused":
                self._report(Outcome(task, "refused", state, state.why))
                continue
            self.running.append(self._start(task))
            self.began(task, state)

    def _start(self, task: Task) -> Running:
        job = Job(task, self.results, self.data_dir, self.threads, self.deadline)
        folder = task.folder(self.results)
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"log-{os.getpid()}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(job),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
            )
        return Running(task, process, task.record(self.results), log)

    def _end(self, job: Running) -> None:
        self.running.remove(job)
        state, code = inspect(job.task, self.results), job.process.returncode
        if code == BUSY:
            outcome = Outcome(job.task, "busy", state, "another process is at it")
        elif code != 0:
            outcome = Outcome(job.task, "failed", state, _last_line(job.log, code))
        else:
            outcome = Outcome(
                job.task, "finished" if state.kind == "finished" else "stopped", state
            )
        self._report(outcome)
        if outcome.ending != "failed":
            job.log.unlink(missing_ok=True)

    def _report(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.ended(outcome)

    def _stop_all(self) -> None:
        """End what still runs: politely, then not."""
        for job in self.running:
            job.process.terminate()
        patience = time.monotonic() + PATIENCE
        for job in self.running:
            try:
                job.process.wait(max(0.0, patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                job.process.kill()
                job.process.wait()
            job.log.unlink(missing_ok=True)


def command(job: Job) -> list[str]:
    """What the process of a job runs."""
    return [sys.executable, "-m", "paper.worker", job.to_json()]


def _last_line(log: Path, code: int) -> str:
    """Why a process failed: what it said last, and where the rest is."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if code < 0:  # it had no time to say anything
        said = f"ended by signal {-code} ({signal.strsignal(-code)})"
    else:
        said = lines[-1].strip().removeprefix("Error: ") if lines else f"ended with code {code}"
    return f"{said} (log: {log})"
