"""A user's file: sequences with labels, or one series, from .npz, .csv or .parquet.

Sequences with labels are to be classified; a series is to be forecast, a step ahead.

    .npz      ``sequences`` (N, L) or (N, L, C), ``labels`` (N,) and, if they differ,
              ``lengths`` (N,); or else ``series`` (T,) or (T, C)
    .csv,     a column ``label``: a row is a sequence, the other columns its values in order,
    .parquet  empty ones at the end of a shorter sequence; without it: a row is a step of a
              series, a column a channel. A parquet file may also have, besides ``label``, one
              column of lists.

Training and predicting read files with the same functions.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..io import did_you_mean, file_digest, file_problem, printable
from .arrays import (
    Array,
    DataError,
    floats,
    generator,
    integers,
    require_count,
    shuffled,
    train_size,
)
from .labels import Labels, array_classes
from .npz import Npz, open_npz
from .sequence import DataSpec, Reading, SequenceData, Split
from .series import forecast
from .tables import LARGEST, Row, Table, is_empty, open_table, select, to_numbers

SUFFIXES = (".npz", ".csv", ".parquet")
SHUFFLE_BYTES = 1 << 26  # taken at a time when rows change places


class Sequences(NamedTuple):
    """Sequences of a file: values (N, L, C) float32 with zeros after each one's end."""

    values: Array
    lengths: Array  # (N,)
    labels: Array | None = None  # (N,) of class numbers
    classes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


class Series(NamedTuple):
    """The series of a file: values (T, C) float64."""

    values: Array
    columns: tuple[str, ...] = ()


def user_file(
    path: Path,
    *,
    label: str | None = None,
    column: str | None = None,
    length: int = 100,
    test: float = 0.2,
    seed: int = 0,
) -> SequenceData:
    """The data set in a file.

    Args:
        label: the column of the labels, in a table; default: ``label``, if there is one.
        column: the one column of a table that is the series; default: all of them.
        length: the window in which a series is read.
        test: the part that is kept for the test: of a series the last, of sequences a random
            one, drawn from ``seed``.
    """
    require_count("length", length)
    if label is not None and column is not None:
        raise ValueError("label is for sequences and column for a series: give only one of them")
    _require_file(path)
    checksums = {path.name: file_digest(path)}
    if path.suffix == ".npz":
        if label is not None or column is not None:
            raise ValueError(f"{path}: label and column are for tables; an .npz has neither")
        with open_npz(path) as arrays:
            found = _npz_series(arrays) if "series" in arrays.names else _npz_sequences(arrays)
    else:
        with open_table(path) as table:
            found = _from_table(path, table, label, column)
    reading = Reading(label or "label", column, found.columns)
    if isinstance(found, Series):
        return forecast(
            path.stem, found.values, length=length, test=test, checksums=checksums, reading=reading
        )
    return _classify(path, found, reading, test=test, seed=seed, checksums=checksums)


def read_sequences(path: Path, spec: DataSpec) -> Sequences:
    """The sequences of a file to predict from, as the data of ``spec`` were read; no labels."""
    _require_file(path)
    reading = spec.reading or Reading()
    if path.suffix == ".npz":
        with open_npz(path) as arrays:
            if "series" in arrays.names and "sequences" not in arrays.names:
                series = _npz_series(arrays).values.astype(np.float32)[None]  # (1, T, C)
                return Sequences(series, np.array([series.shape[1]]))
            return _npz_sequences(arrays, labelled=False)
    with open_table(path) as table:
        columns = _trained_columns(path, table, reading, may_end_early=True)
        return _table_sequences(path, table, columns, None)


def holds_sequences(path: Path) -> bool:
    """Whether a file to predict from is an .npz of several sequences, and not of one series."""
    _require_file(path)
    if path.suffix != ".npz":
        return False
    with open_npz(path) as arrays:
        return "sequences" in arrays.names and "series" not in arrays.names


def read_series(path: Path, spec: DataSpec) -> Series:
    """The series of a file to forecast from, its channels in the order of training."""
    _require_file(path)
    reading = spec.reading or Reading()
    if path.suffix == ".npz":
        with open_npz(path) as arrays:
            return _npz_series(arrays)
    with open_table(path) as table:
        return _table_series(path, table, _trained_columns(path, table, reading))


def _require_file(path: Path) -> None:
    problem = file_problem(path)
    if problem is not None:
        raise DataError(f"{path}: {problem}")
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")


def _trained_columns(
    path: Path, table: Table, reading: Reading, may_end_early: bool = False
) -> tuple[str, ...]:
    """The columns of a table that the model was trained on, by name and in that order.

    Shorter sequences may leave out the last ones. Without a header, the place is the name.
    """
    given = tuple(name for name in table.names if name != reading.label)
    trained = reading.columns
    one_cell = may_end_early and len(trained) == 1  # a list, which rows of cells may replace
    if not trained or one_cell or (not table.header and len(given) == len(trained)):
        return given
    columns = trained[: len(given)] if may_end_early else trained
    for name in columns:
        if name not in given:
            raise DataError(
                f"{path}: no column {name!r}, which the model was trained on; "
                f"{did_you_mean(name, given)}"
            )
    if reading.column is None and len(given) > len(columns):
        other = next(name for name in given if name not in columns)
        raise DataError(
            f"{path}: the model was not trained on a column {other!r}; delete it, or name the "
            "columns as in training"
        )
    return columns


# .npz ------------------------------------------------------------------------------------


def _npz_series(arrays: Npz) -> Series:
    if "series" not in arrays.names:
        raise DataError(f"{arrays.path}: holds {_names(arrays)}; expected series")
    series = arrays.numbers("series", np.float64)
    if series.ndim not in (1, 2) or not series.size:
        raise DataError(
            f"{arrays.path}: a series must be (T,) or (T, C), got the shape {series.shape}"
        )
    series = np.ascontiguousarray(series.reshape(len(series), -1))
    _check_finite(arrays.path, series)
    return Series(series)


def _npz_sequences(arrays: Npz, labelled: bool = True) -> Sequences:
    path, names = arrays.path, arrays.names
    if "sequences" not in names or (labelled and "labels" not in names):
        raise DataError(
            f"{path}: holds {_names(arrays)}; expected sequences"
            + (" and labels (classify), or series (forecast)" if labelled else ", or series")
        )
    labels = arrays.values("labels", "iufbUS", "whole numbers or names") if labelled else None
    values = arrays.numbers("sequences", np.float32)
    if values.ndim not in (2, 3) or (labels is not None and labels.shape != values.shape[:1]):
        got = values.shape if labels is None else f"{values.shape} and {labels.shape}"
        raise DataError(
            f"{path}: sequences must be (N, L) or (N, L, C)"
            f"{'' if labels is None else ' and labels (N,)'}, got {got}"
        )
    if not values.size:
        raise DataError(f"{path}: holds no sequences, or empty ones, of the shape {values.shape}")
    n, steps = values.shape[:2]
    values = np.ascontiguousarray(values.reshape(n, steps, -1))  # (N, L, C)
    lengths = _npz_lengths(arrays, n, steps)
    _clear_padding(values, lengths)
    _check_finite(path, values)
    if labels is None:
        return Sequences(values, lengths)
    codes, classes = array_classes(path, labels)
    return Sequences(values, lengths, codes, classes)


def _npz_lengths(arrays: Npz, n: int, steps: int) -> Array:
    if "lengths" not in arrays.names:
        return np.full(n, steps)
    expected = f"({n},) whole numbers from 1 to {steps}"
    lengths = arrays.values("lengths", "iu", expected)
    if lengths.shape != (n,) or bool(((lengths < 1) | (lengths > steps)).any()):
        raise DataError(f"{arrays.path}: lengths must be {expected}")
    return lengths.astype(np.int64)


def _names(arrays: Npz) -> str:
    return printable(", ".join(arrays.names[:10])) or "nothing"


# Tables ----------------------------------------------------------------------------------


def _from_table(
    path: Path, table: Table, label: str | None, column: str | None
) -> Sequences | Series:
    for name in (label, column):
        if name is not None and name not in table.names:
            raise DataError(f"{path}: no column {name!r}; {did_you_mean(name, table.names)}")
    if column is not None:
        return _table_series(path, table, (column,))
    if label is None:
        near = [name for name in table.names if name.lower() in ("label", "labels")]
        if near and "label" not in table.names:
            raise DataError(
                f"{path}: has a column {near[0]!r}; call it label, or give data.label={near[0]}"
            )
        label = "label"
    if label not in table.names:
        return _table_series(path, table, table.names)
    columns = tuple(name for name in table.names if name != label)
    return _table_sequences(path, table, columns, label)


def _table_series(path: Path, table: Table, columns: tuple[str, ...]) -> Series:
    content, done = bytearray(), 0
    for rows in select(table, columns):
        content += to_numbers(path, columns, done, rows).data
        done += len(rows)
    if not done or not columns:
        raise DataError(f"{path}: the table has no values; give it a row for each step")
    return Series(np.frombuffer(content, np.float64).reshape(done, len(columns)), columns)


def _table_sequences(
    path: Path, table: Table, columns: tuple[str, ...], label: str | None
) -> Sequences:
    """A sequence per row: its cells up to the empty ones at the end, or the list in its cell."""
    if not columns:
        raise DataError(f"{path}: the table has no columns of values")
    lists = len(columns) == 1 and columns[0] in table.lists
    content, lengths, labels = bytearray(), array("q"), Labels(path)
    cut = _listed if lists else _trimmed
    for rows in select(table, columns if label is None else (*columns, label)):
        done = len(lengths)
        cells = [cut(path, done + i + 1, row[: len(columns)]) for i, row in enumerate(rows)]
        content += to_numbers(path, () if lists else columns, done, cells).astype("f4").data
        lengths.extend(map(len, cells))
        if label is not None:
            labels.add([row[-1] for row in rows])
    if not lengths:
        raise DataError(f"{path}: the table has no rows; give it a row for each sequence")
    ends = np.frombuffer(lengths, np.int64)
    values = _padded(np.frombuffer(content, np.float32), ends)
    if label is None:
        return Sequences(values, ends, columns=columns)
    return Sequences(values, ends, *labels.classes(), columns)


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


def _padded(flat: Array, lengths: Array) -> Array:
    """Sequences one after the other as (N, L, 1), with zeros after each one's end."""
    n, steps = len(lengths), int(lengths.max())
    if flat.size == n * steps:
        return flat.reshape(n, steps, 1)
    values = np.zeros((n, steps, 1), np.float32)
    values[np.arange(steps) < lengths[:, None], 0] = flat
    return values


# Both ------------------------------------------------------------------------------------


def _classify(
    path: Path,
    found: Sequences,
    reading: Reading,
    *,
    test: float,
    seed: int,
    checksums: dict[str, str],
) -> SequenceData:
    values, lengths, labels = found.values, found.lengths, found.labels
    assert labels is not None
    if len(labels) < 2:
        raise DataError(f"{path}: {len(labels)} sequences; training and test need at least 2")
    if len(found.classes) < 2:
        raise DataError(
            f"{path}: all labels are {printable(found.classes[0])}; to classify takes at least 2 "
            "classes"
        )
    order, n = shuffled(len(labels), generator(seed)), train_size(len(labels), test)
    _reorder(values, order)
    lengths, labels = lengths[order], labels[order]
    ragged = bool((lengths < values.shape[1]).any())

    def part(chosen: slice) -> Split:
        true = integers(lengths[chosen]) if ragged else None
        return Split(floats(values[chosen]), integers(labels[chosen]), true)

    return SequenceData(
        name=path.stem,
        task="classify",
        train=part(slice(n)),
        test=part(slice(n, None)),
        input_size=values.shape[2],
        output_size=len(found.classes),
        seq_len=values.shape[1],
        checksums=checksums,
        classes=found.classes,
        reading=reading,
    )


def _reorder(values: Array, order: Array) -> None:
    """Put the rows into another order in place, some columns at a time to save memory."""
    flat = values.reshape(len(values), -1)
    width = max(1, SHUFFLE_BYTES // (flat.itemsize * len(flat)))
    for first in range(0, flat.shape[1], width):
        flat[:, first : first + width] = flat[order, first : first + width]


def _clear_padding(values: Array, lengths: Array) -> None:
    """Set what follows the end of each sequence to zero, whatever it was."""
    if (lengths < values.shape[1]).any():
        values[np.arange(values.shape[1]) >= lengths[:, None]] = 0


def _check_finite(path: Path, values: Array) -> None:
    """Refuse what float32 cannot hold; a block of rows at a time, to save memory."""
    size = max(1, SHUFFLE_BYTES // (values.itemsize * max(1, values[0].size)))
    for first in range(0, len(values), size):
        good = np.abs(values[first : first + size]) <= LARGEST
        if not good.all():
            place = np.argwhere(~good)[0]
            place[0] += first
            raise DataError(
                f"{path}: the value at {place.tolist()} is missing, infinite or too large for "
                "float32; fill it in, or scale the values"
            )
