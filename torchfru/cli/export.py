"""``torchfru export``: a trained model as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .predict import Run


def export(
    run: Run,
    onnx: Annotated[Path, typer.Option(help="The file to write.")],
    results: Annotated[Path, typer.Option(help="The folder of the run records.")] = Path("results"),
) -> None:
    """Write one step of a model as ONNX, checked against onnxruntime first.

    Example: torchfru export pixel-mnist/fru-seed0 --onnx fru.onnx
    """
    from ..io import printable
    from ..training.export import export_onnx
    from ..training.saved import load_model

    difference = export_onnx(load_model(run, results), onnx)
    typer.echo(f"{printable(onnx)}: onnxruntime and torch agree (difference {difference:.1e})")
