"""Train on sequences in memory: the way from data to a model for programs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ..data import SequenceData
from ..records import RunResult
from .config import RunConfig
from .loop import Hook, run_experiment
from .run import Run
from .trained import TrainedModel, load_trained


def fit(
    data: SequenceData,
    config: RunConfig,
    *,
    seed: int = 0,
    folder: Path | None = None,
    resume: bool = False,
    parts: Sequence[str] = (),
    accelerator: str = "auto",
    hooks: Sequence[Hook] = (),
) -> tuple[TrainedModel, RunResult]:
    """Train by :func:`run_experiment`, and give the trained model with the run's record.

    The record and the checkpoint are in ``folder/results`` and ``folder/checkpoints``, or without
    a folder in a temporary one. torch's random state is left as it was.
    """
    with ExitStack() as held:
        if folder is None:  # after an error its logs may still grow
            away = TemporaryDirectory(ignore_cleanup_errors=True)
            folder = Path(held.enter_context(away))
        held.enter_context(torch.random.fork_rng(devices=[]))
        run = Run(data.name, config.model.layer, seed, config, folder / "results")
        record = run_experiment(
            run, resume=resume, data=data, parts=parts, accelerator=accelerator, hooks=hooks
        )
        assert record is not None  # one process
        return load_trained(str(run.checkpoint), run.results), record
