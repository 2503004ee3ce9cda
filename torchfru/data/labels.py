"""Labels of a user's file: each class is named exactly as the file writes it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ..io import printable
from .arrays import Array, DataError
from .tables import NUMBER, is_empty


class Labels:
    """The labels of a file: each different one is kept once, and has a number."""

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
            row = self.rows.index(self.numbers[label]) + 1
            raise DataError(f"{self.path}: row {row} has no label")
        if isinstance(label, bytes):
            label = label.decode("utf-8", "replace")
        if isinstance(label, float | np.floating) and float(label).is_integer():
            return str(int(label))
        if isinstance(label, str | int) and "\ufffd" not in str(label):
            return str(label)
        shown = printable(repr(label))
        raise DataError(f"{self.path}: labels must be whole numbers or names, got {shown}")

    def _whole_numbers(self, names: list[str]) -> list[Decimal]:
        known: dict[Decimal, str] = {}
        for name in names:
            number = Decimal(name)
            if number != number.to_integral_value():
                raise DataError(f"{self.path}: labels must be whole numbers or names, got {name}")
            if number in known:
                raise DataError(
                    f"{self.path}: the labels {known[number]} and {name} are the same number; "
                    "write them alike"
                )
            known[number] = name
        return list(known)
