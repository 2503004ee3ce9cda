"""Series, dates and covariates in the forms that programs have them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.arrays import Array

# The cycles of a calendar: the unit of its phase, and the length in seconds
CYCLES = {"day": 86_400.0, "week": 7 * 86_400.0, "year": 365.2425 * 86_400.0}


@dataclass(frozen=True)
class SeriesSet:
    """Series as arrays (T_i, C) of float64, and the form that forecasts are given back in.

    Attributes:
        form: "one" for (T,), "channels" for (T, C), "list" for several series.
        steps: T, of the one series.
        dates: (T_i,) datetime64 for each series, or None.
        pandas: an empty pandas object of the form of a forecast, or None.
    """

    values: list[Array]
    form: str
    steps: int
    dates: list[Array] | None = None
    pandas: Any = None

    @property
    def channels(self) -> int:
        return self.values[0].shape[1]

    def tail(self, steps: int) -> SeriesSet:
        """The same with the last steps only."""
        dates = None if self.dates is None else [one[-steps:] for one in self.dates]
        values = [one[-steps:].copy() for one in self.values]
        return replace(self, values=values, dates=dates)

    def like(self, forecasts: Sequence[Array]) -> Any:
        """Forecasts (H, C) of each series in the form of the series."""
        if self.form == "list":
            return [one[:, 0] if one.shape[1] == 1 else one for one in forecasts]
        (one,) = forecasts
        values = one[:, 0] if self.form == "one" else one
        if self.pandas is None:
            return values
        index = np.arange(self.steps, self.steps + len(values))
        if self.dates is not None:
            index = next_dates(self.dates[0], len(values))
        named = "name" if self.form == "one" else "columns"
        return type(self.pandas)(values, index=index, **{named: getattr(self.pandas, named)})


def read_series(name: str, series: Any, dates: Any = None) -> SeriesSet:
    """A series (T,) or (T, C), a pandas Series or DataFrame, or a list of series (T_i,)."""
    if _is_list_of_series(series):
        each = [read_series(name, one) for one in series]
        channels = {one.channels for one in each}
        if len(channels) > 1:
            raise ValueError(
                f"{name}: all series must have as many channels; got {sorted(channels)}"
            )
        known = [one.dates[0] for one in each if one.dates is not None]
        if dates is not None:
            pairs = zip(dates, each, strict=True)
            known = [_read_dates(name, one, x.steps) for one, x in pairs]
        values = [one.values[0] for one in each]
        return SeriesSet(values, "list", 0, known if len(known) == len(each) else None)
    array = _numbers(name, "series", series)
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(
            f"{name}: a series must be (steps,) or (steps, channels); got the shape {array.shape}"
        )
    is_pandas = hasattr(series, "iloc")
    index = getattr(series, "index", None) if is_pandas and dates is None else dates
    if is_pandas and dates is None and not hasattr(index, "day_of_year"):
        index = None  # not a DatetimeIndex
    return SeriesSet(
        [array.reshape(len(array), -1)],
        "one" if array.ndim == 1 else "channels",
        len(array),
        None if index is None else [_read_dates(name, index, len(array))],
        series.iloc[:0] if is_pandas else None,
    )


def _is_list_of_series(series: Any) -> bool:
    return isinstance(series, list | tuple) and len(series) > 0 and np.ndim(series[0]) > 0


def _numbers(name: str, what: str, values: Any) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}: the {what} must hold numbers only; leave out columns of text or dates"
        ) from None
    bad = ~np.isfinite(array)
    if bad.any():
        place = np.argwhere(bad)[0].tolist()
        raise ValueError(
            f"{name}: the {what} has a value that is missing or not finite at step {place[0]}; "
            "fill it in first, for example by interpolation"
        )
    return array


def read_covariates(name: str, covariates: Any, lengths: Sequence[int]) -> list[Array]:
    """Covariates (T_i, m) for each series, from one table or a list of them; [] for None."""
    if covariates is None:
        return []
    listed = isinstance(covariates, list | tuple) and np.ndim(covariates[0]) == 2
    tables = covariates if listed else [covariates] * len(lengths)
    if len(tables) != len(lengths):
        raise ValueError(
            f"{name}: {len(lengths)} series need as many tables of covariates; got {len(tables)}"
        )
    found = []
    for table, steps in zip(tables, lengths, strict=True):
        array = _numbers(name, "table of covariates", table)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or len(array) != steps:
            raise ValueError(
                f"{name}: covariates must have {steps} rows, one for each step; got the shape "
                f"{array.shape}"
            )
        found.append(array)
    return found


# Dates ----------------------------------------------------------------------------------------


def _read_dates(name: str, dates: Any, steps: int) -> Array:
    try:
        array = np.asarray(dates).astype("datetime64[s]")
    except (TypeError, ValueError):
        raise ValueError(f"{name}: dates must be dates, such as numpy.datetime64") from None
    if array.shape != (steps,):
        raise ValueError(f"{name}: {steps} steps need as many dates; got the shape {array.shape}")
    if steps > 1 and not (np.diff(array).astype(np.int64) > 0).all():
        raise ValueError(f"{name}: dates must increase from step to step; sort the series")
    return array


def next_dates(dates: Array, steps: int) -> Array:
    """The dates that follow: whole months later where they came by months, or as far apart.

    >>> dates = np.array(["2020-11-01", "2020-12-01"], "datetime64[s]")
    >>> next_dates(dates, 2).astype("datetime64[D]").tolist()
    [datetime.date(2021, 1, 1), datetime.date(2021, 2, 1)]
    """
    ahead = np.arange(1, steps + 1)
    months = dates.astype("datetime64[M]")
    between = np.diff(months).astype(np.int64)
    within = (dates - months.astype("datetime64[s]")).astype(np.int64)
    if len(dates) > 1 and between.min() == between.max() > 0 and within.min() == within.max():
        later = months[-1] + between[0] * ahead
        return later.astype("datetime64[s]") + np.timedelta64(int(within[0]), "s")
    return dates[-1] + ahead * np.timedelta64(step_seconds(dates), "s")


def step_seconds(dates: Array) -> int:
    """The usual time between two dates."""
    return int(np.median(np.diff(dates).astype(np.int64))) if len(dates) > 1 else 86_400


def usual_season(dates: Array) -> int:
    """The steps of the shortest cycle of the calendar that has several: a day, a week, a year.

    >>> usual_season(np.arange("2020-01", "2023-01", dtype="datetime64[M]").astype("datetime64[s]"))
    12
    """
    per_cycle = (round(length / step_seconds(dates)) for length in CYCLES.values())
    return next((steps for steps in per_cycle if 2 <= steps <= len(dates) // 2), 1)


def cycles_of(dates: Array) -> tuple[float, ...]:
    """The cycles, in seconds, that have several of these steps and are no longer than all."""
    span = float((dates[-1] - dates[0]).astype(np.int64))
    return tuple(one for one in CYCLES.values() if 2 * step_seconds(dates) <= one <= span)


def calendar_features(dates: Array, cycles: Sequence[float]) -> Array:
    """cos and sin of the time within each cycle: of the day, the week, the year, (T, 2 cycles)."""
    seconds = dates.astype("datetime64[s]").astype(np.int64).astype(np.float64)
    angles = [2 * np.pi * (seconds % length) / length for length in cycles]
    columns = [wave(angle) for angle in angles for wave in (np.cos, np.sin)]
    return np.stack(columns, 1) if columns else np.empty((len(dates), 0))
