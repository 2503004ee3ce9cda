"""The fused loop with vectors of samples: padding, layouts, threads."""

from __future__ import annotations

import torch
from torch import Tensor

from . import batch_kernels as kernels
from .arrays import large_empty, multiple, padded, read_only, total, writable
from .compiling import announced
from .kernel import SEGMENT
from .loop import KINDS, LoopGradients, cut
from .threads import run, shares
from .vectors import MAX_TILE, WIDE, lanes

CHUNK = 800  # steps that are taken at once; a multiple of the kernels' SEGMENT
# Rows of samples that share one sum over samples; more would leave the cache.
ROWS_AT_ONCE = 4 if WIDE else 8


class BatchLoop:
    """The loop for more than a few samples."""

    def __init__(
        self, w2: Tensor, u_in: Tensor, b2: Tensor | None, samples: int, nonlinearity: str
    ) -> None:
        self.n_h, self.n_g = w2.shape
        self.n_in = u_in.shape[1]
        self.samples, self.kind = samples, KINDS[nonlinearity]
        vector = lanes(w2.element_size())
        self.width = 1 if samples <= vector else 2
        self.row = self.width * vector
        self.rows = -(-samples // self.row)
        self.lanes = self.rows * self.row  # samples, and room for more
        self.n_g_padded = multiple(self.n_g, kernels.G_UNIT)
        self.n_h_padded = multiple(self.n_h, kernels.H_UNIT)
        self.tiles = (self.rows, self.n_h_padded, self.row)  # of h at a step
        self.n_in_padded = multiple(self.n_in + 1, kernels.G_UNIT)  # the inputs, and 1 for b2
        self.sums = multiple(kernels.BLOCK, vector)  # a block of sums in memory
        self.numbers = self.n_g_padded * self.n_h_padded  # in A(t)
        tile = MAX_TILE if self.n_h_padded % MAX_TILE == 0 else kernels.H_UNIT
        self.shape = ((0,) * tile, (0,) * self.width)
        self.w2 = padded(w2.t(), (self.n_g_padded, self.n_h_padded))
        self.u_in = padded(u_in.t(), (self.n_in, self.n_h_padded))
        b2 = u_in.new_zeros(0) if b2 is None else b2
        self.b2 = padded(b2, (self.n_h_padded,))
        self.room: list[list[Tensor]] = []

    def chunks(self, steps: int) -> list[tuple[slice, slice]]:
        return cut(steps, CHUNK)

    def new_hidden(self, steps: int) -> Tensor:
        return large_empty((steps, *self.tiles), self.w2)

    def new_kept(self, steps: int) -> Tensor:
        segments = -(-steps // SEGMENT)
        return large_empty((segments, self.rows, self.n_g_padded, self.row), self.w2)

    def pack_z(self, z: Tensor) -> Tensor:
        """(N, n_g) laid out for the kernels, in memory of its own."""
        z = padded(z, (self.lanes, self.n_g_padded))
        by_row = z.view(self.rows, self.row, -1).transpose(1, 2)
        return by_row.clone(memory_format=torch.contiguous_format)

    def unpack_z(self, z: Tensor) -> Tensor:
        z = z.transpose(1, 2).reshape(self.lanes, -1)
        return z[: self.samples, : self.n_g]

    def forward(
        self, x: Tensor, a: Tensor, stop: Tensor | None, z: Tensor, kept: Tensor, h: Tensor
    ) -> None:
        """Read x (L, N, n_in) with A(t), laid out, (L, numbers); z, kept and h are written."""
        a = a.view(-1, self.n_g_padded, self.n_h_padded)
        reads = (self._inputs(x), a, self.w2, self.u_in, self.b2, self._stops(stop))
        arguments = [*map(read_only, reads), *map(writable, (z, kept, h))]

        def work(_: int, part: range) -> None:
            kernels.forward(*arguments, self.kind, *self.shape, part.start, part.stop)

        with announced(kernels.forward):
            run(work, shares(self.rows))

    def backward(
        self,
        x: Tensor,
        a: Tensor,
        stop: Tensor | None,
        kept: Tensor,
        h: Tensor,
        d_h: Tensor,
        d_z: Tensor,
    ) -> LoopGradients:
        """Back through the steps of x (L, N, n_in); d_z is written.

        d_h, the gradient that reaches h from outside the loop, becomes that of U x + b2.
        """
        a = a.view(-1, self.n_g_padded, self.n_h_padded)
        reads = (a, self.w2, self._inputs(x), self._stops(stop), kept, h)
        arguments = [*map(read_only, reads), *map(writable, (d_h, d_z))]
        parts = shares(self.rows)
        self.room = self.room or self._room(len(parts))
        room = [(own[0][: len(x)], *own[1:]) for own in self.room]

        def work(index: int, part: range) -> None:
            own = [writable(array) for array in room[index]]
            for first in part[::ROWS_AT_ONCE]:
                rows = (first, min(first + ROWS_AT_ONCE, part.stop))
                fresh = first == part.start
                kernels.backward(*arguments, *own, self.kind, *self.shape, *rows, fresh)

        with announced(kernels.backward):
            run(work, parts)
        d_a = total([own[0] for own in room]).flatten(1)
        d_w = total([own[1] for own in room]).view(1, -1)
        d_w = self._unblock(d_w)[0].flatten(2).flatten(0, 1)[:, : self.n_h].t()  # (n_h, factors)
        sizes = (self.n_g, self.n_g_padded - self.n_g, self.n_in, self.n_in_padded - self.n_in)
        d_w2, _, d_u_in, d_one = d_w.split(sizes, 1)
        return LoopGradients(d_a, d_w2, d_u_in, d_one[:, 0])

    def _inputs(self, x: Tensor) -> Tensor:
        """(L, N, n_in) as (L, n_in, lanes)."""
        return padded(x.transpose(1, 2), (len(x), self.n_in, self.lanes))

    def _room(self, parts: int) -> list[list[Tensor]]:
        """For each thread: d_a, d_w, and what it works in."""
        rows, vector = min(self.rows, ROWS_AT_ONCE), self.row // self.width
        factors = self.n_g_padded + self.n_in_padded
        shapes = (
            (CHUNK, self._blocks(self.n_g_padded), self.sums),  # d_a
            (self._blocks(factors), self.sums),  # d_w
            (rows, self.n_g_padded, self.row),  # z
            (SEGMENT, rows, factors, self.row),  # g
            (self._blocks(factors), kernels.BLOCK, vector),  # sums that are still vectors
        )
        return [[large_empty(shape, self.w2) for shape in shapes] for _ in range(parts)]

    def lay_out(self, matrices: Tensor) -> Tensor:
        """Matrices (K, n_g, n_h) as A(t) lies in memory: (K, numbers)."""
        return padded(matrices, (len(matrices), self.n_g_padded, self.n_h_padded)).flatten(1)

    def lay_out_sums(self, matrices: Tensor) -> Tensor:
        """Matrices (K, n_g, n_h) as the gradient of A(t) does, in blocks: (K, sums)."""
        blocks = self._blocks(self.n_g_padded)
        sums = matrices.new_zeros(len(matrices), blocks * self.sums)
        shape = (len(matrices), self.n_g_padded, self.n_h_padded)
        whole = matrices if matrices.shape == shape else padded(matrices, shape)
        parts = whole.unflatten(2, (-1, kernels.H_UNIT)).unflatten(1, (-1, kernels.G_UNIT))
        self._unblock(sums).copy_(parts)
        return sums

    def pick_up_sums(self, flat: Tensor) -> Tensor:
        """The matrices (K, n_g, n_h) that :meth:`lay_out_sums` laid out."""
        return self._unblock(flat).flatten(3).flatten(1, 2)[:, : self.n_g, : self.n_h]

    def _blocks(self, rows: int) -> int:
        """Blocks of sums in a matrix of so many rows, n_h wide."""
        return rows // kernels.G_UNIT * (self.n_h_padded // kernels.H_UNIT)

    def _unblock(self, flat: Tensor) -> Tensor:
        """A view of blocks of sums (K, sums) as matrices (K, rows, n_h), whose rows come in groups
        of G_UNIT, and columns in groups of H_UNIT: (K, groups, G_UNIT, groups, H_UNIT)."""
        across = self.n_h_padded // kernels.H_UNIT
        blocks = flat.view(len(flat), -1, across, self.sums)[..., : kernels.BLOCK]
        return blocks.unflatten(3, (kernels.G_UNIT, kernels.H_UNIT)).transpose(2, 3)

    def _stops(self, stop: Tensor | None) -> Tensor:
        """Where each lane ends. One that holds no sample ends at once: what it did could overflow,
        and infinity times a gradient of 0 is no 0."""
        if stop is None:
            if self.lanes == self.samples:
                return self.w2.new_empty(0)
            stop = self.w2.new_full((self.samples,), float("inf"))
        return padded(stop.to(self.w2.dtype), (self.lanes,))
