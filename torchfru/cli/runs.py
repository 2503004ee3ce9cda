"""``torchfru runs``: a table of the run records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from .common import Json, Results, UsageError, measure_on_test, print_json, print_table

HEADINGS = ("experiment", "model", "seed", "status", "epochs", "parameters", "test", "time")


def runs(results: Results = Path("results"), as_json: Json = False) -> None:
    """List the runs and their test results.

    A file that is no run record is named and skipped.

    Example: torchfru runs --results results
    """
    from ..io import printable
    from ..records import iter_records

    if results.exists() and not results.is_dir():
        raise UsageError(f"--results: {results} is not a folder")
    found = [_read(path) for path in iter_records(results)]
    rows = [row for row in found if isinstance(row, dict)]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(HEADINGS, map(_cells, rows), numbers=HEADINGS[4:])
    else:
        typer.echo(f"No runs in {printable(results)}.")
    skipped = [row for row in found if isinstance(row, str)]
    for problem in skipped:
        typer.echo(f"Skipped: {printable(problem)}", err=True)
    if skipped:
        typer.echo(f"{len(skipped)} of {len(found)} records were skipped.", err=True)


def _read(path: Path) -> dict[str, Any] | str:
    """The figures of a record, or the reason why it cannot be read."""
    from ..records import RunResult

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


def _cells(row: dict[str, Any]) -> list[object]:
    epochs, seconds = f"{row['epochs']}/{row['of']}", f"{row['seconds']:.0f} s"
    known = [row[name] for name in HEADINGS[:4]]
    return [*known, epochs, f"{row['parameters']:,}", measure_on_test(row), seconds]
