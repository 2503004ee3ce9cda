"""Paragraph "Gradient of linear RNN": its gradient vanishes or explodes exponentially.

    h(t) = W h(t-1) + U x(t) + b,      d h(T)/d h(T0) = W^(T-T0)

    sigma_min(W^n) |dL/dh(T)|  <=  |dL/dh(T0)|  <=  sigma_max(W^n) |dL/dh(T)|,    n = T - T0

attained by W = sigma I, where the factor is sigma^n. nn.RNN has no identity for phi, so the
unit is written out here, step by step; the gradient is autograd's.

The linear RNN and SRU do not depend on time: d u(T)/d u(T0) over n steps is the n/p-th power of
the Jacobian over p steps, which autograd gives. At n = 100,000 its singular values leave float64
(0.9^100000 = 10^-4576), so mpmath takes the powers, with 60 digits and no smallest number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from mpmath import mp, mpf
from torch import Tensor

from ..plots import Panel
from .finding import Finding, Settings, log_panel
from .linear import random_square

LENGTHS = (10, 100, 1_000, 10_000, 100_000)
PIECE = 100  # steps that autograd walks; longer products are powers of its Jacobian
DIGITS = 60
SIGMAS = (0.5, 0.9, 1.0, 1.1)
ROUNDING = 1e-9  # relative, on the logarithm of a product


def log_singular_values(matrix: Tensor, exponent: int) -> tuple[float, float]:
    """(log sigma_min, log sigma_max) of matrix^exponent for a 2 x 2 matrix, natural logarithms.

    From sigma_max^2 + sigma_min^2 = |A|_F^2 and sigma_max sigma_min = |det A|.

    >>> low, high = log_singular_values(torch.diag(torch.tensor([0.5, 2.0])), 100)
    >>> round(low / 100, 4), round(high / 100, 4)
    (-0.6931, 0.6931)
    """
    with mp.workdps(DIGITS):
        entries = [[mpf(float(v)) for v in row] for row in matrix.double().tolist()]
        power = mp.matrix(entries) ** exponent
        total = sum(v**2 for v in power)
        # the determinant of a power is the power of the determinant: no cancellation
        det = abs(entries[0][0] * entries[1][1] - entries[0][1] * entries[1][0]) ** exponent
        high = mp.sqrt((total + mp.sqrt(abs(total**2 - 4 * det**2))) / 2)
        values = (det / high if high else mpf(0), high)
        low, high = (float(mp.log(value)) if value > 0 else -math.inf for value in values)
    return low, high


def log_power(jacobian: Callable[[int], Tensor], length: int) -> float:
    """log sigma_max of d u(length)/d u(0), where ``jacobian`` gives d u(steps)/d u(0)."""
    piece = min(length, PIECE)
    return log_singular_values(jacobian(piece), length // piece)[1]


def exponential(
    title: str,
    parameter: str,
    values: Sequence[float],
    log_factor: Callable[[float, int], float],
    base: Callable[[float], float],
) -> tuple[float, dict[float, list[float]], Panel]:
    """Gradients that should be base^n: by how much their slopes are off, the logs, the panel."""
    logs = {value: [log_factor(value, n) for n in LENGTHS] for value in values}
    off = max(
        abs(log - n * math.log(base(value))) / n
        for value, found in logs.items()
        for n, log in zip(LENGTHS, found, strict=True)
    )
    named = {f"{parameter} {value:g}": found for value, found in logs.items()}
    return off, logs, log_panel(title, LENGTHS, named)


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


def random_case(generator: torch.Generator, _: int) -> tuple[Tensor, int, Tensor]:
    """W of up to 4 x 4, up to 59 steps, and the gradient of a loss."""
    size = int(torch.randint(1, 5, (), generator=generator))
    steps = int(torch.randint(1, 60, (), generator=generator))
    sigma = float(torch.rand((), generator=generator)) * 1.5 + 0.1
    w = random_square(generator, size, sigma)
    return w, steps, torch.randn(size, generator=generator, dtype=torch.float64)


def log_gradients(sigma: float, length: int) -> float:
    """log of the factor of W = sigma I over ``length`` steps."""
    w = sigma * torch.eye(2, dtype=torch.float64)
    return log_power(lambda steps: jacobian(w, steps), length)


def measure(settings: Settings) -> Finding:
    title = "Linear RNN, W = sigma I: exponential in T"
    off, logs, panel = exponential(title, "sigma", SIGMAS, log_gradients, lambda sigma: sigma)
    return Finding(
        tried=f"{settings.examples} random units; W = sigma I for {len(SIGMAS)} sigmas to "
        "T = 100,000",
        measure="relative distance outside the bounds",
        worst=max(off, *(excess(*case) for case in settings.random_units(random_case))),
        bound=ROUNDING,
        notes=(
            "exponential: over 100,000 steps sigma = 0.9 leaves 10^"
            f"{logs[0.9][-1] / math.log(10):.0f} of the gradient",
        ),
        panels=(panel,),
    )
