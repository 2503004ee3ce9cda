"""``torchfru export``: a trained model as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import Results, Run


def export(
    run: Run,
    onnx: Annotated[Path, typer.Option(help="The file to write.")],
    results: Results = Path("results"),
) -> None:
    """Write one step of a trained model as ONNX, after a comparison with torch.

    Example: torchfru export pixel-mnist/fru-seed0 --onnx fru.onnx
    """
    from ..io import printable
    from ..training.export import export_onnx
    from ..training.trained import load_trained

    difference = export_onnx(load_trained(run, results), onnx)
    typer.echo(f"{printable(onnx)}: onnxruntime and torch agree (difference {difference:.1e})")
