"""Rows of named columns as a file: .csv, .parquet or .json."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..io import require_writable, write_atomically
from .common import UsageError

Row = dict[str, Any]


def require_output(path: Path, source: Path) -> None:
    """Refuse a file that :func:`write_rows` could not write, before the rows are computed.

    ``source`` is the file that they are computed from.
    """
    if path.absolute() == source.absolute():
        raise UsageError(f"--output: {path} is the file to predict from; choose another name")
    if path.suffix not in WRITERS:
        raise UsageError(f"--output: {path} must end in {', '.join(WRITERS)}")
    if path.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError:
            raise UsageError(
                f"--output: {path}: to write parquet needs pyarrow: pip install 'torchfru[parquet]'"
            ) from None
    require_writable("--output", path.parent)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows in the form of the file's ending. A column that a row does not have is empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    write_atomically(path, WRITERS[path.suffix](columns, rows))


def flat(row: Row) -> Row:
    """A row with a column for each number: those of a dictionary by name, of a list by place.

    >>> flat({"class": "a", "probability_of": {"a": 0.75, "b": 0.25}, "value": [2.5]})
    {'class': 'a', 'probability_of_a': 0.75, 'probability_of_b': 0.25, 'value': 2.5}
    >>> flat({"value": [1.0, 2.0], "classes": ["a", "b"]})
    {'value_0': 1.0, 'value_1': 2.0, 'classes': ['a', 'b']}
    """
    columns: Row = {}
    for name, value in row.items():
        if isinstance(value, list) and all(isinstance(item, float) for item in value):
            value = dict(enumerate(value)) if len(value) > 1 else value[0] if value else None
        if isinstance(value, dict):
            columns |= {f"{name}_{key}": item for key, item in value.items()}
        else:
            columns[name] = value
    return columns


def _to_csv(columns: list[str], rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = (row.get(name, "") for name in columns)
        writer.writerow(" ".join(cell) if isinstance(cell, list) else cell for cell in cells)
    return text.getvalue()


def _to_json(columns: list[str], rows: Sequence[Row]) -> str:
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def _to_parquet(columns: list[str], rows: Sequence[Row]) -> bytes:
    import pyarrow
    from pyarrow.parquet import write_table

    content = io.BytesIO()
    write_table(pyarrow.table({name: [row.get(name) for row in rows] for name in columns}), content)
    return content.getvalue()


WRITERS: dict[str, Callable[[list[str], Sequence[Row]], str | bytes]] = {
    ".csv": _to_csv,
    ".parquet": _to_parquet,
    ".json": _to_json,
}
