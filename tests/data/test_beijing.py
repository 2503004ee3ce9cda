"""Beijing's temperature from a small made table, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from data_helpers import SMALL_HOURS, beijing_rows, make_beijing

from torchfru.data import DataError, load, temperature


@pytest.fixture(scope="module")
def rows():
    return beijing_rows()


def test_hourly(tmp_path, monkeypatch, rows):
    make_beijing(tmp_path, monkeypatch, rows)
    series = temperature(start=2010, end=2010, data_dir=tmp_path)
    assert series.dtype == np.float64
    np.testing.assert_array_equal(series, np.arange(365 * 24) % 24)
    data = load("beijing", data_dir=tmp_path, end=2010)
    assert (data.task, data.seq_len, data.input_size, data.output_size) == ("predict", 168, 1, 1)
    assert torch.equal(data.train.inputs[:, 1:], data.train.targets[:, :-1])
    degrees = data.test.targets * data.scaling.std[0] + data.scaling.mean[0]
    np.testing.assert_allclose(degrees[0, :24, 0], np.arange(24), atol=1e-4)  # 7008 = 0 mod 24


def test_daily(tmp_path, monkeypatch, rows):
    make_beijing(tmp_path, monkeypatch, rows)
    series = temperature(every="day", start=2010, end=2010, data_dir=tmp_path)
    np.testing.assert_allclose(series, np.full(365, 11.5))
    data = load("beijing", every="day", end=2010, data_dir=tmp_path)
    assert data.train.inputs.shape == (9, 30, 1)
    assert data.test.inputs.shape == (2, 30, 1)
    assert load("beijing", every="day", end=2010, length=7, data_dir=tmp_path).seq_len == 7


def test_years(tmp_path, monkeypatch, rows):
    make_beijing(tmp_path, monkeypatch, rows)
    assert len(temperature(start=2011, end=2011, data_dir=tmp_path)) == 48
    assert len(temperature(start=2010, end=2011, data_dir=tmp_path)) == SMALL_HOURS


def test_missing_hours_are_filled_in(tmp_path, monkeypatch, rows):
    rows = list(rows)
    for i, missing in ((1, "NA"), (6, "NA"), (7, ""), (SMALL_HOURS, "NA")):
        cells = rows[i].split(",")
        cells[7] = missing
        rows[i] = ",".join(cells)
    make_beijing(tmp_path, monkeypatch, rows)
    series = temperature(start=2010, end=2011, data_dir=tmp_path)
    assert series[0] == 1  # the nearest that is known
    np.testing.assert_allclose(series[4:8], [4, 5, 6, 7])
    assert series[-1] == 22


def without(rows, i):
    return rows[:i] + rows[i + 1 :]


def changed(rows, i, column, value):
    cells = rows[i].split(",")
    cells[column] = value
    return [*rows[:i], ",".join(cells), *rows[i + 1 :]]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda r: without(r, 5), "8807 hours, expected 8808"),
        (lambda r: [*r[:4], r[5], r[4], *r[6:]], "row 4 is 2010-01-01T04, not 2010-01-01T03"),
        (lambda r: changed(r, 9, 7, "warm"), "line 10: TEMP is 'warm', not a temperature"),
        (lambda r: changed(r, 9, 7, "inf"), "line 10: TEMP is 'inf', not a temperature"),
        (lambda r: changed(r, 9, 7, "1e999"), "line 10: TEMP is '1e999', not a temperature"),
        (lambda r: changed(r, 9, 7, "-1100"), "line 10: TEMP is '-1100', not a temperature"),
        (lambda r: changed(r, 9, 4, "noon"), "line 10 has no date and hour"),
        (lambda r: changed(r, 9, 2, "13"), "line 10 has no date and hour"),
        (lambda r: [*r[:9], "9,2010", *r[10:]], "line 10 has no date and hour"),
        (lambda r: changed(r, 0, 7, "temp"), "no column TEMP"),
        (lambda r: ["<html>not here</html>"], "no column year, month, day, hour, TEMP"),
        (lambda r: [], "no column year"),
        (lambda r: [r[0]], "0 hours, expected 8808"),
        (
            lambda r: [r[0], *(changed([row], 0, 7, "NA")[0] for row in r[1:])],
            "no temperature at all",
        ),
    ],
)
def test_bad_tables_are_refused(tmp_path, monkeypatch, rows, spoil, message):
    path = make_beijing(tmp_path, monkeypatch, spoil(rows))
    with pytest.raises(DataError, match=message) as error:
        load("beijing", data_dir=tmp_path, end=2010)
    assert str(error.value).startswith(f"{path}: ")
    assert "torchfru data fetch beijing" in str(error.value)
    assert "\n" not in str(error.value)


def test_not_a_text_file(tmp_path, monkeypatch, rows):
    path = make_beijing(tmp_path, monkeypatch, rows)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not a text file"):
        temperature(data_dir=tmp_path, end=2010)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": "week"}, "every must be one of 'hour', 'day'; got 'week'"),
        ({"start": 2009}, "2010 <= start <= end <= 2014 must hold, got start=2009"),
        ({"start": 2013, "end": 2012}, "got start=2013, end=2012"),
        ({"end": 2015}, "end=2015"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        load("beijing", **options)
