"""The polynomial of the theorem on exponentials, on [0, 1] (that is t / T).

f(v) = v - v^3/3! + v^5/5! - v^7/7! + v^9/9!,     P(s) = f(beta s - beta/2),   f(beta/2) = 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

BETA = 9.926305734358834  # twice the largest root of f; :func:`constants` recomputes it


def taylor_sine(v: Any) -> Any:
    """f: the sine's Taylor polynomial of degree 9."""
    return sum((-1) ** j * v ** (2 * j + 1) / math.factorial(2 * j + 1) for j in range(5))


def target(s: Array) -> Array:
    """P at s = t/T in [0, 1]."""
    return np.asarray(taylor_sine(BETA * s - BETA / 2))


def target_integrals(edges: Array) -> Array:
    """The integral of P over each cell between neighbouring edges."""
    v = BETA * edges - BETA / 2
    whole = sum((-1) ** j * v ** (2 * j + 2) / math.factorial(2 * j + 2) for j in range(5))
    return np.diff(np.asarray(whole)) / BETA


@dataclass(frozen=True)
class Constants:
    """The numbers of the paper's proof: beta, two roots, two areas, the whole integral."""

    beta: float
    first_root: float
    second_root: float
    outer_area: float
    inner_area: float
    integral: float


STATED = Constants(9.9263, 0.1828, 0.8172, 0.0847, 0.2017, 0.5727)


def constants() -> Constants:
    """The same numbers from the definition of P, in 30 digits."""
    from mpmath import mp

    with mp.workdps(30):
        beta = 2 * mp.findroot(taylor_sine, 4.96)
        first = mp.findroot(lambda s: taylor_sine(beta * s - beta / 2), 0.18)
        second = mp.findroot(lambda s: taylor_sine(beta * s - beta / 2), 0.82)

        def area(low: Any, high: Any) -> Any:
            return mp.quad(lambda s: taylor_sine(beta * s - beta / 2), [low, high])

        outer, inner = area(0, first), abs(area(first, 0.5))
        values = (beta, first, second, outer, inner, 2 * (outer + inner))
        return Constants(*(float(v) for v in values))
