"""Lemma: d+1 harmonics fit any polynomial of degree 2d on [0, T] to any epsilon.

    x(t) = sum_{i=1..d+1} a_i cos(2 pi f i t) + b_i cos(2 pi f i t + theta_i),   theta_i = -pi/2

The construction: match the Taylor coefficients of x with those of Q = sum c_j t^j, two linear
systems (:mod:`.vandermonde`) for j = 0..d,

    sum_i i^(2j)   a_i = (-1)^j (2j)!   c_2j     / (2 pi f)^(2j)
    sum_i i^(2j+1) b_i = (-1)^j (2j+1)! c_(2j+1) / (2 pi f)^(2j+1),      c_(2d+1) = 0,

and halve f until what Taylor's theorem leaves over is below epsilon:

    sum_i |a_i| (2 pi f i T)^(2d+2) / (2d+2)! + |b_i| (2 pi f i T)^(2d+3) / (2d+3)!  <=  epsilon

It always ends, since the left side falls as f^2. The price is the size of a and b, which
grows as f^(-2d), that is as epsilon^(-d): float32 holds 7 digits of them, float64 16.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mpmath import mp

from .finding import Finding, Settings, panel

EPSILONS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
HALF_DEGREES = (1, 2, 3, 4, 5)
DIGITS = 120
GRID = 60  # points in [0, T] where the error is measured


@dataclass(frozen=True)
class Fit:
    """f, a, b (mpmath numbers) and the error that Taylor's theorem allows."""

    frequency: Any
    cosines: tuple[Any, ...]
    sines: tuple[Any, ...]
    certified: Any

    @property
    def price(self) -> float:
        """log10 of the largest coefficient."""
        return float(mp.log10(max(abs(v) for v in (*self.cosines, *self.sines))))

    def __call__(self, t: Any) -> Any:
        """x(t), in mpmath's working precision."""
        total = mp.mpf(0)
        for i, (a, b) in enumerate(zip(self.cosines, self.sines, strict=True), start=1):
            angle = 2 * mp.pi * self.frequency * i * t
            total += a * mp.cos(angle) + b * mp.cos(angle - mp.pi / 2)
        return total


def construct(coefficients: Sequence[float], length: float, epsilon: float) -> Fit:
    """The lemma's x for Q(t) = sum_j c_j t^j of even degree 2d, T and epsilon."""
    with mp.workdps(DIGITS):
        c = [mp.mpf(v) for v in coefficients] + [mp.mpf(0)]
        if len(c) % 2:
            raise ValueError(f"construct: the degree must be even, got {len(coefficients) - 1}")
        d = len(c) // 2 - 1
        even = mp.matrix([[mp.mpf(i) ** (2 * j) for i in range(1, d + 2)] for j in range(d + 1)])
        odd = mp.matrix([[mp.mpf(i) ** (2 * j + 1) for i in range(1, d + 2)] for j in range(d + 1)])
        inverse_even, inverse_odd = even**-1, odd**-1
        f = 1 / (4 * mp.mpf(length))
        while True:
            fit = _solve(c, f, mp.mpf(length), inverse_even, inverse_odd)
            if fit.certified <= epsilon:
                return fit
            f = f / 2


def _solve(c: Sequence[Any], f: Any, length: Any, inverse_even: Any, inverse_odd: Any) -> Fit:
    d, w = len(c) // 2 - 1, 2 * mp.pi * f
    gamma = [(-1) ** (n // 2) * mp.factorial(n) * c[n] / w**n for n in range(2 * d + 2)]
    a, b = inverse_even * mp.matrix(gamma[0::2]), inverse_odd * mp.matrix(gamma[1::2])
    left = mp.mpf(0)
    for i in range(1, d + 2):
        x = w * i * length
        left += abs(a[i - 1]) * x ** (2 * d + 2) / mp.factorial(2 * d + 2)
        left += abs(b[i - 1]) * x ** (2 * d + 3) / mp.factorial(2 * d + 3)
    return Fit(f, tuple(a), tuple(b), left)


def largest_error(fit: Fit, coefficients: Sequence[float], length: float) -> float:
    """max |x(t) - Q(t)| over a grid of [0, T], both ends included."""
    with mp.workdps(DIGITS):
        grid = [mp.mpf(length) * i / GRID for i in range(GRID + 1)]
        c = [mp.mpf(v) for v in coefficients]
        return float(max(abs(fit(t) - mp.polyval(c[::-1], t)) for t in grid))


def random_polynomial(draw: random.Random, d: int, length: float) -> list[float]:
    """Degree 2d; each term of the size of one at t = T."""
    return [draw.uniform(-1, 1) / length**j for j in range(2 * d + 1)]


def measure(settings: Settings) -> Finding:
    draw = random.Random(settings.seed)
    prices: dict[int, list[float]] = {}
    ratios: list[float] = []

    def price(target: list[float], length: float, epsilon: float) -> float:
        fit = construct(target, length, epsilon)
        ratios.append(largest_error(fit, target, length) / epsilon)
        return fit.price

    for d in HALF_DEGREES:
        settings.tick(f"degree {2 * d}")
        length = draw.choice([1.0, 100.0, 784.0])
        target = random_polynomial(draw, d, length)
        prices[d] = [price(target, length, epsilon) for epsilon in EPSILONS]
    for _ in range(settings.examples):
        d, length = draw.randint(0, 4), 10 ** draw.uniform(-1, 4)
        epsilon = 10 ** draw.uniform(-8, 0)
        price(random_polynomial(draw, d, length), length, epsilon)
    curves = {f"degree {2 * d}": values for d, values in prices.items()}
    limits = {"digits of float32": 7.0, "digits of float64": 16.0}
    title, ylabel = "The price of the interpolation lemma", "log10 of the largest coefficient"
    return Finding(
        tried=f"{len(ratios)} polynomials of degree 0 to 10, T = 0.1 to 10,000, epsilon = 1 to "
        "1e-8",
        measure="largest error over epsilon",
        worst=max(ratios),
        bound=1.0,
        notes=(
            f"the price: degree 10 to 1e-8 takes coefficients of 10^{prices[5][-1]:.0f}, degree 4 "
            f"to 1e-2 of 10^{prices[2][1]:.0f}; float32 holds 7 digits of them",
            "f depends on T and on Q's coefficients too, not on d and epsilon alone",
        ),
        panels=(panel(title, "epsilon", ylabel, EPSILONS, curves, limits, yscale="linear"),),
    )
