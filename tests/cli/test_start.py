"""The command line starts at once: help and lists need no torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "lightning", "matplotlib", "optuna", "numba", "pyarrow")


@pytest.mark.parametrize(
    "arguments", ["--help", "--version", "train --help", "predict --help", "data --help", "runs"]
)
def test_nothing_heavy_is_imported(tmp_path, arguments):
    program = f"""
import sys
from torchfru.__main__ import main
sys.argv = ["torchfru", *{arguments.split()!r}]
try:
    main()
finally:
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    print("imported:", *heavy, file=sys.stderr)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "imported:\n"


def test_help_takes_little_time(tmp_path):
    """Processor time of the children, which other processes do not change much."""
    program = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "torchfru", "--help"], check=True, stdout=-3)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""
    times = [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 0.3
