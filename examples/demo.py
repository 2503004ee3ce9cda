"""RNN, LSTM, SRU and FRU predict the next value of mixed polynomials, in three minutes.

Run it with ``python examples/demo.py --epochs 10 --plot demo.png``. Nothing is downloaded: the
data are generated.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from lightning.pytorch.callbacks import LambdaCallback
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from torchfru.cli import run as run_command
from torchfru.cli.common import use_threads
from torchfru.cli.train import Threads
from torchfru.data import load
from torchfru.experiments import find_run
from torchfru.results import RunResult
from torchfru.training import Run, run_experiment
from torchfru.training.simple import simple_predictors

EXPERIMENT = "mix-poly-5"
MODELS = ("rnn", "lstm", "sru", "fru")
MARKERS = {"rnn": "o:", "lstm": "s--", "sru": "^-.", "fru": "D-"}


@dataclass(frozen=True)
class Demo:
    """The runs, and what two predictors reach that need no training."""

    runs: list[RunResult]
    simple: dict[str, float]


def train_all(
    size: int, epochs: int, seed: int, folder: Path, tick: Callable[[str], None] = lambda _: None
) -> Demo:
    """Train the four models on ``size`` sequences, one after the other, with files in ``folder``.

    ``tick`` is called with the model's name after each epoch.
    """
    first = find_run(EXPERIMENT, "fru").data
    data = load(first.name, **replace(first, size=size).options())
    runs = []
    for model in MODELS:
        config = find_run(EXPERIMENT, model)
        config = replace(
            config,
            data=replace(config.data, size=size),
            training=replace(config.training, epochs=epochs),
        )
        run = Run(EXPERIMENT, model, seed, config, folder)
        each_epoch = LambdaCallback(on_train_epoch_end=lambda *_, model=model: tick(model))
        record = run_experiment(run, data=data, accelerator="cpu", callbacks=[each_epoch])
        assert record is not None  # one process
        runs.append(record)
    return Demo(runs, simple_predictors(data))


def draw(demo: Demo, path: Path) -> None:
    """Test error by epoch, a line a model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for run in demo.runs:
        errors = [epoch["test_mse"] for epoch in run.epochs]
        epochs = [epoch["epoch"] for epoch in run.epochs]
        axes.plot(epochs, errors, MARKERS[run.model], markersize=4, label=run.model.upper())
    for (name, error), style in zip(demo.simple.items(), ((0, (1, 2)), (0, (5, 3))), strict=True):
        axes.axhline(error, color="grey", linewidth=1, linestyle=style, label=name)
    axes.set(xlabel="epoch", ylabel="test mean squared error", yscale="log")
    axes.set_title("Predicting the next value of mixed polynomials")
    axes.grid(alpha=0.3)
    axes.legend(ncols=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def demo(
    size: Annotated[int, typer.Option(help="Sequences, a fifth of them to test.", min=5)] = 400,
    epochs: Annotated[int, typer.Option(help="Epochs for each model.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Of weights and data order.", min=0)] = 0,
    threads: Threads = 1,
    plot: Annotated[Path, typer.Option(help="Where to write the plot.")] = Path("demo.png"),
) -> None:
    """Train RNN, LSTM, SRU and FRU on mixed polynomials; show a table and a plot.

    Nothing is downloaded: the data are generated.

    Example: python examples/demo.py --epochs 10 --plot demo.png
    """
    plot.parent.mkdir(parents=True, exist_ok=True)  # before the minutes of training
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


if __name__ == "__main__":
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    app.command()(demo)
    run_command(app)
