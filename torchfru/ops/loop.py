"""What both forms of the fused loop have in common, and the choice between them.

A form takes and gives plain tensors. How z and the rest lie in memory is its own business: ``kept``
is opaque to the caller, who holds on to it for the backward pass. h, and its gradient, are (L,
rows, n_h, row) in both: samples in rows, with zeros where n_h and the samples are filled up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from .arrays import padded
from .kernel import SEGMENT
from .lanewise import IDENTITY, RELU, TANH

if TYPE_CHECKING:
    from .batch_loop import BatchLoop
    from .small_loop import SmallLoop

SMALL_BATCH = 4  # up to here, a vector of samples would be mostly empty
KINDS = {"relu": RELU, "tanh": TANH, "identity": IDENTITY}


class LoopGradients(NamedTuple):
    """What the loop's backward pass finds over a chunk of steps."""

    a: Tensor  # of A(t), laid out, (L, sums)
    w2: Tensor  # (n_h, n_g)
    u_in: Tensor  # (n_h, n_in)
    b2: Tensor  # (n_h,)


def by_sample(hidden: Tensor, samples: int) -> Tensor:
    """From (L, rows, n_h, row): (L, N, n_h)."""
    return hidden.transpose(2, 3).flatten(1, 2)[:, :samples]


def add_by_sample(hidden: Tensor, change: Tensor) -> None:
    """Add (L, N, n_h) to (L, rows, n_h, row)."""
    rows, width, row = hidden.shape[1:]
    whole = padded(change, (len(change), rows * row, width)).unflatten(1, (rows, row))
    hidden.add_(whole.transpose(2, 3))


def choose_loop(samples: int) -> type[BatchLoop] | type[SmallLoop]:
    """The form for so many samples."""
    from .batch_loop import BatchLoop
    from .small_loop import SmallLoop

    return SmallLoop if samples <= SMALL_BATCH else BatchLoop


def cut(steps: int, chunk: int) -> list[tuple[slice, slice]]:
    """Chunks of the steps, and the segments of each that z is kept for."""
    ends = [(start, min(start + chunk, steps)) for start in range(0, steps, chunk)]
    return [(slice(a, b), slice(a // SEGMENT, -(-b // SEGMENT))) for a, b in ends]
