"""The outputs of every step, without ever forming u at every step."""

from __future__ import annotations

import torch
from torch import Tensor

from . import output_kernels as kernels
from .arrays import multiple, padded, padded_copy, product, read_only, writable
from .arrays import total as summed
from .compiling import announced
from .loop import add_by_sample, by_sample
from .threads import run, shares
from .vectors import lanes


class Outputs:
    """y at every step, y(t) = y(t-1) + E(t) h(t), and its gradients, chunk by chunk.

    The running sum stays in cache, so that y is written once, and no sum over time is kept.
    """

    def __init__(self, placed: Tensor, total: Tensor) -> None:
        """``placed`` (K, n_y, n_h) makes E(t) from a row; ``total`` (N, n_y) is where to start."""
        self.n_y, self.n_h = placed.shape[1:]
        self.vector = lanes(placed.element_size())
        self.tile = (0,) * self.n_h
        width = multiple(self.n_y, self.vector)
        shape = (len(placed), self.n_h, width)
        self.weight = padded(placed.transpose(1, 2), shape).flatten(1)
        self.gradient = torch.zeros_like(self.weight)
        self.total = padded_copy(total, (len(total), width)).view(len(total), -1, self.vector)

    def forward(self, rows: Tensor, hidden: Tensor, y: Tensor) -> None:
        """Write y (L, N, n_y), from the rows (L, K) and h."""
        e = product(rows, self.weight).view(len(rows), self.n_h, -1)
        h = by_sample(hidden, y.shape[1])[:, :, : self.n_h].contiguous()
        arguments = [*map(read_only, (e, h)), *map(writable, (self.total, y))]

        def work(_: int, part: range) -> None:
            kernels.outputs(*arguments, self.tile, part.start, part.stop)

        with announced(kernels.outputs):
            run(work, shares(y.shape[1]))

    def backward(
        self, rows: Tensor, hidden: Tensor, d_y: Tensor, d_h: Tensor, d_rows: Tensor
    ) -> None:
        """Add to d_h, d_rows (L, K or none) and the gradient of the weight."""
        e = product(rows, self.weight).view(len(rows), self.n_h, -1)
        h = by_sample(hidden, d_y.shape[1])[:, :, : self.n_h].contiguous()
        parts = shares(d_y.shape[1])
        d_e = e.new_zeros(len(parts), *e.shape)
        found = torch.empty_like(h)
        d_y = d_y.contiguous()
        before = [*map(read_only, (e, h, d_y)), *map(writable, (self.total, found))]

        def work(index: int, part: range) -> None:
            arguments = (*before, writable(d_e[index]), self.tile, part.start, part.stop)
            kernels.outputs_backward(*arguments)

        with announced(kernels.outputs_backward):
            run(work, parts)
        add_by_sample(d_h, found)
        product_backward(summed(d_e).flatten(1), rows, self.weight, self.gradient, d_rows)

    def weight_gradient(self) -> Tensor:
        """Of ``placed``: (K, n_y, n_h)."""
        whole = self.gradient.unflatten(1, (self.n_h, -1))
        return whole[:, :, : self.n_y].transpose(1, 2)

    def sum(self) -> Tensor:
        """The running sum, (N, n_y)."""
        return self.total.flatten(1)[:, : self.n_y]


def product_backward(
    d: Tensor, rows: Tensor, weight: Tensor, d_weight: Tensor, d_rows: Tensor
) -> None:
    """From the gradient of ``rows @ weight``: those of both are added, of rows if there is room."""
    d_weight.addmm_(rows.t(), d)
    if d_rows.numel():
        d_rows.t().addmm_(weight, d.t())
