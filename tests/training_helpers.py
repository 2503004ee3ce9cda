"""Tiny data, tiny runs, and how to compare two of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from torchfru.data import SequenceData, Split
from torchfru.training import (
    DataConfig,
    Hook,
    ModelConfig,
    Run,
    RunConfig,
    Training,
    TrainingConfig,
    run_experiment,
)

ROOT = Path(__file__).parents[1]

SIZES: dict[str, Any] = {"hidden_size": 6, "num_freqs": 4, "freq_dim": 2, "gate_size": 3}
TINY = [
    "model.hidden_size=6",
    "model.num_freqs=4",
    "model.freq_dim=2",
    "model.gate_size=3",
    "model.dropout=0.2",
    "data.size=60",
    "data.length=12",
    "training.batch_size=7",
]

TINY_GRU = [TINY[0], *TINY[4:]]  # without what only an FRU has


def toy(task: str = "classify", n: int = 30, steps: int = 6) -> SequenceData:
    """A data set of a task, ragged where the task allows it."""
    make = torch.Generator().manual_seed(1)
    x = torch.randn(n, steps, 2, generator=make)
    lengths = torch.randint(1, steps + 1, (n,), generator=make)
    targets = {
        "classify": (x[:, 0, 0] > 0).long(),
        "regress": x[:, 0, :1] * 2,
        "predict": x.roll(1, dims=1)[..., :1],
        "tag": torch.where(torch.arange(steps) < 2, -100, (x[..., 0] > 0).long()),
    }[task]
    vocab = None
    if task == "tag":
        x, vocab = (x[..., 0] > 0).long(), 2
    cut = n * 2 // 3
    parts = [
        Split(x[chosen], targets[chosen], None if task == "tag" else lengths[chosen])
        for chosen in (slice(cut), slice(cut, None))
    ]
    outputs = 2 if task in ("classify", "tag") else 1
    return SequenceData(
        name="toy",
        task=task,  # type: ignore[arg-type]
        train=parts[0],
        test=parts[1],
        input_size=2,
        output_size=outputs,
        seq_len=steps,
        vocab_size=vocab,
        checksums={"toy": "0"},
    )


def toy_config(layer: str = "fru", **training: Any) -> RunConfig:
    settings = {"lr": 0.01, "batch_size": 8, "epochs": 3} | training
    model = ModelConfig(layer, dropout=0.2, embedding_size=3, **SIZES)
    return RunConfig(DataConfig("toy"), model, TrainingConfig(**settings))


def toy_run(folder: Path, config: RunConfig, **options: Any) -> Any:
    run = Run("toy", config.model.layer, 0, config, folder / "results")
    data = options.pop("data", None) or toy()
    return run_experiment(run, data=data, accelerator="cpu", **options)


class Cut(Hook):
    """Ends a run in the middle of an epoch, as a kill would."""

    def __init__(self, epoch: int, batch: int) -> None:
        self.at = (epoch, batch)

    def on_batch(self, training: Training) -> None:
        if (len(training.epochs), (training.step - 1) % len(training.train_batches)) == self.at:
            raise InterruptedError


def with_training(config: RunConfig, **changes: Any) -> RunConfig:
    return replace(config, training=replace(config.training, **changes))


def numbers(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The epochs without their seconds: equal in two equal runs."""
    return [{k: v for k, v in epoch.items() if k != "seconds"} for epoch in record["epochs"]]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "torchfru", *arguments]


def torchfru_command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, **options)


def python_command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A program of this repository, in its folder."""
    program = [sys.executable, *arguments]
    return subprocess.run(program, capture_output=True, text=True, cwd=ROOT, **options)


def torchfru_here(*arguments: str) -> str:
    """The command in this process, which saves the imports."""
    from typer.testing import CliRunner

    from torchfru import cli

    done = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The output of a process until its end; one that hangs is made to say where."""
    try:
        return process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        raise AssertionError(f"hangs: {process.communicate()[1]}") from None


def tiny_arguments(results: Path, *more: str, epochs: int = 6) -> list[str]:
    """``torchfru train`` of a run that takes less than a second."""
    fixed = ["train", "mix-poly-5", "--results", str(results), "--epochs", str(epochs)]
    changed = [part for setting in TINY for part in ("--set", setting)]
    return [*fixed, "--threads", "1", "--accelerator", "cpu", *changed, *more]


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())
