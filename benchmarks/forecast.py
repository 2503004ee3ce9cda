"""Forecasts beside naive ones: ETTh1 with the usual parts, and three series of the textbooks.

``python -m benchmarks.forecast --json benchmarks/forecast.json`` takes minutes of one core a
seed. ETTh1.csv is looked for in ``forecast/`` of the data folder, TORCHFRU_DATA.
"""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from torchfru import FRUForecaster
from torchfru.cli import run
from torchfru.io import write_atomically

from .measure import environment
from .series import AIRLINE, LYNX, SUNSPOTS

SMALL = {
    "airline": np.array(AIRLINE, float),
    "airline, log": np.log(AIRLINE),
    "lynx": np.array(LYNX, float),
    "lynx, log": np.log(LYNX),
    "sunspots": np.array(SUNSPOTS, float),
}
HOURS, PARTS = 336, (8640, 2880, 2880)  # ETTh1: known hours; training, validation, test
HORIZONS = (96, 336)
# of DLinear, as its authors published it
PUBLISHED = {96: 0.375, 336: 0.439}


def etth1(folder: Path) -> np.ndarray[Any, Any]:
    """The seven channels (14400, 7)."""
    path = folder / "forecast" / "ETTh1.csv"
    if not path.is_file():
        raise ValueError(f"{path}: no such file; put it there, or set TORCHFRU_DATA")
    with path.open() as file:
        rows = [row[1:] for row in csv.reader(file)][1 : 1 + sum(PARTS)]
    return np.array(rows, float)


def measure(
    name: str, series: np.ndarray[Any, Any], model: FRUForecaster, test: float
) -> dict[str, Any]:
    """The errors on the last share of a series; the test part chooses nothing."""
    start = time.perf_counter()
    found = model.backtest(series, test=test)
    seconds = time.perf_counter() - start
    typer.echo(f"{name}, seed {model.random_state}, {seconds:.0f} s\n{found}\n", err=True)
    return {
        "series": name,
        "horizon": model.horizon,
        "refit": model.refit,
        "seed": model.random_state,
        "forecasts": found.origins,
        "kept_naive": found.kept_naive,
        "seconds": round(seconds, 1),
        "errors": found.rows,
    }


def measure_all(seeds: int, folder: Path | None) -> Iterator[dict[str, Any]]:
    """Every series and seed, with the estimator's own settings.

    ETTh1 has the usual window and parts, with the regressions fitted to the training part alone,
    and once more to training and validation part together.
    """
    for seed in range(seeds):
        for name, values in SMALL.items():
            yield measure(name, values, FRUForecaster(random_state=seed, verbose=False), 0.2)
        for horizon in HORIZONS if folder is not None else ():
            for refit in (False, True):
                model = FRUForecaster(
                    horizon,
                    window=HOURS,
                    validation=PARTS[1] / sum(PARTS[:2]),
                    refit=refit,
                    random_state=seed,
                    verbose=False,
                )
                assert folder is not None
                yield measure("ETTh1", etth1(folder), model, PARTS[2] / sum(PARTS))


def forecast(
    seeds: Annotated[int, typer.Option(help="Seeds of each series.", min=1)] = 3,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file.")
    ] = None,
) -> None:
    """Measure FRUForecaster beside the last value, the season before and a ridge regression.

    Example: python -m benchmarks.forecast --json benchmarks/forecast.json
    """
    torch.set_num_threads(1)
    folder = os.environ.get("TORCHFRU_DATA")
    found = list(measure_all(seeds, None if folder is None else Path(folder)))
    document = {"environment": environment(), "published": PUBLISHED, "forecasts": found}
    if json_file is not None:
        write_atomically(json_file, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(forecast)
    run(app)
