"""``python -m paper rates``: learning rates for the experiment depth, on held-back images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def rates(
    names: Annotated[list[str] | None, typer.Argument(help="Networks; all by default.")] = None,
    results: Annotated[Path, typer.Option(help="The folder of the records.")] = Path("results"),
    data_dir: Annotated[
        Path | None, typer.Option(help="A folder with mnist/. Default: TORCHFRU_DATA.")
    ] = None,
) -> None:
    """Try the learning rates of the experiment depth on images held back, an epoch each.

    Example: python -m paper rates prenorm-mlp-1000 fourier-mlp-1000
    """
    from torchfru.training.sweep import Point, run_sweep

    from .. import networks
    from ..rates import TRIED, sweeps

    networks.register()
    for sweep in sweeps(names or TRIED, results):

        def report(point: Point, name: str = sweep.model) -> None:
            score = point.state if point.score is None else f"{point.score:.2f} %"
            typer.echo(f"{name}, rate {point.lr:g}: {score}")

        run_sweep(sweep, data_dir=data_dir, report=report)
