"""What several commands need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(ValueError):
    """The command line asks for something that does not exist: exit code 2."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Errors in here are the command line's."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def use_threads(threads: int | None) -> None:
    """Let torch use that many; None leaves it to torch."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
