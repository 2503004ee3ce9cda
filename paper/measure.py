"""The measurements without training, by experiment and name."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from torchfru.data import load, temperature
from torchfru.results import Measurement
from torchfru.training import environment
from torchfru.training.simple import simple_predictors

from .experiments import find_run
from .fits import fit_all

SERIES: dict[str, Any] = {"every": "day", "start": 2010, "end": 2012}  # the paper's figure


def measure(experiment: str, name: str, data_dir: Path | None = None) -> Measurement:
    """Make the measurement, with where its numbers come from."""
    start = time.perf_counter()
    take = {"fits": _fits, "simple": _simple}[name]
    values, checksums = take(experiment, data_dir)
    return Measurement(
        experiment,
        name,
        values,
        seconds=round(time.perf_counter() - start, 3),
        commit=environment.commit(),
        versions=environment.versions(),
        data=checksums,
        hardware=environment.hardware(devices=1, nodes=1),
    )


def _simple(experiment: str, data_dir: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    config = find_run(experiment, "fru").data
    data = load(config.name, data_dir=data_dir, **config.options())
    values = simple_predictors(data)
    values["straight line, after step 1"] = simple_predictors(data, skip=1)["straight line"]
    return dict(values), data.checksums


def _fits(experiment: str, data_dir: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    data = load(experiment, data_dir=data_dir, **SERIES)
    series = temperature(data_dir=data_dir, **SERIES)
    return {**SERIES, **fit_all(series)}, data.checksums
