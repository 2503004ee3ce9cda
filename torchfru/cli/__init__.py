"""The command line: arguments and printing. Commands import heavy modules when they run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .common import UsageError, message_of
from .data import app as data
from .doctor import doctor
from .runs import export, predict, runs
from .train import sweep, train


def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        from .. import __version__

        typer.echo(f"torchfru {__version__}")
        raise typer.Exit


def new_app(name: str, purpose: str) -> typer.Typer:
    """A command line that shows errors as ours does."""
    app = typer.Typer(
        name=name,
        help=purpose,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_options)
    return app


app = new_app("torchfru", "The Fourier Recurrent Unit for PyTorch.")
for command in (train, runs, sweep, predict, export, doctor):
    app.command()(command)
app.add_typer(data, name="data")


def run(app: typer.Typer = app) -> None:
    """Run a command; an error is one line and exit code 1 or 2, unless ``--debug`` comes first."""
    try:
        app()
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        from rich.console import Console

        Console(stderr=True, soft_wrap=True).print("[bold red]Error:[/] ", end="")
        print(message_of(error), file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
