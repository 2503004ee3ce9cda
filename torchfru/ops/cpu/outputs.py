"""u and y from h: matrix products over time for u, and kernels for y at every step.

h, and its gradient, are (L, rows, n_h, row): samples in rows, with zeros where n_h and the samples
are padded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..weights import block_sizes
from .runtime import (
    kernel_arrays,
    padded,
    padded_copy,
    product,
    round_up,
    run,
    split_range,
    sum_over_threads,
)
from .simd import (
    VECTOR_BYTES,
    add_dot,
    add_outer,
    add_scaled,
    add_store_sums,
    kernel,
    load_row,
    load_tile,
    store_row,
    store_tile,
    zeros_tile,
)


def by_sample(hidden: Tensor, samples: int) -> Tensor:
    """From (L, rows, n_h, row): (L, N, n_h)."""
    return hidden.transpose(2, 3).flatten(1, 2)[:, :samples]


def add_by_sample(hidden: Tensor, change: Tensor) -> None:
    """Add (L, N, n_h) to (L, rows, n_h, row)."""
    rows, width, row = hidden.shape[1:]
    whole = padded(change, (len(change), rows * row, width)).unflatten(1, (rows, row))
    hidden.add_(whole.transpose(2, 3))


# u ---------------------------------------------------------------------------------------------


class Memory:
    """sum_t C(t) h(t) and its gradients, slice by slice of h: each slice is a matrix product.

    h comes as (L, rows, n_h, row), the sums are held as (m, M, rows * d * row): slice, block, and
    the d entries of every sample. A slice that is all of h has the zeros behind h as well.
    """

    def __init__(self, rows: Tensor, n_u: int, n_h: int, tiles: tuple[int, int, int]) -> None:
        self.rows, self.tiles, self.n_u = rows, tiles, n_u
        self.blocks, self.per_block, self.freq_dim = block_sizes(rows, n_u, n_h)
        self.width = tiles[1] if self.per_block == 1 else self.freq_dim

    def empty(self) -> Tensor:
        rows, _, row = self.tiles
        return self.rows.new_empty(self.per_block, self.blocks, rows * self.width * row)

    def _split(self, hidden: Tensor) -> Iterator[Tensor]:
        """The slices of h, (L, rows, d, row) each."""
        for i in range(self.per_block):
            yield hidden[:, :, i * self.width : (i + 1) * self.width]

    def _slices(self, rows: Tensor, hidden: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The columns of rows (L, M), and the part of h (L, ...), that belong together."""
        for i, part in enumerate(self._split(hidden)):
            yield rows[:, i :: self.per_block], part.flatten(1)

    def add_products(self, rows: Tensor, hidden: Tensor, total: Tensor, overwrite: bool) -> None:
        """total += sum_t C(t) h(t), or = if ``overwrite``."""
        for (c, h), out in zip(self._slices(rows, hidden), total, strict=True):
            out.addmm_(c.t(), h, beta=0 if overwrite else 1)

    def products_backward(self, rows: Tensor, d_total: Tensor, out: Tensor) -> None:
        """The gradient of h, written to ``out``."""
        if self.per_block == 1:
            torch.mm(rows, d_total[0], out=out.flatten(1))
            return
        for i, part in enumerate(self._split(out)):
            part.copy_((rows[:, i :: self.per_block] @ d_total[i]).view(part.shape))

    def rows_backward(self, hidden: Tensor, d_total: Tensor, out: Tensor) -> None:
        """The gradient of rows (L, K), written to ``out``."""
        for (d_c, h), d in zip(self._slices(out, hidden), d_total, strict=True):
            d_c.t().addmm_(d, h.t(), beta=0)

    def to_blocks(self, weight: Tensor) -> Tensor:
        """W (n, n_u) as (K, n, n_h): the columns of frequency k where its slice of h is."""
        blocks, per_block, freq_dim = self.blocks, self.per_block, self.freq_dim
        parts = weight.unflatten(1, (blocks, per_block, freq_dim))  # (n, M, m, d)
        if per_block == 1:
            return parts.squeeze(2).transpose(0, 1)
        full = weight.new_zeros(blocks, per_block, len(weight), per_block, freq_dim)
        full.diagonal(dim1=1, dim2=3).copy_(parts.permute(1, 0, 3, 2))
        return full.flatten(3).flatten(0, 1)

    def from_blocks(self, full: Tensor) -> Tensor:
        """The inverse of :meth:`to_blocks`: (n, n_u)."""
        full = full.unflatten(2, (self.per_block, -1)).unflatten(0, (self.blocks, -1))
        return full.diagonal(dim1=1, dim2=3).permute(1, 0, 3, 2).flatten(1)  # (n, M, m, d)

    def gather(self, total: Tensor, samples: int) -> Tensor:
        """As u is: (N, n_u)."""
        u = total.new_empty(self.tiles[0] * self.tiles[2], self.n_u)
        self._by_sample(u).copy_(self._by_row(total))
        return u[:samples]

    def scatter(self, u: Tensor) -> Tensor:
        """From (N, n_u), with zeros where there is no sample."""
        total = self.empty()
        if self.width != self.freq_dim:
            total.zero_()
        u = padded(u, (self.tiles[0] * self.tiles[2], self.n_u))
        self._by_row(total).copy_(self._by_sample(u))
        return total

    def _by_row(self, total: Tensor) -> Tensor:
        """The sums as (rows, M, m, d, row)."""
        rows, _, row = self.tiles
        whole = total.view(self.per_block, self.blocks, rows, self.width, row)
        return whole[:, :, :, : self.freq_dim].permute(2, 1, 0, 3, 4)

    def _by_sample(self, u: Tensor) -> Tensor:
        """u (lanes, n_u) as (rows, M, m, d, row)."""
        rows, _, row = self.tiles
        parts = u.view(rows, row, self.blocks, self.per_block, self.freq_dim)
        return parts.permute(0, 2, 3, 4, 1)


# y at every step -------------------------------------------------------------------------------
#
# e (L, n_h, n_y) is E(t) transposed, h (L, N, n_h), and total (N, n_y) the running sum, with n_y
# padded to whole vectors; y and d_y (L, N, n_y) are not padded. ``tile`` is as long as n_h.


@kernel
def outputs(e, h, total, y, tile, first, last):
    """y(t) = y(t-1) + E(t) h(t); ``total`` starts as the y before the first step."""
    steps, n_h, padded = e.shape
    samples, n_y = y.shape[1], y.shape[2]
    for t in range(steps):
        for n in range(first, last):
            at, numbers = n * padded, (t * samples + n) * n_h
            for i in range(0, padded, total.shape[2]):
                columns = load_tile(e, t * n_h * padded + i, padded, tile, 1)
                store_row(total, at + i, add_dot(load_row(total, at + i, 1), h, numbers, columns))
            y[t, n] = total[n].ravel()[:n_y]


@kernel
def outputs_backward(e, h, d_y, total, d_h, d_e, tile, first, last):
    """The steps backwards: d_h (L, N, n_h) is written, d_e (L, n_h, n_y) added to.

    ``total`` (N, n_y), the gradient of all later y, is read and written.
    """
    steps, n_h, padded = e.shape
    samples, n_y, vector = d_y.shape[1], d_y.shape[2], total.shape[2]
    sums = np.zeros(-(-n_h // vector) * vector, e.dtype)
    for t in range(steps - 1, -1, -1):
        for n in range(first, last):
            total_n = total[n].ravel()
            for i in range(n_y):
                total_n[i] += d_y[t, n, i]
            products, numbers = zeros_tile(e, tile, 1), (t * samples + n) * n_h
            for i in range(0, padded, vector):
                row, place = load_row(total, n * padded + i, 1), t * n_h * padded + i
                products = add_outer(products, load_tile(e, place, padded, tile, 1), row)
                rows = add_scaled(load_tile(d_e, place, padded, tile, 1), h, numbers, row)
                store_tile(d_e, place, padded, rows, 1)
            sums[:] = 0
            add_store_sums(sums, 0, products)
            d_h[t, n] = sums[:n_h]


class Outputs:
    """y at every step, y(t) = y(t-1) + E(t) h(t), and its gradients, chunk by chunk.

    The running sum stays in cache, so that y is written once, and no sum over time is kept.
    """

    def __init__(self, blocks: Tensor, total: Tensor) -> None:
        """``blocks`` (K, n_y, n_h) makes E(t) from a row; ``total`` (N, n_y) is the y before."""
        self.n_y, self.n_h = blocks.shape[1:]
        self.vector = VECTOR_BYTES // blocks.element_size()
        self.tile = (0,) * self.n_h
        width = round_up(self.n_y, self.vector)
        shape = (len(blocks), self.n_h, width)
        self.weight = padded(blocks.transpose(1, 2), shape).flatten(1)
        self.gradient = torch.zeros_like(self.weight)
        self.total = padded_copy(total, (len(total), width)).view(len(total), -1, self.vector)

    def forward(self, rows: Tensor, hidden: Tensor, y: Tensor) -> None:
        """Write y (L, N, n_y), from the rows (L, K) and h."""
        e = product(rows, self.weight).view(len(rows), self.n_h, -1)
        h = by_sample(hidden, y.shape[1])[:, :, : self.n_h].contiguous()
        arguments = kernel_arrays((e, h), write=(self.total, y))

        def work(_: int, part: range) -> None:
            outputs(*arguments, self.tile, part.start, part.stop)

        run(work, split_range(y.shape[1]))

    def backward(
        self, rows: Tensor, hidden: Tensor, d_y: Tensor, d_h: Tensor, d_rows: Tensor
    ) -> None:
        """Add to d_h, d_rows (L, K or none) and the gradient of the weight."""
        e = product(rows, self.weight).view(len(rows), self.n_h, -1)
        h = by_sample(hidden, d_y.shape[1])[:, :, : self.n_h].contiguous()
        parts = split_range(d_y.shape[1])
        d_e = e.new_zeros(len(parts), *e.shape)
        found = torch.empty_like(h)
        arguments = kernel_arrays((e, h, d_y.contiguous()), write=(self.total, found))

        def work(index: int, part: range) -> None:
            own = kernel_arrays((), write=[d_e[index]])
            outputs_backward(*arguments, *own, self.tile, part.start, part.stop)

        run(work, parts)
        add_by_sample(d_h, found)
        product_backward(sum_over_threads(d_e).flatten(1), rows, self.weight, self.gradient, d_rows)

    def weight_gradient(self) -> Tensor:
        """Of ``blocks``: (K, n_y, n_h)."""
        whole = self.gradient.unflatten(1, (self.n_h, -1))
        return whole[:, :, : self.n_y].transpose(1, 2)

    def sum(self) -> Tensor:
        """The running sum, (N, n_y)."""
        return self.total.flatten(1)[:, : self.n_y]


def product_backward(
    d: Tensor, rows: Tensor, weight: Tensor, d_weight: Tensor, d_rows: Tensor
) -> None:
    """From the gradient of ``rows @ weight``: add those of both; none to an empty d_rows."""
    d_weight.addmm_(rows.t(), d)
    if d_rows.numel():
        d_rows.t().addmm_(weight, d.t())
