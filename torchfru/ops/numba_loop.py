"""The two forms of the fused loop behind one face: padding, layouts, threads.

Both take and give plain tensors; how h, z and the rest lie in memory is their own business:
``h`` and ``kept`` are opaque to the caller, who holds on to them for the backward pass.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from . import numba_cpu as kernels
from .simd import IDENTITY, MAX_TILE, RELU, TANH, lanes
from .threads import run, shares

SMALL_BATCH = 8  # up to here, a vector of samples would be mostly empty
CHUNK = 400  # steps whose A(t) is held at once; a multiple of the kernels' SEGMENT
SMALL_CHUNK = 1024  # the same for small batches
ROWS_AT_ONCE = 4  # rows of samples that share one sum over samples; more would leave the cache
PAGE, HUGE_PAGE = mmap.PAGESIZE, 2**21
KINDS = {"relu": RELU, "tanh": TANH, "identity": IDENTITY}


def choose_loop(samples: int) -> type[BatchLoop] | type[SmallLoop]:
    return SmallLoop if samples <= SMALL_BATCH else BatchLoop


@cache  # once in a process, however many kernels it needs
def _say_compiling() -> None:
    message = "torchfru: compiling the CPU kernels for this machine, once (about 10 seconds) ..."
    print(message, file=sys.stderr, flush=True)


@contextmanager
def announced(kernel: Any) -> Iterator[None]:
    """Say so when the first call of a kernel takes long: then it is being compiled."""
    if kernel.signatures:
        yield
        return
    notice = threading.Timer(1.0, _say_compiling)
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


def _cut(steps: int, chunk: int) -> list[tuple[slice, slice]]:
    """Chunks of the steps, and the segments of each that z is kept for."""
    ends = [(start, min(start + chunk, steps)) for start in range(0, steps, chunk)]
    unit = kernels.SEGMENT
    return [(slice(a, b), slice(a // unit, -(-b // unit))) for a, b in ends]


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
        self.blocks = self.n_g_padded // kernels.G_UNIT * (self.n_h_padded // kernels.H_UNIT)
        self.room: list[Any] = []
        b2 = u_in.new_zeros(0) if b2 is None else b2
        self.b2 = _padded(b2, (self.n_h_padded,))

    def chunks(self, steps: int) -> list[tuple[slice, slice]]:
        return _cut(steps, CHUNK)

    def new_hidden(self, steps: int) -> Tensor:
        return large_empty((steps, self.n_h_padded, self.lanes), self.w2)

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
        """Read x (L, N, n_in) with A(t), laid out, (L, numbers); z, kept and h are written."""
        x = _padded(x.transpose(1, 2), (*x.shape[::2], self.lanes))  # (L, n_in, N)
        a = a.view(-1, self.n_g_padded, self.n_h_padded)
        arrays = (x, a, self.w2, self.u_in, self.b2, self._stops(stop), z, kept, h)
        arguments = [array.numpy() for array in arrays]

        def work(_: int, part: range) -> None:
            kernels.forward(*arguments, self.kind, *self.shape, part.start, part.stop)

        with announced(kernels.forward):
            run(work, shares(self.rows))

    def backward(
        self, a: Tensor, stop: Tensor | None, kept: Tensor, h: Tensor, d_h: Tensor, d_z: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """d(U x + b2) (L, n_h, N), d_a (L, sums) and d_w2 (n_h, n_g); d_z is written.

        d_h (L, n_h, lanes), the gradient that reaches h from outside the loop, is used up.
        """
        steps = a.shape[0]
        d_h = _padded(d_h, tuple(h.shape))
        a = a.view(-1, self.n_g_padded, self.n_h_padded)
        arrays = (a, self.w2, self._stops(stop), kept, h, d_h, d_z)
        arguments = [array.numpy() for array in arrays]
        parts = shares(self.rows)
        d_a, *room = self._room(len(parts), steps)
        d_w2 = a.new_zeros(len(parts), self.blocks, kernels.SUMS)

        def work(index: int, part: range) -> None:
            out = (d_a[index].numpy(), d_w2[index].numpy(), *room[index])
            for first in part[::ROWS_AT_ONCE]:
                last = min(first + ROWS_AT_ONCE, part.stop)
                room[index][2][:] = 0
                kernels.backward(*arguments, *out, self.kind, *self.shape, first, last)

        with announced(kernels.backward):
            run(work, parts)
        d_drive = d_h[:, : self.n_h, : self.samples]
        return d_drive, _total(d_a).flatten(1), self.pick_up_sums(_total(d_w2).view(1, -1))[0].t()

    def _room(self, parts: int, steps: int) -> list[Any]:
        """Room for d_a, and for each thread: z and g of its rows, sums that are still vectors."""
        if not self.room:
            rows, vector = min(self.rows, ROWS_AT_ONCE), self.row // self.width
            d_a = large_empty((parts, CHUNK, self.blocks, kernels.SUMS), self.w2)
            shapes = (
                (rows, self.n_g_padded, self.row),
                (kernels.SEGMENT, rows, self.n_g_padded, self.row),
                (self.blocks, kernels.SUMS, vector),
            )
            own = [[self.w2.new_empty(s).numpy() for s in shapes] for _ in range(parts)]
            self.room = [d_a, *own]
        return [self.room[0][:, :steps].zero_(), *self.room[1:]]

    def lay_out(self, matrices: Tensor) -> Tensor:
        """Matrices (K, n_g, n_h) as A(t) lies in memory: (K, numbers)."""
        return _padded(matrices, (len(matrices), self.n_g_padded, self.n_h_padded)).flatten(1)

    def lay_out_sums(self, matrices: Tensor) -> Tensor:
        """Matrices (K, n_g, n_h) as the gradient of A(t) does: (K, sums)."""
        flat = self.lay_out(matrices)
        across = self.n_h_padded // kernels.H_UNIT
        parts = flat.view(len(flat), -1, kernels.G_UNIT, across, kernels.H_UNIT)
        blocks = parts.transpose(2, 3).reshape(len(flat), self.blocks, kernels.BLOCK)
        return _padded(blocks, (len(flat), self.blocks, kernels.SUMS)).flatten(1)

    def pick_up_sums(self, flat: Tensor) -> Tensor:
        """The matrices (K, n_g, n_h) that :meth:`lay_out_sums` laid out."""
        across = self.n_h_padded // kernels.H_UNIT
        blocks = flat.view(len(flat), -1, across, kernels.SUMS)[..., : kernels.BLOCK]
        parts = blocks.unflatten(3, (kernels.G_UNIT, kernels.H_UNIT)).transpose(2, 3)
        whole = parts.reshape(len(flat), self.n_g_padded, self.n_h_padded)
        return whole[:, : self.n_g, : self.n_h]

    def _stops(self, stop: Tensor | None) -> Tensor:
        """Where each lane ends. One that holds no sample ends at once: what it did could overflow,
        and infinity times a gradient of 0 is no 0."""
        if stop is None:
            if self.lanes == self.samples:
                return self.w2.new_empty(0)
            stop = self.w2.new_full((self.samples,), float("inf"))
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

    def chunks(self, steps: int) -> list[tuple[slice, slice]]:
        return _cut(steps, SMALL_CHUNK)

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
        a = a.view(-1, self.n_h_padded, self.n_g_padded)
        arrays = (a, self.w2, self._stops(stop), z, kept, h)
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
        a = a.view(-1, self.n_h_padded, self.n_g_padded)
        arrays = (a, self.w2, self._stops(stop), kept, h, d_h, d_z)
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
        d_w2_sum = _total(d_w2)[: self.n_h, : self.n_g]
        return self.hidden(d_h), _total(d_a).flatten(1), d_w2_sum

    def lay_out(self, matrices: Tensor) -> Tensor:
        """As :meth:`BatchLoop.lay_out`."""
        shape = (len(matrices), self.n_h_padded, self.n_g_padded)
        return _padded(matrices.transpose(1, 2), shape).flatten(1)

    def lay_out_sums(self, matrices: Tensor) -> Tensor:
        """As :meth:`BatchLoop.lay_out_sums`; here both layouts are one."""
        return self.lay_out(matrices)

    def pick_up_sums(self, flat: Tensor) -> Tensor:
        """As :meth:`BatchLoop.pick_up_sums`."""
        whole = flat.view(len(flat), self.n_h_padded, self.n_g_padded)
        return whole[:, : self.n_h, : self.n_g].transpose(1, 2)

    def _stops(self, stop: Tensor | None) -> Tensor:
        return torch.empty(0, dtype=torch.int64) if stop is None else stop.contiguous()


class Outputs:
    """y at every step, y(t) = y(t-1) + E(t) h(t), and its gradients, chunk by chunk.

    The running sum stays in cache, so that y is written once, and no sum over time is kept.
    """

    def __init__(self, placed: Tensor, total: Tensor) -> None:
        """``placed`` (K, n_y, n_h) makes E(t) from a row; ``total`` (N, n_y) is where to start."""
        self.n_y, self.n_h = placed.shape[1:]
        self.vector = lanes(placed.element_size())
        self.tile = (0,) * self.n_h
        padded = _multiple(self.n_y, self.vector)
        shape = (len(placed), self.n_h, padded)
        self.weight = _padded(placed.transpose(1, 2), shape).flatten(1)
        self.gradient = torch.zeros_like(self.weight)
        self.total = _padded(total, (len(total), padded)).view(len(total), -1, self.vector)

    def forward(self, rows: Tensor, hidden: Tensor, y: Tensor) -> None:
        """Write y (L, N, n_y), from the rows (L, K) and h (L, n_h, N)."""
        e = (rows @ self.weight).view(len(rows), self.n_h, -1)
        h = hidden.transpose(1, 2).contiguous()
        arguments = [array.numpy() for array in (e, h, self.total, y)]

        def work(_: int, part: range) -> None:
            kernels.outputs(*arguments, self.tile, part.start, part.stop)

        with announced(kernels.outputs):
            run(work, shares(y.shape[1]))

    def backward(
        self, rows: Tensor, hidden: Tensor, d_y: Tensor, d_h: Tensor, d_rows: Tensor
    ) -> None:
        """Add to d_h (L, n_h, N), d_rows (L, K or none) and the gradient of the weight."""
        e = (rows @ self.weight).view(len(rows), self.n_h, -1)
        h = hidden.transpose(1, 2).contiguous()
        parts = shares(d_y.shape[1])
        d_e = e.new_zeros(len(parts), *e.shape)
        found = torch.empty_like(h)
        before = [array.numpy() for array in (e, h, self.total, d_y.contiguous(), found)]

        def work(index: int, part: range) -> None:
            arguments = (*before, d_e[index].numpy(), self.tile, part.start, part.stop)
            kernels.outputs_backward(*arguments)

        with announced(kernels.outputs_backward):
            run(work, parts)
        d_h += found.transpose(1, 2)
        product_backward(_total(d_e).flatten(1), rows, self.weight, self.gradient, d_rows)

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
        d_rows.addmm_(d, weight.t())


def _total(parts: Tensor) -> Tensor:
    """The sum over threads, in their order."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def large_empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An empty tensor, in huge pages if it is large and the system has them.

    A training step touches its memory for the first time in every step, and most of the cost of
    that is one fault for each page.
    """
    tensor = like.new_empty(shape)
    size = tensor.numel() * tensor.element_size()
    madvise = _madvise()
    if size >= 2 * HUGE_PAGE and madvise is not None and not tensor.is_meta:
        start = -(-tensor.data_ptr() // PAGE) * PAGE
        length = (tensor.data_ptr() + size - start) // PAGE * PAGE
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)  # a hint
    return tensor


@cache
def _madvise() -> Any:
    return ctypes.CDLL(None).madvise if hasattr(mmap, "MADV_HUGEPAGE") else None


def _multiple(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _padded(tensor: Tensor, shape: Any) -> Tensor:
    """Contiguous and of this shape, with zeros behind what the tensor has in each dimension."""
    if tuple(tensor.shape) == tuple(shape):
        return tensor.contiguous()
    result = tensor.new_zeros(shape)
    result[tuple(slice(size) for size in tensor.shape)] = tensor
    return result
