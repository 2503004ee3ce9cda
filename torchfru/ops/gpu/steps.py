"""All steps of a scan, forward and backward: the fused loop, and matrix algebra around it.

The work is done in chunks over time: of all that grows with the number of steps only h is held,
and z once a chunk. The backward pass rebuilds the z of a chunk from there as it came about, as a
running sum of A(t) h(t), and leaves the gradients of W2 and A(t) to matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..collapsed import ScanInputs
from ..weights import NONLINEARITIES, block_sizes

if TYPE_CHECKING:
    from .loop import Loop

CHUNK = 256  # steps; long enough for a GPU to be busy with one while the CPU prepares the next


class Frequencies(NamedTuple):
    """The three products of basis rows, weights, and what they mix to: S(t) = sum_k c_k(t) W_k.

    The rows of W belong to entries of z, to entries of y, or to samples: u is to h as W1 is to A.
    """

    blocks: int
    per_block: int
    freq_dim: int

    def mix(self, rows: Tensor, weight: Tensor) -> Tensor:
        """S (L, n, n_h), from rows (L, K) and W (n, n_u)."""
        s = torch.einsum("tji,njid->tnid", self._by_block(rows), weight.unflatten(1, self))
        return s.flatten(2).contiguous()  # einsum may give any strides

    def to_weight(self, rows: Tensor, s: Tensor) -> Tensor:
        """sum_t c(t) S(t), shaped as W (n, n_u): W's gradient from that of S, and u from h."""
        return torch.einsum("tji,tnid->njid", self._by_block(rows), self._slices(s)).flatten(1)

    def to_rows(self, weight: Tensor, s: Tensor) -> Tensor:
        """The gradient of rows (L, K) from that of S."""
        return torch.einsum("njid,tnid->tji", weight.unflatten(1, self), self._slices(s)).flatten(1)

    def _by_block(self, rows: Tensor) -> Tensor:
        return rows.unflatten(1, self[:2])

    def _slices(self, s: Tensor) -> Tensor:
        return s.unflatten(2, self[1:])


class GPUInputs(ScanInputs):
    """The inputs of the operator, and how it computes with them."""

    def loop(self) -> Loop:
        from .loop import Loop

        return Loop(self.weight_gh, len(self.z), self.nonlinearity)

    def frequencies(self) -> Frequencies:
        n_u, n_h = self.weight_ug.shape[1], self.weight_gh.shape[0]
        return Frequencies(*block_sizes(self.rows, n_u, n_h))

    def padded_weight_ug(self, gate: int) -> Tensor:
        return F.pad(self.weight_ug, (0, 0, 0, gate - len(self.weight_ug)))  # (GATE, n_u)

    def chunks(self) -> Iterator[tuple[int, slice, Tensor | None]]:
        """Number and steps of each chunk; where sequences end, counted from the chunk's start."""
        for number, start in enumerate(range(0, len(self.x), CHUNK)):
            stop = None if self.lengths is None else self.lengths - start
            yield number, slice(start, start + CHUNK), stop

    def new_outputs(self) -> Tensor:
        shape = 0 if self.y is None else (self.x.shape[0], *self.y.shape)
        return self.x.new_empty(shape)

    def new_hidden(self) -> Tensor:
        return self.x.new_empty(*self.x.shape[:2], self.weight_gh.shape[0])  # (L, N, n_h)


def forward(given: GPUInputs) -> tuple[Tensor, ...]:
    """y, sum_t C(t) h(t), h, and z before each chunk."""
    loop, frequencies = given.loop(), given.frequencies()
    w1, z = given.padded_weight_ug(loop.gate), loop.pad(given.z)
    h, y = given.new_hidden(), given.new_outputs()
    change = given.z.new_zeros(len(given.z), w1.shape[1])
    y_now = None if given.y is None else given.y.clone(memory_format=torch.contiguous_format)
    z_chunks = []
    for _, part, stop in given.chunks():
        z_chunks.append(z[:, : loop.n_g].clone())
        rows = given.rows[part]
        from_x = F.linear(given.x[part], given.weight_xh, given.bias_h).contiguous()
        loop.forward(from_x, frequencies.mix(rows, w1), z, h[part], stop)
        change += frequencies.to_weight(rows, h[part])
        if given.weight_uy is not None and y_now is not None:
            e = frequencies.mix(rows, given.weight_uy)  # (l, n_y, n_h)
            torch.bmm(h[part], e.transpose(1, 2), out=y[part])
            loop.running_sum(y[part], y_now)
    return y, change, h, torch.stack(z_chunks)


class Backward:
    """The gradients of all inputs, summed up while the chunks are taken from last to first."""

    def __init__(
        self,
        given: GPUInputs,
        d_y: Tensor | None,
        d_change: Tensor | None,
        *,
        needs_x: bool,
        needs_rows: bool,
    ) -> None:
        self.given, self.d_y = given, d_y
        self.needs_x, self.needs_rows = needs_x, needs_rows
        self.loop, self.frequencies = given.loop(), given.frequencies()
        self.w1 = given.padded_weight_ug(self.loop.gate)
        n_u = given.weight_ug.shape[1]
        self.d_change = given.z.new_zeros(len(given.z), n_u) if d_change is None else d_change
        self.d_z = self.w1.new_zeros(len(given.z), self.loop.gate)
        self.d_x = given.x.new_empty(given.x.shape if needs_x else 0)
        self.d_rows = given.rows.new_zeros(given.rows.shape if needs_rows else 0)
        self.d_w1, self.d_w2 = torch.zeros_like(self.w1), torch.zeros_like(self.loop.w2)
        self.d_u_in, self.d_b2 = torch.zeros_like(given.weight_xh), self.w1.new_zeros(self.loop.n_h)
        if d_y is not None and given.weight_uy is not None:
            self.d_weight_uy = torch.zeros_like(given.weight_uy)
            self.d_y_now = d_y.new_zeros(d_y.shape[1:])

    def run(self, h: Tensor, z_chunks: Tensor) -> list[Tensor]:
        """The gradients in the order of the inputs; (0,) where there is none, or not needed."""
        for number, part, stop in reversed(list(self.given.chunks())):
            d_h = self._from_outside(part, h[part])
            self._through_loop(part, h[part], z_chunks[number], stop, d_h)
            self._to_input(part, d_h)
        n_g, given = self.loop.n_g, self.given
        d_w1, d_w2, d_z = self.d_w1[:n_g], self.d_w2[:, :n_g], self.d_z[:, :n_g]
        d_b2 = self.d_b2 if given.bias_h is not None else self.d_b2.new_empty(0)
        if self.d_y is None:
            d_outputs = [self._zeros(given.weight_uy), self._zeros(given.y)]
        else:
            d_outputs = [self.d_weight_uy, self.d_y_now]
        found = [self.d_x, d_z, self.d_rows, d_w1, d_w2, self.d_u_in, d_b2, *d_outputs]
        return [gradient.contiguous() for gradient in found]

    def _zeros(self, like: Tensor | None) -> Tensor:
        return self.d_z.new_empty(0) if like is None else torch.zeros_like(like)

    def _from_outside(self, part: slice, h: Tensor) -> Tensor:
        """The gradient that reaches h (l, N, n_h) from outside the loop, through u and y."""
        rows, frequencies = self.given.rows[part], self.frequencies
        d_h = frequencies.mix(rows, self.d_change)
        self._add_rows(part, self.d_change, h)
        if self.d_y is not None and self.given.weight_uy is not None:
            d_y = self.d_y[part].clone(memory_format=torch.contiguous_format)
            self.loop.running_sum(d_y, self.d_y_now, backwards=True)
            d_h.baddbmm_(d_y, frequencies.mix(rows, self.given.weight_uy))
            d_e = d_y.transpose(1, 2) @ h  # (l, n_y, n_h)
            self.d_weight_uy += frequencies.to_weight(rows, d_e)
            self._add_rows(part, self.given.weight_uy, d_e)
        return d_h

    def _through_loop(
        self, part: slice, h: Tensor, z: Tensor, stop: Tensor | None, d_h: Tensor
    ) -> None:
        """Turn d_h into the gradient of U x + b2, and add those of the weights in the loop."""
        rows, frequencies = self.given.rows[part], self.frequencies
        a = frequencies.mix(rows, self.w1)  # (l, GATE, n_h)
        gates = h @ a.transpose(1, 2)  # (l, N, GATE)
        self.loop.running_sum(gates, self.loop.pad(z), exclusive=True)  # z(t)
        gates = NONLINEARITIES[self.given.nonlinearity](gates)
        d_z_steps = torch.empty_like(gates)
        self.loop.backward(a, gates, h, d_h, self.d_z, d_z_steps, stop)
        self.d_w2 += d_h.flatten(0, 1).t() @ gates.flatten(0, 1)  # (n_h, GATE)
        d_a = d_z_steps.transpose(1, 2) @ h  # (l, GATE, n_h)
        self.d_w1 += frequencies.to_weight(rows, d_a)
        self._add_rows(part, self.w1, d_a)

    def _add_rows(self, part: slice, weight: Tensor, d_mixed: Tensor) -> None:
        if self.needs_rows:
            self.d_rows[part] += self.frequencies.to_rows(weight, d_mixed)

    def _to_input(self, part: slice, d_from_x: Tensor) -> None:
        if self.needs_x:
            self.d_x[part] = d_from_x @ self.given.weight_xh
        d_from_x = d_from_x.flatten(0, 1)  # (l N, n_h)
        self.d_u_in += d_from_x.t() @ self.given.x[part].flatten(0, 1)
        self.d_b2 += d_from_x.sum(0)
