"""Reading a large file takes little more memory than its numbers do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CHANNELS = 500
LIMIT = 2000  # MB, for a file of 1 GB

# Peak memory of the process, after the imports and after the work.
PROGRAM = """
import resource, sys
import torchfru.training, torchfru.cli
from torchfru.data import load
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
before = peak()
data = load(sys.argv[1])
print(before, peak(), data.train.inputs.numel() + data.test.inputs.numel())
"""


def write(path: Path, megabytes: int) -> None:
    """A table of a series, or an archive of sequences."""
    rng = np.random.default_rng(0)
    if path.suffix == ".npz":
        n = megabytes * 1_000_000 // (4 * 100 * 250)
        values = rng.random((n, 100, 250), dtype=np.float32)
        np.savez(path, sequences=values, labels=np.arange(n) % 2)
        return
    rows = [",".join(f"{v:.6f}" for v in rng.normal(size=CHANNELS)) + "\n" for _ in range(50)]
    with path.open("w") as file:
        file.write(",".join(f"c{i}" for i in range(CHANNELS)) + "\n")
        for i in range(megabytes * 1_000_000 // len(rows[0])):
            file.write(rows[i % 50])


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_reading_takes_little_more_than_the_numbers(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    write(path, 40)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True
    )
    before, after, numbers = map(float, done.stdout.split())
    least = numbers * (8 if suffix == "csv" else 4) / 1e6  # MB of the numbers themselves
    assert after - before < least + 80  # some blocks of text, and what torch touches first


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_a_file_of_a_gigabyte(tmp_path, suffix):
    """Training and predicting, all of it, as a user would."""
    path = tmp_path / f"x.{suffix}"
    write(path, 1000)
    small = ("--model", "gru", "--epochs", "1", "--set", "model.hidden_size=4")
    folder = ("--results", str(tmp_path / "results"), "--accelerator", "cpu")
    trained = peak_of("train", str(path), *small, *folder)
    (model,) = (tmp_path / "checkpoints").rglob("last.safetensors")
    predicted = peak_of("predict", str(model), "--input", str(path), "--json")
    print(f"{suffix}: train {trained:.0f} MB, predict {predicted:.0f} MB")
    assert max(trained, predicted) < LIMIT


def peak_of(*arguments: str) -> float:
    """The peak memory of a command, in MB."""
    program = (
        "import json, resource, subprocess, sys\n"
        "subprocess.run(json.loads(sys.argv[1]), check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000)"
    )
    command = json.dumps([sys.executable, "-m", "torchfru", *arguments])
    measured = [sys.executable, "-c", program, command]
    return float(subprocess.run(measured, capture_output=True, text=True, check=True).stdout)
