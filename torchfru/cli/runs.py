"""``torchfru runs``, ``predict`` and ``export``: the runs, and how to use their models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..io import printable
from .common import Json, Results, UsageError, measure_on_test, print_json, print_table

HEADINGS = ("experiment", "model", "seed", "status", "epochs", "parameters", "test", "time")

Run = Annotated[
    str,
    typer.Argument(
        help="A run: its name (pixel-mnist/fru-seed0), record (.json) or checkpoint (.safetensors)."
    ),
]


def runs(results: Results = Path("results"), as_json: Json = False) -> None:
    """List the runs and their test results.

    A file that is no run record is named and skipped.

    Example: torchfru runs --results results
    """
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
    measures = ("train_loss", "test_accuracy", "test_mse")
    return {
        **{name: getattr(record, name) for name in ("experiment", "model", "seed")},
        "status": "diverged" if record.diverged else record.status,
        "epochs": len(record.epochs),
        "of": record.config.get("training", {}).get("epochs", "?"),
        "parameters": record.parameters,
        **{name: record.last.get(name) for name in measures},
        "seconds": record.seconds,
        "record": str(path),
    }


def _cells(row: dict[str, Any]) -> list[object]:
    epochs, seconds = f"{row['epochs']}/{row['of']}", f"{row['seconds']:.0f} s"
    known = [row[name] for name in HEADINGS[:4]]
    return [*known, epochs, f"{row['parameters']:,}", measure_on_test(row), seconds]


def predict(
    run: Run,
    input: Annotated[
        Path, typer.Option(help="The file: .npz, .csv or .parquet; for a model of texts .txt.")
    ],
    results: Results = Path("results"),
    as_json: Json = False,
) -> None:
    """Predict the class or the next value of each sequence in a file.

    The file is read as for training: the same columns, found by name, and the same checks.

    Example: torchfru predict pixel-mnist/fru-seed0 --input digits.npz
    """
    from ..training.trained import load_trained, predict_file

    predictions = predict_file(load_trained(run, results), input)
    if as_json:
        print_json(predictions)
    else:
        rows = ([i, *map(_text, row.values())] for i, row in enumerate(predictions))
        print_table(["sequence", *predictions[0]], rows)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def export(
    run: Run,
    onnx: Annotated[Path, typer.Option(help="The file to write.")],
    results: Results = Path("results"),
) -> None:
    """Write one step of a trained model as ONNX, after a comparison with torch.

    Example: torchfru export pixel-mnist/fru-seed0 --onnx fru.onnx
    """
    from ..training.export import export_onnx
    from ..training.trained import load_trained

    difference = export_onnx(load_trained(run, results), onnx)
    typer.echo(f"{printable(onnx)}: onnxruntime and torch agree (difference {difference:.1e})")
