"""Measurements without training: fits of Beijing's temperature, and predictors that learn nothing.

The paper's figure of Beijing's temperature shows how well a few functions of time fit a series.
Every fit is by least squares and has as many coefficients as it has terms:

- ``fourier``: 1, cos(2 pi t/T), sin(2 pi t/T), cos(4 pi t/T), ..., the Fourier series;
- the other bases: their first functions, as FRU has them;
- ``exponentials``: alpha^(t-1), how SRU's averages forget. alpha = exp(-1/tau), with tau
  log-spaced from that of SRU's alpha = 0.25 (0.7 steps) past that of 0.99 (100 steps) up to T.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from torchfru import records
from torchfru.basis import BASES
from torchfru.data import SequenceData, load, temperature

from . import experiments
from .plan import Measurement

Array = NDArray[np.float64]

SERIES: dict[str, Any] = {"every": "day", "start": 2010, "end": 2012}  # the paper's figure
TERMS = (5, 20, 60, 100)
FAMILIES = (*experiments.BASES, "exponentials")


def measure(experiment: str, name: str, data_dir: Path | None = None) -> Measurement:
    """Make the measurement ``fits`` or ``simple``, with the origin of its numbers."""
    start = time.perf_counter()
    make = {"fits": _fits, "simple": _naive}[name]
    values, checksums = make(experiment, data_dir)
    return Measurement(
        experiment,
        name,
        values,
        seconds=round(time.perf_counter() - start, 3),
        commit=records.commit(),
        versions=records.versions(),
        data=checksums,
        hardware=records.hardware(devices=1, nodes=1),
    )


def _naive(experiment: str, data_dir: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    config = experiments.EXPERIMENTS[experiment]["fru"].data
    data = load(config.name, data_dir=data_dir, **config.options())
    values = naive_predictors(data)
    values["straight line, after step 1"] = naive_predictors(data, skip=1)["straight line"]
    return dict(values), data.checksums


def naive_predictors(data: SequenceData, skip: int = 0) -> dict[str, float]:
    """Test MSE of repeating the last value, and of the straight line through the last two.

    At the first step there is no line yet, and the last value stands in for it; ``skip`` leaves so
    many steps out.
    """
    x, y = data.test.inputs, data.test.targets  # (N, L, 1)
    before = x.roll(1, dims=1)
    before[:, 0] = x[:, 0]
    guesses = {"last value": x, "straight line": 2 * x - before}
    errors = {name: (guess - y)[:, skip:] for name, guess in guesses.items()}
    return {name: float(error.square().mean()) for name, error in errors.items()}


def _fits(experiment: str, data_dir: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    data = load(experiment, data_dir=data_dir, **SERIES)
    series = temperature(data_dir=data_dir, **SERIES)
    return {**SERIES, **fit_all(series)}, data.checksums


def fit_all(series: Array) -> dict[str, Any]:
    """The series, and for each family and number of terms the curve and its error."""
    fits = {
        family: {str(terms): _fit(columns(family, len(series), terms), series) for terms in TERMS}
        for family in FAMILIES
    }
    return {"series": _rounded(series), "terms": list(TERMS), "fits": fits}


def columns(family: str, length: int, terms: int) -> Array:
    """(T, terms): the functions at t = 1..T."""
    t = np.arange(1, length + 1)
    if family == "fourier":
        index = np.arange(terms)
        angle = 2 * np.pi * np.outer(t, (index + 1) // 2) / length
        return np.where(index % 2 == 0, np.sin(angle), np.cos(angle)) + (index == 0)
    if family == "exponentials":
        tau = np.geomspace(-1 / math.log(0.25), length, terms)
        return np.exp(-np.outer(t - 1, 1 / tau))
    degrees = torch.arange(terms, dtype=torch.float64)
    return BASES[family].rows(torch.from_numpy(t), degrees, None, length).numpy()


def _fit(matrix: Array, series: Array) -> dict[str, Any]:
    coefficients = np.linalg.lstsq(matrix, series, rcond=None)[0]
    curve = matrix @ coefficients
    return {
        "rmse": float(np.sqrt(np.mean((curve - series) ** 2))),
        "largest_coefficient": float(np.abs(coefficients).max()),  # the price of a good fit
        "curve": _rounded(curve),
    }


def _rounded(values: Array) -> list[float]:
    """To a thousandth of a degree, for a file of moderate size."""
    return [round(float(value), 3) for value in values]
