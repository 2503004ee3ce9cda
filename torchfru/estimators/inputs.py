"""Sequences in the forms that programs have them in, as one array and their lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..data.arrays import Array

LAYOUTS = ("channels_last", "channels_first")


def read_sequences(estimator: Any, X: Any, reset: bool = False) -> tuple[Array, Array | None]:
    """Values (n, T, C) float32, and the lengths (n,) where they differ.

    X is (n, T), (n, T, C), or a list of n arrays (T_i,) or (T_i, C); with
    ``layout="channels_first"`` the last two axes are exchanged. ``reset`` is for fit: what comes
    later has to have as many steps and channels.
    """
    name, layout = type(estimator).__name__, estimator.layout
    if layout not in LAYOUTS:
        raise ValueError(f"{name}: layout must be one of {', '.join(LAYOUTS)}; got {layout!r}")
    if reset:
        estimator.ragged_ = is_ragged(X)
    lengths = None
    if estimator.ragged_ or is_ragged(X):
        values, lengths = _padded(name, X, layout)
        if reset:
            estimator.n_features_in_ = values.shape[1]
    else:
        three = (X if hasattr(X, "ndim") else np.asarray(X)).ndim == 3
        X = np.swapaxes(X, 1, 2) if three and layout == "channels_first" else X
        checks = {"dtype": "numeric", "ensure_all_finite": False, "allow_nd": three}
        values = validate_data(estimator, X, reset=reset, **checks)
        values = values.reshape(*values.shape[:2], -1)  # (n, T, C)
    if not values.size:
        raise ValueError(f"{name}: X holds no values, its shape is {values.shape}")
    return _finite(name, values, lengths), lengths


def is_ragged(X: Any) -> bool:
    """Whether X is a list of sequences whose lengths differ, or an array of objects that is one."""
    listed = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype.kind == "O")
    if not listed or any(np.ndim(x) == 0 for x in X):
        return False
    return len({np.shape(x) for x in X}) > 1


def _padded(name: str, X: Any, layout: str) -> tuple[Array, Array]:
    """Sequences of different lengths with zeros after their ends, (n, T, C), and their lengths."""
    rows = [np.asarray(x, dtype=np.float64) for x in X]
    rows = [row.T if layout == "channels_first" and row.ndim == 2 else row for row in rows]
    rows = [row[:, None] if row.ndim == 1 else row for row in rows]  # (T_i, C)
    shapes = {row.shape[1:] for row in rows}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise ValueError(
            f"{name}: every sequence of X must be (steps,) or (steps, channels) with as many "
            f"channels as the others; got the shapes {sorted({row.shape for row in rows})[:3]}"
        )
    lengths = np.array([len(row) for row in rows])
    if lengths.min() < 1:
        raise ValueError(
            f"{name}: sequence {int(lengths.argmin())} of X has no steps; leave it out"
        )
    values = np.zeros((len(rows), lengths.max(), *shapes.pop()))
    for row, into in zip(rows, values, strict=True):
        into[: len(row)] = row
    return values, lengths


def _finite(name: str, values: Array, lengths: Array | None) -> Array:
    """The values as float32, or an error that names the first one that is not finite."""
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(values, dtype=np.float32)
    good = np.isfinite(result)
    if good.all():
        return result
    i, step, channel = np.argwhere(~good)[0].tolist()
    value = values[i, step, channel]
    problem = "NaN" if np.isnan(value) else f"{value:g}, which is infinity in float32"
    raise ValueError(
        f"{name}: at sequence {i}, step {step}, channel {channel} X is {problem}; fill it in, or "
        "give sequences that end before it, as a list of arrays"
    )
