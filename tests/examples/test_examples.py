"""Every example runs, and says what it found."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from training_helpers import python_command

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "demo.py")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.export uses torch.jit
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_an_example_runs(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_the_demo_shows_a_table_and_a_plot(tmp_path):
    plot = tmp_path / "new" / "demo.png"
    small = python_command(
        "examples/demo.py", "--size", "20", "--seconds", "0.1", "--plot", str(plot)
    )
    assert small.returncode == 0, small.stderr
    assert {"LSTM", "GRU", "FRU"} <= set(small.stdout.split())
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    failed = python_command("examples/demo.py", "--plot", str(tmp_path / "file" / "demo.png"))
    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: ")
    assert "Traceback" not in failed.stderr
