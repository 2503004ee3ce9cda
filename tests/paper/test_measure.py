"""Fits of a series by a few functions, and the measurement that holds them."""

from __future__ import annotations

import numpy as np
import pytest
from data_helpers import beijing_rows, make_beijing

from paper import measure as module
from paper.measure import FAMILIES, TERMS, columns, fit_all, measure

T = 300
t = np.arange(1, T + 1)


def error(family: str, series: np.ndarray, terms: int) -> float:
    return fit_all(series)["fits"][family][str(terms)]["rmse"]


def test_each_family_fits_what_it_is_made_of():
    made_of = {
        "fourier": 2 + np.cos(2 * np.pi * 2 * t / T) - 3 * np.sin(2 * np.pi * t / T),
        "chebyshev": ((2 * t - 1) / T - 1.0) ** 4,
        "legendre": ((2 * t - 1) / T - 1.0) ** 4,
        "walsh": np.where(t <= T / 2, 1.0, -1.0),
        "exponentials": np.exp(-(t - 1) / T),
    }
    for family, series in made_of.items():
        assert error(family, series, 5) < 1e-9, family
        assert error(family, made_of["fourier"] + t % 7, 5) > 1, family


def test_more_terms_never_fit_worse():
    series = np.random.default_rng(0).normal(size=T).cumsum()
    for family in FAMILIES:
        errors = [error(family, series, terms) for terms in TERMS]
        assert errors == sorted(errors, reverse=True), family


@pytest.mark.parametrize("family", FAMILIES)
def test_as_many_columns_as_terms(family):
    matrix = columns(family, T, 20)
    assert matrix.shape == (T, 20)
    assert np.abs(matrix).max() <= 1 + 1e-12
    assert len(np.unique(matrix.round(12), axis=1).T) == 20


def test_beijing(tmp_path, monkeypatch):
    make_beijing(tmp_path, monkeypatch, beijing_rows())
    monkeypatch.setattr(module, "SERIES", {"every": "day", "start": 2010, "end": 2010})
    found = measure("beijing", "fits", tmp_path)
    assert (found.experiment, found.name, found.values["end"]) == ("beijing", "fits", 2010)
    assert len(found.values["series"]) == len(found.values["fits"]["walsh"]["5"]["curve"]) == 365
    assert found.values["fits"]["fourier"]["5"]["rmse"] < 1e-9  # every day's mean is the same
    assert found.data
    assert found.versions
    assert found.hardware["cores"]


def test_simple_predictors_of_the_papers_task():
    found = measure("mix-poly-5", "simple").values
    assert 0 < found["straight line"] < found["last value"] < 1e-3
    assert 2e-8 < found["straight line, after step 1"] < 4e-8  # nearly all was at that step
