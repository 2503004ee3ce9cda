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
        """The class of each row, and the names of the classes: numbers as numbers, else texts."""
        labels = list(self.numbers)
        names = [_name(self.path, label) for label in labels]
        numeric = all(NUMBER.fullmatch(name) for name in names)
        keys: list[Any] = [Decimal(name) for name in names] if numeric else names
        if numeric:
            _require_whole(self.path, names, keys)
        order = sorted(range(len(names)), key=lambda i: keys[i])
        place = np.empty(len(names), np.int64)
        place[order] = np.arange(len(names))
        return place[np.frombuffer(self.rows, np.int64)], tuple(names[i] for i in order)


def _name(path: Path, label: Any) -> str:
    if isinstance(label, float):
        if not label.is_integer():
            raise DataError(f"{path}: labels must be whole numbers or names, got {label}")
        return str(int(label))
    if isinstance(label, str | int | bool):
        return str(label)
    raise DataError(f"{path}: labels must be whole numbers or names, got {printable(label)}")


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


def array_classes(path: Path, labels: Array) -> tuple[Array, tuple[str, ...]]:
    """The class of each label of an array, and the names of the classes, in order."""
    if labels.dtype.kind == "f":
        whole = np.isfinite(labels) & (labels == np.floor(labels))
        if not whole.all():
            raise DataError(
                f"{path}: labels must be whole numbers or names, got {labels[~whole][0]}"
            )
    if labels.dtype.kind == "S":
        try:
            labels = np.char.decode(labels, "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{path}: labels must be texts in UTF-8") from None
    known, codes = np.unique(labels, return_inverse=True)
    if labels.dtype.kind == "U":
        if (np.char.strip(known) == "").any():
            raise DataError(f"{path}: a label is empty; name its class")
        return codes.reshape(-1), tuple(known.tolist())
    return codes.reshape(-1), tuple(str(int(value)) for value in known)
