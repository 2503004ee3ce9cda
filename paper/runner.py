"""Several runs at once, each in a process of its own, in the order of the plan."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from .plan import Planned, Progress
from .worker import BUSY, command

POLL = 0.2  # seconds between looks at the processes
PATIENCE = 15.0  # seconds that a process gets to end by itself


@dataclass
class Running:
    """A run in progress; how far it was after its last whole epoch."""

    progress: Progress
    process: subprocess.Popen[bytes]
    results: Path
    log: Path
    since: float = field(default_factory=time.monotonic)
    _stamp: int = 0

    @property
    def run(self) -> Planned:
        return self.progress.run

    def look(self) -> None:
        """Read the record again if it has changed."""
        with suppress(OSError):  # not there yet, or just being replaced: the next look will tell
            stamp = self.run.record(self.results).stat().st_mtime_ns
            if stamp != self._stamp:
                self._stamp, self.progress = stamp, self.run.progress(self.results)

    def seconds_left(self) -> float:
        return self.progress.seconds_left(time.monotonic() - self.since)

    def close(self, keep_log: bool = False) -> None:
        """Let go of a process that has ended: of the pipe to it, and of its log."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        if not keep_log:
            self.log.unlink(missing_ok=True)


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
        began: Callable[[Progress], None] = lambda progress: None,
        ended: Callable[[Progress], None] = lambda progress: None,
        tick: Callable[[Sequence[Running]], None] = lambda running: None,
    ) -> None:
        self.waiting = deque(runs)
        self.results = results
        self.jobs = jobs
        self.deadline = None if budget is None else time.time() + budget
        self.options = {"data_dir": data_dir, "threads": threads, "deadline": self.deadline}
        self.began, self.ended, self.tick = began, ended, tick
        self.running: list[Running] = []
        self.outcomes: list[Progress] = []
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def run(self) -> list[Progress]:
        """How every run ended; whatever ends this call, no process of it is left behind."""
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
            progress = self.waiting.popleft().progress(self.results)
            if progress.kind == "refused":
                self._report(progress)
            elif progress.kind != "finished":
                self.running.append(self._start(progress))
                self.began(progress)

    def _start(self, progress: Progress) -> Running:
        run = progress.run
        folder = run.folder(self.results)
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"log-{os.getpid()}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(run, self.results, **self.options),
                stdin=subprocess.PIPE,  # held open, so that its end is the worker's end
                stdout=output,
                stderr=output,
                env={**os.environ, "OMP_NUM_THREADS": str(self.options["threads"])},
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
            )
        return Running(progress, process, self.results, log)

    def _end(self, job: Running) -> None:
        self.running.remove(job)
        progress, code = job.run.progress(self.results), job.process.returncode
        if code == BUSY:
            progress = replace(progress, kind="busy", why="another process is training it")
        elif code != 0:
            progress = replace(progress, kind="failed", why=_last_line(job.log, code))
        job.close(keep_log=progress.kind == "failed")
        self._report(progress)

    def _report(self, progress: Progress) -> None:
        self.outcomes.append(progress)
        self.ended(progress)

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


def _last_line(log: Path, code: int) -> str:
    """Why a process failed: what it said last, and where the rest is."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if code < 0:  # it had no time to say anything
        said = f"ended by signal {-code} ({signal.strsignal(-code)})"
    else:
        said = lines[-1].strip().removeprefix("Error: ") if lines else f"ended with code {code}"
    return f"{said} (log: {log})"
