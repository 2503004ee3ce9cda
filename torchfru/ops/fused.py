"""The backend ``numba``: the collapsed form around a fused loop, as an operator of torch.

Everything but the loop is matrix algebra. It is done here in chunks over time, so that of all
that grows with the number of steps only h is held, z at every few steps, and A(t) where it takes no
more room than h or than a chunk's. Numba is imported where the operator runs: importing this file
needs torch only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import collapsed
from .arrays import large_empty, product
from .autograd import define
from .collapsed import ScanInputs
from .memory import Memory
from .weights import Weights

if TYPE_CHECKING:
    from .batch_loop import BatchLoop
    from .small_loop import SmallLoop


def scan(
    x: Tensor,
    u: Tensor | None,
    rows: Tensor,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """As :func:`torchfru.ops.collapsed.scan`, on the CPU, in float32 or float64.

    No u is an empty memory, of which nothing needs to be computed.
    """
    w, samples = weights, x.shape[1]
    if samples == 0:  # no loop
        u = x.new_zeros(0, w.weight_ug.shape[1]) if u is None else u
        options = {"nonlinearity": nonlinearity, "every_step": every_step, "lengths": lengths}
        return collapsed.scan(x, u, rows, weights, **options)  # type: ignore[arg-type]
    if x.shape[2] > len(w.weight_gh):  # fewer numbers to lay out and to read in the loop
        x = _project(x, w)
        eye = torch.eye(x.shape[2], dtype=x.dtype)
        w = Weights(w.weight_ug, w.bias_g, w.weight_gh, eye, None, w.weight_uy, w.bias_y)
    z = _start(u, w.weight_ug, w.bias_g, samples)
    y = _start(u, w.weight_uy, w.bias_y, samples) if every_step else None
    weight_uy = w.weight_uy if every_step else None  # or else it must get no gradient here
    y, change, *_ = torch.ops.torchfru.fru_steps(
        x,
        z,
        rows,
        w.weight_ug,
        w.weight_gh,
        w.weight_xh,
        w.bias_h,
        weight_uy,
        y,
        lengths,
        nonlinearity,
    )
    return (y if every_step else None), change if u is None else u + change


def _project(x: Tensor, weights: Weights) -> Tensor:
    """U x + b2 (L, N, n_h), without a copy of x, whichever of L and N comes first in memory."""
    swap = not x.is_contiguous()
    x = x.transpose(0, 1) if swap else x
    x = F.linear(x, weights.weight_xh, weights.bias_h)
    return x.transpose(0, 1) if swap else x


def _start(u: Tensor | None, weight: Tensor, bias: Tensor | None, samples: int) -> Tensor:
    """W u(0) + b (N, n)."""
    if u is not None:
        return F.linear(u, weight, bias)
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    return bias.expand(samples, -1)


# The operators -----------------------------------------------------------------------------

STEPS, STEPS_BACKWARD = "torchfru::fru_steps", "torchfru::fru_steps_backward"
define(STEPS, STEPS_BACKWARD, saved="Tensor h, Tensor kept, Tensor a")


class Problem(ScanInputs):
    """The inputs of the operator, and how it computes with them."""

    def loop(self) -> BatchLoop | SmallLoop:
        from .loop import choose_loop

        samples = self.x.shape[1]
        kind = choose_loop(samples)
        return kind(self.weight_gh, self.weight_xh, self.bias_h, samples, self.nonlinearity)

    def memory(self, loop: BatchLoop | SmallLoop) -> Memory:
        return Memory(self.rows, self.weight_ug.shape[1], self.weight_gh.shape[0], loop.tiles)

    def new_gates(self, loop: BatchLoop | SmallLoop) -> Tensor:
        """Room for A(t) at every step; (0,) where that is more than h takes, and than a chunk's."""
        steps, (samples, n_g) = len(self.x), self.z.shape
        kept = samples >= n_g or len(loop.chunks(steps)) == 1
        return large_empty((steps, loop.numbers) if kept else (0,), self.x)

    def stop_within(self, part: slice) -> Tensor | None:
        """Where each sequence ends, counted from the first step of a part."""
        return None if self.lengths is None else self.lengths - part.start


@torch.library.impl(STEPS, "cpu")
def _fru_steps(*inputs: Any) -> tuple[Tensor, ...]:
    """y (L, N, n_y), or (0,) without weight_uy; u(T) - u(0); the rest is for the backward pass."""
    from .outputs import Outputs

    given = Problem(*inputs)
    x, loop = given.x, given.loop()
    memory = given.memory(loop)
    gate = loop.lay_out(memory.place(given.weight_ug))  # (K, numbers in A)
    h, kept, a = loop.new_hidden(len(x)), loop.new_kept(len(x)), given.new_gates(loop)
    z, total = loop.pack_z(given.z), memory.empty()
    y, outputs = _new_outputs(given), None
    if given.weight_uy is not None and given.y is not None:
        outputs = Outputs(memory.place(given.weight_uy), given.y)
    for part, segments in loop.chunks(len(x)):
        c = given.rows[part]
        a_part = product(c, gate, out=a[part])
        loop.forward(x[part], a_part, given.stop_within(part), z, kept[segments], h[part])
        memory.add_products(c, h[part], total, fresh=part.start == 0)
        if outputs is not None:
            outputs.forward(c, h[part], y[part])
    return y, memory.gather(total, x.shape[1]), h, kept, a


def _shapes(*inputs: Any) -> tuple[Tensor, ...]:
    given = Problem(*inputs)
    x, loop = given.x, given.loop()
    change = x.new_empty(x.shape[1], given.weight_ug.shape[1])
    a = given.new_gates(loop)
    return _new_outputs(given), change, loop.new_hidden(len(x)), loop.new_kept(len(x)), a


def _new_outputs(given: Problem) -> Tensor:
    if given.y is None:
        return given.x.new_empty(0)
    return given.x.new_empty(len(given.x), *given.y.shape)


@torch.library.impl(STEPS_BACKWARD, "cpu")
def _fru_steps_backward(d_y: Tensor | None, d_change: Tensor | None, *rest: Any) -> list[Tensor]:
    """The gradients of the tensors of a problem, in their order; (0,) where there is none.

    Those of x and of rows cost time, and are left out where they are not needed.
    """
    from .fused_backward import Backward

    *inputs, h, kept, a, needs_x, needs_rows = rest
    given = Problem(*inputs)
    walk = Backward(given, d_y, d_change, needs_x=needs_x, needs_rows=needs_rows)
    for part, segments in reversed(walk.loop.chunks(len(given.x))):
        walk.through(part, kept[segments], h[part], a[part])
    return [grad.contiguous() for grad in walk.gradients()]


torch.library.register_fake(STEPS, _shapes)
