"""``torchfru runs``, ``predict`` and ``export``: the runs, and how to use their models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..io import printable, require_writable, write_atomically
from .common import Json, Results, UsageError, measure_on_test, print_json, print_table

if TYPE_CHECKING:
    from .page import Listed

HEADINGS = ("experiment", "model", "seed", "status", "epochs", "parameters", "test", "time")

Run = Annotated[
    str,
    typer.Argument(
        help="A run: its name (pixel-mnist/fru-seed0), record (.json) or checkpoint (.safetensors)."
    ),
]


def runs(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH", help="Folders of records, or records (.json). Default: --results."
        ),
    ] = None,
    results: Results = Path("results"),
    html: Annotated[
        Path | None,
        typer.Option(help="Write a web page about the runs to this file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List runs with their test results, or write a web page about them.

    The page has learning curves, the settings that differ, and each run's predictions in small.
    It is one file that needs no network. The status "killed?" marks a run that is recorded as
    running, although no process trains it. A file that is not a run record is named and skipped.

    Example: torchfru runs results/mine-3fa4c2d1 --html runs.html
    """
    if html is not None:
        require_writable("--html", html.parent)
    found = [_read(path) for path in _records(paths or [results])]
    listed = [run for run in found if not isinstance(run, str)]
    skipped = [problem for problem in found if isinstance(problem, str)]
    if html is not None:
        from .page import to_html

        write_atomically(html, to_html(listed, skipped))
        count = "1 run" if len(listed) == 1 else f"{len(listed)} runs"
        typer.echo(f"{printable(html)}: {count}")
    elif as_json:
        print_json([_row(run) for run in listed])
    elif listed:
        print_table(HEADINGS, (_cells(_row(run)) for run in listed), numbers=HEADINGS[4:])
    else:
        typer.echo(f"No runs in {printable(', '.join(map(str, paths or [results])))}.")
    for problem in skipped:
        typer.echo(f"Skipped: {printable(problem)}", err=True)
    if skipped:
        typer.echo(f"{len(skipped)} of {len(found)} records were skipped.", err=True)


def _records(paths: list[Path]) -> Iterator[Path]:
    from ..records import iter_records

    for path in paths:
        if path.suffix == ".json":
            yield path
        elif path.exists() and not path.is_dir():
            raise UsageError(f"{path} is neither a folder nor a record (.json)")
        else:
            yield from iter_records(path)


def _read(path: Path) -> Listed | str:
    """The run of a record, or the reason why it cannot be read."""
    from ..records import RunResult, is_being_trained
    from .page import Listed

    try:
        record = RunResult.load(path)
    except ValueError as error:
        return str(error)
    status: str = "diverged" if record.diverged else record.status
    if status == "running" and is_being_trained(path, record) is False:
        status = "killed?"
    return Listed(path, record, status)


def _row(run: Listed) -> dict[str, Any]:
    record = run.record
    measures = ("train_loss", "test_accuracy", "test_mse")
    return {
        **{name: getattr(record, name) for name in ("experiment", "model", "seed")},
        "status": run.status,
        "epochs": len(record.epochs),
        "of": run.planned,
        "parameters": record.parameters,
        **{name: record.last.get(name) for name in measures},
        "seconds": record.seconds,
        "record": str(run.path),
    }


def _cells(row: dict[str, Any]) -> list[object]:
    epochs, seconds = f"{row['epochs']}/{row['of']}", f"{row['seconds']:.0f} s"
    known = [row[name] for name in HEADINGS[:4]]
    return [*known, epochs, f"{row['parameters']:,}", measure_on_test(row), seconds]


def predict(
    run: Run,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The file to predict from: .npz, .csv or .parquet; for a model of texts .txt."
        ),
    ] = None,
    input: Annotated[Path | None, typer.Option(help="The file, as an option.", hidden=True)] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the predictions to this file: .csv, .parquet or .json."),
    ] = None,
    results: Results = Path("results"),
    as_json: Json = False,
) -> None:
    """Predict the class of each sequence in a file, or the next values of its series.

    The file is read as for training: the same columns, found by name, and the same checks. It may
    be the file that the model was trained on; its labels are skipped.

    Example: torchfru predict pixel-mnist/fru-seed0 digits.npz --output digits.csv
    """
    path = file or input
    if path is None or (file and input):
        raise UsageError("predict needs one file: torchfru predict RUN FILE")

    from .output import flat, require_output, write_rows

    if output is not None:
        require_output(output, path)

    from ..training.trained import load_trained, predict_file

    predictions = predict_file(load_trained(run, results), path)
    if output is not None:
        write_rows(output, _numbered(map(flat, predictions)))
        typer.echo(f"{printable(output)}: {len(predictions)} predictions")
    elif as_json:
        print_json(predictions)
    else:
        for row in predictions:
            row.pop("probability_of", None)  # too wide for a terminal
        rows = _numbered(map(flat, predictions))
        print_table([*rows[0]], (map(_text, row.values()) for row in rows))


def _numbered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the number of their sequence; those of a forecast have that of their step."""
    return [row if "step" in row else {"sequence": i, **row} for i, row in enumerate(rows)]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def export(
    run: Run,
    onnx: Annotated[Path, typer.Option(help="The file to write.")],
    results: Results = Path("results"),
) -> None:
    """Write one step of a trained model as ONNX, after a check against torch.

    Example: torchfru export pixel-mnist/fru-seed0 --onnx fru.onnx
    """
    from ..training.export import export_onnx
    from ..training.trained import load_trained

    difference = export_onnx(load_trained(run, results), onnx)
    typer.echo(f"{printable(onnx)}: onnxruntime and torch agree (difference {difference:.1e})")
