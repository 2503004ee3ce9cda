"""``torchfru train``: one experiment, one model, one seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import DataDir, Results, new_console, print_table, shown, usage_errors, use_threads

if TYPE_CHECKING:
    from rich.console import Console

    from ..records import RunResult

Experiment = Annotated[
    str,
    typer.Argument(help="An experiment, such as pixel-mnist, or a file: .npz, .csv, .parquet."),
]
Model = Annotated[str, typer.Option(help="rnn, lstm, gru, sru, fru, or a variant: fru-40-10.")]
Set = Annotated[
    list[str],
    typer.Option("--set", help="Change a setting: training.lr=0.01. Repeatable.", metavar="NAME=X"),
]
Seed = Annotated[int, typer.Option(help="Seed of weights, data order and dropout.", min=0)]
Accelerator = Annotated[str, typer.Option(help="auto, cpu or gpu.")]
Threads = Annotated[int | None, typer.Option(help="Threads per process.", min=1)]


def train(
    experiment: Experiment,
    model: Model = "fru",
    seed: Seed = 0,
    epochs: Annotated[
        int | None, typer.Option(help="Override the number of epochs.", min=1)
    ] = None,
    results: Results = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint.")] = False,
    settings: Set = [],  # noqa: B006
    data_dir: DataDir = None,
    devices: Annotated[int, typer.Option(help="Processes per machine.", min=1)] = 1,
    nodes: Annotated[int, typer.Option(help="Number of machines.", min=1)] = 1,
    accelerator: Accelerator = "auto",
    threads: Threads = None,
) -> None:
    """Train a model. A run that was stopped or killed can be resumed with --resume.

    The record is RESULTS/<experiment>/<model>-seed<k>.json; checkpoints and logs (TensorBoard
    and CSV) are in checkpoints/, beside RESULTS.

    Example: torchfru train pixel-mnist --model fru --seed 1 --set training.lr=0.01
    """
    from ..training import find_run, override, record_name

    given = [*settings, *([] if epochs is None else [f"training.epochs={epochs}"])]
    with usage_errors():
        config = override(find_run(experiment, model), given)

    from ..training import Run, run_experiment
    from .progress import ProgressBar

    use_threads(threads)
    run = Run(record_name(experiment, config), model, seed, config, results)
    console = new_console()
    record = run_experiment(
        run,
        resume=resume,
        data_dir=data_dir,
        devices=devices,
        nodes=nodes,
        accelerator=accelerator,
        hooks=[ProgressBar(f"{run.experiment} {model}", console)],
    )
    if record is not None:
        show(record, console)
        console.print(shown(f"Record: {run.record}"), soft_wrap=True)


def show(record: RunResult, console: Console) -> None:
    """Print the last epoch of a run and the time that each part took."""
    from ..training import RunConfig
    from .progress import describe_epoch

    training = RunConfig.from_dict(record.config).training
    ending = "diverged in" if record.diverged else "ended with"
    lines = [
        f"{record.experiment}, {record.model}, seed {record.seed}: {record.parameters:,} "
        f"parameters; {ending} {describe_epoch(record.last)}; {record.seconds:.1f} s in total"
    ]
    if training.max_minutes and not record.diverged and len(record.epochs) < training.epochs:
        lines.append(
            f"{len(record.epochs)} of {training.epochs} epochs: training.max_minutes="
            f"{training.max_minutes:g} are used up; to train on, add --resume --set "
            "training.max_minutes=none"
        )
    for line in lines:
        console.print(shown(line), soft_wrap=True)
    total = sum(record.split.values()) or 1.0
    seconds = record.split.values()
    rows = [[f"{s:.1f} s" for s in seconds], [f"{100 * s / total:.1f} %" for s in seconds]]
    print_table([*record.split], rows, numbers=[*record.split])
