"""Paragraph "Gradient of linear RNN": its gradient vanishes or explodes exponentially.

    h(t) = W h(t-1) + U x(t) + b,      d h(T)/d h(T0) = W^(T-T0)

    sigma_min(W^n) |dL/dh(T)|  <=  |dL/dh(T0)|  <=  sigma_max(W^n) |dL/dh(T)|,    n = T - T0

attained by W = sigma I, where the factor is sigma^n. nn.RNN has no identity for phi, so the
unit is written out here, step by step; the gradient is autograd's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .finding import Finding, Settings, log_panel
from .linear import random_square
from .powers import log_singular_values

LENGTHS = (10, 100, 1_000, 10_000, 100_000)
PIECE = 100  # steps that autograd walks; longer products are powers of its Jacobian
SIGMAS = (0.5, 0.9, 1.0, 1.1)
ROUNDING = 1e-9  # relative, on the logarithm of a product


def linear_rnn(h: Tensor, w: Tensor, steps: int) -> Tensor:
    """h (N, n) after ``steps`` steps without input."""
    for _ in range(steps):
        h = h @ w.t()
    return h


def jacobian(w: Tensor, steps: int) -> Tensor:
    """d h(steps) / d h(0), (n, n), by autograd through the loop."""
    start = torch.zeros(len(w), len(w), dtype=torch.float64, requires_grad=True)
    after = linear_rnn(start, w, steps)
    (rows,) = torch.autograd.grad(after, start, torch.eye(len(w), dtype=torch.float64))
    return rows


def excess(w: Tensor, steps: int, loss: Tensor) -> float:
    """By how much, as a relative amount, |dL/dh(0)| leaves its bounds (> 0: leaves them)."""
    factor = float((jacobian(w, steps).t() @ loss).norm() / loss.norm())
    values = torch.linalg.svdvals(torch.linalg.matrix_power(w, steps))
    high, low = float(values[0]), float(values[-1])
    return max(factor - high, low - factor) / max(high, 1e-150)  # squares of less underflow


def log_gradients(sigma: float, length: int) -> float:
    """log of the factor of W = sigma I over ``length`` steps."""
    piece = min(length, PIECE)
    jac = jacobian(sigma * torch.eye(2, dtype=torch.float64), piece)
    return log_singular_values(jac, length // piece)[1]


def search(settings: Settings) -> float:
    generator = torch.Generator().manual_seed(settings.seed)
    worst = -math.inf
    for _ in range(settings.examples):
        size = int(torch.randint(1, 5, (), generator=generator))
        steps = int(torch.randint(1, 60, (), generator=generator))
        sigma = float(torch.rand((), generator=generator)) * 1.5 + 0.1
        w = random_square(generator, size, sigma)
        loss = torch.randn(size, generator=generator, dtype=torch.float64)
        worst = max(worst, excess(w, steps, loss))
    return worst


def measure(settings: Settings) -> Finding:
    settings.tick("random units")
    worst = search(settings)
    curves = {sigma: [log_gradients(sigma, n) for n in LENGTHS] for sigma in SIGMAS}
    slope = max(
        abs(value - n * math.log(sigma)) / n
        for sigma, values in curves.items()
        for n, value in zip(LENGTHS, values, strict=True)
    )
    return Finding(
        claim="gradient-rnn",
        verdict="holds" if max(worst, slope) <= ROUNDING else "fails",
        tried=f"{settings.examples} random units; W = sigma I for {len(SIGMAS)} sigmas to "
        "T = 100,000",
        measure="relative distance outside the bounds",
        worst=max(worst, slope),
        bound=ROUNDING,
        notes=(
            "exponential: over 100,000 steps sigma = 0.9 leaves 10^"
            f"{curves[0.9][-1] / math.log(10):.0f} of the gradient",
        ),
        panels=(log_panel("Linear RNN, W = sigma I: exponential in T", LENGTHS, curves, "sigma"),),
    )
