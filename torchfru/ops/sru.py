"""The Statistical Recurrent Unit, twice: by its definition, and with fewer products.

For t = 1..T and each decay alpha_k:

    g(t)   = phi(W1 u(t-1) + b1)
    h(t)   = phi(W2 g(t) + U x(t) + b2)
    u_k(t) = alpha_k u_k(t-1) + (1 - alpha_k) h(t)
    y(t)   = Y u(t) + b_y

The weight of a step depends on how long ago it was, not on when it was: no A(t) exists that folds
the K decays into one matrix, as in :mod:`torchfru.ops.collapsed`. The fast scan carries each W1_k
u_k (n_g numbers) instead of u_k (n_h numbers), in plain torch: it serves every device, torch's
compiler and exporter, torch.func, forward mode and second derivatives. On the CPU, the operator of
:mod:`torchfru.ops.cpu.sru` computes the same, and its first derivatives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .weights import NONLINEARITIES, Weights, each_step, exporting, without_padding


def reference_scan(
    x: Tensor,
    u: Tensor,
    alphas: Tensor,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """Read ``x`` (L, N, n_in) into ``u`` (N, K n_h), alpha-major; y is None unless every_step.

    y is 0 past a sequence's end.
    """

    def advance(u: Tensor, x_t: Tensor, s: Tensor) -> tuple[Tensor, Tensor | None]:
        after = step(x_t, u, alphas, weights, nonlinearity)
        u = after if lengths is None else torch.where((s < lengths).unsqueeze(-1), after, u)
        return u, F.linear(u, weights.weight_uy, weights.bias_y) if every_step else None

    u, y = each_step(advance, u, x, torch.arange(x.shape[0], device=x.device))
    return without_padding(y, lengths) if every_step else None, u


def step(x: Tensor, u: Tensor, alphas: Tensor, weights: Weights, nonlinearity: str) -> Tensor:
    """u(t) from x(t) (N, n_in) and u(t-1) (N, K n_h)."""
    phi = NONLINEARITIES[nonlinearity]
    g = phi(F.linear(u, weights.weight_ug, weights.bias_g))  # (N, n_g)
    h = phi(F.linear(g, weights.weight_gh) + F.linear(x, weights.weight_xh, weights.bias_h))
    u = u.unflatten(-1, (alphas.shape[0], -1))  # (N, K, n_h)
    return torch.lerp(h.unsqueeze(-2), u, alphas.unsqueeze(-1)).flatten(-2)


def fast_scan(
    x: Tensor,
    u: Tensor,
    alphas: Tensor,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """As :func:`reference_scan`, with u formed after the loop instead of inside it."""
    if not exporting() and x.shape[0] == 1:  # nothing to gain
        options: Any = {"nonlinearity": nonlinearity, "every_step": every_step, "lengths": lengths}
        return reference_scan(x, u, alphas, weights, **options)
    h = _hidden(x, u, alphas, weights, nonlinearity)  # (L, N, n_h)
    y = _outputs(h, u, alphas, weights) if every_step else None
    return without_padding(y, lengths), _memory(h, u, alphas, lengths)


def _hidden(x: Tensor, u: Tensor, alphas: Tensor, weights: Weights, nonlinearity: str) -> Tensor:
    """h (L, N, n_h) at every step, carrying z_k = W1_k u_k + b1 / K, whose sum is g's argument."""
    count, n_g, phi = len(alphas), len(weights.weight_ug), NONLINEARITIES[nonlinearity]
    from_x = F.linear(x, weights.weight_xh, weights.bias_h)  # (L, N, n_h)
    w = weights.weight_ug.unflatten(1, (count, -1))  # (n_g, K, n_h)
    to_h, to_z = weights.weight_gh.t(), w.permute(2, 1, 0).flatten(1)  # (n_g, n_h), (n_h, K n_g)
    bias = x.new_zeros(n_g) if weights.bias_g is None else weights.bias_g
    bias = (bias / count).repeat(count)  # (K n_g,)
    z = torch.einsum("nkh,gkh->nkg", u.unflatten(1, (count, -1)), w).flatten(1) + bias
    alpha = alphas.repeat_interleave(n_g)  # (K n_g,)

    def step(z: Tensor, from_x_t: Tensor) -> tuple[Tensor, Tensor]:
        # Not z.unflatten(1, (K, n_g)).sum(1): torch cannot derive an exported loop that holds it.
        h = phi(torch.addmm(from_x_t, phi(sum(z.split(n_g, 1))), to_h))
        return torch.lerp(torch.addmm(bias, h, to_z), z, alpha), h

    return each_step(step, z, from_x)[1]


def _outputs(h: Tensor, u: Tensor, alphas: Tensor, weights: Weights) -> Tensor:
    """y at every step (L, N, n_y): the memories by one recurrence, Y by one product."""

    def step(u: Tensor, h_t: Tensor) -> tuple[Tensor, Tensor]:
        u = torch.lerp(h_t.unsqueeze(1), u, alphas.unsqueeze(-1))
        return u, u

    memories = each_step(step, u.unflatten(1, (len(alphas), -1)), h)[1]  # (L, N, K, n_h)
    return F.linear(memories.flatten(2), weights.weight_uy, weights.bias_y)


def _memory(h: Tensor, u: Tensor, alphas: Tensor, lengths: Tensor | None) -> Tensor:
    """alpha^L u(0) + (1 - alpha) sum_s alpha^(L-s) h(s), L each sample's own length."""
    count, length = alphas.shape[0], h.shape[0]
    if lengths is None:
        lengths = torch.full((1,), length, device=h.device)  # one for all samples
    age = lengths.unsqueeze(-1) - torch.arange(1, length + 1, device=h.device)  # (N or 1, L)
    weight = (1 - alphas.unsqueeze(-1)) * alphas.unsqueeze(-1) ** age.clamp(min=0).unsqueeze(1)
    weight = torch.where(age.unsqueeze(1) >= 0, weight, 0.0)  # (N or 1, K, L)
    added = torch.matmul(weight, h.transpose(0, 1))  # (N, K, n_h)
    kept = alphas ** lengths.unsqueeze(-1)  # (N or 1, K)
    return (kept.unsqueeze(-1) * u.unflatten(1, (count, -1)) + added).flatten(1)


class SRUInputs(NamedTuple):
    """The inputs of the fused operator; u=None means zeros, and weight_uy=None no outputs."""

    x: Tensor  # (L, N, n_in)
    u: Tensor | None  # (N, K n_h)
    weight_ug: Tensor
    bias_g: Tensor | None
    weight_gh: Tensor
    weight_xh: Tensor
    bias_h: Tensor | None
    weight_uy: Tensor | None
    bias_y: Tensor | None
    alphas: Tensor  # (K,)
    lengths: Tensor | None
    nonlinearity: str

    def weights(self) -> Weights:
        return Weights(*self[2:9])  # type: ignore[arg-type]
