"""Functions and options that the commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..io import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Results = Annotated[Path, typer.Option(help="The folder of the run records.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="A folder with mnist/, imdb/ or beijing/. Default: the variable TORCHFRU_DATA."
    ),
]


class UsageError(ValueError):
    """An argument is wrong: exit code 2."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError into a :class:`UsageError`."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def measure_on_test(row: dict[str, Any]) -> str:
    """The test accuracy or error of an epoch; empty if it was not measured."""
    if row.get("test_accuracy") is not None:
        return f"{row['test_accuracy']:.2f} %"
    return "" if row.get("test_mse") is None else f"mse {row['test_mse']:.3g}"


def use_threads(threads: int | None) -> None:
    """Set the number of torch's threads; None leaves it to torch."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def shown(value: object) -> Text:
    """A text from a file for Rich: neither markup nor control characters are interpreted."""
    from rich.text import Text

    return Text(printable(value))


def new_console(stderr: bool = False) -> Console:
    """A console; output to a file or a pipe is 120 characters wide."""
    from rich.console import Console

    console = Console(stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120
    return console


def print_table(
    headings: Sequence[str], rows: Iterable[Iterable[object]], numbers: Sequence[str] = ()
) -> None:
    """Print rows of cells; the columns of ``numbers`` are aligned to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left")
    for row in rows:
        table.add_row(*map(shown, row))
    new_console().print(table)


def print_json(value: Any) -> None:
    """Print JSON; numbers that it cannot hold are an error."""
    typer.echo(json.dumps(value, indent=1, allow_nan=False))


def message_of(error: Exception) -> str:
    """An error on one line: what was wrong, and what to do."""
    message = " ".join(str(error).split()) or type(error).__name__
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
    return printable(message)
