"""The claims on expressive power."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paper.theory import exponential_limits, expressive_power, fourier_fits, l1
from paper.theory.registry import one_thread
from paper.theory.target import BETA, STATED, constants, target, target_integrals
from paper.theory.vandermonde import determinant, product_formula, systems, vandermonde

SEARCH = settings(max_examples=200, deadline=None)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@SEARCH
@given(st.lists(st.fractions(-20, 20, max_denominator=30), min_size=1, max_size=5))
def test_the_vandermonde_determinant(nodes: list[Fraction]) -> None:
    assert determinant(vandermonde(nodes)) == product_formula(nodes)


def test_both_systems_of_the_lemma_can_be_solved() -> None:
    assert all(determinant(matrix) != 0 for d in range(1, 8) for matrix in systems(d))


@SEARCH
@given(
    terms=st.lists(st.floats(-1, 1), min_size=1, max_size=5).filter(lambda v: len(v) % 2 == 1),
    length=st.floats(0.1, 1_000),
    digits=st.floats(0, 6),
)
def test_harmonics_fit_polynomials(terms: list[float], length: float, digits: float) -> None:
    polynomial = [c / length**j for j, c in enumerate(terms)]
    fit = fourier_fits.construct(polynomial, length, 10**-digits)
    assert (
        fourier_fits.largest_error(fit, polynomial, length) <= float(fit.certified) <= 10**-digits
    )


def test_a_polynomial_of_odd_degree_is_refused() -> None:
    with pytest.raises(ValueError, match="even, got 1"):
        fourier_fits.construct([1.0, 2.0], 1.0, 0.1)


def test_the_constants_of_the_theorem_on_exponentials() -> None:
    ours = constants()
    assert ours["beta"] == pytest.approx(BETA, abs=1e-12)
    for name, stated in STATED.items():
        assert ours[name] == pytest.approx(stated, abs=1e-4), name


def test_cell_integrals_of_the_target() -> None:
    edges = np.linspace(0, 1, 11)
    fine = (np.arange(100_000) + 0.5) / 100_000
    expected = target(fine).reshape(10, -1).mean(1) / 10
    np.testing.assert_allclose(target_integrals(edges), expected, atol=1e-9)


def test_cell_integrals_of_decays() -> None:
    edges, rates = np.array([0.0, 0.3, 1.0]), np.array([1e-9, 2.0, 50.0])
    expected = (np.exp(-np.outer(edges[:-1], rates)) - np.exp(-np.outer(edges[1:], rates))) / rates
    found = l1.decay_integrals(edges, rates)
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=1e-12)
    np.testing.assert_allclose(found[:, 0], np.diff(edges), rtol=1e-8)  # no cancellation


def test_six_exponentials_pass_the_stated_bound() -> None:
    example = exponential_limits.counterexample()
    assert len(example.rates) == len(example.coefficients) == 6
    assert all(rate > 0 for rate in example.rates)
    assert example.error < STATED["outer_area"] - 1e-3
    fine = (np.arange(200_000) + 0.5) / 200_000  # a second opinion on the error
    x = np.exp(-np.outer(fine, example.rates)) @ np.array(example.coefficients)
    assert np.abs(target(fine) - x).mean() == pytest.approx(example.error, abs=1e-5)


def test_an_l1_fit_meets_its_certificate() -> None:
    grid = l1.sample(2_000)
    columns = np.exp(-np.outer(grid.points, [0.5, 3.0, 9.0]))
    found = l1.fit(columns, target(grid.points), grid.weights)
    assert found.lower <= found.error <= found.lower + 5e-3


@pytest.fixture(scope="module")
def curve() -> exponential_limits.Budgets:
    return exponential_limits.budgets((1e-1, 1e-2, 1e-3, 1e-4, 1e-5))


def test_fits_and_certificates_meet(curve: exponential_limits.Budgets) -> None:
    for budget, error in zip(curve.budgets, curve.errors, strict=True):
        assert error - 0.01 <= curve.lower(budget) <= error
    assert 3_000 < curve.safe(0.0847) < 6_000


@SEARCH
@given(
    rates=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12),
    ridge=st.floats(-9, 0),
)
def test_no_sum_of_exponentials_beats_its_certificate(
    curve: exponential_limits.Budgets, rates: list[float], ridge: float
) -> None:
    """The search: fits of any rates, their coefficients held back more or less."""
    budget, error = exponential_limits.held_back_fit(np.array(rates), 10**ridge)
    assert error >= curve.lower(budget) - 1e-4


def test_sru_s_rates_cannot_fit_the_target() -> None:
    assert all(0.45 < low <= error for error, low in exponential_limits.sru_errors())


def test_in_float32_fourier_terms_fit_where_exponentials_do_not() -> None:
    for goal in expressive_power.targets(seed=3).values():
        waves = expressive_power.error(expressive_power.fourier(64), goal)
        assert waves < 0.1 * expressive_power.best_exponentials(64, goal)


def test_fourier_columns_are_a_constant_then_pairs() -> None:
    columns = expressive_power.fourier(5)
    s = expressive_power.times()
    torch.testing.assert_close(columns[:, 0], torch.ones_like(s))
    torch.testing.assert_close(columns[:, 1], torch.sin(torch.pi * s))
    torch.testing.assert_close(columns[:, 4], torch.cos(2 * torch.pi * s))
