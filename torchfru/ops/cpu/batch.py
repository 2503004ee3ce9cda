"""The loop with vectors of samples: its kernels, and their layouts and threads.

A vector holds one number of each of 8 or 16 samples. A row of one or two such vectors keeps its z
in the first cache for a segment of steps; then comes the next row, while A(t) of the segment is
still in the second.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .nonlinear import KINDS, apply, apply_backward, keep_before
from .runtime import (
    kernel_arrays,
    padded,
    pooled_empty,
    round_up,
    run,
    split_range,
    sum_over_threads,
)
from .simd import (
    MAX_TILE,
    SEGMENT,
    VECTOR_BYTES,
    WIDE,
    add,
    add_dots,
    add_outer,
    add_scaled,
    add_store_sums,
    kernel,
    lane_sums,
    load_row,
    load_tile,
    splat_tile,
    store_row,
    store_tile,
    zeros_tile,
)

CHUNK = 800  # steps that are taken at once; a multiple of SEGMENT
# Rows of samples that share one sum over samples; more would leave the cache.
ROWS_AT_ONCE = 4 if WIDE else 8
# Sums over samples are made in blocks of some entries of g times some of h: 3 times 5 are 15 sums,
# which nearly fill a vector and leave 32 registers enough for their factors; with AVX2's 16 it is
# 2 times 5. Widths are padded accordingly.
G_UNIT, H_UNIT = 3 if WIDE else 2, 5
BLOCK = G_UNIT * H_UNIT

# x (L, n_in, N), a (L, n_g, n_h), w2 (n_g, n_h), u_in (n_in, n_h), b2 (n_h,), h and d_h (L, rows,
# n_h, row), z and d_z (rows, n_g, row), z_checkpoints (segments, rows, n_g, row); stop (N,) says
# after how many steps a sample ends, and is (0,) where none does. The part of h that belongs to a
# row of samples and a step is one block: parts at distances of some power of two would push each
# other out of the cache. A kernel works on the rows of samples first..last-1. ``tile`` is a tuple
# as long as the part of h that is held in registers, ``width`` one as long as a row has vectors.


@kernel
def batch_forward(x, a, w2, u_in, b2, stop, z, z_checkpoints, h, kind, tile, width, first, last):
    """Write h and z_checkpoints, and carry z through all steps."""
    steps, n_g, n_h = a.shape
    n_in, samples, rows, row = x.shape[1], x.shape[2], h.shape[1], z.shape[2]
    for begin in range(0, steps, SEGMENT):
        for r in range(first, last):
            z_at, lane = r * n_g * row, r * row
            z_checkpoints[begin // SEGMENT, r] = z[r]
            for t in range(begin, min(begin + SEGMENT, steps)):
                for j in range(0, n_h, len(tile)):
                    sums = splat_tile(b2, j, tile, width)
                    for i in range(n_in):
                        x_row = load_row(x, (t * n_in + i) * samples + lane, width)
                        sums = add_scaled(sums, u_in, i * n_h + j, x_row)
                    for i in range(n_g):
                        g_row = apply(kind, load_row(z, z_at + i * row, width))
                        sums = add_scaled(sums, w2, i * n_h + j, g_row)
                    sums = apply(kind, sums)
                    if stop.size:
                        sums = keep_before(sums, load_row(stop, lane, width), t)
                    store_tile(h, ((t * rows + r) * n_h + j) * row, row, sums, width)
                for j in range(0, n_h, len(tile)):
                    h_tile = load_tile(h, ((t * rows + r) * n_h + j) * row, row, tile, width)
                    for i in range(0, n_g, G_UNIT):
                        z_tile = load_tile(z, z_at + i * row, row, G_UNIT, width)
                        z_tile = add_dots(z_tile, a, (t * n_g + i) * n_h + j, n_h, h_tile, width)
                        store_tile(z, z_at + i * row, row, z_tile, width)


@kernel
def _replay(a, x, h, z, g, kind, tile, width, begin, end, first, last):
    """g, and x behind it, for the steps of one segment, from z before it and its h."""
    _, n_g, n_h = a.shape
    n_in, samples, rows, row = x.shape[1], x.shape[2], h.shape[1], z.shape[2]
    for r in range(last - first):
        for t in range(begin, end):
            g_at = ((t - begin) * g.shape[1] + r) * g.shape[2] * row
            for i in range(n_in):
                x_row = load_row(x, (t * n_in + i) * samples + (first + r) * row, width)
                store_row(g, g_at + (n_g + i) * row, x_row)
            for j in range(0, n_h, len(tile)):
                at = ((t * rows + first + r) * n_h + j) * row
                h_tile = load_tile(h, at, row, tile, width)
                for i in range(0, n_g, G_UNIT):
                    z_at = (r * n_g + i) * row
                    z_tile = load_tile(z, z_at, row, G_UNIT, width)
                    if j == 0:  # z is not changed yet
                        store_tile(g, g_at + i * row, row, apply(kind, z_tile), width)
                    z_tile = add_dots(z_tile, a, (t * n_g + i) * n_h + j, n_h, h_tile, width)
                    store_tile(z, z_at, row, z_tile, width)


@kernel
def _hidden_backward(a, h, stop, d_h, d_z, kind, tile, width, t, first, last):
    """d_h at step t: what comes from outside the loop and through z, and then through phi."""
    _, n_g, n_h = a.shape
    rows, row = h.shape[1], d_z.shape[2]
    for r in range(first, last):
        for j in range(0, n_h, len(tile)):
            at = ((t * rows + r) * n_h + j) * row
            sums = load_tile(d_h, at, row, tile, width)
            for i in range(n_g):
                z_row = load_row(d_z, (r * n_g + i) * row, width)
                sums = add_scaled(sums, a, (t * n_g + i) * n_h + j, z_row)
            sums = apply_backward(kind, sums, load_tile(h, at, row, tile, width))
            if stop.size:
                sums = keep_before(sums, load_row(stop, r * row, width), t)
            store_tile(d_h, at, row, sums, width)


@kernel
def _gate_backward(w2, d_h, g, d_z, kind, tile, width, t, g_at, first, last):
    """d_z before step t, from that after it."""
    n_g, n_h = w2.shape
    rows, row = d_h.shape[1], d_z.shape[2]
    for r in range(first, last):
        for j in range(0, n_h, len(tile)):
            d_tile = load_tile(d_h, ((t * rows + r) * n_h + j) * row, row, tile, width)
            for i in range(0, n_g, G_UNIT):
                change = zeros_tile(d_z, G_UNIT, width)
                change = add_dots(change, w2, i * n_h + j, n_h, d_tile, width)
                at = g_at + ((r - first) * g.shape[2] + i) * row  # read now: registers are few
                change = apply_backward(kind, change, load_tile(g, at, row, G_UNIT, width))
                z_at = (r * n_g + i) * row
                z_tile = load_tile(d_z, z_at, row, G_UNIT, width)
                # Always a sum: to choose where to add would make LLVM mask the store, which
                # processors of AMD need many cycles for.
                store_tile(d_z, z_at, row, add(z_tile, change), width)


@kernel
def _matrix_backward(h, d_z, d_a, width, t, first, last, overwrite):
    """d_a at step t: sums over samples of d_z h, block by block."""
    n_g, row = d_z.shape[1], d_z.shape[2]
    rows, n_h = h.shape[1], h.shape[2]
    vector, place = row // len(width), t * d_a.shape[1] * d_a.shape[2]
    for i in range(0, n_g, G_UNIT):
        for j in range(0, n_h, H_UNIT):
            sums = zeros_tile(d_a, BLOCK, 1)
            for r in range(first, last):
                for v in range(len(width)):
                    z_at = (r * n_g + i) * row + v * vector
                    h_at = ((t * rows + r) * n_h + j) * row + v * vector
                    z_tile = load_tile(d_z, z_at, row, G_UNIT, 1)
                    sums = add_outer(sums, z_tile, load_tile(h, h_at, row, H_UNIT, 1))
            if overwrite:
                store_row(d_a, place, lane_sums(sums))
            else:
                add_store_sums(d_a, place, sums)
            place += d_a.shape[2]


@kernel
def _weight_backward(d_h, g, w_sums, width, begin, end, first, last):
    """Add the steps of a segment to d_w: products g d_h, block by block, still vectors.

    Row by row: a row's d_h stays in the first cache while all its blocks are made.
    """
    n_g, row = g.shape[2], g.shape[3]
    rows, n_h = d_h.shape[1], d_h.shape[2]
    vector = row // len(width)
    for r in range(last - first):
        place = 0
        for i in range(0, n_g, G_UNIT):
            for j in range(0, n_h, H_UNIT):
                sums = load_tile(w_sums, place, vector, BLOCK, 1)
                for t in range(begin, end):
                    for v in range(len(width)):
                        g_at = (((t - begin) * g.shape[1] + r) * n_g + i) * row + v * vector
                        d_at = ((t * rows + first + r) * n_h + j) * row + v * vector
                        g_tile = load_tile(g, g_at, row, G_UNIT, 1)
                        sums = add_outer(sums, g_tile, load_tile(d_h, d_at, row, H_UNIT, 1))
                store_tile(w_sums, place, vector, sums, 1)
                place += BLOCK * vector


@kernel
def batch_backward(
    a,
    w2,
    x,
    stop,
    z_checkpoints,
    h,
    d_h,
    d_z,
    d_a,
    d_w,
    z,
    g,
    w_sums,
    kind,
    tile,
    width,
    first,
    last,
    overwrite,
):
    """All steps backwards: d_h becomes d(U x + b2), d_z is carried to before the first step.

    d_a (L, blocks, sums) and d_w (blocks, sums) are added to, or written if ``overwrite``; sums is
    BLOCK, and zeros up to whole vectors. W2, U and b2 are all weights of h, and get their
    gradients in one go: d_w is that of g, then x, then 1.

    z (rows, n_g, row), g (SEGMENT, rows, n_g + n_in + 1 and more, row) and w_sums (blocks, BLOCK,
    vector) are scratch for the rows that the kernel works on.
    """
    if overwrite:
        d_w[:] = 0
    w_sums[:] = 0
    one = w2.shape[0] + x.shape[1]
    g[:, :, one] = 1
    g[:, :, one + 1 :] = 0
    steps = a.shape[0]
    for segment in range((steps - 1) // SEGMENT, -1, -1):
        begin, end = segment * SEGMENT, min((segment + 1) * SEGMENT, steps)
        z[: last - first] = z_checkpoints[segment, first:last]
        _replay(a, x, h, z, g, kind, tile, width, begin, end, first, last)
        for t in range(end - 1, begin - 1, -1):
            g_at = (t - begin) * g.shape[1] * g.shape[2] * g.shape[3]
            _hidden_backward(a, h, stop, d_h, d_z, kind, tile, width, t, first, last)
            _matrix_backward(h, d_z, d_a, width, t, first, last, overwrite)
            _gate_backward(w2, d_h, g, d_z, kind, tile, width, t, g_at, first, last)
        _weight_backward(d_h, g, w_sums, width, begin, end, first, last)
    vector = w_sums.shape[2]
    for block in range(d_w.shape[0]):
        w_block = load_tile(w_sums, block * BLOCK * vector, vector, BLOCK, 1)
        add_store_sums(d_w, block * d_w.shape[1], w_block)


# The loop ----------------------------------------------------------------------------------------


class LoopGradients(NamedTuple):
    """Gradients that the loop finds over a chunk of steps."""

    a: Tensor  # of A(t), laid out, (L, sums)
    w2: Tensor  # (n_h, n_g)
    u_in: Tensor  # (n_h, n_in)
    b2: Tensor  # (n_h,)


def time_chunks(steps: int, chunk: int) -> list[tuple[slice, slice]]:
    """Chunks of the steps, and the segments of each, whose z is kept."""
    ends = [(start, min(start + chunk, steps)) for start in range(0, steps, chunk)]
    return [(slice(a, b), slice(a // SEGMENT, -(-b // SEGMENT))) for a, b in ends]


class BatchLoop:
    """The loop for more than a few samples."""

    def __init__(
        self, w2: Tensor, u_in: Tensor, b2: Tensor | None, samples: int, nonlinearity: str
    ) -> None:
        self.n_h, self.n_g = w2.shape
        self.n_in = u_in.shape[1]
        self.samples, self.kind = samples, KINDS[nonlinearity]
        vector = VECTOR_BYTES // w2.element_size()
        self.width = 1 if samples <= vector else 2
        self.row = self.width * vector
        self.rows = -(-samples // self.row)
        self.lanes = self.rows * self.row  # samples, and padding
        self.n_g_padded = round_up(self.n_g, G_UNIT)
        self.n_h_padded = round_up(self.n_h, H_UNIT)
        self.tiles = (self.rows, self.n_h_padded, self.row)  # of h at a step
        self.n_in_padded = round_up(self.n_in + 1, G_UNIT)  # the inputs, and 1 for b2
        self.sums = round_up(BLOCK, vector)  # a block of sums in memory
        self.numbers = self.n_g_padded * self.n_h_padded  # in A(t)
        tile = MAX_TILE if self.n_h_padded % MAX_TILE == 0 else H_UNIT
        self.shape = ((0,) * tile, (0,) * self.width)
        self.w2 = padded(w2.t(), (self.n_g_padded, self.n_h_padded))
        self.u_in = padded(u_in.t(), (self.n_in, self.n_h_padded))
        b2 = u_in.new_zeros(0) if b2 is None else b2
        self.b2 = padded(b2, (self.n_h_padded,))
        self.scratch: list[list[Tensor]] = []  # of each thread

    def chunks(self, steps: int) -> list[tuple[slice, slice]]:
        return time_chunks(steps, CHUNK)

    def new_hidden(self, steps: int) -> Tensor:
        return pooled_empty((steps, *self.tiles), self.w2)

    def new_checkpoints(self, steps: int) -> Tensor:
        segments = -(-steps // SEGMENT)
        return pooled_empty((segments, self.rows, self.n_g_padded, self.row), self.w2)

    def pack_z(self, z: Tensor) -> Tensor:
        """(N, n_g) laid out for the kernels, in memory of its own."""
        z = padded(z, (self.lanes, self.n_g_padded))
        by_row = z.view(self.rows, self.row, -1).transpose(1, 2)
        return by_row.clone(memory_format=torch.contiguous_format)

    def unpack_z(self, z: Tensor) -> Tensor:
        z = z.transpose(1, 2).reshape(self.lanes, -1)
        return z[: self.samples, : self.n_g]

    def forward(
        self, x: Tensor, a: Tensor, stop: Tensor | None, z: Tensor, z_checkpoints: Tensor, h: Tensor
    ) -> None:
        """Read x (L, N, n_in) with A(t), laid out, (L, numbers); write z, z_checkpoints and h."""
        a = a.view(-1, self.n_g_padded, self.n_h_padded)
        reads = (self._inputs(x), a, self.w2, self.u_in, self.b2, self._stops(stop))
        arguments = kernel_arrays(reads, write=(z, z_checkpoints, h))

        def work(_: int, part: range) -> None:
            batch_forward(*arguments, self.kind, *self.shape, part.start, part.stop)

        run(work, split_range(self.rows))

    def backward(
        self,
        x: Tensor,
        a: Tensor,
        stop: Tensor | None,
        z_checkpoints: Tensor,
        h: Tensor,
        d_h: Tensor,
        d_z: Tensor,
    ) -> LoopGradients:
        """Run the steps of x (L, N, n_in) backwards; write d_z.

        d_h, the gradient that reaches h from outside the loop, becomes that of U x + b2.
        """
        a = a.view(-1, self.n_g_padded, self.n_h_padded)
        reads = (a, self.w2, self._inputs(x), self._stops(stop), z_checkpoints, h)
        arguments = kernel_arrays(reads, write=(d_h, d_z))
        parts = split_range(self.rows)
        self.scratch = self.scratch or self._new_scratch(len(parts))
        scratch = [(own[0][: len(x)], *own[1:]) for own in self.scratch]

        def work(index: int, part: range) -> None:
            own = kernel_arrays((), write=scratch[index])
            for first in part[::ROWS_AT_ONCE]:
                rows = (first, min(first + ROWS_AT_ONCE, part.stop))
                overwrite = first == part.start
                batch_backward(*arguments, *own, self.kind, *self.shape, *rows, overwrite)

        run(work, parts)
        d_a = sum_over_threads([own[0] for own in scratch]).flatten(1)
        d_w = sum_over_threads([own[1] for own in scratch]).view(1, -1)
        d_w = self._unblock(d_w)[0].flatten(2).flatten(0, 1)[:, : self.n_h].t()  # (n_h, factors)
        sizes = (self.n_g, self.n_g_padded - self.n_g, self.n_in, self.n_in_padded - self.n_in)
        d_w2, _, d_u_in, d_one = d_w.split(sizes, 1)
        return LoopGradients(d_a, d_w2, d_u_in, d_one[:, 0])

    def _inputs(self, x: Tensor) -> Tensor:
        """(L, N, n_in) as (L, n_in, lanes)."""
        return padded(x.transpose(1, 2), (len(x), self.n_in, self.lanes))

    def _new_scratch(self, parts: int) -> list[list[Tensor]]:
        """For each thread: d_a, d_w, z, g and sums."""
        rows, vector = min(self.rows, ROWS_AT_ONCE), self.row // self.width
        factors = self.n_g_padded + self.n_in_padded
        shapes = (
            (CHUNK, self._blocks(self.n_g_padded), self.sums),  # d_a
            (self._blocks(factors), self.sums),  # d_w
            (rows, self.n_g_padded, self.row),  # z
            (SEGMENT, rows, factors, self.row),  # g
            (self._blocks(factors), BLOCK, vector),  # sums that are still vectors
        )
        return [[pooled_empty(shape, self.w2) for shape in shapes] for _ in range(parts)]

    def lay_out(self, matrices: Tensor) -> Tensor:
        """Matrices (K, n_g, n_h) as A(t) lies in memory: (K, numbers)."""
        return padded(matrices, (len(matrices), self.n_g_padded, self.n_h_padded)).flatten(1)

    def lay_out_sums(self, matrices: Tensor) -> Tensor:
        """Matrices (K, n_g, n_h) as the gradient of A(t) does, in blocks: (K, sums)."""
        blocks = self._blocks(self.n_g_padded)
        sums = matrices.new_zeros(len(matrices), blocks * self.sums)
        shape = (len(matrices), self.n_g_padded, self.n_h_padded)
        whole = matrices if matrices.shape == shape else padded(matrices, shape)
        parts = whole.unflatten(2, (-1, H_UNIT)).unflatten(1, (-1, G_UNIT))
        self._unblock(sums).copy_(parts)
        return sums

    def pick_up_sums(self, flat: Tensor) -> Tensor:
        """The matrices (K, n_g, n_h) that :meth:`lay_out_sums` laid out."""
        return self._unblock(flat).flatten(3).flatten(1, 2)[:, : self.n_g, : self.n_h]

    def _blocks(self, rows: int) -> int:
        """Blocks of sums in a matrix of so many rows, n_h wide."""
        return rows // G_UNIT * (self.n_h_padded // H_UNIT)

    def _unblock(self, flat: Tensor) -> Tensor:
        """A view of blocks of sums (K, sums) as matrices (K, rows, n_h), whose rows come in groups
        of G_UNIT, and columns in groups of H_UNIT: (K, groups, G_UNIT, groups, H_UNIT)."""
        across = self.n_h_padded // H_UNIT
        blocks = flat.view(len(flat), -1, across, self.sums)[..., :BLOCK]
        return blocks.unflatten(3, (G_UNIT, H_UNIT)).transpose(2, 3)

    def _stops(self, stop: Tensor | None) -> Tensor:
        """Where each lane ends. A lane without a sample ends at once: it could overflow, and
        inf * 0 is NaN."""
        if stop is None:
            if self.lanes == self.samples:
                return self.w2.new_empty(0)
            stop = self.w2.new_full((self.samples,), float("inf"))
        return padded(stop.to(self.w2.dtype), (self.lanes,))
