"""Predictions in files: a column for each class or channel, whatever the format."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow.parquet import read_table
from training_helpers import torchfru_here
from typer.testing import CliRunner

from torchfru import cli
from torchfru.data.user_file import read_inputs
from torchfru.training.trained import load_trained

SMALL = ["--set", "model.hidden_size=4", "--threads=1", "--accelerator=cpu", "--epochs=1"]


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file with every cell as text."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    rows = (
        read_table(path).to_pylist() if path.suffix == ".parquet" else json.loads(path.read_text())
    )
    return [{name: str(value) for name, value in row.items()} for row in rows]


def trained(folder: Path, name: str, *settings: str) -> str:
    place = ["--results", str(folder / "results"), "--model", "gru"]
    chosen = [part for setting in settings for part in ("--set", setting)]
    torchfru_here("train", str(folder / name), *place, *SMALL, *chosen)
    (record,) = (folder / "results").glob("*/gru-seed0.json")
    return str(record)


def predicted(run: str, path: Path, output: Path) -> list[dict[str, str]]:
    torchfru_here("predict", run, str(path), "--output", str(output))
    return read_rows(output)


def test_every_class_has_a_column_in_every_format(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 3)).round(3)
    names = ["no", "yes, but", '<"b">']
    lines = [
        ",".join([f'"{names[i % 3]!s}"'.replace('"b"', '""b""'), *map(str, row)])
        for i, row in enumerate(x)
    ]
    (tmp_path / "x.csv").write_text("kind,a,b,c\n" + "\n".join(lines) + "\n")
    run = trained(tmp_path, "x.csv", "data.label=kind")
    with_labels = predicted(run, tmp_path / "x.csv", tmp_path / "out" / "x.csv")
    raw = "\n".join(",".join(map(str, row)) for row in x)
    (tmp_path / "raw.csv").write_text(f"a,b,c\n{raw}\n")
    for suffix in (".csv", ".parquet", ".json"):
        assert predicted(run, tmp_path / "raw.csv", tmp_path / f"out{suffix}") == with_labels
    saved = load_trained(run, tmp_path)
    with torch.no_grad():
        chances = saved.model(read_inputs(tmp_path / "raw.csv", saved.data).inputs).softmax(-1)
    classes = saved.data.classes
    assert set(classes) == set(names)
    columns = ["sequence", "class", "probability", *(f"probability_of_{name}" for name in classes)]
    assert [*with_labels[0]] == columns
    for row, expected in zip(with_labels, chances.tolist(), strict=True):
        found = [float(row[f"probability_of_{name}"]) for name in classes]
        assert found == pytest.approx(expected, abs=1e-5)
        assert row["class"] == classes[int(np.argmax(expected))]
        assert float(row["probability"]) == max(found)


def test_the_forecast_of_each_column(tmp_path):
    rows = "\n".join(f"{np.sin(i):.4f},{i}" for i in range(60))
    (tmp_path / "x.csv").write_text(f"up,down\n{rows}\n")
    run = trained(tmp_path, "x.csv", "data.length=5", "data.horizon=3", "training.steps=2")
    rows = predicted(run, tmp_path / "x.csv", tmp_path / "y.csv")
    bounds = [f"{kind}_{name}" for kind in ("value", "low", "high") for name in ("up", "down")]
    assert [*rows[0]] == ["step", *bounds]
    assert [row["step"] for row in rows] == ["1", "2", "3"]
    assert all(float(r["low_up"]) < float(r["value_up"]) < float(r["high_up"]) for r in rows)
    assert predicted(run, tmp_path / "x.csv", tmp_path / "y.parquet") == rows
    shown = torchfru_here("predict", run, str(tmp_path / "x.csv"))
    assert "value_down" in shown


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("x.csv", "--output: .*x.csv is the file to predict from; choose another name"),
        ("out.xls", r"--output: .*out.xls must end in .csv, .parquet, .json"),
        (
            "a-file/out.csv",
            r"a-file: cannot be written \(Not a directory\); choose another folder ",
        ),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_the_work(tmp_path, output, message):
    (tmp_path / "a-file").touch()
    arguments = [
        "predict",
        "no-such-run",
        str(tmp_path / "x.csv"),
        "--output",
        str(tmp_path / output),
    ]
    done = CliRunner().invoke(cli.app, arguments)
    with pytest.raises(Exception, match=message):
        raise done.exception
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]


def test_one_file_is_needed():
    for files in ([], ["x.csv", "--input", "y.csv"]):
        done = CliRunner().invoke(cli.app, ["predict", "run", *files])
        assert "predict needs one file" in str(done.exception)
