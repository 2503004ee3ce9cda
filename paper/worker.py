"""One run in a process of its own: ``python -m paper.worker '<JSON>'``.

It ends with the process that started it, even if that one is killed: its standard input is a pipe
that the parent holds open.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchfru.training.config import RunConfig

from .plan import Planned

BUSY = 75  # the exit code that says: another process has the lock


def command(run: Planned, results: Path, **options: Any) -> list[str]:
    """The command that starts the process.

    ``options`` are ``data_dir``, ``threads`` and ``deadline``: seconds since 1970, after which no
    further epoch is begun.
    """
    arguments = {"run": asdict(run), "results": results, **options}
    return [sys.executable, "-m", "paper.worker", json.dumps(arguments, default=str)]


def main() -> int:
    from torchfru.training import RunBusyError

    arguments = json.loads(sys.argv[1])
    config = arguments["run"].pop("config")
    run = Planned(**arguments["run"], config=config and RunConfig.from_dict(config))
    try:
        _work(run, Path(arguments["results"]), arguments)
    except RunBusyError:
        return BUSY
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"Error: {message}", file=sys.stderr)
        return 1
    return 0


def end_with_parent() -> None:
    """Watch the pipe from the parent process; when that process dies, so does this one."""

    def watch() -> None:
        # not sys.stdin: the interpreter aborts at its end if a thread holds that file's lock
        while os.read(0, 1):
            pass
        os._exit(1)  # no epoch is lost that is not lost anyway: runs resume exactly

    threading.Thread(target=watch, daemon=True).start()


def _work(run: Planned, results: Path, arguments: dict[str, Any]) -> None:
    import torch

    torch.set_num_threads(arguments["threads"])
    data_dir = arguments["data_dir"] and Path(arguments["data_dir"])
    if run.seed is None or run.config is None:
        from .measure import measure

        measure(run.experiment, run.name, data_dir).save(run.record(results))
        return
    from torchfru.training import Hook, Run, Training, run_experiment

    from . import networks
    from .probe import ProbeHook

    networks.register()

    class StopAtDeadline(Hook):
        """Ends training after the epoch in which the time is up."""

        def on_epoch(self, training: Training) -> None:
            deadline = arguments["deadline"]
            training.stop = deadline is not None and time.time() > deadline

    own = Run(run.experiment, run.name, run.seed, run.config, results)
    hooks = [ProbeHook(), StopAtDeadline()]
    run_experiment(own, resume=True, data_dir=data_dir, hooks=hooks, keep_outcome=False)


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main())
