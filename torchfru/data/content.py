"""The content of a user's file: sequences with answers, or a series, out of arrays and tables."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..io import did_you_mean, printable
from .arrays import Array, DataError
from .npz import Npz
from .tables import LARGEST, Labels, Row, Table, is_empty, to_numbers

BLOCK_BYTES = 1 << 26  # checked or shuffled at a time


class Content(NamedTuple):
    """The numbers of a file.

    Sequences have values (N, L, C) float32, with zeros after each one's end, and lengths (N,).
    A series has values (T, C) float64 and no lengths.
    """

    values: Array
    lengths: Array | None = None
    labels: Array | None = None  # (N,) of class numbers
    classes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    targets: Array | None = None  # (N, n_out) of numbers

    @property
    def answers(self) -> Array:
        """The labels, or the targets."""
        found = self.labels if self.targets is None else self.targets
        assert found is not None
        return found


# .npz ------------------------------------------------------------------------------------


def npz_series(arrays: Npz) -> Content:
    series = arrays.numbers("series", np.float64)
    if series.ndim not in (1, 2) or not series.size:
        raise DataError(
            f"{arrays.path}: a series must be (T,) or (T, C), got the shape {series.shape}"
        )
    series = np.ascontiguousarray(series.reshape(len(series), -1))
    _check_finite(arrays.path, series)
    return Content(series)


def npz_sequences(arrays: Npz, prefix: str = "", labelled: bool = True) -> Content:
    """The sequences of a file, or of its part with this prefix, such as ``test_``."""
    path, names = arrays.path, list(arrays.members)
    labels, targets = _npz_answers(arrays, prefix) if labelled else (None, None)
    if f"{prefix}sequences" not in names or (labelled and labels is None and targets is None):
        answers = f" and {prefix}labels (classify) or {prefix}targets (regress)" if labelled else ""
        raise DataError(
            f"{path}: holds {printable(', '.join(names[:10])) or 'nothing'}; expected "
            f"{prefix}sequences{answers}, or series{' (forecast)' if labelled else ''}"
        )
    values = arrays.numbers(f"{prefix}sequences", np.float32)
    count = values.shape[:1] if labels is None else labels.shape
    count = count if targets is None else targets.shape[:1]
    if values.ndim not in (2, 3) or count != values.shape[:1]:
        kind = (
            "" if not labelled else " and labels (N,)" if targets is None else " and targets (N,)"
        )
        got = f"{values.shape} and {count}" if labelled else values.shape
        raise DataError(f"{path}: sequences must be (N, L) or (N, L, C){kind}, got {got}")
    if not values.size:
        raise DataError(f"{path}: holds no sequences, or empty ones, of the shape {values.shape}")
    n, steps = values.shape[:2]
    values = np.ascontiguousarray(values.reshape(n, steps, -1))  # (N, L, C)
    lengths = np.full(n, steps)
    if f"{prefix}lengths" in names:
        expected = f"({n},) whole numbers from 1 to {steps}"
        lengths = arrays.values(f"{prefix}lengths", "iu", expected)
        if lengths.shape != (n,) or bool(((lengths < 1) | (lengths > steps)).any()):
            raise DataError(f"{path}: lengths must be {expected}")
        lengths = lengths.astype(np.int64)
        values[np.arange(steps) >= lengths[:, None]] = 0  # padding may hold anything
    _check_finite(path, values)
    if labels is None:
        return Content(values, lengths, targets=targets)
    found = Labels(path)
    found.add((labels.astype(np.int64) if labels.dtype.kind == "b" else labels).tolist())
    return Content(values, lengths, *found.classes())


def _npz_answers(arrays: Npz, prefix: str) -> tuple[Array | None, Array | None]:
    """The labels (N,), or the targets (N, n_out), as far as they are there."""
    names = [f"{prefix}{kind}" for kind in ("labels", "targets")]
    if all(name in arrays.members for name in names):
        raise DataError(f"{arrays.path}: has labels and targets; leave one of them out")
    if names[0] in arrays.members:
        return arrays.values(names[0], "iufbUS", "whole numbers or names"), None
    if names[1] not in arrays.members:
        return None, None
    targets = arrays.numbers(names[1], np.float64)
    if targets.ndim not in (1, 2) or not targets.size:
        raise DataError(
            f"{arrays.path}: {names[1]} must be (N,) or (N, n_out), got the shape {targets.shape}"
        )
    targets = targets.reshape(len(targets), -1)
    _check_finite(arrays.path, targets)
    return None, targets


def _check_finite(path: Path, values: Array) -> None:
    """Refuse values that float32 cannot hold; a block of rows at a time, to save memory."""
    size = max(1, BLOCK_BYTES // (values.itemsize * values[0].size))
    for first in range(0, len(values), size):
        good = np.abs(values[first : first + size]) <= LARGEST
        if not good.all():
            row, *place = np.argwhere(~good)[0].tolist()
            raise DataError(
                f"{path}: the value at {[first + row, *place]} is missing, infinite or too large "
                "for float32; fill it in, or scale the values"
            )


# Tables ----------------------------------------------------------------------------------


def from_table(table: Table, label: str | None, target: str | None, column: str | None) -> Content:
    path, names = table.path, table.names
    for name in (label, target, column):
        if name is not None and name not in names:
            raise DataError(f"{path}: no column {name!r}; {did_you_mean(name, names)}")
    if column is not None:
        return table_series(table, (column,))
    if label is None and target is None:
        for usual in ("label", "target"):
            near = [name for name in names if name.lower() in (usual, f"{usual}s")]
            if near and usual not in names:
                raise DataError(
                    f"{path}: has a column {near[0]!r}; call it {usual}, or give "
                    f"data.{usual}={near[0]}"
                )
        if "label" in names and "target" in names:
            raise DataError(f"{path}: has the columns label and target; delete one of them")
        label, target = (usual if usual in names else None for usual in ("label", "target"))
    answer = label or target
    if answer is None:
        return table_series(table, names)
    columns = tuple(name for name in names if name != answer)
    return table_sequences(table, columns, answer, numeric=label is None)


def table_series(table: Table, columns: tuple[str, ...]) -> Content:
    content, done = bytearray(), 0
    for rows in table.select(columns):
        content += to_numbers(table.path, columns, done, rows).data
        done += len(rows)
    if not done or not columns:
        raise DataError(f"{table.path}: the table has no values; give it a row for each step")
    values = np.frombuffer(content, np.float64).reshape(done, len(columns))
    return Content(values, columns=columns)


def table_sequences(
    table: Table, columns: tuple[str, ...], answer: str | None = None, numeric: bool = False
) -> Content:
    """A sequence per row: its cells up to the empty ones at the end, or the list in its cell.

    The column ``answer`` has the labels, or the numeric targets.
    """
    path = table.path
    if not columns:
        raise DataError(f"{path}: the table has no columns of values")
    lists = len(columns) == 1 and columns[0] in table.lists
    content, ends, labels, targets = bytearray(), array("q"), Labels(path), bytearray()
    for rows in table.select(columns if answer is None else (*columns, answer)):
        cut = _listed if lists else _trimmed
        done = len(ends)
        cells = [cut(path, done + i + 1, row[: len(columns)]) for i, row in enumerate(rows)]
        content += to_numbers(path, () if lists else columns, done, cells).astype("f4").data
        ends.extend(map(len, cells))
        if answer is not None and numeric:
            targets += to_numbers(path, (answer,), done, [row[-1:] for row in rows]).data
        elif answer is not None:
            labels.add(row[-1].strip() if isinstance(row[-1], str) else row[-1] for row in rows)
    if not ends:
        raise DataError(f"{path}: the table has no rows; give it a row for each sequence")
    flat, lengths = np.frombuffer(content, np.float32), np.frombuffer(ends, np.int64)
    n, steps = len(lengths), int(lengths.max())
    if flat.size < n * steps:  # shorter sequences get zeros after their end
        padded = np.zeros((n, steps), np.float32)
        padded[np.arange(steps) < lengths[:, None]] = flat
        flat = padded
    values = flat.reshape(n, steps, 1)
    if numeric:
        numbers = np.frombuffer(targets, np.float64)[:, None]  # (N, 1)
        return Content(values, lengths, columns=columns, targets=numbers)
    codes, classes = (None, ()) if answer is None else labels.classes()
    return Content(values, lengths, codes, classes, columns)


def _trimmed(path: Path, number: int, row: Row) -> Row:
    """A row without the empty cells at its end."""
    end = len(row)
    while end and is_empty(row[end - 1]):
        end -= 1
    if not end:
        raise DataError(f"{path}: row {number} is a sequence without values; give it at least one")
    return row[:end]


def _listed(path: Path, number: int, row: Row) -> Row:
    """The list in the one cell of a row."""
    if not isinstance(row[0], list) or not row[0]:
        raise DataError(f"{path}: row {number} holds no list of at least one number; fill it in")
    return row[0]
