"""Theorem: no sum of decaying exponentials fits a certain polynomial P of degree 9.

    for any k, c_1..c_k and a_1..a_k in (0, 1):
    1/T int_0^T |P(t) - sum_i c_i a_i^t| dt  >~  1/T int_0^T |P(t)| dt,     by the proof >= 0.0847

The proof takes from the literature that such a sum has at most two zeros. A sum of k
exponentials has up to k - 1 (it is a polynomial in disguise: put a_i = a^i), and by
Weierstrass' theorem those sums come as close to P as one likes. So the theorem is false for
every constant; measured here is from which k on, and at what price. In units of T, with
rates r_i = -T log a_i > 0, what does hold:

- k <= 3: at most two zeros, and the paper's own argument gives 0.0847;
- SRU's five fixed rates: the best fit, with its certificate, at every T tried;
- any k and any rates, if sum_i |c_i| <= B: error >= max_g (int g P - B sup_r |int g e^(-rs)|),
  with explicit g (:mod:`.l1`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp

from torchfru.defaults import ALPHAS

from ..plots import Panel
from .finding import Finding, Settings, panel
from .l1 import (
    Certificate,
    L1Fit,
    certify,
    decay_integrals,
    fit,
    graded_edges,
    priced_fit,
    sample,
)
from .target import STATED, Array, constants, target, target_integrals, taylor_sine

COUNTEREXAMPLE_RATES = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
PRICES = tuple(10.0**-p for p in sorted([*np.arange(1.0, 6.01, 0.25), 5.125, 5.15, 5.2]))
TERMS = tuple(range(1, 9))
LENGTHS = (10, 30, 100, 300, 784, 3_000, 10_000, 100_000)
CELLS, RATES = 200, 200


class Counterexample(NamedTuple):
    """x(t) = sum_i c_i exp(-r_i t/T) and its mean absolute error, in 30 digits."""

    rates: tuple[float, ...]
    coefficients: tuple[float, ...]
    error: float


def counterexample() -> Counterexample:
    """Six terms whose error is below the theorem's 0.0847."""
    best = best_fit(np.array(COUNTEREXAMPLE_RATES))
    rounded = tuple(round(float(c), 4) for c in best.coefficients)  # so that they can be printed
    return Counterexample(COUNTEREXAMPLE_RATES, rounded, exact_error(COUNTEREXAMPLE_RATES, rounded))


def exact_error(rates: tuple[float, ...], coefficients: tuple[float, ...]) -> float:
    """1/T int |P - x|, by mpmath's quadrature on 40 pieces."""
    with mp.workdps(30):
        beta = 2 * mp.findroot(taylor_sine, 4.96)

        def gap(s: Any) -> Any:
            x = sum(c * mp.exp(-r * s) for r, c in zip(rates, coefficients, strict=True))
            return abs(taylor_sine(beta * s - beta / 2) - x)

        return float(mp.quad(gap, [mp.mpf(i) / 40 for i in range(41)], maxdegree=4))


def best_fit(rates: Array, count: int = 3_000, rounds: int = 60) -> L1Fit:
    """The sum of exponentials with these rates that fits P best, on ``count`` points."""
    grid = sample(count)
    columns = np.exp(-np.outer(grid.points, rates))
    return fit(columns, target(grid.points), grid.weights, rounds)


def best_by_terms(terms: int) -> float:
    """The smallest error found with ``terms`` equally spaced rates, over offsets and spacings."""
    return min(
        best_fit(np.array([first + spacing * k for k in range(terms)]), 800, rounds=25).error
        for spacing in (0.1, 0.5, 1.0, 2.0)
        for first in (0.01, 0.5, 1.0, 2.0, 3.0, 5.0)
    )


def sru_errors() -> list[tuple[float, float]]:
    """(found, certified) for SRU's rates in (0, 1) at each of LENGTHS."""
    rates = (np.array([-n * np.log(a) for a in ALPHAS if a > 0]) for n in LENGTHS)
    return [(best.error, best.lower) for best in map(best_fit, rates)]


@dataclass(frozen=True)
class Budgets:
    """Fits and certificates along a sequence of prices: error against B = sum |c|."""

    budgets: Array
    errors: Array
    certificates: tuple[Certificate, ...]

    def lower(self, budget: float) -> float:
        """No sum with sum |c| <= budget comes closer than this."""
        return max(certificate.lower(budget) for certificate in self.certificates)

    def safe(self, error: float) -> float:
        """The largest budget at which ``error`` is certified to be out of reach."""
        return max((c.value - error) / c.slope for c in self.certificates)


def budgets(prices: tuple[float, ...] = PRICES) -> Budgets:
    edges, grid = graded_edges(CELLS), sample()
    rates = np.concatenate([[1e-6], np.geomspace(0.05, 1e4, RATES)])  # the first: a constant
    cells, goal = decay_integrals(edges, rates), target_integrals(edges)
    columns, values = np.exp(-np.outer(grid.points, rates)), target(grid.points)
    sizes, errors, certificates = [], [], []
    for price in prices:
        c, g = priced_fit(cells, goal, price)
        certificates.append(certify(edges, goal, g))
        error = float(grid.weights @ np.abs(values - columns @ c))
        if error <= STATED["integral"] + 1e-3:  # else rounding has spoilt c (never g): no fit
            sizes.append(float(np.abs(c).sum()))
            errors.append(error)
    return Budgets(np.array(sizes), np.array(errors), tuple(certificates))


def held_back_fit(rates: Array, ridge: float) -> tuple[float, float]:
    """(sum |c|, error) of the least-squares fit with these rates and a penalty on c."""
    grid = sample(700)
    columns, goal, root = np.exp(-np.outer(grid.points, rates)), target(grid.points), grid.weights
    q, s, v = np.linalg.svd(columns * np.sqrt(root)[:, None], full_matrices=False)
    c = v.T @ (s / (s**2 + ridge**2) * (q.T @ (goal * np.sqrt(root))))
    return float(np.abs(c).sum()), float(grid.weights @ np.abs(goal - columns @ c))


def search(curve: Budgets, settings: Settings) -> float:
    """Random rates and penalties: the least by which an error exceeds its certificate."""
    draw = np.random.default_rng(settings.seed)
    margin = np.inf
    for _ in range(settings.examples):
        rates = 10 ** draw.uniform(-3, 3, size=draw.integers(1, 20))
        budget, error = held_back_fit(rates, 10 ** draw.uniform(-9, 0))
        margin = min(margin, error - curve.lower(budget))
    return float(margin)


def measure(settings: Settings) -> Finding:
    settings.tick("constants")
    ours, limit = constants(), STATED["outer_area"]
    off = max(abs(ours[name] - STATED[name]) for name in STATED)
    settings.tick("number of terms")
    by_terms = [best_by_terms(k) for k in TERMS]
    example = counterexample()
    settings.tick("SRU's rates")
    sru = sru_errors()
    settings.tick("bounded coefficients")
    curve = budgets()
    found = list(zip(curve.budgets, curve.errors, strict=True))
    consistent = all(curve.lower(b) <= error + 1e-3 for b, error in found)
    consistent &= all(low <= error + 1e-9 for error, low in sru)
    passing, safe = min(b for b, e in found if e < limit - 1e-4), curve.safe(limit)
    terms = ", ".join(f"{c:.4f}" for c in example.coefficients)
    return Finding(
        sound=consistent and off <= 2e-4 and search(curve, settings) >= -1e-4,
        refuted=example.error < limit - 1e-4,
        tried=f"6 constants (largest difference {off:.0e}); k = 1 to 8 terms; SRU's rates to "
        f"T = 100,000; {len(PRICES)} budgets; {settings.examples} random fits against their "
        "certificates",
        measure="1/T int |P - x| of the smallest counterexample",
        worst=example.error,
        bound=limit,
        statement=f"k <= 3: error >= {limit}; best found for k = 4: {by_terms[3]:.3f}, k = 5: "
        f"{by_terms[4]:.3f}, k = 8: {by_terms[7]:.3f}. SRU's rates: error >= "
        f"{min(low for _, low in sru):.3f} at every T tried. Any k and rates: error >= {limit} "
        f"while sum |c_i| <= {safe:,.0f}; the bound was passed with sum |c_i| = {passing:,.0f}",
        counterexample=f"k = {len(example.rates)}, a_i = exp(-r_i/T), r = {example.rates}, "
        f"c = ({terms}): error {example.error:.4f}",
        notes=(
            "beta {beta:.4f}, roots {first_root:.4f} and {second_root:.4f}, areas "
            "{outer_area:.4f} and {inner_area:.4f}, integral {integral:.4f}".format(**ours),
        ),
        panels=_panels(by_terms, sru, curve, {"stated bound 0.0847": limit}),
    )


def _panels(
    by_terms: list[float],
    sru: list[tuple[float, float]],
    curve: Budgets,
    stated: dict[str, float],
) -> tuple[Panel, ...]:
    ylabel, low = "mean absolute error", "certified lower bound"
    keep, wide = curve.budgets > 1e-1, np.geomspace(0.1, 1e5, 80)
    bound = [max(curve.lower(b), 1e-4) for b in wide]
    sizes = {"best found": curve.budgets[keep].tolist(), low: wide.tolist()}
    errors = {"best found": curve.errors[keep].tolist(), low: bound}
    of_sru = {"best fit": [error for error, _ in sru], low: [lower for _, lower in sru]}
    shared: dict[str, Any] = {
        "limits": stated,
        "yscale": "linear",
        "kinds": {"best found": "points", "best fit": "points"},
    }
    found, title = {"best found": by_terms}, "Any rates: error by the number of terms"
    return (
        panel(title, "k", ylabel, TERMS, found, stated, xscale="linear"),
        panel("Any k, any rates: error by sum |c|", "B = sum |c|", ylabel, sizes, errors, **shared),
        panel("SRU's rates: error by T", "T", ylabel, LENGTHS, of_sru, **shared),
    )
