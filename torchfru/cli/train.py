"""``torchfru train``: one experiment, model and seed; ``torchfru sweep``: a grid of settings."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import (
    DataDir,
    Json,
    Results,
    new_console,
    print_json,
    print_table,
    shown,
    usage_errors,
    use_threads,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ..records import RunResult
    from ..training.sweep import Point

Experiment = Annotated[
    str,
    typer.Argument(help="Your own file (.npz, .csv, .parquet), or an experiment: pixel-mnist."),
]
Model = Annotated[
    str,
    typer.Option(help="rnn, lstm, gru, sru, fru, or a variant: fru-40-10; for a file fru-paper."),
]
Set = Annotated[
    list[str],
    typer.Option("--set", help="Change a setting: training.lr=0.01. Repeatable.", metavar="NAME=X"),
]
Seed = Annotated[
    int, typer.Option(help="Seed of the weights, the order of the data and dropout.", min=0)
]
Accelerator = Annotated[str, typer.Option(help="The device: auto, cpu or gpu.")]
Threads = Annotated[
    int | None, typer.Option(help="Threads per process; a small run needs one.", min=1)
]

VALIDATION = 0.1  # the share of the training set that judges a sweep


def train(
    experiment: Experiment,
    model: Model = "fru",
    seed: Seed = 0,
    epochs: Annotated[
        int | None, typer.Option(help="Override the number of epochs.", min=1)
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="A file with the test part of a file's sequences.")
    ] = None,
    results: Results = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint.")] = False,
    settings: Set = [],  # noqa: B006
    data_dir: DataDir = None,
    devices: Annotated[int, typer.Option(help="Processes per machine.", min=1)] = 1,
    nodes: Annotated[int, typer.Option(help="Number of machines.", min=1)] = 1,
    accelerator: Accelerator = "auto",
    threads: Threads = None,
) -> None:
    """Train a model on your own file, or on a data set of an experiment.

    The record is RESULTS/<experiment>/<model>-seed<k>.json; checkpoints and logs (TensorBoard
    and CSV) are in checkpoints/, beside RESULTS. A run that was stopped or killed continues
    with --resume.

    A file of sequences with labels or numeric targets gets settings that follow its sizes: inputs
    scaled by the training part, a budget of steps, the recipe's model, several of them for little
    data.

    Example: torchfru train mine.csv --model fru --seed 1 --set training.lr=0.01
    """
    from ..training import find_run, override, record_name

    given = [*settings, *([] if test is None else [f"data.test_file={test}"])]
    given += [] if epochs is None else ["training.steps=none", f"training.epochs={epochs}"]
    with usage_errors():
        config = override(find_run(experiment, model), given)

    from ..training import Run, run_experiment
    from ..training.automatic import fit_to_file
    from .progress import ProgressBar

    use_threads(threads)
    config, data = fit_to_file(config, model, given)
    run = Run(record_name(experiment, config), model, seed, config, results)
    console = new_console()
    record = run_experiment(
        run,
        resume=resume,
        data=data,
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
    if "naive" in record.measurements:
        kept = (
            "Kept the start, since training did not do better"
            if not record.last["epoch"]
            else "Start"
        )
        lines.append(f"{kept}: {record.measurements['naive']}")
    for line in lines:
        console.print(shown(line), soft_wrap=True)
    total = sum(record.split.values()) or 1.0
    seconds = record.split.values()
    rows = [[f"{s:.1f} s" for s in seconds], [f"{100 * s / total:.1f} %" for s in seconds]]
    print_table([*record.split], rows, numbers=[*record.split])


def sweep(
    experiment: Experiment,
    model: Model = "fru",
    seed: Seed = 0,
    epochs: Annotated[int, typer.Option(help="Epochs per point of the grid.", min=1)] = 5,
    results: Results = Path("results"),
    storage: Annotated[
        str | None, typer.Option(help="Address of a shared database. Default: an SQLite file.")
    ] = None,
    lr: Annotated[str | None, typer.Option(help="Learning rates to try, comma-separated.")] = None,
    decay: Annotated[
        str | None, typer.Option(help="Decay factors to try, comma-separated.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Stop after this many points of the grid.", min=1)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="A name for this sweep, which becomes part of its file name.")
    ] = None,
    settings: Set = [],  # noqa: B006
    data_dir: DataDir = None,
    accelerator: Accelerator = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Try a grid of learning rates and decay factors, judged on held-out training data.

    The test set is never used. The grid is the paper's, unless --lr or --decay is given. The same
    command continues a sweep that was stopped. Several processes share the work, also on other
    machines with the same --storage (postgresql://user@host/name).

    Example: torchfru sweep mix-poly-5 --model lstm --epochs 5
    """
    from ..training import find_run, override, record_name
    from ..training.recipes import PAPER, is_user_file

    with usage_errors():
        if is_user_file(find_run(experiment, model)) and not model.endswith(PAPER):
            model += PAPER  # the grid is for plain models
        config = override(find_run(experiment, model), [f"training.epochs={epochs}", *settings])
        if config.data.validation == 0:
            config = override(config, [f"data.validation={VALIDATION}"])
        rates, decays = _numbers("--lr", lr), _numbers("--decay", decay)
        if name is not None and not re.fullmatch(r"[A-Za-z0-9.-]+", name):
            raise ValueError(f"--name must be letters, digits, dots and hyphens, got {name!r}")

    from ..training.sweep import DECAYS, LEARNING_RATES, Sweep, run_sweep

    use_threads(threads)
    console = new_console(stderr=as_json)
    grid = (rates or LEARNING_RATES, decays or DECAYS)

    def report(point: Point) -> None:
        lr, decay, score, state = _cells(point)
        console.print(f"learning rate {lr}, decay {decay}: {score or state}", highlight=False)

    planned = Sweep(record_name(experiment, config), model, seed, config, results, *grid, name)
    points = run_sweep(
        planned,
        storage=storage,
        data_dir=data_dir,
        trials=trials,
        accelerator=accelerator,
        report=report,
    )
    if as_json:
        print_json([asdict(point) for point in points])
    else:
        _show_points(console, points, f"torchfru train {experiment} --model {model}")


def _show_points(console: Console, points: list[Point], command: str) -> None:
    """All points as a table, and how to train with the best one."""
    print_table(["learning rate", "decay", "validation", "state"], map(_cells, points))
    if points and points[0].score is not None:
        best = f"--set training.lr={points[0].lr:g} --set training.lr_decay={points[0].lr_decay:g}"
        console.print(shown(f"{command} {best}"), soft_wrap=True)


def _numbers(name: str, text: str | None) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"{name} must be comma-separated numbers, got {text!r}") from None
    if not all(0 < value <= 1 for value in values):
        raise ValueError(f"{name} must lie within (0, 1], got {text!r}")
    return values


def _cells(point: Point) -> list[str]:
    score = "" if point.score is None else f"{point.score:.5g}"
    return [f"{point.lr:g}", f"{point.lr_decay:g}", score, point.state]
