"""The fused loop with vectors along z, for few samples: padding, layouts, threads."""

from __future__ import annotations

import torch
from torch import Tensor

from . import small_kernels as kernels
from .arrays import large_empty, multiple, padded, padded_copy, read_only, total, writable
from .compiling import announced
from .kernel import SEGMENT
from .loop import KINDS, LoopGradients, cut
from .threads import run, shares
from .vectors import MAX_TILE, lanes

SMALL_TILE = 5  # rows of A(t) at once; MAX_TILE where they come out even
CHUNK = 1024  # steps whose A(t) is held at once; a multiple of the kernels' SEGMENT


class SmallLoop:
    """The loop with vectors along z, for few samples."""

    def __init__(
        self, w2: Tensor, u_in: Tensor, b2: Tensor | None, samples: int, nonlinearity: str
    ) -> None:
        self.n_h, self.n_g = w2.shape
        self.samples = samples
        self.kind = KINDS[nonlinearity]
        vector = lanes(w2.element_size())
        tile = MAX_TILE if self.n_h % MAX_TILE == 0 else SMALL_TILE
        self.tile = (0,) * tile
        self.n_g_padded = multiple(self.n_g, vector)
        self.n_h_padded = multiple(self.n_h, tile)
        self.h_row = multiple(self.n_h_padded - tile + multiple(tile, vector), vector)
        self.numbers = self.n_g_padded * self.n_h_padded  # in A(t)
        self.tiles = (samples, self.h_row, 1)  # of h at a step
        self.w2 = padded(w2, (self.n_h_padded, self.n_g_padded))
        self.u_in, self.b2 = u_in, b2

    def chunks(self, steps: int) -> list[tuple[slice, slice]]:
        return cut(steps, CHUNK)

    def new_hidden(self, steps: int) -> Tensor:
        return large_empty((steps, *self.tiles), self.w2).zero_()

    def new_kept(self, steps: int) -> Tensor:
        segments = -(-steps // SEGMENT)
        return large_empty((segments, self.samples, self.n_g_padded), self.w2)

    def pack_z(self, z: Tensor) -> Tensor:
        """(N, n_g) laid out for the kernels, in memory of its own."""
        return padded_copy(z, (self.samples, self.n_g_padded))

    def unpack_z(self, z: Tensor) -> Tensor:
        return z[:, : self.n_g]

    def forward(
        self, x: Tensor, a: Tensor, stop: Tensor | None, z: Tensor, kept: Tensor, h: Tensor
    ) -> None:
        """As :meth:`BatchLoop.forward`."""
        h = h.squeeze(3)  # (L, N, n_h)
        h[:, :, : self.n_h] = torch.nn.functional.linear(x, self.u_in, self.b2)
        a = a.view(-1, self.n_h_padded, self.n_g_padded)
        reads = (a, self.w2, self._stops(stop))
        arguments = [*map(read_only, reads), *map(writable, (z, kept, h))]

        def work(_: int, part: range) -> None:
            g = writable(z.new_empty(self.n_g_padded))
            kernels.forward_small(*arguments, g, self.kind, self.tile, part.start, part.stop)

        with announced(kernels.forward_small):
            run(work, shares(self.samples))

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
        """As :meth:`BatchLoop.backward`."""
        h, d_h = h.squeeze(3), d_h.squeeze(3)  # (L, N, n_h)
        a = a.view(-1, self.n_h_padded, self.n_g_padded)
        reads = (a, self.w2, self._stops(stop), kept, h)
        arguments = [*map(read_only, reads), *map(writable, (d_h, d_z))]
        parts = shares(self.samples)
        d_a = large_empty((len(parts), *a.shape), a)
        d_w2 = a.new_zeros(len(parts), self.n_h_padded, self.n_g_padded)

        def work(index: int, part: range) -> None:
            z, g = a.new_empty(self.n_g_padded), a.new_empty(SEGMENT, self.n_g_padded)
            own = map(writable, (d_a[index], d_w2[index], z, g))
            kernels.backward_small(*arguments, *own, self.kind, self.tile, part.start, part.stop)

        with announced(kernels.backward_small):
            run(work, parts)
        d_w2_sum = total(d_w2)[: self.n_h, : self.n_g]
        d_drive = d_h[:, :, : self.n_h].flatten(0, 1)  # (L N, n_h)
        d_u_in, d_b2 = d_drive.t() @ x.flatten(0, 1), d_drive.sum(0)
        return LoopGradients(total(d_a).flatten(1), d_w2_sum, d_u_in, d_b2)

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
