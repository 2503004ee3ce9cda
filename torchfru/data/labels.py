"""Labels of a user's file: each class is named exactly as the file writes it."""

from __future__ import annotations

from array import array
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ..io import printable
from .arrays import Array, DataError
from .tables import NUMBER, is_empty


class Labels:
    """The labels of a table's rows: each different one is kept once, and has a number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.numbers: dict[Any, int] = {}
        self.rows = array("q")

    def add(self, cells: list[Any]) -> None:
        cells = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        for i, cell in enumerate(cells):
            if is_empty(cell):
                raise DataError(f"{self.path}: row {len(self.rows) + i + 1} has no label")
        numbers = self.numbers
        self.rows.extend([numbers.setdefault(cell, len(numbers)) for cell in cells])

    def classes(self) -> tuple[Array, tuple[str, ...]]:
        """The class of each row, and the names of the classes."""
        return _sorted_classes(self.path, list(self.numbers), np.frombuffer(self.rows, np.int64))


def array_classes(path: Path, labels: Array) -> tuple[Array, tuple[str, ...]]:
    """The class of each label of an array, and the names of the classes."""
    known, codes = np.unique(labels, return_inverse=True)
    known = known.astype(np.int64) if known.dtype.kind == "b" else known
    return _sorted_classes(path, known.tolist(), codes.reshape(-1))


def _sorted_classes(path: Path, labels: list[Any], codes: Array) -> tuple[Array, tuple[str, ...]]:
    """The codes and the names of the labels, in the order of the numbers or of the texts."""
    names = [_name(path, label) for label in labels]
    keys: list[Any] = names
    if all(NUMBER.fullmatch(name) for name in names):
        keys = [Decimal(name) for name in names]
        _require_whole(path, names, keys)
    order = sorted(range(len(names)), key=lambda i: keys[i])
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    return place[codes], tuple(names[i] for i in order)


def _name(path: Path, label: Any) -> str:
    """The name of a class, exactly as the file writes it."""
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    if isinstance(label, str | int) and not is_empty(label) and "\ufffd" not in str(label):
        return str(label)
    raise DataError(f"{path}: labels must be whole numbers or names, got {printable(repr(label))}")


def _require_whole(path: Path, names: list[str], numbers: list[Decimal]) -> None:
    seen: dict[Decimal, str] = {}
    for name, number in zip(names, numbers, strict=True):
        if number != number.to_integral_value():
            raise DataError(f"{path}: labels must be whole numbers or names, got {name}")
        other = seen.setdefault(number, name)
        if other != name:
            raise DataError(
                f"{path}: the labels {other} and {name} are the same number; write them alike"
            )
