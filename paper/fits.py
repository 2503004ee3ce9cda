"""How well a few functions of time fit a series: the paper's figure of Beijing's temperature.

Every fit is by least squares and has as many coefficients as it has terms:

- ``fourier``: 1, cos(2 pi t/T), sin(2 pi t/T), cos(4 pi t/T), ..., the Fourier series;
- ``chebyshev``, ``legendre``, ``walsh``: the first functions of the basis, as FRU has it;
- ``exponentials``: alpha^(t-1), what SRU's averages forget by. alpha = exp(-1/tau), with tau
  log-spaced from that of SRU's alpha = 0.25 (0.7 steps) past that of 0.99 (100 steps) up to T.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from torchfru.basis import BASES

Array = NDArray[np.float64]

TERMS = (5, 20, 60, 100)
FAMILIES = ("fourier", "chebyshev", "legendre", "walsh", "exponentials")


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
