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

import torch
import torch.nn.functional as F
from torch import Tensor

from .weights import NONLINEARITIES, Weights


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
    h = _hidden(x, u, rows, weights, nonlinearity)  # (L, N, n_h)
    if lengths is not None:  # a step past a sequence's end adds nothing to its memory
        steps = torch.arange(x.shape[0], device=x.device).unsqueeze(-1)
        h = torch.where((steps < lengths).unsqueeze(-1), h, 0.0)
    y = _outputs(h, u, rows, weights) if every_step else None
    return y, u + _memory(h, rows, u.shape[-1])


def collapse(rows: Tensor, weight: Tensor, n_h: int) -> Tensor:
    """sum_k c_k(t) W_k for every t: rows (L, K) and W (n, n_u) give (L, n, n_h)."""
    blocks, per_block, freq_dim = block_sizes(rows, weight.shape[1], n_h)
    c = rows.unflatten(1, (blocks, per_block))
    w = weight.unflatten(1, (blocks, per_block, freq_dim))
    return torch.einsum("tji,njid->tnid", c, w).flatten(2)


def _hidden(x: Tensor, u: Tensor, rows: Tensor, weights: Weights, nonlinearity: str) -> Tensor:
    """h at every step: the loop that nothing can remove."""
    phi = NONLINEARITIES[nonlinearity]
    to_h = weights.weight_gh.t()  # (n_g, n_h)
    from_x = F.linear(x, weights.weight_xh, weights.bias_h)  # (L, N, n_h)
    a = collapse(rows, weights.weight_ug, from_x.shape[-1]).transpose(1, 2)  # (L, n_h, n_g)
    z = F.linear(u, weights.weight_ug, weights.bias_g)  # (N, n_g)
    hidden = []
    for from_x_t, a_t in zip(from_x.unbind(0), a.unbind(0), strict=True):
        h = phi(torch.addmm(from_x_t, phi(z), to_h))
        z = torch.addmm(z, h, a_t)
        hidden.append(h)
    return torch.stack(hidden)


def _outputs(h: Tensor, u: Tensor, rows: Tensor, weights: Weights) -> Tensor:
    """y at every step (L, N, n_y), without u at every step."""
    e = collapse(rows, weights.weight_uy, h.shape[-1]).transpose(1, 2)  # (L, n_h, n_y)
    before = F.linear(u, weights.weight_uy, weights.bias_y)  # (N, n_y)
    return before + torch.bmm(h, e).cumsum(0)


def _memory(h: Tensor, rows: Tensor, n_u: int) -> Tensor:
    """sum_t C(t) h(t): what the sequence adds to the memory (N, n_u)."""
    blocks, per_block, freq_dim = block_sizes(rows, n_u, h.shape[-1])
    c = rows.unflatten(1, (blocks, per_block))
    slices = h.unflatten(2, (per_block, freq_dim))
    return torch.einsum("tji,tnid->njid", c, slices).flatten(1)


def block_sizes(rows: Tensor, n_u: int, n_h: int) -> tuple[int, int, int]:
    """M, m and d: n_u = M m d, n_h = m d, and K = M m columns in rows."""
    num_freqs = rows.shape[1]
    freq_dim = n_u // num_freqs
    per_block = n_h // freq_dim
    return num_freqs // per_block, per_block, freq_dim
