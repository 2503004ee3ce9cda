"""``torchfru predict``: predictions of a trained model for the sequences of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import Json, Results, Run, print_json, print_table


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
