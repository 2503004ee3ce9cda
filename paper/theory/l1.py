"""Best fits in the mean absolute error, and certificates that no better fit exists.

A function g with |g| <= 1 bounds every fit x of P from below:

    int |P - x|  >=  int g (P - x)  =  int g P - int g x

so that int |P - x| >= int g P where g is orthogonal to x, and, for x = sum_i c_i exp(-r_i s)
of any number of terms, int |P - x| >= int g P - m sum_i |c_i| with m = sup_r |int g exp(-r s)|.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .target import Array


class Sampled(NamedTuple):
    """Points of [0, 1], denser near 0 where fast decays live, with weights that sum to 1."""

    points: Array
    weights: Array


def sample(count: int = 3_000) -> Sampled:
    edges = graded_edges(count)
    return Sampled((edges[1:] + edges[:-1]) / 2, np.diff(edges))


def graded_edges(count: int) -> Array:
    """0 = e_0 < ... < e_count = 1, quadratically denser near 0."""
    return np.asarray((np.arange(count + 1) / count) ** 2)


class L1Fit(NamedTuple):
    """Coefficients, the mean absolute error they give, and the least that any can give."""

    coefficients: Array
    error: float
    lower: float


def fit(columns: Array, goal: Array, weights: Array, rounds: int = 60) -> L1Fit:
    """min_c sum_j w_j |goal_j - (columns c)_j| by reweighted least squares, with a certificate.

    The certificate is the sign of the residual, made orthogonal to the columns and scaled back
    into [-1, 1].
    """
    w, p = torch.from_numpy(weights), torch.from_numpy(goal)
    root = w.sqrt().unsqueeze(1)
    q, r = torch.linalg.qr(torch.from_numpy(columns) * root)
    q = q / root  # orthonormal under the weights
    inner = q.t() @ (w * p)
    for _ in range(rounds):
        pull = (w / (p - q @ inner).abs().clamp(min=1e-8)).unsqueeze(1)
        inner = torch.linalg.solve(q.t() @ (pull * q), q.t() @ (pull[:, 0] * p))
    residual = p - q @ inner
    sign = residual.sign()
    sign = sign - q @ (q.t() @ (w * sign))
    sign = sign / max(1.0, float(sign.abs().max()))
    c = torch.linalg.solve_triangular(r, inner.unsqueeze(1), upper=True)[:, 0]
    return L1Fit(c.numpy(), float(w @ residual.abs()), float(w @ (sign * p)))


def decay_integrals(edges: Array, rates: Array) -> Array:
    """int exp(-r s) over each cell, (cells, rates), without cancellation."""
    starts, widths = edges[:-1, None], np.diff(edges)[:, None]
    return np.asarray(np.exp(-starts * rates) * -np.expm1(-widths * rates) / rates)


class Certificate(NamedTuple):
    """int |P - x| >= value - slope sum|c| for every x = sum_i c_i exp(-r_i s), r_i > 0."""

    value: float
    slope: float

    def lower(self, budget: float) -> float:
        return self.value - self.slope * budget


def priced_fit(cells: Array, goal: Array, price: float, last: float = 1e6) -> tuple[Array, Array]:
    """The g that maximises int g P with |g| <= 1 and |int g exp(-r s)| <= price; and the c.

    ``cells`` (n, k): integrals of the k decays over n cells; ``goal`` (n,): those of P. It is
    the dual of: minimise the error plus ``price`` times sum |c|. Solved by a barrier method,
    whose iterates g are strictly feasible throughout: whatever it returns certifies.
    """
    scaled, p = torch.from_numpy(cells / price), torch.from_numpy(goal)
    g, sharpness = torch.zeros_like(p), 10.0
    while sharpness < last:
        sharpness *= 6
        for _ in range(40):
            step, gain = _newton(scaled, p, g, sharpness)
            if gain < 1e-6:
                break
            size, now = 1.0, _height(scaled, p, g, sharpness)
            while _height(scaled, p, g + size * step, sharpness) > now - 0.1 * size * gain:
                size /= 2
                if size < 1e-9:
                    size = 0.0
                    break
            g = g + size * step
    v = scaled.t() @ g
    return (2 * v / (1 - v * v) / (price * sharpness)).numpy(), g.numpy()


def _height(scaled: Tensor, p: Tensor, g: Tensor, sharpness: float) -> float:
    """-sharpness int g P, and a wall at |g| = 1 and at |int g exp(-r s)| = price."""
    v = scaled.t() @ g
    if float(g.abs().max()) >= 1 or float(v.abs().max()) >= 1:
        return math.inf
    walls = torch.log1p(-g * g).sum() + torch.log1p(-v * v).sum()
    return float(-sharpness * (p @ g) - walls)


def _newton(scaled: Tensor, p: Tensor, g: Tensor, sharpness: float) -> tuple[Tensor, float]:
    """Newton's step down that height, and what it promises to gain."""
    v = scaled.t() @ g
    a, b = 1 - g * g, 1 - v * v
    slope = -sharpness * p + 2 * g / a + scaled @ (2 * v / b)
    root = torch.sqrt(2 * (1 + g * g)) / a
    m = scaled * (torch.sqrt(2 * (1 + v * v)) / b) / root.unsqueeze(1)
    system = torch.eye(len(g), dtype=torch.float64) + m @ m.t()
    step = -torch.linalg.solve(system, slope / root) / root
    return step, -float(slope @ step)


def certify(edges: Array, goal: Array, g: Array, count: int = 40_000) -> Certificate:
    """The certificate that a step function g gives, its supremum taken over every rate.

    On a grid of log r from 10^-9 to 10^9; between grid points h apart it can rise by at most
    0.31 h^2 / 8, as |d^2/d(log r)^2 exp(-r s)| <= 0.31; beyond the ends by 10^-9.
    """
    logs = np.linspace(-9, 9, count) * np.log(10)
    peak = max(
        float(np.abs(decay_integrals(edges, np.exp(part)).T @ g).max())
        for part in np.array_split(logs, 80)
    )
    between = 0.31 * (logs[1] - logs[0]) ** 2 / 8
    return Certificate(float(goal @ g), peak + float(between) + 1e-9)
