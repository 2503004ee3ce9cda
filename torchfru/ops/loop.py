"""What both forms of the fused loop have in common, and the choice between them.

A form takes and gives plain tensors. How h, z and the rest lie in memory is its own business:
``h`` and ``kept`` are opaque to the caller, who holds on to them for the backward pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from .kernel import SEGMENT
from .lanewise import IDENTITY, RELU, TANH

if TYPE_CHECKING:
    from .batch_loop import BatchLoop
    from .small_loop import SmallLoop

SMALL_BATCH = 8  # up to here, a vector of samples would be mostly empty
KINDS = {"relu": RELU, "tanh": TANH, "identity": IDENTITY}


class LoopGradients(NamedTuple):
    """What the loop's backward pass finds over a chunk of steps."""

    drive: Tensor  # of U x + b2 (L, n_h, N)
    a: Tensor  # of A(t), laid out, (L, sums)
    w2: Tensor  # (n_h, n_g)
    u_in: Tensor  # (n_h, n_in)
    b2: Tensor  # (n_h,)


def choose_loop(samples: int) -> type[BatchLoop] | type[SmallLoop]:
    """The form for so many samples."""
    from .batch_loop import BatchLoop
    from .small_loop import SmallLoop

    return SmallLoop if samples <= SMALL_BATCH else BatchLoop


def cut(steps: int, chunk: int) -> list[tuple[slice, slice]]:
    """Chunks of the steps, and the segments of each that z is kept for."""
    ends = [(start, min(start + chunk, steps)) for start in range(0, steps, chunk)]
    return [(slice(a, b), slice(a // SEGMENT, -(-b // SEGMENT))) for a, b in ends]
