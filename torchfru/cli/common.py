"""What several commands need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text


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


def shown(value: object) -> Text:
    """A text from a file for Rich: neither markup nor control characters are interpreted."""
    from rich.text import Text

    from ..io import printable

    return Text(printable(value))


def message_of(error: Exception) -> str:
    """An error on one line: what was wrong, and what to do."""
    from ..io import printable

    message = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename or 'a file'}: {error.strerror}; check the path, the permissions"
        message += " and the free space"
    elif isinstance(error, ModuleNotFoundError):
        message += "; pip install 'torchfru[cli,train,export]' brings what commands need"
    elif isinstance(error, MemoryError):
        message = "the memory is used up; choose a smaller batch, model or file"
    elif not isinstance(error, ValueError | RuntimeError | OSError):
        message = (
            f"{type(error).__name__}: {message}; this is a fault of torchfru: --debug shows it"
        )
    return printable(message or type(error).__name__)
