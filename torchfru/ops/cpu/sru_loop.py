"""The fused loop of the Statistical Recurrent Unit: layouts for its kernels, blocks and threads."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..sru import SRUInputs
from .nonlinear import KINDS
from .runtime import kernel_arrays, pooled_empty, round_up, run, split_range, sum_over_threads
from .simd import lanes
from .sru_kernels import CHUNK, PAIR, SUMS, Backward, Forward, Shape, backward, forward

BLOCK = 64  # samples whose memory stays in cache for all steps
DEEP = 128  # rows that a gradient of weights sums up at once, about

# Where step j of a chunk finds its lag among those of A, by the steps taken; CHUNK: nowhere.
_LAGS = torch.tensor(
    [[n - 1 - j if j < n else CHUNK for j in range(CHUNK)] for n in range(CHUNK + 1)]
)


class Loop:
    """The inputs of the operator, with sizes and weights as the kernels need them."""

    def __init__(self, inputs: SRUInputs) -> None:
        self.inputs, x = inputs, inputs.x
        self.steps, self.samples, self.n_in = x.shape
        self.n_g, self.n_h = len(inputs.weight_ug), len(inputs.weight_gh)
        self.n_y = 0 if inputs.weight_uy is None else len(inputs.weight_uy)
        self.count = len(inputs.alphas)
        tile, width = (1, 4) if self.samples == 1 else (len(SUMS), len(PAIR))
        self.panel = width * lanes(x.element_size())
        self.h, g = round_up(self.n_h, self.panel), round_up(self.n_g, self.panel)
        self.outputs = slice(g, g + self.n_y)  # among the readings
        self.r = g + round_up(self.n_y, self.panel)
        self.given = slice(g, g + self.n_in)  # among the features
        self.f = round_up(g + self.n_in + 1, len(SUMS))
        self.shape = Shape(len(KINDS[inputs.nonlinearity]), (0,) * tile, (0,) * width, g)
        self.parts = split_range(self.samples)
        self.rows = round_up(min(BLOCK, max(map(len, self.parts))), tile)
        alphas = inputs.alphas.to(x.dtype).unsqueeze(1)
        self.powers = alphas ** torch.arange(CHUNK + 1)  # (K, CHUNK + 1)
        self.lags = (1 - alphas) * self.powers[:, :CHUNK]  # (K, CHUNK)

    def common(self) -> tuple[Tensor, ...]:
        """The arrays that both passes read: x, start, stop, powers and gains."""
        x, u, stop = self.inputs.x, self.inputs.u, self.inputs.lengths
        start = x.new_empty(0, 0, 0) if u is None else u.unflatten(1, (self.count, self.n_h))
        stop = torch.full((self.samples,), self.steps) if stop is None else stop.to(torch.int64)
        gains = F.pad(self.lags, (0, 1))[:, _LAGS].transpose(0, 1)
        return x, start, stop, self.powers, gains

    def readings(self) -> Tensor:
        """M (n_r, K n_h)."""
        m = self.inputs.x.new_zeros(self.r, self.count * self.n_h)
        m[: self.n_g] = self.inputs.weight_ug
        if self.inputs.weight_uy is not None:
            m[self.outputs] = self.inputs.weight_uy
        return m

    def with_lags(self, m: Tensor) -> tuple[Tensor, Tensor]:
        """M_k, (K, ...), and A(l), (CHUNK - 1, ...)."""
        a = self.lags[:, : CHUNK - 1].t() @ m.flatten(1)
        return m, a.view(CHUNK - 1, *m.shape[1:])

    def panels(self, matrix: Tensor) -> Tensor:
        """(..., depth, units) as (..., panels, depth, panel)."""
        return matrix.unflatten(-1, (-1, self.panel)).transpose(-3, -2).contiguous()

    def forward_weights(self) -> tuple[Tensor, ...]:
        """M and A for u and h on their left, the bias of the readings, and the weights of h."""
        inputs, m = self.inputs, self.readings().t().contiguous()
        bias, w = m.new_zeros(self.r), m.new_zeros(self.f, self.h)
        if inputs.bias_g is not None:
            bias[: self.n_g] = inputs.bias_g
        if inputs.bias_y is not None:
            bias[self.outputs] = inputs.bias_y
        w[: self.n_g, : self.n_h] = inputs.weight_gh.t()
        w[self.given, : self.n_h] = inputs.weight_xh.t()
        if inputs.bias_h is not None:
            w[self.given.stop, : self.n_h] = inputs.bias_h
        lags = self.with_lags(self.panels(m.view(self.count, self.n_h, self.r)))
        return *lags, bias, self.panels(w)

    def backward_weights(self, needs_x: bool) -> tuple[Tensor, ...]:
        """M and A for gradients of readings on their left, and W2 and U."""
        m = self.inputs.x.new_zeros(self.r, self.count, self.h)
        m[:, :, : self.n_h] = self.readings().view(self.r, self.count, self.n_h)
        w = m.new_zeros(self.n_h, round_up(self.given.stop if needs_x else self.n_g, self.panel))
        w[:, : self.n_g] = self.inputs.weight_gh
        if needs_x:
            w[:, self.given] = self.inputs.weight_xh
        return *self.with_lags(self.panels(m.transpose(0, 1))), self.panels(w)

    def gradients(self, d_m: Tensor, d_a: Tensor, d_w: Tensor, d_bias: Tensor) -> list[Tensor]:
        """Those of all weights, in the order of the inputs; (0,) for None."""
        d_m.flatten(1).addmm_(self.lags[:, : CHUNK - 1], d_a.flatten(1))
        d_m = d_m[:, : self.n_h].flatten(0, 1).t()  # (n_r, K n_h)
        d_w = d_w.t()[: self.n_h]  # (n_h, n_f)
        loop = [d_m[: self.n_g], d_bias[: self.n_g], d_w[:, : self.n_g], d_w[:, self.given]]
        found = [*loop, d_w[:, self.given.stop], d_m[self.outputs], d_bias[self.outputs]]
        layout = torch.contiguous_format
        return [
            d.new_empty(0) if w is None else d.clone(memory_format=layout)
            for d, w in zip(found, self.inputs.weights(), strict=True)
        ]

    def run(self, call: Any, kind: Any, arrays: list[Any], own: Any) -> None:
        """Run a kernel on all samples; ``own(index)`` are the arrays of each thread."""

        def work(index: int, part: range) -> None:
            whole = kind(*arrays, *kernel_arrays((), write=own(index)))
            for first in range(part.start, part.stop, BLOCK):
                last = min(first + BLOCK, part.stop)
                call(whole, self.shape._replace(first=first, last=last))

        run(work, self.parts)


def run_forward(inputs: SRUInputs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y (L, N, n_y), or (0,) without weight_uy; the last u (N, K n_h); h and g of every step."""
    loop, x = Loop(inputs), inputs.x
    y, h, g = (pooled_empty((*x.shape[:2], n), x) for n in (loop.n_y, loop.n_h, loop.n_g))
    u = x.new_empty(loop.samples, loop.count, loop.n_h)
    reads = [tensor.contiguous() for tensor in (*loop.common(), *loop.forward_weights())]
    rows, n_h, n_r = loop.rows, loop.h, loop.r
    scratch = (
        (loop.count, rows, n_h), (CHUNK, rows, n_r), (rows, n_r), (CHUNK, rows, n_h), (rows, loop.f)
    )  # fmt: skip
    arrays = kernel_arrays(reads, write=(h, g, y, u))
    loop.run(forward, Forward, arrays, lambda _: [pooled_empty(size, x) for size in scratch])
    return y if loop.n_y else y.view(0), u.flatten(1), h, g


def run_backward(
    inputs: SRUInputs, d_y: Tensor | None, d_u: Tensor | None, h: Tensor, g: Tensor, needs_x: bool
) -> list[Tensor]:
    """The gradients of x, u and the weights, in the order of the inputs; (0,) for none."""
    loop, x = Loop(inputs), inputs.x
    nothing, rows, n_h, n_r = x.new_empty(0, 0, 0), loop.rows, loop.h, loop.r
    d_y = nothing if d_y is None else d_y
    d_u = nothing if d_u is None else d_u.unflatten(1, (loop.count, loop.n_h))
    d_start = x.new_empty(loop.samples, loop.count, loop.n_h)
    d_x = x.new_empty(x.shape) if needs_x else nothing
    weights = loop.backward_weights(needs_x)
    reads = [tensor.contiguous() for tensor in (*loop.common(), *weights, h, g, d_y, d_u)]
    units = round_up(loop.n_h, len(SUMS))
    sizes = ((loop.count, units, n_r), (CHUNK - 1, units, n_r), (loop.f, n_h), (n_r,))
    found = [[x.new_zeros(size) for size in sizes] for _ in loop.parts]
    chunks = min(max(1, DEEP // rows), loop.steps // CHUNK + 1)
    widths = (n_h, loop.f, n_h, n_r)
    scratch = [(loop.count, rows, n_h), (loop.count, rows, n_r), (rows, n_r)]
    scratch += [(rows, weights[2].shape[0] * loop.panel)]
    scratch += [(chunks * CHUNK, rows, width) for width in widths]
    scratch += [(loop.count, chunks, rows, width) for width in (n_h, n_r)]

    def own(index: int) -> list[Tensor]:
        return [*found[index], *(pooled_empty(size, x) for size in scratch)]

    loop.run(backward, Backward, kernel_arrays(reads, write=(d_start, d_x)), own)
    totals = [sum_over_threads(parts) for parts in zip(*found, strict=True)]
    return [d_x if needs_x else nothing.view(0), d_start.flatten(1), *loop.gradients(*totals)]
