"""The operator of the backend ``numba``: the collapsed form around a fused loop.

Everything but the loop is matrix algebra, done in chunks over time: of all that grows with the
number of steps only h is held, z at every few steps, and A(t) where it takes no more memory than h
or than one chunk. Numba is imported where the operator runs: importing this file needs torch only.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import collapsed
from ..autograd import define
from ..collapsed import ScanInputs
from ..weights import Weights
from .runtime import pooled_empty, product

if TYPE_CHECKING:
    from .batch import BatchLoop
    from .outputs import Memory
    from .small import SmallLoop

SMALL_BATCH = 4  # up to here, a vector of samples would be mostly empty


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

    u=None means zeros, and saves their products.
    """
    w, samples = weights, x.shape[1]
    if samples == 0:  # no loop
        u = x.new_zeros(0, w.weight_ug.shape[1]) if u is None else u
        options = {"nonlinearity": nonlinearity, "every_step": every_step, "lengths": lengths}
        return collapsed.scan(x, u, rows, weights, **options)  # type: ignore[arg-type]
    weight_xh, bias_h = w.weight_xh, w.bias_h
    if x.shape[2] > len(w.weight_gh):  # fewer numbers to lay out and to read in the loop
        x = _project(x, weight_xh, bias_h)
        weight_xh, bias_h = torch.eye(x.shape[2], dtype=x.dtype), None
    z = _start(u, w.weight_ug, w.bias_g, samples)
    y = _start(u, w.weight_uy, w.bias_y, samples) if every_step else None
    weight_uy = w.weight_uy if every_step else None  # or else it must get no gradient here
    loop = (w.weight_ug, w.weight_gh, weight_xh, bias_h, weight_uy)
    y, change, *_ = torch.ops.torchfru.fru_steps(x, z, rows, *loop, y, lengths, nonlinearity)
    return (y if every_step else None), change if u is None else u + change


def _project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """U x + b2 (L, N, n_h), without a copy of x, whichever of L and N comes first in memory."""
    if x.is_contiguous():
        return F.linear(x, weight, bias)
    return F.linear(x.transpose(0, 1), weight, bias).transpose(0, 1)


def _start(u: Tensor | None, weight: Tensor, bias: Tensor | None, samples: int) -> Tensor:
    """W u(0) + b (N, n)."""
    if u is not None:
        return F.linear(u, weight, bias)
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    return bias.expand(samples, -1)


# The operators ---------------------------------------------------------------------------------

STEPS, STEPS_BACKWARD = "torchfru::fru_steps", "torchfru::fru_steps_backward"
define(STEPS, STEPS_BACKWARD, saved="Tensor h, Tensor kept, Tensor a")


def choose_loop(samples: int) -> type[BatchLoop] | type[SmallLoop]:
    """The form of the loop for so many samples. How z lies in memory is its own business."""
    from .batch import BatchLoop
    from .small import SmallLoop

    return SmallLoop if samples <= SMALL_BATCH else BatchLoop


class CPUInputs(ScanInputs):
    """The inputs of the operator, and how it computes with them."""

    def loop(self) -> BatchLoop | SmallLoop:
        samples = self.x.shape[1]
        kind = choose_loop(samples)
        return kind(self.weight_gh, self.weight_xh, self.bias_h, samples, self.nonlinearity)

    def memory(self, loop: BatchLoop | SmallLoop) -> Memory:
        from .outputs import Memory

        return Memory(self.rows, self.weight_ug.shape[1], self.weight_gh.shape[0], loop.tiles)

    def new_outputs(self) -> Tensor:
        """Empty y (L, N, n_y), or (0,) without outputs."""
        return self.x.new_empty(0 if self.y is None else (len(self.x), *self.y.shape))

    def new_gates(self, loop: BatchLoop | SmallLoop) -> Tensor:
        """Empty A(t) for every step; (0,) where it takes more than h does, and than one chunk."""
        steps, (samples, n_g) = len(self.x), self.z.shape
        kept = samples >= n_g or len(loop.chunks(steps)) == 1
        return pooled_empty((steps, loop.numbers) if kept else (0,), self.x)

    def stop_within(self, part: slice) -> Tensor | None:
        """Where each sequence ends, counted from the first step of a part."""
        return None if self.lengths is None else self.lengths - part.start


@torch.library.impl(STEPS, "cpu")
def _fru_steps(*arguments: Any) -> tuple[Tensor, ...]:
    """y, u(T) - u(0), and h, z_checkpoints and A(t) for the backward pass."""
    from .outputs import Outputs

    inputs = CPUInputs(*arguments)
    x, loop = inputs.x, inputs.loop()
    memory = inputs.memory(loop)
    gate = loop.lay_out(memory.to_blocks(inputs.weight_ug))  # (K, numbers in A)
    h, z_checkpoints = loop.new_hidden(len(x)), loop.new_checkpoints(len(x))
    a, z, total = inputs.new_gates(loop), loop.pack_z(inputs.z), memory.empty()
    y, outputs = inputs.new_outputs(), None
    if inputs.weight_uy is not None and inputs.y is not None:
        outputs = Outputs(memory.to_blocks(inputs.weight_uy), inputs.y)
    for part, segments in loop.chunks(len(x)):
        c, h_part = inputs.rows[part], h[part]
        a_part = product(c, gate, out=a[part])
        stop = inputs.stop_within(part)
        loop.forward(x[part], a_part, stop, z, z_checkpoints[segments], h_part)
        memory.add_products(c, h_part, total, overwrite=part.start == 0)
        if outputs is not None:
            outputs.forward(c, h_part, y[part])
    return y, memory.gather(total, x.shape[1]), h, z_checkpoints, a


def _shapes(*arguments: Any) -> tuple[Tensor, ...]:
    inputs = CPUInputs(*arguments)
    loop, steps = inputs.loop(), len(inputs.x)
    change = inputs.x.new_empty(inputs.x.shape[1], inputs.weight_ug.shape[1])
    saved = loop.new_hidden(steps), loop.new_checkpoints(steps), inputs.new_gates(loop)
    return inputs.new_outputs(), change, *saved


torch.library.register_fake(STEPS, _shapes)


@torch.library.impl(STEPS_BACKWARD, "cpu")
def _fru_steps_backward(d_y: Tensor | None, d_change: Tensor | None, *rest: Any) -> list[Tensor]:
    """The gradients of the tensors of the inputs, in their order; (0,) where there is none.

    Those of x and of rows cost time, and are left out where they are not needed.
    """
    *arguments, h, z_checkpoints, a, needs_x, needs_rows = rest
    inputs = CPUInputs(*arguments)
    walk = _Backward(inputs, d_y, d_change, needs_x=needs_x, needs_rows=needs_rows)
    for part, segments in reversed(walk.loop.chunks(len(inputs.x))):
        walk.backward_chunk(part, z_checkpoints[segments], h[part], a[part])
    return [grad.contiguous() for grad in walk.gradients()]


class _Backward:
    """Holds all gradients while :meth:`backward_chunk` takes the chunks from last to first."""

    def __init__(
        self,
        inputs: CPUInputs,
        d_y: Tensor | None,
        d_change: Tensor | None,
        *,
        needs_x: bool,
        needs_rows: bool,
    ) -> None:
        from .outputs import Outputs

        self.inputs, self.d_y = inputs, d_y
        x, rows, self.samples = inputs.x, inputs.rows, inputs.x.shape[1]
        self.loop = inputs.loop()
        self.memory = inputs.memory(self.loop)
        self.blocks = self.memory.to_blocks(inputs.weight_ug)  # (K, n_g, n_h)
        self.gate_sums = self.loop.lay_out_sums(self.blocks)
        self.d_gate = torch.zeros_like(self.gate_sums)
        self.d_x = x.new_empty(x.shape if needs_x else 0)
        # (L, K), but frequency by frequency in memory: the products that make it are faster so.
        self.d_rows = rows.new_empty(rows.shape[::-1]).t() if needs_rows else rows.new_empty(0)
        if d_change is None:
            d_change = x.new_zeros(self.samples, inputs.weight_ug.shape[1])
        self.d_total = self.memory.scatter(d_change)
        self.d_z = self.loop.pack_z(torch.zeros_like(inputs.z))
        self.d_w2 = torch.zeros_like(inputs.weight_gh)
        self.d_u_in = torch.zeros_like(inputs.weight_xh)
        self.d_b2 = x.new_zeros(len(inputs.weight_gh))
        if d_y is not None and inputs.weight_uy is not None:
            blocks = self.memory.to_blocks(inputs.weight_uy)
            self.outputs = Outputs(blocks, torch.zeros_like(d_y[0]))
        longest = self.loop.chunks(len(x))[0][0].stop
        self.scratch = pooled_empty((longest, *self.loop.tiles), x)  # for d_h
        if self.memory.per_block > 1:  # or else its products fill it
            self.scratch.zero_()

    def backward_chunk(self, part: slice, z_checkpoints: Tensor, h: Tensor, a: Tensor) -> None:
        """Run the steps of a chunk backwards; ``a`` may be empty."""
        from .outputs import by_sample, product_backward

        inputs = self.inputs
        x, c, stop = inputs.x[part], inputs.rows[part], inputs.stop_within(part)
        d_h = self._reach_hidden(part, h)
        a = a if a.numel() else product(c, self.gate)
        found = self.loop.backward(x, a, stop, z_checkpoints, h, d_h, self.d_z)
        product_backward(found.a, c, self.gate_sums, self.d_gate, self.d_rows[part])
        self.d_w2 += found.w2
        self.d_u_in += found.u_in
        self.d_b2 += found.b2
        if self.d_x.numel():
            d_drive = by_sample(d_h, self.samples)[:, :, : len(inputs.weight_xh)]
            self.d_x[part] = d_drive @ inputs.weight_xh

    @cached_property
    def gate(self) -> Tensor:
        """Makes A(t) from a row (K, numbers); needed where A(t) was not kept."""
        return self.loop.lay_out(self.blocks)

    def _reach_hidden(self, part: slice, hidden: Tensor) -> Tensor:
        """The gradient that reaches h from outside the loop: from the last u, and from y."""
        c, d_rows = self.inputs.rows[part], self.d_rows[part]
        d_h = self.scratch[: len(c)]
        self.memory.products_backward(c, self.d_total, out=d_h)
        if d_rows.numel():
            self.memory.rows_backward(hidden, self.d_total, out=d_rows)
        if self.d_y is not None:
            self.outputs.backward(c, hidden, self.d_y[part], d_h, d_rows)
        return d_h

    def gradients(self) -> list[Tensor]:
        """Of the tensors of the inputs, after the first chunk; (0,) where there is none."""
        inputs, memory = self.inputs, self.memory
        d_z, d_w1 = self.loop.unpack_z(self.d_z), self.loop.pick_up_sums(self.d_gate)
        d_b2 = self._zeros(None) if inputs.bias_h is None else self.d_b2
        if self.d_y is None:
            d_outputs = [self._zeros(inputs.weight_uy), self._zeros(inputs.y)]
        else:
            d_outputs = [memory.from_blocks(self.outputs.weight_gradient()), self.outputs.sum()]
        d_loop = [memory.from_blocks(d_w1), self.d_w2, self.d_u_in, d_b2]
        return [self.d_x, d_z, self.d_rows, *d_loop, *d_outputs]

    def _zeros(self, like: Tensor | None) -> Tensor:
        return self.d_x.new_empty(0) if like is None else torch.zeros_like(like)
