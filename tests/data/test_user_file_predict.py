"""``torchfru predict`` reads what ``torchfru train`` reads: the same files, as strictly."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from torchfru import cli

SMALL = ["model.hidden_size=4", "training.batch_size=16"]


def command(*arguments: object):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def trained(folder, name, *settings):
    """The checkpoint of a GRU that was trained on a file for an epoch."""
    chosen = [part for setting in (*SMALL, *settings) for part in ("--set", setting)]
    place = ("--results", folder / "results", "--accelerator", "cpu")
    done = command("train", folder / name, "--model", "gru", "--epochs", 1, *place, *chosen)
    assert done.exit_code == 0, done.exception
    (checkpoint,) = (folder / "checkpoints").rglob("last.safetensors")
    return checkpoint


def predictions(checkpoint, path):
    done = command("predict", checkpoint, "--input", path, "--json")
    assert done.exit_code == 0, done.exception
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))


def refusal(checkpoint, path) -> str:
    done = command("predict", checkpoint, "--input", path)
    assert done.exit_code == 1
    return str(done.exception)


def csv(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


ROWS = [[20230001 + i % 2, i, -i, i / 2] for i in range(20)]


def test_a_label_by_another_name(tmp_path):
    path = csv(tmp_path / "x.csv", "class,a,b,c", ROWS)
    checkpoint = trained(tmp_path, "x.csv", "data.label=class")
    found = predictions(checkpoint, path)
    assert len(found) == 20
    assert {row["class"] for row in found} <= {"20230001", "20230002"}
    unlabelled = csv(tmp_path / "y.csv", "a,b,c", [row[1:] for row in ROWS])
    assert predictions(checkpoint, unlabelled) == found
    turned = csv(tmp_path / "z.csv", "c,b,a", [row[:0:-1] for row in ROWS])
    assert predictions(checkpoint, turned) == found  # by name, not by place
    bare = csv(tmp_path / "bare.csv", "0,0,0.0", [row[1:] for row in ROWS[1:]])
    assert predictions(checkpoint, bare) == found
    other = csv(tmp_path / "other.csv", "a,b,c,id", [[*row[1:], 0] for row in ROWS])
    assert "not trained on a column 'id'" in refusal(checkpoint, other)
    gap = csv(tmp_path / "gap.csv", "a,c", [row[1::2] for row in ROWS])
    assert "no column 'b', which the model was trained on" in refusal(checkpoint, gap)


def test_one_column_of_a_table(tmp_path):
    rows = [[f"day {i}", np.sin(i), i] for i in range(60)]
    path = csv(tmp_path / "x.csv", "date,TEMP,other", rows)
    settings = ("data.column=TEMP", "data.length=5", "data.horizon=2")
    checkpoint = trained(tmp_path, "x.csv", *settings)
    found = predictions(checkpoint, path)
    assert [row["step"] for row in found] == [1, 2]
    assert [len(row["value"]) for row in found] == [1, 1]
    alone = csv(tmp_path / "y.csv", "TEMP", [[row[1]] for row in rows])
    assert predictions(checkpoint, alone) == found
    np.savez(tmp_path / "y.npz", series=np.sin(np.arange(60)))
    for row, same in zip(predictions(checkpoint, tmp_path / "y.npz"), found, strict=True):
        assert row["value"] == pytest.approx(same["value"])
    assert [row["value"][0] for row in found] == pytest.approx(np.sin([60, 61]), abs=0.1)
    np.savez(tmp_path / "w.npz", sequences=np.zeros((2, 5)))
    assert "forecasts a series of 1 channels" in refusal(checkpoint, tmp_path / "w.npz")
    short = csv(tmp_path / "short.csv", "TEMP", [[0], [1]])
    assert "has 2 steps, and the model reads the last 5" in refusal(checkpoint, short)
    missing = csv(tmp_path / "z.csv", "TMP", [[1]])
    assert "no column 'TEMP', which the model was trained on" in refusal(checkpoint, missing)


def test_channels_go_by_name(tmp_path):
    path = csv(tmp_path / "x.csv", "a,b", [[np.sin(i), i] for i in range(60)])
    checkpoint = trained(tmp_path, "x.csv", "data.length=5")
    turned = csv(tmp_path / "y.csv", "b,a", [[i, np.sin(i)] for i in range(60)])
    assert predictions(checkpoint, path) == predictions(checkpoint, turned)


def test_parquet_lists(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    columns = {
        "label": ["up", "down"] * 5,
        "values": [[1.0 * i, 2.0, 3.0][: 1 + i % 3] for i in range(10)],
    }
    write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    checkpoint = trained(tmp_path, "x.parquet")
    found = predictions(checkpoint, tmp_path / "x.parquet")
    assert len(found) == 10
    assert {row["class"] for row in found} <= {"up", "down"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,a,b,c\nx,1,nan,3\n", "row 1, column 'b' is 'nan', not a finite number"),
        ("label,a,b,c\nx,1,,3\n", "row 1, column 'b' is empty"),
        ("label,a,b,c\nx,1,1e39,3\n", "'1e39', too large for float32"),
        ("label,a,b,c\nx,,,\n", "row 1 is a sequence without values"),
        ("label,a,b,c\n", "the table has no rows"),
    ],
)
def test_what_training_refuses_is_refused(tmp_path_factory, checkpoint, text, message):
    path = tmp_path_factory.mktemp("bad") / "bad.csv"
    path.write_text(text)
    assert message in refusal(checkpoint, path)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    csv(folder / "x.csv", "label,a,b,c", ROWS)
    return trained(folder, "x.csv")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"sequences": np.full((2, 3), np.nan)}, "missing, infinite or too large"),
        ({"sequences": np.full((2, 3), 1e39)}, "missing, infinite or too large"),
        ({"sequences": np.ones((2, 3)), "lengths": np.array([1.5, 2.0])}, "whole numbers from 1"),
        ({"sequences": np.ones((2, 3)), "lengths": np.array([-1, 2])}, "whole numbers from 1"),
        ({"sequences": np.ones((2, 3)), "lengths": np.array([1, 4])}, "whole numbers from 1"),
        ({"sequences": np.ones((0, 3))}, "holds no sequences"),
        ({"sequences": np.array([["a"]])}, "must hold numbers"),
        ({"sequences": np.ones(3)}, r"sequences must be (N, L) or (N, L, C)"),
        ({"x": np.ones(3)}, "holds x; expected sequences, or series"),
    ],
)
def test_arrays_that_are_refused(tmp_path, checkpoint, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    assert message in refusal(checkpoint, tmp_path / "bad.npz")


def test_a_model_that_diverged_prints_no_nan(tmp_path, checkpoint):
    from torchfru.training.trained import load_trained, predict_file

    saved = load_trained(str(checkpoint), tmp_path)
    saved.model.members[0].head.bias.data.fill_(float("nan"))
    np.savez(tmp_path / "x.npz", sequences=np.ones((1, 3)))
    with pytest.raises(ValueError, match="output is not finite"):
        predict_file(saved, tmp_path / "x.npz")


def test_a_checkpoint_of_an_earlier_version(tmp_path, checkpoint):
    """It names neither the columns nor how they were read."""
    from torchfru.training.checkpoint import Checkpoint

    old = Checkpoint.load(checkpoint)
    del old.data["reading"]
    old.save(tmp_path / "old.safetensors")
    path = csv(tmp_path / "x.csv", "label,a,b,c", ROWS)
    assert predictions(tmp_path / "old.safetensors", path) == predictions(checkpoint, path)
