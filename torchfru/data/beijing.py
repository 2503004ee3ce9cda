"""The temperature in Beijing, 2010 to 2014, by the hour or the day (UCI data set 381)."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from ..io import file_digest
from .arrays import Array, DataError, damaged, require_choice, sha256
from .files import Source, locate
from .sequence import SequenceData
from .series import forecast

NAME = "PRSA_data_2010.1.1-2014.12.31.csv"
URL = "https://archive.ics.uci.edu/static/public/381/beijing+pm2+5+data.zip"
START, HOURS = np.datetime64("2010-01-01T00"), 43_824
COLUMNS = ("year", "month", "day", "hour", "TEMP")
MISSING = ("", "NA", "NaN")
HOTTEST = 100  # degrees Celsius; nothing on Earth is hotter, or colder than its negative
WINDOW = {"hour": 168, "day": 30}  # default length: a week, a month


def sources() -> tuple[Source, ...]:
    """The one table; UCI hands it out in a zip archive and publishes no checksum."""
    return (Source("beijing", NAME, URL, check, member=NAME),)


def beijing(
    *,
    data_dir: Path | None = None,
    every: str = "hour",
    start: int = 2010,
    end: int = 2012,
    length: int | None = None,
    test: float = 0.2,
) -> SequenceData:
    """Forecast the temperature of the next hour or day, in windows of a week or a month.

    The last fifth of the years ``start`` to ``end`` is the test.
    """
    series = temperature(every=every, start=start, end=end, data_dir=data_dir)
    path = locate(sources()[0], data_dir)
    length = WINDOW[every] if length is None else length
    checksums = {path.name: file_digest(path)}
    return forecast("beijing", series, length=length, test=test, checksums=checksums)


def temperature(
    *, every: str = "hour", start: int = 2010, end: int = 2012, data_dir: Path | None = None
) -> Array:
    """The plain series in degrees Celsius, float64: a value for each hour, or each day's mean.

    Missing hours lie on the line between their neighbours.
    """
    require_choice("beijing: every", every, WINDOW)
    first, last = (int(str(time)[:4]) for time in (START, START + HOURS - 1))
    if not first <= start <= end <= last:
        raise ValueError(
            f"beijing: {first} <= start <= end <= {last} must hold, got start={start}, end={end}"
        )
    values, hours = read(locate(sources()[0], data_dir)), START + np.arange(HOURS)
    chosen = values[(hours >= np.datetime64(f"{start}")) & (hours < np.datetime64(f"{end + 1}"))]
    return chosen if every == "hour" else chosen.reshape(-1, 24).mean(1)


def check(path: Path) -> str:
    """The SHA-256 of the temperatures, if the file is whole."""
    return sha256(read(path))


def read(path: Path) -> Array:
    """All hours of the file as float64, missing ones filled in, if each hour is there once."""
    times, values = [], []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
            if missing:
                raise _wrong(path, f"no column {', '.join(missing)}")
            for row in table:
                values.append(_number(path, table.line_num, row["TEMP"]))
                times.append(_time(path, table.line_num, row))
    except UnicodeDecodeError as error:
        raise _wrong(path, f"not a text file (byte {error.start})") from error
    except csv.Error as error:
        raise _wrong(path, f"line {table.line_num} is not CSV") from error
    expected = START + np.arange(HOURS)
    if len(times) != HOURS:
        raise _wrong(path, f"{len(times)} hours, expected {HOURS}")
    wrong = np.flatnonzero(np.array(times) != expected)
    if len(wrong):
        row = wrong[0]
        raise _wrong(path, f"row {row + 1} is {times[row]}, not {expected[row]}")
    known, hours = np.isfinite(values), np.arange(HOURS)
    if not known.any():
        raise _wrong(path, "no temperature at all in column TEMP")
    return np.interp(hours, hours[known], np.array(values)[known])


def _wrong(path: Path, problem: str) -> DataError:
    return damaged(path, problem, "beijing")


def _number(path: Path, line: int, text: str | None) -> float:
    if text is None or text.strip() in MISSING:
        return float("nan")
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) <= HOTTEST:  # or not a number
        raise _wrong(path, f"line {line}: TEMP is {text!r}, not a temperature in degrees Celsius")
    return value


def _time(path: Path, line: int, row: dict[str, str]) -> np.datetime64:
    try:
        year, month, day, hour = (int(row[name]) for name in COLUMNS[:4])
        return np.datetime64(f"{year:04}-{month:02}-{day:02}T{hour:02}")
    except (ValueError, TypeError):
        raise _wrong(path, f"line {line} has no date and hour") from None
