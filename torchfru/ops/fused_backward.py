"""The backward pass of the operator: back through the chunks of time, gradients in hand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .arrays import large_empty, product
from .loop import by_sample
from .outputs import Outputs, product_backward

if TYPE_CHECKING:
    from .fused import Problem


class Backward:
    """Holds all gradients while :meth:`through` takes the chunks from the last to the first."""

    def __init__(
        self,
        given: Problem,
        d_y: Tensor | None,
        d_change: Tensor | None,
        *,
        needs_x: bool,
        needs_rows: bool,
    ) -> None:
        self.given, self.d_y = given, d_y
        x, rows, self.samples = given.x, given.rows, given.x.shape[1]
        self.loop = given.loop()
        self.memory = given.memory(self.loop)
        self.placed = self.memory.place(given.weight_ug)  # (K, n_g, n_h)
        self.gate_sums = self.loop.lay_out_sums(self.placed)
        self.d_gate = torch.zeros_like(self.gate_sums)
        self.d_x = x.new_empty(x.shape if needs_x else 0)
        # (L, K), but frequency by frequency in memory: the products that make it are faster so.
        self.d_rows = rows.new_empty(rows.shape[::-1]).t() if needs_rows else rows.new_empty(0)
        d_change = (
            x.new_zeros(self.samples, given.weight_ug.shape[1]) if d_change is None else d_change
        )
        self.d_total = self.memory.scatter(d_change)
        self.d_z = self.loop.pack_z(torch.zeros_like(given.z))
        self.d_w2 = torch.zeros_like(given.weight_gh)
        self.d_u_in = torch.zeros_like(given.weight_xh)
        self.d_b2 = x.new_zeros(len(given.weight_gh))
        if d_y is not None and given.weight_uy is not None:
            self.outputs = Outputs(self.memory.place(given.weight_uy), torch.zeros_like(d_y[0]))
        longest = self.loop.chunks(len(x))[0][0].stop
        self.room = large_empty((longest, *self.loop.tiles), x)  # for d_h
        if self.memory.per_block > 1:  # or else its products fill it
            self.room.zero_()

    def through(self, part: slice, kept: Tensor, h: Tensor, a: Tensor) -> None:
        """Back through the steps of a chunk; a may be empty."""
        given = self.given
        x, c, stop = given.x[part], given.rows[part], given.stop_within(part)
        d_h = self._reach_hidden(part, h)
        a = a if a.numel() else product(c, self.gate)
        found = self.loop.backward(x, a, stop, kept, h, d_h, self.d_z)
        product_backward(found.a, c, self.gate_sums, self.d_gate, self.d_rows[part])
        self.d_w2 += found.w2
        self.d_u_in += found.u_in
        self.d_b2 += found.b2
        if self.d_x.numel():
            d_drive = by_sample(d_h, self.samples)[:, :, : len(given.weight_xh)]
            self.d_x[part] = d_drive @ given.weight_xh

    @cached_property
    def gate(self) -> Tensor:
        """What makes A(t) out of a row (K, numbers): needed where A(t) was not kept."""
        return self.loop.lay_out(self.placed)

    def _reach_hidden(self, part: slice, hidden: Tensor) -> Tensor:
        """What reaches h from outside the loop: from the last u, and from y."""
        c, d_rows = self.given.rows[part], self.d_rows[part]
        d_h = self.room[: len(c)]
        self.memory.products_backward(c, self.d_total, out=d_h)
        if d_rows.numel():
            self.memory.rows_backward(hidden, self.d_total, out=d_rows)
        if self.d_y is not None:
            self.outputs.backward(c, hidden, self.d_y[part], d_h, d_rows)
        return d_h

    def gradients(self) -> list[Tensor]:
        """Of the tensors of the problem, after the first chunk; (0,) where there is none."""
        given, memory = self.given, self.memory
        d_z, d_w1 = self.loop.unpack_z(self.d_z), self.loop.pick_up_sums(self.d_gate)
        d_b2 = self._zeros(None) if given.bias_h is None else self.d_b2
        if self.d_y is None:
            d_outputs = [self._zeros(given.weight_uy), self._zeros(given.y)]
        else:
            d_outputs = [memory.take(self.outputs.weight_gradient()), self.outputs.sum()]
        d_loop = [memory.take(d_w1), self.d_w2, self.d_u_in, d_b2]
        return [self.d_x, d_z, self.d_rows, *d_loop, *d_outputs]

    def _zeros(self, like: Tensor | None) -> Tensor:
        return self.d_x.new_empty(0) if like is None else torch.zeros_like(like)
