"""``torchfru sweep``: a grid search over learning rate and decay."""

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
from .train import Accelerator, Experiment, Model, Seed, Set, Threads

if TYPE_CHECKING:
    from ..training import RunConfig
    from ..training.sweep import Point

VALIDATION = 0.1


def sweep(
    experiment: Experiment,
    model: Model = "fru",
    seed: Seed = 0,
    epochs: Annotated[int, typer.Option(help="Epochs per point of the grid.", min=1)] = 5,
    results: Results = Path("results"),
    storage: Annotated[
        str | None, typer.Option(help="Address of a database to share; default: an SQLite file.")
    ] = None,
    lr: Annotated[str | None, typer.Option(help="Learning rates, comma-separated.")] = None,
    decay: Annotated[str | None, typer.Option(help="Decays, comma-separated.")] = None,
    trials: Annotated[int | None, typer.Option(help="Stop after this many points.", min=1)] = None,
    name: Annotated[
        str | None, typer.Option(help="A name for this sweep, part of its file's name.")
    ] = None,
    settings: Set = [],  # noqa: B006
    data_dir: DataDir = None,
    accelerator: Accelerator = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Search the paper's grid of learning rates and decays on held-out training data.

    The test set is never used. Run it again to resume it. Several processes, also on other
    machines with the same --storage (postgresql://user@host/name), share the work.

    Example: torchfru sweep mix-poly-5 --model lstm --epochs 5
    """
    from ..training import record_name

    with usage_errors():
        config = _configuration(experiment, model, epochs, settings)
        rates, decays = _numbers("--lr", lr), _numbers("--decay", decay)
        if name is not None and not re.fullmatch(r"[A-Za-z0-9.-]+", name):
            raise ValueError(f"--name must be letters, digits, dots and hyphens, got {name!r}")

    from ..training.sweep import DECAYS, LEARNING_RATES, Sweep, run_sweep

    use_threads(threads)
    console = new_console(stderr=as_json)
    grid = (rates or LEARNING_RATES, decays or DECAYS)
    planned = Sweep(record_name(experiment, config), model, seed, config, results, *grid, name)
    points = run_sweep(
        planned,
        storage=storage,
        data_dir=data_dir,
        trials=trials,
        accelerator=accelerator,
        report=lambda point: console.print(_line(point), highlight=False),
    )
    if as_json:
        print_json([asdict(point) for point in points])
        return
    print_table(["learning rate", "decay", "validation", "state"], map(_cells, points))
    if points and points[0].score is not None:
        console.print(shown(_train_with(points[0], experiment, model)), soft_wrap=True)


def _configuration(experiment: str, model: str, epochs: int, settings: list[str]) -> RunConfig:
    """The configuration of a run, with a part of the training set held back."""
    from ..training import find_run, override

    config = override(find_run(experiment, model), [f"training.epochs={epochs}", *settings])
    if config.data.validation == 0:
        config = override(config, [f"data.validation={VALIDATION}"])
    return config


def _numbers(name: str, text: str | None) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"{name} must be comma-separated numbers, got {text!r}") from None
    if not all(0 < value <= 1 for value in values):
        raise ValueError(f"{name} must lie within (0, 1], got {text!r}")
    return values


def _train_with(best: Point, experiment: str, model: str) -> str:
    """The command that trains with the best rate and decay."""
    chosen = f"--set training.lr={best.lr:g} --set training.lr_decay={best.lr_decay:g}"
    return f"torchfru train {experiment} --model {model} {chosen}"


def _line(point: Point) -> str:
    lr, decay, score, state = _cells(point)
    return f"learning rate {lr}, decay {decay}: {score or state}"


def _cells(point: Point) -> list[str]:
    score = "" if point.score is None else f"{point.score:.5g}"
    return [f"{point.lr:g}", f"{point.lr_decay:g}", score, point.state]
