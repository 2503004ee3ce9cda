"""``torchfru demo``: the paper's four models on a small synthetic task, in three minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .common import use_threads
from .train import Threads


def demo(
    size: Annotated[int, typer.Option(help="Sequences, a fifth of them to test.", min=5)] = 400,
    epochs: Annotated[int, typer.Option(help="Epochs for each model.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Of weights and data order.", min=0)] = 0,
    threads: Threads = 1,
    plot: Annotated[Path, typer.Option(help="Where to write the plot.")] = Path("demo.png"),
) -> None:
    """Train RNN, LSTM, SRU and FRU on mixed polynomials; show a table and a plot.

    Nothing is downloaded: the data are generated.

    Example: torchfru demo --epochs 10 --plot demo.png
    """
    plot.parent.mkdir(parents=True, exist_ok=True)  # before the minutes of training
    from ..demo import MODELS, draw, train_all

    use_threads(threads)
    console = Console()
    console.print(
        f"{size} mixtures of five polynomials, 176 steps each; at every step the models predict "
        "the next value."
    )
    columns = (TextColumn("{task.description:6}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, TimeRemainingColumn(), console=console) as progress,
        tempfile.TemporaryDirectory() as folder,
    ):
        tasks = {model: progress.add_task(model.upper(), total=epochs) for model in MODELS}
        found = train_all(
            size, epochs, seed, Path(folder) / "results", lambda name: progress.advance(tasks[name])
        )
    table = Table("model", "parameters", "test MSE", "seconds")
    for run in found.runs:
        error = "diverged" if run.diverged else f"{run.last['test_mse']:.2e}"
        table.add_row(run.model.upper(), f"{run.parameters:,}", error, f"{run.seconds:.1f}")
    table.add_section()
    for name, mse in found.simple.items():
        table.add_row(name, "", f"{mse:.2e}", "")
    console.print(table)
    draw(found, plot)
    console.print(f"Plot: {plot}")
