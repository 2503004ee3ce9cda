"""``torchfru train``: one experiment, one model, one seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import shown, usage_errors, use_threads

if TYPE_CHECKING:
    from ..results import RunResult

Experiment = Annotated[
    str, typer.Argument(help="Its name, as in pixel-mnist; or your own .npz, .csv or .parquet.")
]
Model = Annotated[str, typer.Option(help="rnn, lstm, gru, sru, fru, or one like fru-40-10.")]
Results = Annotated[Path, typer.Option(help="The folder of the run records.")]
Set = Annotated[
    list[str], typer.Option("--set", help="Change a setting: section.field=value.", metavar="A.B=V")
]
DataDir = Annotated[Path | None, typer.Option(help="Where the data files are.")]
Threads = Annotated[int | None, typer.Option(help="Threads of each process.", min=1)]


def train(
    experiment: Experiment,
    model: Model = "fru",
    seed: Annotated[int, typer.Option(help="Of weights, data order and dropout.", min=0)] = 0,
    epochs: Annotated[int | None, typer.Option(help="Instead of the usual number.", min=1)] = None,
    results: Results = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was cut off.")] = False,
    settings: Set = [],  # noqa: B006
    data_dir: DataDir = None,
    devices: Annotated[int, typer.Option(help="Processes on each machine.", min=1)] = 1,
    nodes: Annotated[int, typer.Option(help="Machines.", min=1)] = 1,
    accelerator: Annotated[str, typer.Option(help="auto, cpu or gpu.")] = "auto",
    threads: Threads = None,
) -> None:
    """Train a model, keep its record, survive being killed.

    The record is RESULTS/<experiment>/<model>-seed<k>.json; checkpoints and logs (TensorBoard
    and CSV) are in checkpoints/, beside RESULTS.

    Example: torchfru train pixel-mnist --model fru --seed 1 --set training.lr=0.01
    """
    from ..training import find_run, override, record_name

    given = [*settings, *([] if epochs is None else [f"training.epochs={epochs}"])]
    with usage_errors():
        config = override(find_run(experiment, model), given)

    from ..io import printable
    from ..training import Run, run_experiment
    from .progress import ProgressBar

    use_threads(threads)
    run = Run(record_name(experiment, config), model, seed, config, results)
    console = Console()
    record = run_experiment(
        run,
        resume=resume,
        data_dir=data_dir,
        devices=devices,
        nodes=nodes,
        accelerator=accelerator,
        hooks=[ProgressBar(escape(printable(f"{run.experiment} {model}")), console)],
    )
    if record is not None:
        show(record, console)
        console.print(shown(f"Record: {run.record}"), soft_wrap=True)


def show(record: RunResult, console: Console) -> None:
    """How the run ended, and where its time went."""
    from ..training import RunConfig
    from .progress import describe_epoch

    training = RunConfig.from_dict(record.config).training
    ending = "diverged in" if record.diverged else "ended with"
    console.print(
        shown(
            f"{record.experiment}, {record.model}, seed {record.seed}: {record.parameters:,} "
            f"parameters; {ending} {describe_epoch(record.last)}; {record.seconds:.1f} s in all"
        )
    )
    if training.max_minutes and not record.diverged and len(record.epochs) < training.epochs:
        console.print(
            f"{len(record.epochs)} of {training.epochs} epochs: training.max_minutes="
            f"{training.max_minutes:g} are used up; --resume --set training.max_minutes=none "
            "goes on",
            highlight=False,
            soft_wrap=True,
        )
    total = sum(record.split.values()) or 1.0
    table = Table(title="Where the time went", title_justify="left")
    for part in record.split:
        table.add_column(part, justify="right")
    table.add_row(*(f"{seconds:.1f} s" for seconds in record.split.values()))
    table.add_row(*(f"{100 * seconds / total:.1f} %" for seconds in record.split.values()))
    console.print(table)
