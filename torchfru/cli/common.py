"""What several commands need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class UsageError(ValueError):
    """The command line asks for something that does not exist: exit code 2."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Errors in here are the command line's."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def measure_on_test(row: dict[str, Any]) -> str:
    """What an epoch reached on the test part, in short; empty if it was not measured."""
    if row.get("test_accuracy") is not None:
        return f"{row['test_accuracy']:.2f} %"
    return "" if row.get("test_mse") is None else f"mse {row['test_mse']:.3g}"


def use_threads(threads: int | None) -> None:
    """Let torch use that many; None leaves it to torch."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
