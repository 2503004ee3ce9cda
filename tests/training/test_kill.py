"""kill -9 at random moments of train and sweep, then the same command: the same numbers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training_helpers import (
    TINY_GRU,
    command,
    finish,
    numbers,
    read,
    tiny_arguments,
    torchfru_command,
    torchfru_here,
)

SEED = int(os.environ.get("TORCHFRU_KILL_SEED", "0"))  # of the moments
EPOCHS = 60
GRID = ("--lr", "0.001,0.1", "--decay", "0.9,0.8")
SWEEP = """
import sys
from torchfru.training import sweep
sweep.ALIVE, sweep.DEAD = 1, 1
from torchfru.cli import run
run()
"""


def kill(arguments: list[str], folder: Path, moment: float) -> bool:
    """Kill the command; whether that was in time.

    ``moment`` is in seconds after its first checkpoint, or, if negative, after its start.
    """
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        started = time.time()
        while moment >= 0 and process.poll() is None:
            if any(p.stat().st_mtime >= started for p in checkpoints(folder).values()):
                break
            time.sleep(0.002)
        time.sleep(abs(moment))
        process.send_signal(signal.SIGKILL)
        _, errors = finish(process)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode != 0


def checkpoints(folder: Path) -> dict[str, Path]:
    """By the end of their path, from the experiment on."""
    found = folder.rglob("last.safetensors")
    return {"/".join(path.parts[-3:]): path for path in found}


def assert_same_files(folder: Path, other: Path) -> None:
    """The same weights and optimizer states, the same numbers in every record; nothing else."""
    first, second = checkpoints(folder), checkpoints(other)
    assert first.keys() == second.keys()
    assert first
    for name, path in first.items():
        here, there = load_file(path), load_file(second[name])
        assert here.keys() == there.keys()
        assert all(torch.equal(value, there[key]) for key, value in here.items()), name
    records = [sorted(where.rglob("*-seed0.json")) for where in (folder, other)]
    for here, there in zip(*records, strict=True):
        assert read(here)["status"] == read(there)["status"] == "finished"
        assert numbers(read(here)) == numbers(read(there)), here
    assert not list(folder.rglob("*.tmp"))


def kill_training(tmp_path: Path, moments: list[float]) -> int:
    arguments = tiny_arguments(tmp_path / "killed" / "results", "--resume", epochs=EPOCHS)
    kills = sum(kill(command(*arguments), tmp_path / "killed", moment) for moment in moments)
    assert torchfru_command(*arguments).returncode == 0
    torchfru_here(*tiny_arguments(tmp_path / "whole" / "results", epochs=EPOCHS))
    assert_same_files(tmp_path / "killed", tmp_path / "whole")
    return kills


def sweep_arguments(folder: Path) -> list[str]:
    changed = [part for setting in TINY_GRU for part in ("--set", setting)]
    arguments = ["sweep", "mix-poly-5", "--model", "gru", "--results", str(folder / "results")]
    arguments += ["--epochs", str(EPOCHS), *GRID, *changed, "--threads", "1"]
    return [*arguments, "--accelerator", "cpu"]


def kill_sweep(tmp_path: Path, moments: list[float]) -> int:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    arguments = [sys.executable, "-c", SWEEP, *sweep_arguments(killed)]
    kills = sum(kill(arguments, killed, moment) for moment in moments)
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    torchfru_here(*sweep_arguments(whole))
    assert_same_files(killed, whole)
    summaries = [read(folder / "results/mix-poly-5/sweep-gru-0.json") for folder in (killed, whole)]
    assert summaries[0]["points"] == summaries[1]["points"]
    assert [point["state"] for point in summaries[0]["points"]] == ["finished"] * 4
    return kills


def test_training_killed_and_resumed(tmp_path):
    random.seed(SEED)
    assert kill_training(tmp_path, [random.uniform(0, 0.15) for _ in range(3)]) == 3


def test_sweep_killed_and_resumed(tmp_path):
    random.seed(SEED)
    assert kill_sweep(tmp_path, [random.uniform(0, 0.15) for _ in range(2)]) == 2


@pytest.mark.long
@pytest.mark.parametrize("kill_command", [kill_training, kill_sweep])
def test_twenty_random_moments(tmp_path, kill_command):
    """Some while Python still imports, most of them while it trains, four to a run."""
    random.seed(SEED)
    kills = 0
    for part in range(5):
        moments = [random.uniform(0, 0.15) for _ in range(4)]
        moments[part % 4] = -random.uniform(0, 4)
        kills += kill_command(tmp_path / str(part), moments)
    assert kills == 20
