"""``torchfru runs``: the records as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from .common import UsageError, measure_on_test, shown


def runs(
    results: Annotated[Path, typer.Option(help="The folder of the run records.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="For a machine to read.")] = False,
) -> None:
    """List the runs, with how far each one got.

    Example: torchfru runs --results results
    """
    from ..io import printable
    from ..results import iter_records

    if results.exists() and not results.is_dir():
        raise UsageError(f"--results: {results} is not a folder")
    found = [_read(path) for path in iter_records(results)]
    rows = [row for row in found if isinstance(row, dict)]
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
    else:
        console = Console()
        if not console.is_terminal:
            console.width = 120  # a file has room
        console.print(_table(rows) if rows else shown(f"No runs in {results}."), soft_wrap=not rows)
    skipped = [row for row in found if isinstance(row, str)]
    for problem in skipped:
        typer.echo(f"Skipped: {printable(problem)}", err=True)
    if skipped:
        typer.echo(f"{len(skipped)} of {len(found)} records were skipped.", err=True)


def _read(path: Path) -> dict[str, Any] | str:
    """What a record says in short, or what is wrong with it."""
    from ..results import RunResult

    try:
        record = RunResult.load(path)
    except ValueError as error:
        return str(error)
    return {
        "experiment": record.experiment,
        "model": record.model,
        "seed": record.seed,
        "status": "diverged" if record.diverged else record.status,
        "epochs": len(record.epochs),
        "of": record.config.get("training", {}).get("epochs", "?"),
        "parameters": record.parameters,
        "train_loss": record.last.get("train_loss"),
        "test_accuracy": record.last.get("test_accuracy"),
        "test_mse": record.last.get("test_mse"),
        "seconds": record.seconds,
        "record": str(path),
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("experiment", "model", "seed", "status", "epochs", "parameters", "test", "time")
    table.box = box.SIMPLE_HEAD
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[4:]:
        column.justify = "right"
    for row in rows:
        table.add_row(
            shown(row["experiment"]),
            shown(row["model"]),
            str(row["seed"]),
            row["status"],
            shown(f"{row['epochs']}/{row['of']}"),
            f"{row['parameters']:,}",
            measure_on_test(row),
            f"{row['seconds']:.0f} s",
        )
    return table
