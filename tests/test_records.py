"""Run records: whole or not there, JSON that any reader takes."""

from __future__ import annotations

import json

import pytest

from paper.plan import Measurement, measurement_path
from torchfru.records import (
    RunResult,
    checkpoint_folder,
    iter_records,
    record_path,
    write_atomically,
)


def make() -> RunResult:
    epochs = [{"epoch": 1, "train_loss": float("nan"), "test_mse": 0.5, "seconds": 1.0}]
    return RunResult("copy", "fru", 3, {"training": {"epochs": 1}}, 12, epochs=epochs)


def test_round_trip(tmp_path):
    path = record_path(tmp_path, "copy", "fru", 3)
    assert path == tmp_path / "copy" / "fru-seed3.json"
    make().save(path)
    loaded = RunResult.load(path)
    assert loaded.last == {"epoch": 1, "train_loss": None, "test_mse": 0.5, "seconds": 1.0}
    assert list(iter_records(tmp_path)) == [path]
    json.loads(path.read_text(), parse_constant=pytest.fail)  # no NaN, which JSON has not


def test_measurement_round_trip(tmp_path):
    path = measurement_path(tmp_path, "beijing", "fits")
    assert path == tmp_path / "beijing" / "fits.json"
    Measurement("beijing", "fits", {"rmse": 1.5}, seconds=2.0).save(path)
    loaded = Measurement.load(path)
    assert (loaded.values, loaded.seconds) == ({"rmse": 1.5}, 2.0)
    assert not list(iter_records(tmp_path))
    with pytest.raises(ValueError, match="is not a run record: it has no config"):
        RunResult.load(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="is not a measurement: it has no experiment, name"):
        Measurement.load(path)


def test_a_later_version_may_add_fields(tmp_path):
    path = tmp_path / "x.json"
    make().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"new": 1}))
    assert RunResult.load(path).seed == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a run record"),
        ("[]", "it holds no JSON object"),
        ('{"seed": 1}', "it has no config"),
    ],
)
def test_a_broken_record_is_named(tmp_path, content, message):
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        RunResult.load(path)
    assert str(path) in str(error.value)
    with pytest.raises(ValueError, match="there is no run record"):
        RunResult.load(tmp_path / "none.json")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"


def test_checkpoints_live_beside_the_results(tmp_path):
    folder = checkpoint_folder(tmp_path / "results", "copy", "fru", 0)
    assert folder == tmp_path / "checkpoints" / "results" / "copy" / "fru-seed0"
