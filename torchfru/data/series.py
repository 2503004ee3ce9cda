"""A time series as a data set: forecast the next value, trained on the past, tested after it."""

from __future__ import annotations

import numpy as np

from .arrays import Array, cut, floats, require_count
from .sequence import Scaling, SequenceData, Split


def forecast(
    name: str, series: Array, *, length: int, test: float, checksums: dict[str, str]
) -> SequenceData:
    """Windows of ``length`` steps over a series (T,) or (T, C); at each step predict the next.

    The last part of the series, ``test`` of it, is the test; every channel is shifted and
    scaled by the mean and standard deviation of the part before. Windows follow each other, so
    that each value is a target once; a rest too short for a window is left out, at the
    beginning of the training part and at the end of the test part.
    """
    require_count("length", length)
    series = np.asarray(series, dtype=np.float64).reshape(len(series), -1)  # (T, C)
    n = cut(len(series), test)
    room = min(n - 1, len(series) - n)
    if room < length:
        raise ValueError(
            f"{name}: length={length} is too long for a series of {len(series)} values with "
            f"test={test}; choose length={room} or less"
        )
    scaling = _scaling(series[:n])
    scaled = (series - scaling.mean) / scaling.std
    count = (n - 1) // length
    return SequenceData(
        name=name,
        task="predict",
        train=_windows(scaled[n - 1 - count * length : n], length),
        test=_windows(scaled[n - 1 :], length),  # its first target is the first test value
        input_size=series.shape[1],
        output_size=series.shape[1],
        seq_len=length,
        checksums=checksums,
        scaling=scaling,
    )


def _scaling(series: Array) -> Scaling:
    std = series.std(0)
    return Scaling(tuple(series.mean(0).tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def _windows(series: Array, length: int) -> Split:
    """As many windows as fit from the first value on: inputs, and targets a step later."""
    count = (len(series) - 1) // length
    inputs = series[: count * length].reshape(count, length, -1)
    targets = series[1 : count * length + 1].reshape(count, length, -1)
    return Split(floats(inputs), floats(targets))
