"""Several runs at once, each in a process of its own, in the order of the plan."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torchfru.records import RunResult

from .plan import Planned, Progress
from .worker import BUSY, command

POLL = 0.2  # seconds between looks at the processes
PATIENCE = 15.0  # seconds that a process gets to end by itself

Ending = Literal["finished", "stopped", "failed", "refused", "busy"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and how far it is; ``why`` is one line on what went wrong."""

    run: Planned
    ending: Ending
    progress: Progress
    why: str = ""


@dataclass
class Running:
    """A run in progress; its record, as it was after the last whole epoch."""

    run: Planned
    process: subprocess.Popen[bytes]
    path: Path
    log: Path
    since: float = field(default_factory=time.monotonic)
    record: RunResult | None = None
    _stamp: int = 0

    def look(self) -> None:
        """Read the record again if it has changed."""
        if self.run.config is None:
            return
        try:
            stamp = self.path.stat().st_mtime_ns
            if stamp != self._stamp:
                self._stamp, self.record = stamp, RunResult.load(self.path)
        except (OSError, ValueError):
            return  # not there yet, or just being put aside: the next look will tell

    def close(self) -> None:
        """Let go of the pipe to a process that has ended."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    @property
    def last(self) -> dict[str, Any]:
        return {} if self.record is None else self.record.last

    @property
    def epochs(self) -> int:
        return 0 if self.record is None else len(self.record.epochs)

    def seconds_left(self) -> float:
        """By the mean epoch so far; by the plan before there is one."""
        config = self.run.config
        if config is None or self.record is None or not self.epochs:
            return max(0.0, 60 * self.run.minutes - (time.monotonic() - self.since))
        spent = sum(epoch["seconds"] for epoch in self.record.epochs)
        left = (config.training.epochs - self.epochs) * spent / self.epochs
        limit = config.training.max_minutes
        return left if limit is None else min(left, max(0.0, 60 * limit - spent))


class Runner:
    """Does the runs until none or no time is left.

    ``budget`` is in seconds: when it is used up, no run is begun, and those in progress end
    after their epoch and can be resumed. ``began`` and ``ended`` are called for each run, ``tick``
    with all that are in progress, several times a second. ``stop``, also from a signal's handler,
    ends all at once; only the epoch in progress is lost.
    """

    def __init__(
        self,
        runs: Sequence[Planned],
        results: Path,
        *,
        data_dir: Path | None = None,
        jobs: int = 1,
        threads: int = 1,
        budget: float | None = None,
        began: Callable[[Planned, Progress], None] = lambda run, progress: None,
        ended: Callable[[Outcome], None] = lambda outcome: None,
        tick: Callable[[Sequence[Running]], None] = lambda running: None,
    ) -> None:
        self.waiting = deque(runs)
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
            run = self.waiting.popleft()
            progress = run.progress(self.results)
            if progress.kind == "finished":
                continue
            if progress.kind == "refused":
                self._report(Outcome(run, "refused", progress, progress.why))
                continue
            self.running.append(self._start(run))
            self.began(run, progress)

    def _start(self, run: Planned) -> Running:
        folder = run.folder(self.results)
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"log-{os.getpid()}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(
                    run,
                    self.results,
                    data_dir=self.data_dir,
                    threads=self.threads,
                    deadline=self.deadline,
                ),
                stdin=subprocess.PIPE,  # held open, so that its end is the worker's end
                stdout=output,
                stderr=output,
                env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
            )
        return Running(run, process, run.record(self.results), log)

    def _end(self, job: Running) -> None:
        self.running.remove(job)
        job.close()
        progress, code = job.run.progress(self.results), job.process.returncode
        if code == BUSY:
            outcome = Outcome(job.run, "busy", progress, "another process is at it")
        elif code != 0:
            outcome = Outcome(job.run, "failed", progress, _last_line(job.log, code))
        else:
            ending: Ending = "finished" if progress.kind == "finished" else "stopped"
            outcome = Outcome(job.run, ending, progress)
        self._report(outcome)
        if outcome.ending != "failed":
            job.log.unlink(missing_ok=True)

    def _report(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.ended(outcome)

    def _stop_all(self) -> None:
        """Terminate the processes that still run, then kill them."""
        for job in self.running:
            job.process.terminate()
        patience = time.monotonic() + PATIENCE
        for job in self.running:
            try:
                job.process.wait(max(0.0, patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                job.process.kill()
                job.process.wait()
            job.close()
            job.log.unlink(missing_ok=True)


def _last_line(log: Path, code: int) -> str:
    """Why a process failed: what it said last, and where the rest is."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if code < 0:  # it had no time to say anything
        said = f"ended by signal {-code} ({signal.strsignal(-code)})"
    else:
        said = lines[-1].strip().removeprefix("Error: ") if lines else f"ended with code {code}"
    return f"{said} (log: {log})"
