"""A user's table, .csv or .parquet, read strictly and a block of rows at a time; and its labels.

A block keeps memory low: Python's objects for the cells of a row take ten times the row's size.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..io import printable
from .arrays import Array, DataError

BLOCK_CELLS = 200_000
MOST_LISTED = 20  # columns that an error names
LARGEST = float(np.finfo(np.float32).max)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*", re.ASCII)
LONGEST_LINE = 1 << 20  # characters that are looked at for the mark between columns
NOT_LABELS = "labels must be whole numbers or names"
MISSING = ("", "na", "n/a", "nan", "null", "none")

Row = Sequence[Any]


class Table(NamedTuple):
    """The columns of a table and its rows, in blocks.

    ``header`` is False if the columns have no names: they are called 0, 1, 2 and so on. ``lists``
    names the columns whose cells are lists.
    """

    path: Path
    names: tuple[str, ...]
    header: bool
    blocks: Iterator[list[Row]]
    lists: frozenset[str] = frozenset()

    def select(self, columns: Sequence[str]) -> Iterator[list[Row]]:
        """The cells of some columns, in the given order, block by block."""
        if tuple(columns) == self.names:
            return self.blocks
        chosen = [self.names.index(name) for name in columns]
        return ([[row[i] for i in chosen] for row in block] for block in self.blocks)


def open_table(path: Path) -> AbstractContextManager[Table]:
    """Open a .csv or .parquet file."""
    return _open_csv(path) if path.suffix == ".csv" else _open_parquet(path)


@contextmanager
def _open_csv(path: Path) -> Iterator[Table]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            mark = _delimiter(file.readline(LONGEST_LINE))
            file.seek(0)
            reader = csv.reader(file, delimiter=mark, strict=True)
            rows = _without_blank_end(path, reader)
            if mark != ",":
                rows = _with_points(path, rows)
            first = next(rows, None)
            if first is None:
                raise DataError(f"{path}: the file is empty; give it a row per sequence or step")
            names = tuple(cell.strip() for cell in first)
            header = not all(map(is_number, names))  # a first row of numbers alone is data
            if header:
                if all(map(_is_like_number, names)):
                    raise DataError(
                        f"{path}: the first row is neither names nor numbers; fill in what is "
                        "missing in it"
                    )
                _check_names(path, names)
            else:
                names, rows = tuple(map(str, range(len(names)))), chain([first], rows)
            yield Table(path, names, header, _blocks(path, rows, len(names)))
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not UTF-8; save the file as CSV in UTF-8"
        ) from error
    except csv.Error as error:
        raise DataError(
            f"{path}: line {reader.line_num} is not CSV (a quote that is not closed, a zero byte "
            "or a cell of more than 131,072 characters); correct it"
        ) from error


def _delimiter(line: str) -> str:
    """The mark between columns by the first line: a comma, unless only another one makes sense.

    >>> [_delimiter(line) for line in ("a,b", "a;b", "1,5;2", "a;b,c")]
    [',', ';', ';', ',']
    """
    for mark in (";", "\t"):
        cells = line.rstrip("\r\n").split(mark)
        numbers = (DECIMAL_COMMA.fullmatch(cell) or is_number(cell) for cell in cells)
        if len(cells) > 1 and ("," not in line or all(numbers)):
            return mark
    return ","


def _with_points(path: Path, rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """The rows with points for decimal commas. With both in a file, a comma may mean thousands."""
    comma = point = None
    for row in rows:
        comma = comma or next(filter(DECIMAL_COMMA.fullmatch, row), None)
        point = point or next((cell for cell in row if "." in cell and is_number(cell)), None)
        if comma and point:
            raise DataError(
                f"{path}: has a number with a comma, {comma!r}, and one with a point, {point!r}; "
                "write all of them with points"
            )
        yield [cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell for cell in row]


def _without_blank_end(path: Path, reader: Any) -> Iterator[list[str]]:
    """The rows. A blank line before the last row would shift a series, so it is refused."""
    blank = None
    for row in reader:
        if not row:
            blank = blank or reader.line_num
        elif blank is not None:
            raise DataError(f"{path}: line {blank} is empty; fill it in, or delete it")
        else:
            yield row


def _check_names(path: Path, names: tuple[str, ...]) -> None:
    if "" in names:
        raise DataError(f"{path}: column {names.index('') + 1} has no name; name or delete it")
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DataError(f"{path}: two columns are called {name!r}; give each its own name")


def _blocks(path: Path, rows: Iterator[Row], width: int) -> Iterator[list[Row]]:
    size, done = max(1, BLOCK_CELLS // width), 0
    block: list[Row]
    while block := list(islice(rows, size)):
        for i, row in enumerate(block):
            if len(row) != width:
                raise DataError(
                    f"{path}: row {done + i + 1} of the data has {len(row)} cells, expected "
                    f"{width}; fill up shorter rows with empty cells"
                )
        done += len(block)
        yield block


@contextmanager
def _open_parquet(path: Path) -> Iterator[Table]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise DataError(
            f"{path}: to read parquet needs pyarrow: pip install 'torchfru[parquet]'"
        ) from None
    try:
        with ParquetFile(path) as file:
            names = tuple(file.schema_arrow.names)
            _check_names(path, names)
            lists = {item.name for item in file.schema_arrow if "list" in str(item.type)}
            size = max(1, BLOCK_CELLS // max(1, len(names)))
            columns = (batch.to_pydict().values() for batch in file.iter_batches(size))
            blocks: Iterator[list[Row]] = ([*zip(*cells, strict=True)] for cells in columns)
            yield Table(path, names, True, blocks, frozenset(lists))
    except (ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        raise DataError(
            f"{path}: cannot be read as parquet, or it is damaged; write it again"
        ) from error


def to_numbers(path: Path, columns: Sequence[str], done: int, rows: list[Row]) -> Array:
    """A block of cells as float64, flat; the first cell that is no number is named.

    ``done`` is the number of rows before this block. Rows may be shorter than ``columns``.
    """
    try:
        values = np.fromiter(map(float, chain.from_iterable(rows)), np.float64)
        usual = bool((np.abs(values) <= LARGEST).all()) and not _has_odd_digits(rows)
    except (TypeError, ValueError, OverflowError):
        usual = False
    if usual:
        return values
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            if not is_number(cell):
                _require_values(path, columns, done, rows, j)
                name = repr(columns[j]) if j < len(columns) else str(j + 1)
                raise DataError(f"{path}: row {done + i + 1}, column {name} {_problem(cell)}")
    return values


def _require_values(
    path: Path, columns: Sequence[str], done: int, rows: list[Row], number: int
) -> None:
    """Refuse a column without a value in a block of rows, and name those that have some."""
    known = {i for row in rows for i, cell in enumerate(row) if not is_empty(cell)}
    if number in known or number >= len(columns) or len(rows) < 2:
        return
    others = [printable(columns[i]) for i in sorted(known)]
    listed = ", ".join([*others[:MOST_LISTED], *(others[MOST_LISTED:] and ["..."])]) or "none"
    raise DataError(
        f"{path}: the values of column {columns[number]!r} are missing in rows {done + 1} to "
        f"{done + len(rows)}; fill them in, or leave it out; columns with values: {listed}"
    )


def _has_odd_digits(rows: list[Row]) -> bool:
    """Whether a text has characters that float() takes for digits, and a number does not have."""
    try:
        text = "".join(chain.from_iterable(rows))
    except TypeError:  # numbers already
        return False
    return "_" in text or not text.isascii()


def _problem(cell: Any) -> str:
    if is_empty(cell):
        return "is empty; fill it in, or choose the one column of a series with data.column"
    text = printable(cell)
    shown = repr(text if len(text) <= 40 else text[:40] + "...")
    if isinstance(cell, str) and NUMBER.fullmatch(cell.strip()):
        return f"is {shown}, too large for float32; scale the values"
    if isinstance(cell, str) and DECIMAL_COMMA.fullmatch(cell):
        return f"is {shown}, not a number; write it with a decimal point"
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if isinstance(cell, str) and mark in cell:
            return f"is {shown}, not a number; separate all columns with commas, or all with {name}"
    return f"is {shown}, not a finite number in float32; correct it, or leave the column out"


def is_empty(cell: Any) -> bool:
    """Whether a cell holds nothing: no text, null, or the NaN that stands for null."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def is_number(cell: Any) -> bool:
    """Whether a cell is a number that float32 can hold.

    >>> [is_number(cell) for cell in ("1.5", "-2e3", "1_000", "nan", "1e39", True)]
    [True, True, False, False, False, True]
    """
    try:
        written = not isinstance(cell, str) or NUMBER.fullmatch(cell.strip()) is not None
        return written and abs(float(cell)) <= LARGEST
    except (TypeError, ValueError, OverflowError):
        return False


def _is_like_number(text: str) -> bool:
    """Whether a text is a number, or what programs write where one is missing or infinite."""
    try:
        float(text)
    except ValueError:
        return text.lower() in MISSING
    return True


class Labels:
    """The labels of a file: each different one is kept once, and has a number.

    Each class is named exactly as the file writes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.numbers: dict[Any, int] = {}
        self.rows = array("q")

    def add(self, labels: Iterable[Any]) -> None:
        numbers = self.numbers
        self.rows.extend([numbers.setdefault(label, len(numbers)) for label in labels])

    def classes(self) -> tuple[Array, tuple[str, ...]]:
        """The class of each row, and the names of the classes, sorted as numbers or as texts."""
        names = [self._name(label) for label in self.numbers]
        keys: list[Any] = names
        if all(NUMBER.fullmatch(name) for name in names):
            keys = self._whole_numbers(names)
        order = sorted(range(len(names)), key=keys.__getitem__)
        classes = np.argsort(order)  # of each number: the inverse of the order
        return classes[np.frombuffer(self.rows, np.int64)], tuple(names[i] for i in order)

    def _name(self, label: Any) -> str:
        if is_empty(label):
            if len(self.numbers) == 1:
                raise DataError(f"{self.path}: the labels of all rows are missing; fill them in")
            row = self.rows.index(self.numbers[label]) + 1
            raise DataError(f"{self.path}: row {row} has no label")
        if isinstance(label, bytes):
            label = label.decode("utf-8", "replace")
        if isinstance(label, float | np.floating) and float(label).is_integer():
            return str(int(label))
        if isinstance(label, str | int) and "\ufffd" not in str(label):
            return str(label)
        shown = printable(repr(label))
        raise DataError(f"{self.path}: {NOT_LABELS}, got {shown}")

    def _whole_numbers(self, names: list[str]) -> list[Decimal]:
        known: dict[Decimal, str] = {}
        for name in names:
            number = Decimal(name)
            if number != number.to_integral_value():
                raise DataError(f"{self.path}: {NOT_LABELS}, got {name}; call numbers target")
            if number in known:
                raise DataError(
                    f"{self.path}: the labels {known[number]} and {name} are the same number; "
                    "write them alike"
                )
            known[number] = name
        return list(known)
