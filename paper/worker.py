"""One task in a process of its own: ``python -m paper.worker '<JSON>'``.

The process that trains holds the run's lock, so that whatever ends it frees the run.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from torchfru.experiments.config import RunConfig

from .tasks import Task

BUSY = 75  # the exit code that says: another process is at it


@dataclass(frozen=True)
class Job:
    """A task, and how to do it."""

    task: Task
    results: Path
    data_dir: Path | None
    threads: int
    deadline: float | None  # after it, seconds since 1970, no further epoch is begun

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Job:
        job: dict[str, Any] = json.loads(text)
        config = job["task"]["config"]
        job["task"]["config"] = None if config is None else RunConfig.from_dict(config)
        job["task"] = Task(**job["task"])
        job["results"] = Path(job["results"])
        job["data_dir"] = None if job["data_dir"] is None else Path(job["data_dir"])
        return cls(**job)


def main() -> int:
    job = Job.from_json(sys.argv[1])
    folder = job.task.folder(job.results)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "lock", timeout=0):
            _do(job)
    except Timeout:
        return BUSY
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"Error: {message}", file=sys.stderr)
        return 1
    return 0


def _do(job: Job) -> None:
    import torch

    torch.set_num_threads(job.threads)
    task = job.task
    if task.seed is None or task.config is None:
        from .measure import measure

        measure(task.experiment, task.name, job.data_dir).save(task.record(job.results))
        return
    from torchfru.training import Run, run_experiment

    run = Run(task.experiment, task.name, task.seed, task.config, job.results)
    run_experiment(run, resume=True, data_dir=job.data_dir, callbacks=[_stop_at(job.deadline)])


def _stop_at(deadline: float | None) -> Any:
    """Ends training after the epoch in which the time is up."""
    from lightning.pytorch.callbacks import LambdaCallback

    def stop(trainer: Any, module: Any) -> None:
        if deadline is not None and time.time() > deadline:
            trainer.should_stop = True

    return LambdaCallback(on_train_epoch_end=stop)


if __name__ == "__main__":
    sys.exit(main())
