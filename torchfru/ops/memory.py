"""The memory as matrix algebra: everything about u that the loop is not needed for."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .arrays import padded
from .collapsed import block_sizes


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

    def add_products(self, rows: Tensor, hidden: Tensor, total: Tensor, fresh: bool) -> None:
        """total += sum_t C(t) h(t), or = if ``fresh``."""
        for (c, h), out in zip(self._slices(rows, hidden), total, strict=True):
            out.addmm_(c.t(), h, beta=0 if fresh else 1)

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

    def place(self, weight: Tensor) -> Tensor:
        """W (n, n_u) as (K, n, n_h): the columns of frequency k where its slice of h is."""
        blocks, per_block, freq_dim = self.blocks, self.per_block, self.freq_dim
        parts = weight.unflatten(1, (blocks, per_block, freq_dim))  # (n, M, m, d)
        if per_block == 1:
            return parts.squeeze(2).transpose(0, 1)
        full = weight.new_zeros(blocks, per_block, len(weight), per_block, freq_dim)
        full.diagonal(dim1=1, dim2=3).copy_(parts.permute(1, 0, 3, 2))
        return full.flatten(3).flatten(0, 1)

    def take(self, full: Tensor) -> Tensor:
        """What :meth:`place` put there: (n, n_u)."""
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
