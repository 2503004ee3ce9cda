"""``torchfru demo``: FRU against nn.LSTM on a task that needs a long memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


def demo(
    steps: Annotated[int, typer.Option(help="Training steps for each layer.", min=1)] = 150,
    length: Annotated[int, typer.Option(help="Length of the sequences.", min=20)] = 250,
    seed: Annotated[int, typer.Option(help="Seed of weights and data.")] = 0,
    plot: Annotated[Path, typer.Option(help="Where to write the plot.")] = Path("demo.png"),
) -> None:
    """Train FRU and nn.LSTM to recall what a long, noisy sequence began with.

    Example: torchfru demo --length 250 --plot demo.png
    """
    from ..demo import LAYERS, draw, train

    console = Console()
    console.print(
        f"The first 10 of {length} steps spell one of 8 classes; the rest is noise. After the "
        f"last step the layer must name the class. Chance: 12.5 %."
    )
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn())
    runs = []
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        tasks = [progress.add_task(name, total=steps) for name in LAYERS]
        for name, task in zip(LAYERS, tasks, strict=True):
            runs.append(train(name, length, steps, seed, partial(progress.advance, task)))
    table = Table("layer", "parameters", "test accuracy", "seconds")
    for result in runs:
        accuracy = f"{result.accuracy[-1]:.1f} %"
        table.add_row(result.name, f"{result.parameters:,}", accuracy, f"{result.seconds:.1f}")
    console.print(table)
    draw(runs, plot)
    console.print(f"Plot: {plot}")
