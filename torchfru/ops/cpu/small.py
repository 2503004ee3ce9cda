"""The loop for few samples, with vectors along z: its kernels, and their layouts and threads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .batch import LoopGradients, time_chunks
from .nonlinear import KINDS, apply, apply_backward
from .runtime import (
    kernel_arrays,
    padded,
    padded_copy,
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
    add,
    add_dot,
    add_outer,
    add_scaled,
    add_store_sums,
    kernel,
    lanes_of,
    load_row,
    load_tile,
    store_row,
    store_tile,
    zeros_tile,
)

SMALL_TILE = 5  # rows of A(t) at once; MAX_TILE where they come out even
CHUNK = 1024  # steps whose A(t) is held at once; a multiple of SEGMENT

# a (L, n_h, n_g), w2 (n_h, n_g), h and d_h (L, N, n_h and more), z and d_z (N, n_g), z_checkpoints
# (segments, N, n_g), stop (N,) or (0,). n_g is a multiple of the lanes of a vector, n_h one of
# the length of ``tile``, a tuple. A row of h has whole vectors from each tile on.


@kernel
def _add_transposed(matrix, m_at, numbers, at, out, out_at, tile):
    """out += matrix^T numbers, the matrix being (n_h, n_g) at offset m_at."""
    n_h, n_g = matrix.shape[-2], matrix.shape[-1]
    for i in range(0, n_g, lanes_of(out)):
        total = load_row(out, out_at + i, 1)
        for j in range(0, n_h, len(tile)):
            columns = load_tile(matrix, m_at + j * n_g + i, n_g, tile, 1)
            total = add_dot(total, numbers, at + j, columns)
        store_row(out, out_at + i, total)


@kernel
def _add_product(matrix, m_at, values, v_at, out, out_at, tile):
    """out += matrix values: sums along the vectors."""
    n_h, n_g = matrix.shape[-2], matrix.shape[-1]
    for j in range(0, n_h, len(tile)):
        sums = zeros_tile(out, tile, 1)
        for i in range(0, n_g, lanes_of(out)):
            row = load_row(values, v_at + i, 1)
            sums = add_outer(sums, load_tile(matrix, m_at + j * n_g + i, n_g, tile, 1), row)
        add_store_sums(out, out_at + j, sums)


@kernel
def _add_outer_product(numbers, at, values, v_at, out, out_at, tile, overwrite):
    """out[j] += numbers[j] values, or = with ``overwrite``, row by row, from out_at on."""
    n_h, n_g = out.shape[-2], out.shape[-1]
    for i in range(0, n_g, lanes_of(out)):
        row = load_row(values, v_at + i, 1)
        for j in range(0, n_h, len(tile)):
            place = out_at + j * n_g + i
            rows = zeros_tile(out, tile, 1) if overwrite else load_tile(out, place, n_g, tile, 1)
            store_tile(out, place, n_g, add_scaled(rows, numbers, at + j, row), 1)


@kernel
def small_forward(a, w2, stop, z, z_checkpoints, h, g, kind, tile, first, last):
    """Write z_checkpoints, carry z through all steps, and replace U x + b2 in h by h.

    g (n_g,) is scratch.
    """
    steps, n_h, n_g = a.shape
    samples, h_row, vector = z.shape[0], h.shape[2], lanes_of(z)
    for t in range(steps):
        for n in range(first, last):
            if t % SEGMENT == 0:
                z_checkpoints[t // SEGMENT, n] = z[n]
            if stop.size and t >= stop[n]:
                h[t, n] = 0
                continue
            for i in range(0, n_g, vector):
                store_row(g, i, apply(kind, load_row(z, n * n_g + i, 1)))
            at = (t * samples + n) * h_row
            _add_product(w2, 0, g, 0, h, at, tile)
            for j in range(0, h_row, vector):
                store_row(h, at + j, apply(kind, load_row(h, at + j, 1)))
            _add_transposed(a, t * n_h * n_g, h, at, z, n * n_g, tile)


@kernel
def _replay(a, h, z_checkpoints, z, g, kind, tile, segment, begin, end, n):
    """g for the steps of one segment of a sample."""
    _, n_h, n_g = a.shape
    samples, h_row = h.shape[1], h.shape[2]
    z[:] = z_checkpoints[segment, n]
    for t in range(begin, end):
        for i in range(0, n_g, lanes_of(z)):
            store_row(g, (t - begin) * n_g + i, apply(kind, load_row(z, i, 1)))
        _add_transposed(a, t * n_h * n_g, h, (t * samples + n) * h_row, z, 0, tile)


@kernel
def _hidden_backward(a, h, d_h, d_z, kind, tile, t, n):
    """d_h at step t: what comes from outside the loop and through z, and then through phi."""
    _, n_h, n_g = a.shape
    h_row = h.shape[2]
    at = (t * h.shape[1] + n) * h_row
    _add_product(a, t * n_h * n_g, d_z, n * n_g, d_h, at, tile)
    for j in range(0, h_row, lanes_of(h)):
        d_row = apply_backward(kind, load_row(d_h, at + j, 1), load_row(h, at + j, 1))
        store_row(d_h, at + j, d_row)


@kernel
def _gate_backward(w2, d_h, at, g, g_at, d_z, z_at, kind, tile):
    """d_z before a step, from that after it."""
    n_h, n_g = w2.shape
    for i in range(0, n_g, lanes_of(d_z)):
        change = zeros_tile(w2, 1, 1)
        for j in range(0, n_h, len(tile)):
            columns = load_tile(w2, j * n_g + i, n_g, tile, 1)
            change = add_dot(change, d_h, at + j, columns)
        change = apply_backward(kind, change, load_row(g, g_at + i, 1))
        store_row(d_z, z_at + i, add(load_row(d_z, z_at + i, 1), change))


@kernel
def small_backward(
    a, w2, stop, z_checkpoints, h, d_h, d_z, d_a, d_w2, z, g, kind, tile, first, last
):
    """As ``batch_backward``; d_a (L, n_h, n_g) is written, d_w2 (n_h, n_g) is added to.

    z (n_g,) and g (SEGMENT, n_g) are scratch.
    """
    steps, n_h, n_g = a.shape
    samples, h_row = h.shape[1], h.shape[2]
    for segment in range((steps - 1) // SEGMENT, -1, -1):
        begin, end = segment * SEGMENT, min((segment + 1) * SEGMENT, steps)
        for n in range(first, last):
            _replay(a, h, z_checkpoints, z, g, kind, tile, segment, begin, end, n)
            for t in range(end - 1, begin - 1, -1):
                if stop.size and t >= stop[n]:
                    d_h[t, n] = 0
                    if n == first:
                        d_a[t] = 0
                    continue
                at, z_at, g_at = (t * samples + n) * h_row, n * n_g, (t - begin) * n_g
                _hidden_backward(a, h, d_h, d_z, kind, tile, t, n)
                _add_outer_product(h, at, d_z, z_at, d_a, t * n_h * n_g, tile, n == first)
                _add_outer_product(d_h, at, g, g_at, d_w2, 0, tile, False)
                _gate_backward(w2, d_h, at, g, g_at, d_z, z_at, kind, tile)


# The loop ----------------------------------------------------------------------------------------


class SmallLoop:
    """The loop with vectors along z, for few samples."""

    def __init__(
        self, w2: Tensor, u_in: Tensor, b2: Tensor | None, samples: int, nonlinearity: str
    ) -> None:
        self.n_h, self.n_g = w2.shape
        self.samples = samples
        self.kind = KINDS[nonlinearity]
        vector = VECTOR_BYTES // w2.element_size()
        tile = MAX_TILE if self.n_h % MAX_TILE == 0 else SMALL_TILE
        self.tile = (0,) * tile
        self.n_g_padded = round_up(self.n_g, vector)
        self.n_h_padded = round_up(self.n_h, tile)
        self.h_row = round_up(self.n_h_padded - tile + round_up(tile, vector), vector)
        self.numbers = self.n_g_padded * self.n_h_padded  # in A(t)
        self.tiles = (samples, self.h_row, 1)  # of h at a step
        self.w2 = padded(w2, (self.n_h_padded, self.n_g_padded))
        self.u_in, self.b2 = u_in, b2

    def chunks(self, steps: int) -> list[tuple[slice, slice]]:
        return time_chunks(steps, CHUNK)

    def new_hidden(self, steps: int) -> Tensor:
        return pooled_empty((steps, *self.tiles), self.w2).zero_()

    def new_checkpoints(self, steps: int) -> Tensor:
        segments = -(-steps // SEGMENT)
        return pooled_empty((segments, self.samples, self.n_g_padded), self.w2)

    def pack_z(self, z: Tensor) -> Tensor:
        """(N, n_g) laid out for the kernels, in memory of its own."""
        return padded_copy(z, (self.samples, self.n_g_padded))

    def unpack_z(self, z: Tensor) -> Tensor:
        return z[:, : self.n_g]

    def forward(
        self, x: Tensor, a: Tensor, stop: Tensor | None, z: Tensor, z_checkpoints: Tensor, h: Tensor
    ) -> None:
        """As :meth:`BatchLoop.forward`."""
        h = h.squeeze(3)  # (L, N, n_h)
        h[:, :, : self.n_h] = F.linear(x, self.u_in, self.b2)
        a = a.view(-1, self.n_h_padded, self.n_g_padded)
        reads = (a, self.w2, self._stops(stop))
        arguments = kernel_arrays(reads, write=(z, z_checkpoints, h))

        def work(_: int, part: range) -> None:
            g = kernel_arrays((), write=[z.new_empty(self.n_g_padded)])
            small_forward(*arguments, *g, self.kind, self.tile, part.start, part.stop)

        run(work, split_range(self.samples))

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
        """As :meth:`BatchLoop.backward`."""
        h, d_h = h.squeeze(3), d_h.squeeze(3)  # (L, N, n_h)
        a = a.view(-1, self.n_h_padded, self.n_g_padded)
        reads = (a, self.w2, self._stops(stop), z_checkpoints, h)
        arguments = kernel_arrays(reads, write=(d_h, d_z))
        parts = split_range(self.samples)
        d_a = pooled_empty((len(parts), *a.shape), a)
        d_w2 = a.new_zeros(len(parts), self.n_h_padded, self.n_g_padded)

        def work(index: int, part: range) -> None:
            z, g = a.new_empty(self.n_g_padded), a.new_empty(SEGMENT, self.n_g_padded)
            own = kernel_arrays((), write=(d_a[index], d_w2[index], z, g))
            small_backward(*arguments, *own, self.kind, self.tile, part.start, part.stop)

        run(work, parts)
        d_w2_sum = sum_over_threads(d_w2)[: self.n_h, : self.n_g]
        d_drive = d_h[:, :, : self.n_h].flatten(0, 1)  # (L N, n_h)
        d_u_in, d_b2 = d_drive.t() @ x.flatten(0, 1), d_drive.sum(0)
        return LoopGradients(sum_over_threads(d_a).flatten(1), d_w2_sum, d_u_in, d_b2)

    def lay_out(self, matrices: Tensor) -> Tensor:
        """As :meth:`BatchLoop.lay_out`."""
        shape = (len(matrices), self.n_h_padded, self.n_g_padded)
        return padded(matrices.transpose(1, 2), shape).flatten(1)

    def lay_out_sums(self, matrices: Tensor) -> Tensor:
        """As :meth:`BatchLoop.lay_out_sums`; here both layouts are one."""
        return self.lay_out(matrices)

    def pick_up_sums(self, flat: Tensor) -> Tensor:
        """As :meth:`BatchLoop.pick_up_sums`."""
        whole = flat.view(len(flat), self.n_h_padded, self.n_g_padded)
        return whole[:, : self.n_h, : self.n_g].transpose(1, 2)

    def _stops(self, stop: Tensor | None) -> Tensor:
        return torch.empty(0, dtype=torch.int64) if stop is None else stop.contiguous()
