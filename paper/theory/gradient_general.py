"""Corollary: the gradient bounds of the linear FRU hold for any basis with |y_f(t)| <= 1.

    u(t) = u(t-1) + y_f(t)/T h(t):
    exp(-2 s) |dL/du(T)|  <=  |dL/du(T0)|  <=  exp(s) |dL/du(T)|,     s = sigma_max(W2 W1)

Tried with every basis of the report. What limits the theorem for Fourier limits the
corollary too (a constant function is in all of them); see :mod:`.gradient_fru`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..experiments import BASES
from ..plots import Panel
from .finding import Finding, Settings, line, panel
from .gradient_fru import (
    LOWER,
    ROUNDING,
    excess_as_stated,
    inequality_ends,
    over_time,
    search,
    worst_over_time,
)
from .linear import Extremes

LENGTHS = (10, 100, 1_000, 10_000)


def measure(settings: Settings) -> Finding:
    freqs = [0.0, 1.0, 2.0, 3.0]
    found = {name: over_time(LENGTHS, freqs, name, settings) for name in BASES}
    halves = {name: over_time(LENGTHS, freqs, name, settings, skip=2) for name in BASES}
    later = {name: [units[3] for units in ends[2.0]] for name, ends in halves.items()}
    worst, broken, examples = search(settings, BASES)
    worst = max(worst, *(worst_over_time(ends) for ends in (*found.values(), *halves.values())))
    constant = {name: replace(LOWER, basis=name) for name in BASES}
    refuted = any(max(excess_as_stated(case)) > 0 for case in constant.values())
    return Finding(
        claim="gradient-general",
        verdict="fails" if worst > ROUNDING else "refuted as stated" if refuted else "holds",
        tried=f"{', '.join(BASES)}: {len(LENGTHS)} lengths to T = 10,000 x 12 units; {examples} "
        f"random units, of which {broken} break the bounds as stated",
        measure="log of gradient over the bound that holds (above 0: broken)",
        worst=worst,
        bound=ROUNDING,
        statement="for every bounded basis exp(-2 sqrt(M) s) <= |dL/du(T0)| / |dL/du(T)| <= "
        f"exp(sqrt(M) s), the lower half where sqrt(M) s/T <= {inequality_ends():.4f}",
        counterexample="T = 1, the constant function of each basis, W = -0.9: gradient "
        f"{LOWER.gradients().low:.4f} < exp(-1.8) = {math.exp(-1.8):.4f}",
        panels=(_panel(later),),
    )


def _panel(found: dict[str, list[Extremes]]) -> Panel:
    lines = []
    for name, ends in found.items():
        lines.append(line(f"{name}, largest", LENGTHS, [e.high for e in ends]))
        lines.append(line(f"{name}, smallest", LENGTHS, [e.low for e in ends], "dashed"))
    limits = {"upper bound": math.exp(2.0), "lower bound": math.exp(-4.0)}
    title = "sigma_max(W) = 2, T0 = T/2, the fourth function of each"
    return panel(title, "T", "gradient factor", lines, limits)
