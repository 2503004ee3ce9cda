"""The polynomial of the theorem on exponentials, on [0, 1] (that is t / T).

f(v) = v - v^3/3! + v^5/5! - v^7/7! + v^9/9!,     P(s) = f(beta s - beta/2),   f(beta/2) = 0
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from mpmath import mp

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


# of the paper's proof
STATED = {
    "beta": 9.9263,
    "first_root": 0.1828,
    "second_root": 0.8172,
    "outer_area": 0.0847,
    "inner_area": 0.2017,
    "integral": 0.5727,
}


def constants() -> dict[str, float]:
    """The same numbers from the definition of P, in 30 digits."""
    with mp.workdps(30):
        beta = 2 * mp.findroot(taylor_sine, 4.96)

        def p(s: Any) -> Any:
            return taylor_sine(beta * s - beta / 2)

        first, second = mp.findroot(p, 0.18), mp.findroot(p, 0.82)
        outer, inner = mp.quad(p, [0, first]), abs(mp.quad(p, [first, 0.5]))
        values = (beta, first, second, outer, inner, 2 * (outer + inner))
        return dict(zip(STATED, map(float, values), strict=True))
