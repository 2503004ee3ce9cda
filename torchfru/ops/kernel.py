"""What all kernels share: how they are compiled, and how often z is kept.

A kernel takes and gives arrays, and knows nothing of torch. Symbols are those of
:mod:`torchfru.ops.collapsed`; ``d_`` before a name means its gradient. The gradient of h comes in
as ``d_h``, and that of U x + b2 goes out in its place. ``kind`` is one of the nonlinearities of
:mod:`torchfru.ops.lanewise`. Arrays are contiguous, and sizes are padded with zeros.

The backward pass needs g = phi(z) at every step, but only z at every SEGMENT-th is kept: a
segment is run again from there, with the h that are known, just before it is run backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

SEGMENT = 16  # steps between two that z is kept for


def kernel(function: Callable[..., None]) -> Any:
    """Compiled on the first call for its types, and kept on disk where that is possible."""
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(nogil=True, error_model="numpy")(function)
