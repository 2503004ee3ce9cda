"""A time series as a data set: forecast the next value, trained on the past, tested after it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .arrays import Array, floats, require_count, train_size
from .sequence import Reading, Scaling, SequenceData, Split

BLOCK_VALUES = 1 << 20


def forecast(
    name: str,
    series: Array,
    *,
    length: int,
    test: float,
    checksums: dict[str, str],
    reading: Reading | None = None,
) -> SequenceData:
    """Windows of ``length`` steps over a series (T,) or (T, C); at each step predict the next.

    The last part of the series, ``test`` of it, is the test; every channel is shifted and
    scaled by the mean and standard deviation of the part before. Windows follow each other, so
    that each value is a target once; a rest too short for a window is left out, at the
    beginning of the training part and at the end of the test part.

    The memory of a float64 ``series`` is reused for the result: it is overwritten.
    """
    require_count("length", length)
    series = np.ascontiguousarray(series, dtype=np.float64).reshape(len(series), -1)  # (T, C)
    n = train_size(len(series), test)
    longest = min(n - 1, len(series) - n)
    if longest < length:
        raise ValueError(
            f"{name}: length={length} is too long for a series of {len(series)} values with "
            f"test={test}; choose length={longest} or less"
        )
    scaling = _scaling(series[:n])
    scaled = _scaled(name, series, scaling)
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
        reading=reading,
    )


def _scaling(series: Array) -> Scaling:
    """Mean and standard deviation of each channel, block by block to save memory."""
    mean = sum(block.sum(0) for block in _blocks(series)) / len(series)
    variance = sum(np.square(block - mean).sum(0) for block in _blocks(series)) / len(series)
    std = np.sqrt(variance)
    return Scaling(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def _scaled(name: str, series: Array, scaling: Scaling) -> Array:
    """The scaled series as float32 (T, C), written over the float64 values."""
    result = series.reshape(-1).view(np.float32)[: series.size].reshape(series.shape)
    done = 0
    for block in _blocks(series):
        scaled = (block - scaling.mean) / scaling.std  # read before its bytes are overwritten
        if not (np.abs(scaled) <= np.finfo(np.float32).max).all():
            raise ValueError(
                f"{name}: a value lies too far from those of the training part to be scaled to "
                "float32; correct it, or leave it out"
            )
        result[done : done + len(block)] = scaled
        done += len(block)
    return result


def _blocks(series: Array) -> Iterator[Array]:
    rows = max(1, BLOCK_VALUES // series.shape[1])
    return (series[first : first + rows] for first in range(0, len(series), rows))


def _windows(series: Array, length: int) -> Split:
    """As many windows as fit from the first value on: inputs, and targets a step later."""
    count = (len(series) - 1) // length
    inputs = series[: count * length].reshape(count, length, -1)
    targets = series[1 : count * length + 1].reshape(count, length, -1)
    return Split(floats(inputs), floats(targets))
