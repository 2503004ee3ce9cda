"""Paragraph "Gradient of linear SRU": exponential, with a better base than the RNN's.

    u(t) = a u(t-1) + (1-a) h(t),  h = W u:     d u(T)/d u(T0) = (a I + (1-a) W)^n,  n = T - T0

    (a + (1-a) sigma_min(W))^n  <=  |dL/du(T0)| / |dL/du(T)|  <=  (a + (1-a) sigma_max(W))^n

The upper half is the triangle inequality. The lower half takes sigma_min(a I + (1-a) W) for
a + (1-a) sigma_min(W), which needs W to be symmetric and positive: with W = -1 and a = 1/2
the gradient is 0 and the bound 1. What holds for every W:

    max(a - (1-a) sigma_max(W), (1-a) sigma_min(W) - a, 0)^n  <=  ...

and with several decays, D = diag(a_k), the upper half with max_k a_k + |1 - a|_2 sigma_max(W)
in the brackets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torchfru.ops import use_backend

from .finding import Finding, Settings
from .gradient_rnn import exponential, log_power
from .linear import Extremes, extremes, jacobian, largest, linear_sru, random_square, smallest

ALPHAS = (0.25, 0.5, 0.9, 0.99)
ROUNDING = 1e-9
ONE_STEP = 1e-15  # of one step's a I + (1-a) W, whose two terms can cancel
RESOLUTION = 1e-13  # of sigma_min, against sigma_max: float64 sees no smaller ratio


@dataclass(frozen=True)
class SRUCase:
    """One linear SRU: W = W2 W1 (n_h, K n_h), its decays, and how many steps it takes."""

    w: Tensor
    alphas: list[float]
    steps: int

    def gradients(self) -> Extremes:
        """By the step-by-step scan: the fast one ends in a sum, whose terms are of order 1 and
        cancel where the gradient has all but vanished; it is right to 1e-16 of them only."""
        with use_backend("reference"):
            return extremes(jacobian(linear_sru(self.w, self.alphas), self.steps))


def excess_as_stated(case: SRUCase) -> float:
    """log by which a unit of one decay leaves the paper's bounds (> 0: it does)."""
    (alpha,) = case.alphas
    low = alpha + (1 - alpha) * smallest(case.w)
    return _excess(case, low, alpha + (1 - alpha) * largest(case.w))


def excess_corrected(case: SRUCase) -> float:
    """log by which a unit leaves the bounds that hold for every W and any decays."""
    if len(case.alphas) > 1:
        spread = math.sqrt(sum((1 - alpha) ** 2 for alpha in case.alphas))
        return _excess(case, 0.0, max(case.alphas) + spread * largest(case.w))
    (alpha,) = case.alphas
    low = max(alpha - (1 - alpha) * largest(case.w), (1 - alpha) * smallest(case.w) - alpha, 0.0)
    return _excess(case, low, alpha + (1 - alpha) * largest(case.w))


def _excess(case: SRUCase, low: float, high: float) -> float:
    found = case.gradients()
    above = math.log(found.high) - case.steps * math.log(high) if found.high > 0 else -math.inf
    low -= ONE_STEP * high
    if low <= 0:
        return above
    seen = found.low + RESOLUTION * found.high
    return max(above, case.steps * math.log(low) - math.log(seen) if seen > 0 else math.inf)


def random_case(generator: torch.Generator, _: int = 0) -> SRUCase:
    """A small unit of 1 to 3 numbers a decay, 1 to 3 decays, up to 20 steps, sigma to 2."""
    size = int(torch.randint(1, 4, (), generator=generator))
    count = max(1, int(torch.randint(-1, 4, (), generator=generator)))
    steps = int(torch.randint(1, 21, (), generator=generator))
    sigma = 2 * float(torch.rand((), generator=generator)) + 1e-3
    w = random_square(generator, size * count, 1.0)[:size]
    alphas = (0.02 + 0.96 * torch.rand(count, generator=generator)).tolist()
    return SRUCase(w * (sigma / largest(w)), alphas, steps)


COUNTEREXAMPLE = SRUCase(torch.tensor([[-1.0]], dtype=torch.float64), [0.5], 1)


def log_gradients(alpha: float, length: int) -> float:
    """log of the factor of W = 0.5 I over ``length`` steps of the layer."""
    layer = linear_sru(0.5 * torch.eye(2, dtype=torch.float64), [alpha])
    return log_power(lambda steps: jacobian(layer, steps), length)


def measure(settings: Settings) -> Finding:
    worst, single, broken = -math.inf, 0, 0
    for case in settings.random_units(random_case):
        worst = max(worst, excess_corrected(case))
        if len(case.alphas) == 1:
            single += 1
            broken += excess_as_stated(case) > ROUNDING
    title = "Linear SRU, W = I/2: exponential in T"
    off, logs, panel = exponential(
        title, "alpha", ALPHAS, log_gradients, lambda alpha: alpha + (1 - alpha) * 0.5
    )
    found = COUNTEREXAMPLE.gradients()
    return Finding(
        refuted=excess_as_stated(COUNTEREXAMPLE) > 0,
        tried=f"{settings.examples} random units ({single} of one decay, {broken} of them break "
        f"the bounds as stated); W = I/2 for {len(ALPHAS)} decays to T = 100,000",
        measure="log of gradient over the bound that holds (above 0: broken)",
        worst=max(worst, off),
        bound=ROUNDING,
        statement="the upper bound for every W; the lower for symmetric positive W, and for every "
        "W with max(a - (1-a) sigma_max, (1-a) sigma_min - a, 0) in the brackets; for several "
        "decays the upper with max a_k + |1 - a|_2 sigma_max. Exponential in T either way",
        counterexample=f"one step, n_h = 1, a = 0.5, W = -1: gradient {found.low:g}, stated lower "
        "bound 1",
        notes=(
            f"W = I/2 over 100,000 steps leaves 10^{logs[0.99][-1] / math.log(10):.0f} of the "
            "gradient at a = 0.99",
        ),
        panels=(panel,),
    )
