"""The two forms of the fused loop behind one face: padding, layouts, threads.

Both take and give plain tensors; how h, z and the rest lie in memory is their own business:
``h`` and ``kept`` are opaque to the caller, who holds on to them for the backward pass.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from . import numba_cpu as kernels
from .simd import IDENTITY, MAX_TILE, RELU, TANH, lanes
from .threads import run, shares

SMALL_BATCH = 8  # up to here, a vector of samples would be mostly empty
ROWS_AT_ONCE = 4  # rows of samples that share one sum over samples; more would leave the cache
KINDS = {"relu": RELU, "tanh": TANH, "identity": IDENTITY}


def choose_loop(samples: int) -> type[BatchLoop] | type[SmallLoop]:
    return SmallLoop if samples <= SMALL_BATCH else BatchLoop


@contextmanager
def announced(kernel: Any) -> Iterator[None]:
    """Say so when the first call of a kernel takes long: then it is being compiled."""
    if kernel.signatures:
        yield
        return
    message = "torchfru: compiling the CPU kernels for this machine, once (about 10 seconds) ..."
    notice = threading.Timer(1.0, print, [message], {"file": sys.stderr, "flush": True})
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


class BatchLoop:
    """The loop with vectors of samples."""

    def __init__(
        self, w2: Tensor, u_in: Tensor, b2: Tensor | None, samples: int, nonlinearity: str
    ) -> None:
        self.n_h, self.n_g = w2.shape
        self.samples, self.kind = samples, KINDS[nonlinearity]
        vector = lanes(w2.element_size())
        self.width = 1 if samples <= vector else 2
        self.row = self.width * vector
        self.rows = -(-samples // self.row)
        self.lanes = self.rows * self.row  # samples, and room for more
        self.n_g_padded = _multiple(self.n_g, kernels.G_UNIT)
        self.n_h_padded = _multiple(self.n_h, kernels.H_UNIT)
        tile = MAX_TILE if self.n_h_padded % MAX_TILE == 0 else kernels.H_UNIT
        self.shape = ((0,) * tile, (0,) * self.width)
        self.w2 = _padded(w2.t(), (self.n_g_padded, self.n_h_padded))
        self.u_in = _padded(u_in.t(), (u_in.shape[1], self.n_h_padded))
        b2 = u_in.new_zeros(0) if b2 is None else b2
        self.b2 = _padded(b2, (self.n_h_padded,))

    def new_hidden(self, steps: int) -> Tensor:
        return self.w2.new_empty(steps, self.n_h_padded, self.lanes)

    def new_kept(self, steps: int) -> Tensor:
        segments = -(-steps // kernels.SEGMENT)
        return self.w2.new_empty(segments, self.rows, self.n_g_padded, self.row)

    def hidden(self, h: Tensor) -> Tensor:
        """h as (L, n_h, lanes)."""
        return h[:, : self.n_h]

    def pack_z(self, z: Tensor) -> Tensor:
        """(N, n_g) laid out for the kernels."""
        z = _padded(z, (self.lanes, self.n_g_padded))
        return z.view(self.rows, self.row, -1).transpose(1, 2).contiguous()

    def unpack_z(self, z: Tensor) -> Tensor:
        z = z.transpose(1, 2).reshape(self.lanes, -1)
        return z[: self.samples, : self.n_g]

    def forward(
        self, x: Tensor, a: Tensor, stop: Tensor | None, z: Tensor, kept: Tensor, h: Tensor
    ) -> None:
        """Read x (L, N, n_in) with A(t) (L, n_g, n_h); z, kept and h are written."""
        x = _padded(x.transpose(1, 2), (*x.shape[::2], self.lanes))  # (L, n_in, N)
        a = _padded(a, (a.shape[0], self.n_g_padded, self.n_h_padded))
        arrays = (x, a, self.w2, self.u_in, self.b2, self._stops(stop), z, kept, h)
        arguments = [array.numpy() for array in arrays]

        def work(_: int, part: range) -> None:
            kernels.forward(*arguments, self.kind, *self.shape, part.start, part.stop)

        with announced(kernels.forward):
            run(work, shares(self.rows))

    def backward(
        self, a: Tensor, stop: Tensor | None, kept: Tensor, h: Tensor, d_h: Tensor, d_z: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """d(U x + b2) (L, n_h, N), d_a (L, n_g, n_h) and d_w2 (n_h, n_g); d_z is written.

        d_h (L, n_h, lanes), the gradient that reaches h from outside the loop, is used up.
        """
        steps = a.shape[0]
        d_h = _padded(d_h, tuple(h.shape))
        a = _padded(a, (steps, self.n_g_padded, self.n_h_padded))
        arrays = (a, self.w2, self._stops(stop), kept, h, d_h, d_z)
        arguments = [array.numpy() for array in arrays]
        parts = shares(self.rows)
        blocks = self.n_g_padded // kernels.G_UNIT * (self.n_h_padded // kernels.H_UNIT)
        d_a = a.new_zeros(len(parts), steps, blocks, kernels.SUMS)
        d_w2 = a.new_zeros(len(parts), blocks, kernels.SUMS)

        def work(index: int, part: range) -> None:
            rows = min(len(part), ROWS_AT_ONCE)
            z = a.new_empty(rows, self.n_g_padded, self.row).numpy()
            g = a.new_empty(kernels.SEGMENT, rows, self.n_g_padded, self.row).numpy()
            sums = a.new_zeros(blocks, kernels.SUMS, self.row // self.width).numpy()
            out = (d_a[index].numpy(), d_w2[index].numpy(), z, g, sums)
            for first in part[::ROWS_AT_ONCE]:
                last = min(first + ROWS_AT_ONCE, part.stop)
                kernels.backward(*arguments, *out, self.kind, *self.shape, first, last)
                sums[:] = 0

        with announced(kernels.backward):
            run(work, parts)
        d_w2_sum = self._unblocked(d_w2.sum(0)).t()
        d_drive = d_h[:, : self.n_h, : self.samples]
        return d_drive, self._unblocked(d_a.sum(0)), d_w2_sum

    def _unblocked(self, sums: Tensor) -> Tensor:
        """Sums over samples (..., blocks, SUMS) as (..., n_g, n_h)."""
        across = self.n_h_padded // kernels.H_UNIT
        sums = sums[..., : kernels.BLOCK]
        sums = sums.unflatten(-2, (-1, across)).unflatten(-1, (kernels.G_UNIT, kernels.H_UNIT))
        sums = sums.transpose(-3, -2).flatten(-4, -3).flatten(-2)
        return sums[..., : self.n_g, : self.n_h]

    def _stops(self, stop: Tensor | None) -> Tensor:
        if stop is None:
            return self.w2.new_empty(0)
        return _padded(stop.to(self.w2.dtype), (self.lanes,))


class SmallLoop:
    """The loop with vectors along z, for few samples."""

    def __init__(
        self, w2: Tensor, u_in: Tensor, b2: Tensor | None, samples: int, nonlinearity: str
    ) -> None:
        self.n_h, self.n_g = w2.shape
        self.samples = self.lanes = samples
        self.kind = KINDS[nonlinearity]
        vector = lanes(w2.element_size())
        self.tile = (0,) * vector
        self.n_g_padded = _multiple(self.n_g, vector)
        self.n_h_padded = _multiple(self.n_h, vector)
        self.w2 = _padded(w2, (self.n_h_padded, self.n_g_padded))
        self.u_in, self.b2 = u_in, b2

    def new_hidden(self, steps: int) -> Tensor:
        return self.w2.new_zeros(steps, self.samples, self.n_h_padded)

    def new_kept(self, steps: int) -> Tensor:
        segments = -(-steps // kernels.SEGMENT)
        return self.w2.new_empty(segments, self.samples, self.n_g_padded)

    def hidden(self, h: Tensor) -> Tensor:
        """h as (L, n_h, lanes)."""
        return h[:, :, : self.n_h].transpose(1, 2).contiguous()

    def pack_z(self, z: Tensor) -> Tensor:
        """(N, n_g) laid out for the kernels."""
        return _padded(z, (self.samples, self.n_g_padded)).clone()

    def unpack_z(self, z: Tensor) -> Tensor:
        return z[:, : self.n_g]

    def forward(
        self, x: Tensor, a: Tensor, stop: Tensor | None, z: Tensor, kept: Tensor, h: Tensor
    ) -> None:
        """As :meth:`BatchLoop.forward`."""
        h[:, :, : self.n_h] = torch.nn.functional.linear(x, self.u_in, self.b2)
        arrays = (self._transposed(a), self.w2, self._stops(stop), z, kept, h)
        arguments = [array.numpy() for array in arrays]

        def work(_: int, part: range) -> None:
            g = z.new_empty(self.n_g_padded).numpy()
            kernels.forward_small(*arguments, g, self.kind, self.tile, part.start, part.stop)

        with announced(kernels.forward_small):
            run(work, shares(self.samples))

    def backward(
        self, a: Tensor, stop: Tensor | None, kept: Tensor, h: Tensor, d_h: Tensor, d_z: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`BatchLoop.backward`."""
        d_h = _padded(d_h.transpose(1, 2), tuple(h.shape))
        arrays = (self._transposed(a), self.w2, self._stops(stop), kept, h, d_h, d_z)
        arguments = [array.numpy() for array in arrays]
        parts = shares(self.samples)
        d_a = a.new_zeros(len(parts), a.shape[0], self.n_h_padded, self.n_g_padded)
        d_w2 = a.new_zeros(len(parts), self.n_h_padded, self.n_g_padded)

        def work(index: int, part: range) -> None:
            z = a.new_empty(self.n_g_padded).numpy()
            g = a.new_empty(kernels.SEGMENT, self.n_g_padded).numpy()
            out = (d_a[index].numpy(), d_w2[index].numpy(), z, g)
            kernels.backward_small(*arguments, *out, self.kind, self.tile, part.start, part.stop)

        with announced(kernels.backward_small):
            run(work, parts)
        d_a_sum = d_a.sum(0).transpose(1, 2)[:, : self.n_g, : self.n_h]
        return self.hidden(d_h), d_a_sum, d_w2.sum(0)[: self.n_h, : self.n_g]

    def _transposed(self, a: Tensor) -> Tensor:
        return _padded(a.transpose(1, 2), (a.shape[0], self.n_h_padded, self.n_g_padded))

    def _stops(self, stop: Tensor | None) -> Tensor:
        return torch.empty(0, dtype=torch.int64) if stop is None else stop.contiguous()


def add_up(values: Tensor, backwards: bool = False) -> None:
    """Running sums along the first dimension, in place."""
    array = values.view(values.shape[0], -1).numpy()

    def work(_: int, part: range) -> None:
        kernels.add_up(array, backwards, part.start, part.stop)

    run(work, shares(array.shape[1], at_least=4096))


def _multiple(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _padded(tensor: Tensor, shape: Any) -> Tensor:
    """Contiguous and of this shape, with zeros behind what the tensor has in each dimension."""
    if tuple(tensor.shape) == tuple(shape):
        return tensor.contiguous()
    result = tensor.new_zeros(shape)
    result[tuple(slice(size) for size in tensor.shape)] = tensor
    return result
