"""The direct form: the paper's update rule, step by step. Everything else is tested against it.

For t = 1..T, with c(t) the basis row divided by T:

    g(t) = phi(W1 u(t-1) + b1)
    h(t) = phi(W2 g(t) + U x(t) + b2)
    u(t) = u(t-1) + C(t) h(t)
    y(t) = Y u(t) + b_y
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .weights import NONLINEARITIES, Weights, each_step, without_padding


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
    """Read the sequences ``x`` (L, N, n_in) into the memory ``u`` (N, n_u).

    ``rows`` holds c(t): (L, K), or (L, N, K) where samples stand at different times.
    A sample stops at its own entry of ``lengths`` (N,): its memory then stays as it is.
    Returns y (L, N, n_y), 0 past a sequence's end, or None unless ``every_step``, and the last
    memory (N, n_u).
    """

    def advance(u: Tensor, x_t: Tensor, row: Tensor, s: Tensor) -> tuple[Tensor, Tensor | None]:
        after = step(x_t, u, row, weights, nonlinearity)
        u = after if lengths is None else torch.where((s < lengths).unsqueeze(-1), after, u)
        return u, F.linear(u, weights.weight_uy, weights.bias_y) if every_step else None

    u, y = each_step(advance, u, x, rows, torch.arange(x.shape[0], device=x.device))
    return without_padding(y, lengths) if every_step else None, u


def step(x: Tensor, u: Tensor, row: Tensor, weights: Weights, nonlinearity: str) -> Tensor:
    """u(t) from x(t) (N, n_in), u(t-1) (N, n_u) and c(t) (K,) or, a row a sample, (N, K)."""
    phi = NONLINEARITIES[nonlinearity]
    g = phi(F.linear(u, weights.weight_ug, weights.bias_g))  # (N, n_g)
    h = phi(F.linear(g, weights.weight_gh) + F.linear(x, weights.weight_xh, weights.bias_h))
    return u + spread(row, h, u.shape[-1])  # (N, n_u)


def spread(row: Tensor, h: Tensor, n_u: int) -> Tensor:
    """C(t) h: frequency k = m (j-1) + i weighs slice i of h, in each block j."""
    num_freqs = row.shape[-1]
    freq_dim = n_u // num_freqs
    per_block = h.shape[-1] // freq_dim  # m
    c = row.unflatten(-1, (num_freqs // per_block, per_block, 1))  # (..., M, m, 1)
    slices = h.unflatten(-1, (1, per_block, freq_dim))  # (N, 1, m, d)
    return (c * slices).flatten(-3)  # (N, n_u)
