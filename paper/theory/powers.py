"""Powers of a small Jacobian beyond the range and the digits of float64, by mpmath.

The linear RNN and SRU do not depend on time: d u(T)/d u(T0) over n steps is the n/p-th power
of the Jacobian over p steps, which autograd gives. At n = 100,000 its singular values leave
float64 (0.9^100000 = 10^-4576), so the powers are taken with 60 digits and without a smallest
number.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

DIGITS = 60


def log_singular_values(matrix: Tensor, exponent: int) -> tuple[float, float]:
    """(log sigma_min, log sigma_max) of matrix^exponent for a 2 x 2 matrix, natural logarithms.

    From sigma_max^2 + sigma_min^2 = |A|_F^2 and sigma_max sigma_min = |det A|.

    >>> import torch
    >>> low, high = log_singular_values(torch.diag(torch.tensor([0.5, 2.0])), 100)
    >>> round(low / 100, 4), round(high / 100, 4)
    (-0.6931, 0.6931)
    """
    from mpmath import mp, mpf

    with mp.workdps(DIGITS):
        entries = [[mpf(float(v)) for v in row] for row in matrix.double().tolist()]
        power = mp.matrix(entries) ** exponent
        total = sum(v**2 for v in power)
        # the determinant of a power is the power of the determinant: no cancellation
        det = abs(entries[0][0] * entries[1][1] - entries[0][1] * entries[1][0]) ** exponent
        high = mp.sqrt((total + mp.sqrt(abs(total**2 - 4 * det**2))) / 2)
        return _log(mp, det / high if high else mpf(0)), _log(mp, high)


def _log(mp: Any, value: Any) -> float:
    return float(mp.log(value)) if value > 0 else -float("inf")
