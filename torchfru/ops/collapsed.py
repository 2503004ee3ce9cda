"""The collapsed form: the same function with K/2 times less work, in plain torch.

The memory enters the recurrence only through z(t) = W1 u(t-1) + b1, and c(t) depends on
absolute time alone. So the loop carries z, n_g numbers, instead of u, K d numbers:

    h(t)   = phi(W2 phi(z(t)) + U x(t) + b2)
    z(t+1) = z(t) + A(t) h(t),    A(t) = sum_k c_k(t) W1_k      (n_g, n_h)

and outside the loop, over all steps at once,

    y(t) = y(t-1) + E(t) h(t),    E(t) = sum_k c_k(t) Y_k       (n_y, n_h)
    u(T) = u(0) + sum_t C(t) h(t)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .weights import NONLINEARITIES, Weights, block_sizes, each_step, without_padding


class ScanInputs(NamedTuple):
    """Inputs of the loop: z and y are those before the first step; y=None computes no outputs."""

    x: Tensor  # (L, N, n_in)
    z: Tensor  # (N, n_g)
    rows: Tensor  # (L, K)
    weight_ug: Tensor
    weight_gh: Tensor
    weight_xh: Tensor
    bias_h: Tensor | None
    weight_uy: Tensor | None
    y: Tensor | None  # (N, n_y)
    lengths: Tensor | None  # (N,)
    nonlinearity: str


def scan(
    x: Tensor,
    u: Tensor,
    rows: Tensor,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """As :func:`torchfru.ops.reference.scan`, for samples that share their rows (L, K)."""
    w = weights
    z = F.linear(u, w.weight_ug, w.bias_g)  # (N, n_g)
    y = F.linear(u, w.weight_uy, w.bias_y) if every_step else None  # (N, n_y)
    weight_uy = w.weight_uy if every_step else None
    loop = (w.weight_ug, w.weight_gh, w.weight_xh, w.bias_h, weight_uy)
    y, change = run(ScanInputs(x, z, rows, *loop, y, lengths, nonlinearity))
    return without_padding(y, lengths), u + change


def run(inputs: ScanInputs) -> tuple[Tensor | None, Tensor]:
    """y at every step (L, N, n_y), if there is one to start from, and u(T) - u(0) (N, n_u)."""
    h = _hidden(inputs)  # (L, N, n_h)
    if inputs.lengths is not None:  # a step past a sequence's end adds nothing to its memory
        steps = torch.arange(h.shape[0], device=h.device).unsqueeze(-1)
        h = torch.where((steps < inputs.lengths).unsqueeze(-1), h, 0.0)
    return _outputs(h, inputs), _memory(h, inputs.rows, inputs.weight_ug.shape[1])


def collapse(rows: Tensor, weight: Tensor, n_h: int) -> Tensor:
    """sum_k c_k(t) W_k for every t: rows (L, K) and W (n, n_u) give (L, n, n_h)."""
    blocks, per_block, freq_dim = block_sizes(rows, weight.shape[1], n_h)
    c = rows.unflatten(1, (blocks, per_block))
    w = weight.unflatten(1, (blocks, per_block, freq_dim))
    return torch.einsum("tji,njid->tnid", c, w).flatten(2)


def _hidden(inputs: ScanInputs) -> Tensor:
    """h at every step: the sequential loop."""
    phi = NONLINEARITIES[inputs.nonlinearity]
    to_h = inputs.weight_gh.t()  # (n_g, n_h)
    from_x = F.linear(inputs.x, inputs.weight_xh, inputs.bias_h)  # (L, N, n_h)
    a = collapse(inputs.rows, inputs.weight_ug, from_x.shape[-1]).transpose(1, 2)  # (L, n_h, n_g)

    def step(z: Tensor, from_x_t: Tensor, a_t: Tensor) -> tuple[Tensor, Tensor]:
        h = phi(torch.addmm(from_x_t, phi(z), to_h))
        return torch.addmm(z, h, a_t), h

    return each_step(step, inputs.z, from_x, a)[1]


def _outputs(h: Tensor, inputs: ScanInputs) -> Tensor | None:
    """y at every step (L, N, n_y), without u at every step."""
    if inputs.weight_uy is None or inputs.y is None:
        return None
    e = collapse(inputs.rows, inputs.weight_uy, h.shape[-1]).transpose(1, 2)  # (L, n_h, n_y)
    return inputs.y + torch.bmm(h, e).cumsum(0)


def _memory(h: Tensor, rows: Tensor, n_u: int) -> Tensor:
    """sum_t C(t) h(t): what the sequence adds to the memory (N, n_u)."""
    blocks, per_block, freq_dim = block_sizes(rows, n_u, h.shape[-1])
    c = rows.unflatten(1, (blocks, per_block))
    slices = h.unflatten(2, (per_block, freq_dim))
    return torch.einsum("tji,tnid->njid", c, slices).flatten(1)
