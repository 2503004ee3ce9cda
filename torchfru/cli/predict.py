"""``torchfru predict``: what a trained model says of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .common import shown

Run = Annotated[
    str, typer.Argument(help="Its record (.json), or its name, as in pixel-mnist/fru-seed0.")
]


def predict(
    run: Run,
    input: Annotated[Path, typer.Option(help="Sequences: .npz, .csv, .parquet; texts: .txt.")],
    results: Annotated[Path, typer.Option(help="The folder of the run records.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="For a machine to read.")] = False,
) -> None:
    """Answer for each sequence in a file.

    Example: torchfru predict pixel-mnist/fru-seed0 --input digits.npz
    """
    from ..training.predict import predict as answer
    from ..training.saved import load_model

    answers = answer(load_model(run, results), input)
    if as_json:
        typer.echo(json.dumps(answers, allow_nan=False))
        return
    table = Table("sequence", *answers[0])
    for number, row in enumerate(answers):
        table.add_row(str(number), *(shown(_text(value)) for value in row.values()))
    Console().print(table)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_text(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
