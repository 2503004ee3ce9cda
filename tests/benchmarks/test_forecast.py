"""The benchmark of forecasts, small, and the record that it left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import forecast
from torchfru import FRUForecaster

RECORD = Path(forecast.__file__).with_suffix(".json")


def test_a_series_is_measured_beside_naive_forecasts():
    model = FRUForecaster(3, max_steps=5, random_state=0, verbose=False)
    found = forecast.measure("lynx", forecast.SMALL["lynx"], model, 0.2)
    assert found["forecasts"] == 23 - 3 + 1
    assert set(found["errors"]) >= {"model", "last value", "ridge"}
    assert json.loads(json.dumps(found)) == found


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"ETTh1\.csv: no such file; put it there"):
        forecast.etth1(tmp_path)


def test_the_record_has_every_series_with_its_intervals():
    found = json.loads(RECORD.read_text())["forecasts"]
    assert {row["series"] for row in found} == {*forecast.SMALL, "ETTh1"}
    assert {(row["horizon"], row["refit"]) for row in found if row["series"] == "ETTh1"} == {
        (horizon, refit) for horizon in forecast.HORIZONS for refit in (False, True)
    }
    assert all(0.7 <= row["errors"]["model"]["coverage"] <= 0.9 for row in found)
