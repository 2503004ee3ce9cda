"""The memory as matrix algebra: everything about u that the loop is not needed for."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .collapsed import block_sizes


class Memory:
    """sum_t C(t) h(t) and its gradients, slice by slice of h: each slice is a matrix product.

    Held as (m, M, d * lanes): slice, block, and the d entries of every sample.
    """

    def __init__(self, rows: Tensor, n_u: int, n_h: int) -> None:
        self.rows, self.n_h = rows, n_h
        self.blocks, self.per_block, self.freq_dim = block_sizes(rows, n_u, n_h)

    def empty(self, lanes: int) -> Tensor:
        return self.rows.new_empty(self.per_block, self.blocks, self.freq_dim * lanes)

    def _slices(self, rows: Tensor, hidden: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The columns of rows (L, M), and the part of h (L, d * lanes), that belong together."""
        for i, part in enumerate(hidden.split(self.freq_dim, 1)):
            yield rows[:, i :: self.per_block], part.flatten(1)

    def add_products(self, rows: Tensor, hidden: Tensor, total: Tensor, fresh: bool) -> None:
        """total += sum_t C(t) h(t), or = if ``fresh``, for h (L, n_h, lanes)."""
        for (c, h), out in zip(self._slices(rows, hidden), total, strict=True):
            out.addmm_(c.t(), h, beta=0 if fresh else 1)

    def products_backward(self, rows: Tensor, d_total: Tensor, out: Tensor) -> None:
        """The gradient of h (L, n_h, lanes), written to ``out``."""
        if self.per_block == 1:
            torch.mm(rows, d_total[0], out=out.flatten(1))
            return
        for i, part in enumerate(out.split(self.freq_dim, 1)):
            part.copy_((rows[:, i :: self.per_block] @ d_total[i]).view(part.shape))

    def rows_backward(self, hidden: Tensor, d_total: Tensor, out: Tensor) -> None:
        """The gradient of rows (L, K), written to ``out``."""
        for (d_c, h), d in zip(self._slices(out, hidden), d_total, strict=True):
            d_c.copy_((d @ h.t()).t())  # faster than h @ d.t(), the same

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
        parts = total.unflatten(2, (self.freq_dim, -1))[..., :samples]  # (m, M, d, N)
        return parts.permute(3, 1, 0, 2).flatten(1).contiguous()

    def scatter(self, u: Tensor, lanes: int) -> Tensor:
        """From (N, n_u), with zeros in the lanes that hold no sample."""
        total = self.empty(lanes)
        if lanes != len(u):
            total.zero_()
        parts = u.unflatten(1, (self.blocks, self.per_block, self.freq_dim))
        held = total.unflatten(2, (self.freq_dim, -1))
        held[..., : len(u)] = parts.permute(2, 1, 3, 0)
        return total
