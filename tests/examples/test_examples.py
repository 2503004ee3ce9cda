"""Every example runs, and says what it found."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from training_helpers import python_command

EXAMPLES = Path(__file__).parents[2] / "examples"
WITH_ARGUMENTS = ("demo", "frequencies")
SMALL = sorted(path for path in EXAMPLES.glob("*.py") if path.stem not in WITH_ARGUMENTS)
PICTURES = EXAMPLES.parent / "docs" / "figures" / "frequencies"


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


def test_the_pictures_of_the_basis_are_those_of_the_documentation(tmp_path):
    drawn = python_command("examples/frequencies.py", str(tmp_path))
    assert drawn.returncode == 0, drawn.stderr
    for path in tmp_path.iterdir():
        words = [
            re.findall("<text[^>]*>([^<]*)", p.read_text()) for p in (path, PICTURES / path.name)
        ]
        assert words[0] == words[1], path
        assert len(words[0]) > 5
    assert {path.name for path in tmp_path.iterdir()} == {p.name for p in PICTURES.iterdir()}
