"""The command line: arguments and printing, one file a command, heavy imports inside them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from .bench import bench
from .common import UsageError
from .data import app as data
from .demo import demo
from .export import export
from .predict import predict
from .report import report
from .reproduce import reproduce
from .runs import runs
from .sweep import sweep
from .train import train
from .verify import verify

app = typer.Typer(
    name="torchfru",
    help="The Fourier Recurrent Unit for PyTorch.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command()(bench)
app.command()(demo)
app.command()(train)
app.command()(runs)
app.command()(sweep)
app.command()(reproduce)
app.command()(predict)
app.command()(export)
app.command()(report)
app.add_typer(data, name="data")
app.command()(verify)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        from .. import __version__

        typer.echo(f"torchfru {__version__}")
        raise typer.Exit


def run() -> None:
    """Run a command; an error is one line and exit code 1 or 2, unless ``--debug`` comes first."""
    try:
        app()
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        message = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, ModuleNotFoundError):
            message += "; pip install 'torchfru[cli,train,export,report]' brings what commands need"
        Console(stderr=True, soft_wrap=True).print("[bold red]Error:[/] ", end="")
        print(message, file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
