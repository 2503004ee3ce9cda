"""A user's own data: sequences with labels, or one series, from .npz, .csv or .parquet.

Sequences with labels are to be classified; a series is to be forecast, a step ahead.

    .npz      ``sequences`` (N, L) or (N, L, C), ``labels`` (N,) and, if they differ,
              ``lengths`` (N,); or else ``series`` (T,) or (T, C)
    .csv,     a column ``label``: a row is a sequence, the other columns its values in order,
    .parquet  empty ones at the end of a shorter sequence; without it: a row is a step of a
              series, a column a channel. A parquet file may also have, besides ``label``, one
              column of lists.
"""

from __future__ import annotations

import csv
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import Array, cut, file_sha256, floats, generator, integers, require_count, shuffled
from .errors import DataError
from .sequence import SequenceData, Split
from .series import forecast

SUFFIXES = (".npz", ".csv", ".parquet")
Columns = dict[str, list[Any]]


def own(
    path: Path,
    *,
    label: str = "label",
    column: str | None = None,
    length: int = 100,
    test: float = 0.2,
    seed: int = 0,
) -> SequenceData:
    """The data set in a file.

    Args:
        label: the column of the labels, in a table.
        column: the one column of a table that is the series; default: all of them.
        length: the window in which a series is read.
        test: the part that is kept for the test: of a series the last, of sequences a random
            one, drawn from ``seed``.
    """
    require_count("length", length)
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    checksums = {path.name: file_sha256(path)}
    if path.suffix == ".npz":
        found = _from_npz(path)
    else:
        table = read_csv(path) if path.suffix == ".csv" else read_parquet(path)
        found = _from_table(path, table, label, column)
    if isinstance(found, np.ndarray):
        _check_series(path, found)
        return forecast(path.stem, found, length=length, test=test, checksums=checksums)
    return _classify(path, *found, test=test, seed=seed, checksums=checksums)


def read_csv(path: Path) -> Columns:
    """The columns of a table, by name; a first row of numbers alone is data, not names."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV in UTF-8 ({error}); save it so") from error
    if not rows:
        raise DataError(f"{path}: the file is empty; give it a row for each sequence or step")
    names = [name.strip() for name in rows[0]]
    if all(map(_is_number, names)):
        names = [str(i) for i in range(len(names))]
    else:
        rows = rows[1:]
    if len(set(names)) < len(names):
        raise DataError(f"{path}: two columns have the same name; give each its own")
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise DataError(
                f"{path}: row {i + 1} of the data has {len(row)} cells, expected {len(names)}; "
                "fill up shorter rows with empty cells"
            )
    return {name: [row[i].strip() for row in rows] for i, name in enumerate(names)}


def read_parquet(path: Path) -> Columns:
    """The columns of a table, by name, by whichever of pyarrow and polars is installed."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ModuleNotFoundError:
        return _read_parquet_polars(path)
    try:
        return read_table(path).to_pydict()
    except (ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as parquet ({error}); write it again") from error


def _read_parquet_polars(path: Path) -> Columns:
    try:
        import polars
    except ModuleNotFoundError:
        raise DataError(
            f"{path}: to read parquet needs pyarrow or polars: pip install 'torchfru[parquet]'"
        ) from None
    try:
        return polars.read_parquet(path).to_dict(as_series=False)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path}: cannot be read as parquet ({error}); write it again") from error


Labelled = tuple[Array, Array, Array]  # (N, L, C), lengths (N,), labels (N,)


def _from_npz(path: Path) -> Labelled | Array:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: cannot be read as .npz of plain arrays ({error}); write it with np.savez, "
            "without objects"
        ) from error
    if "series" in arrays:
        return arrays["series"]
    if not {"sequences", "labels"} <= set(arrays):
        raise DataError(
            f"{path}: holds {', '.join(arrays) or 'nothing'}; expected sequences and labels "
            "(classify), or series (forecast)"
        )
    sequences, labels = arrays["sequences"], arrays["labels"]
    if sequences.ndim not in (2, 3) or labels.shape != sequences.shape[:1]:
        raise DataError(
            f"{path}: sequences must be (N, L) or (N, L, C) and labels (N,), got "
            f"{sequences.shape} and {labels.shape}"
        )
    n, steps = sequences.shape[:2]
    lengths = arrays.get("lengths", np.full(n, steps))
    whole = lengths.shape == (n,) and lengths.dtype.kind in "iu"
    if not whole or bool(((lengths < 1) | (lengths > steps)).any()):
        raise DataError(f"{path}: lengths must be ({n},) whole numbers from 1 to {steps}")
    return sequences.reshape(n, steps, -1), lengths, labels


def _from_table(path: Path, table: Columns, label: str, column: str | None) -> Labelled | Array:
    if column is not None and column not in table:
        raise DataError(f"{path}: no column {column!r}; it has {', '.join(table)}")
    if column is not None or label not in table:
        chosen = table if column is None else {column: table[column]}
        return np.array([_numbers(path, name, cells) for name, cells in chosen.items()]).T
    labels = np.array([str(value) for value in table[label]])
    values = {name: cells for name, cells in table.items() if name != label}
    rows = _listed(values) or [_trimmed(row) for row in zip(*values.values(), strict=True)]
    sequences = [_numbers(path, f"row {i + 1}", row) for i, row in enumerate(rows)]
    lengths = np.array([len(row) for row in sequences])
    if not len(lengths) or lengths.min() < 1:
        raise DataError(f"{path}: a sequence without values; each row needs at least one")
    padded = np.zeros((len(sequences), lengths.max(), 1))
    for target, row in zip(padded, sequences, strict=True):
        target[: len(row), 0] = row
    return padded, lengths, labels


def _classify(
    path: Path,
    sequences: Array,
    lengths: Array,
    labels: Array,
    *,
    test: float,
    seed: int,
    checksums: dict[str, str],
) -> SequenceData:
    if len(labels) < 2:
        raise DataError(f"{path}: {len(labels)} sequences; training and test need at least 2")
    padding = np.arange(sequences.shape[1]) >= lengths[:, None]  # (N, L)
    values = np.where(padding[:, :, None], 0.0, _real(path, "sequences", sequences))
    _check_finite(path, values)
    classes, targets = _classes(path, labels)
    order, n = shuffled(len(labels), generator(seed)), cut(len(labels), test)

    def part(chosen: Array) -> Split:
        true = integers(lengths[chosen]) if padding.any() else None
        return Split(floats(values[chosen]), integers(targets[chosen]), true)

    return SequenceData(
        name=path.stem,
        task="classify",
        train=part(order[:n]),
        test=part(order[n:]),
        input_size=values.shape[2],
        output_size=len(classes),
        seq_len=values.shape[1],
        checksums=checksums,
        classes=classes,
    )


def _classes(path: Path, labels: Array) -> tuple[tuple[str, ...], Array]:
    """The names of the classes, in order (numbers as numbers), and each label's place in them."""
    if labels.dtype.kind == "f" and not np.array_equal(labels, np.floor(labels)):
        raise DataError(f"{path}: labels must be whole numbers or names, got {labels[:3].tolist()}")
    numbers = labels.dtype.kind in "iufb" or all(map(_is_number, labels.tolist()))
    known, targets = np.unique(
        labels.astype(np.float64) if numbers else labels, return_inverse=True
    )
    if len(known) < 2:
        raise DataError(f"{path}: all labels are {labels[0]}; to classify takes at least 2 classes")
    names = (f"{value:g}" if numbers else str(value) for value in known.tolist())
    return tuple(names), targets.reshape(-1)


def _check_series(path: Path, series: Array) -> None:
    if series.ndim not in (1, 2) or not series.size:
        raise DataError(f"{path}: a series must be (T,) or (T, C), got the shape {series.shape}")
    _check_finite(path, _real(path, "series", series))


def _real(path: Path, name: str, values: Array) -> Array:
    if values.dtype.kind not in "iufb":
        raise DataError(f"{path}: {name} must hold numbers, got {values.dtype}")
    return values.astype(np.float64)


def _check_finite(path: Path, values: Array) -> None:
    if not np.isfinite(values).all():
        place = np.argwhere(~np.isfinite(values))[0].tolist()
        raise DataError(f"{path}: the value at {place} is missing or not finite; fill it in")


def _listed(columns: Columns) -> list[list[Any]] | None:
    """The one column of lists, if that is what the columns are."""
    only = next(iter(columns.values())) if len(columns) == 1 else []
    return only if only and all(isinstance(cell, list) for cell in only) else None


def _trimmed(row: Sequence[Any]) -> list[Any]:
    cells = list(row)
    while cells and _is_empty(cells[-1]):
        cells.pop()
    return cells


def _numbers(path: Path, where: str, cells: Sequence[Any]) -> list[float]:
    for i, cell in enumerate(cells):
        if not _is_number(cell):
            what = "missing" if _is_empty(cell) else f"{cell!r}, not a number"
            raise DataError(
                f"{path}: {where}, value {i + 1} is {what}; fill it in, or choose one column "
                "of a series with column="
            )
    return [float(cell) for cell in cells]


def _is_empty(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _is_number(cell: Any) -> bool:
    try:
        return math.isfinite(float(cell))
    except (TypeError, ValueError):
        return False
