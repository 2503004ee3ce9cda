"""The backward pass of the operator: back through the chunks of time, gradients in hand."""

from __future__ import annotations

import torch
from torch import Tensor

from .arrays import large_empty
from .batch_loop import BatchLoop
from .memory import Memory
from .outputs import Outputs, product_backward
from .small_loop import SmallLoop
from .weights import Weights


class Backward:
    """Holds all gradients while :meth:`through` takes the chunks from the last to the first."""

    def __init__(
        self,
        loop: BatchLoop | SmallLoop,
        d_y: Tensor | None,
        d_u: Tensor | None,
        x: Tensor,
        u: Tensor,
        rows: Tensor,
        weights: Weights,
        *,
        needs_x: bool,
        needs_rows: bool,
    ) -> None:
        self.loop, self.d_y = loop, d_y
        self.x, self.u, self.rows, self.weights = x, u, rows, weights
        self.memory = Memory(rows, u.shape[1], weights.weight_gh.shape[0])
        placed = self.memory.place(weights.weight_ug)
        self.gate, self.gate_sums = loop.lay_out(placed), loop.lay_out_sums(placed)
        self.d_gate = torch.zeros_like(self.gate_sums)
        self.d_x = x.new_empty(x.shape if needs_x else 0)
        self.d_rows = rows.new_zeros(rows.shape if needs_rows else 0)
        self.d_u = torch.zeros_like(u) if d_u is None else d_u
        self.d_total = self.memory.scatter(self.d_u, loop.lanes)
        self.d_z = loop.pack_z(x.new_zeros(x.shape[1], weights.weight_ug.shape[0]))
        given = {name: weight for name, weight in weights._asdict().items() if weight is not None}
        self.d_weights = {name: weight.new_zeros(weight.shape) for name, weight in given.items()}
        if d_y is not None:
            self.outputs = Outputs(self.memory.place(weights.weight_uy), torch.zeros_like(d_y[0]))
        longest = loop.chunks(x.shape[0])[0][0].stop
        self.room = large_empty((longest, self.memory.n_h, loop.lanes), x)  # for d_h

    def through(self, part: slice, stop: Tensor | None, kept: Tensor, h: Tensor) -> None:
        """Back through the steps of a chunk."""
        x, c, d_rows = self.x[part], self.rows[part], self.d_rows[part]
        d_h = self._reach_hidden(part, self.loop.hidden(h))
        found = self.loop.backward(x, c @ self.gate, stop, kept, h, d_h, self.d_z)
        product_backward(found.a, c, self.gate_sums, self.d_gate, d_rows)
        self.d_weights["weight_gh"] += found.w2
        self.d_weights["weight_xh"] += found.u_in
        if "bias_h" in self.d_weights:
            self.d_weights["bias_h"] += found.b2
        if self.d_x.numel():
            self.d_x[part] = found.drive.transpose(1, 2) @ self.weights.weight_xh

    def _reach_hidden(self, part: slice, hidden: Tensor) -> Tensor:
        """What reaches h (L, n_h, lanes) from outside the loop: from the last u, and from y."""
        c, d_rows, samples = self.rows[part], self.d_rows[part], len(self.u)
        d_h = self.room[: len(c)]
        self.memory.products_backward(c, self.d_total, out=d_h)
        if d_rows.numel():
            self.memory.rows_backward(hidden, self.d_total, out=d_rows)
        if self.d_y is not None:
            hidden, reached = hidden[:, :, :samples], d_h[:, :, :samples]
            self.outputs.backward(c, hidden, self.d_y[part], reached, d_rows)
        return d_h

    def gradients(self) -> list[Tensor]:
        """Of x, u, rows and the weights, after the first chunk; (0,) where there is none."""
        d_weights, w = self.d_weights, self.weights
        d_weights["weight_ug"] = self.memory.take(self.loop.pick_up_sums(self.d_gate))
        d_u = self.d_u + self._start(self.loop.unpack_z(self.d_z), w.weight_ug, "g")
        if self.d_y is not None:
            d_weights["weight_uy"] = self.memory.take(self.outputs.weight_gradient())
            d_u = d_u + self._start(self.outputs.sum(), w.weight_uy, "y")
        found = [d_weights.get(name, self.x.new_empty(0)) for name in Weights._fields]
        return [self.d_x, d_u, self.d_rows, *found]

    def _start(self, d: Tensor, weight: Tensor, name: str) -> Tensor:
        """Through ``W u(0) + b`` (N, n): the gradient of u(0); those of W and b are added."""
        self.d_weights[f"weight_u{name}"] += d.t() @ self.u
        if f"bias_{name}" in self.d_weights:
            self.d_weights[f"bias_{name}"] += d.sum(0)
        return d @ weight
