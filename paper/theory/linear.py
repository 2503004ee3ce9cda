"""Units to measure on: linear layers and their gradients, and the memory behind a layer's output.

A linear unit is the real layer with the identity for phi. Its gradient is

    d u(T) / d u(T0),   an (n_u, n_u) matrix, by autograd through the layer's own loop.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from torchfru.nn import FRU, SRU
from torchfru.nn.checks import weights_of
from torchfru.ops import NONLINEARITIES

Layer = FRU | SRU
LINEAR: dict[str, Any] = {
    "bias": False,
    "nonlinearity": "identity",
    "return_sequences": False,
    "dtype": torch.float64,
}


def linear_fru(
    w: Tensor, *, seq_len: int, freqs: list[float], phase: list[float] | None = None, **options: Any
) -> FRU:
    """An FRU with phi the identity and W2 W1 = ``w`` (n_h, n_u): W1 = w and W2 = I."""
    (n_h, n_u), count = w.shape, len(freqs)
    sizes: dict[str, Any] = {"num_freqs": count, "freq_dim": n_u // count, "gate_size": n_h}
    layer = FRU(1, 1, seq_len=seq_len, freqs=freqs, **sizes, **LINEAR, **options)
    _set(layer, w)
    if layer.basis.has_phase:
        with torch.no_grad():
            layer.get_parameter("phase_l0").copy_(torch.tensor(phase or [0.0] * count))
    return layer


def linear_sru(w: Tensor, alphas: list[float]) -> SRU:
    """An SRU with phi the identity and W2 W1 = ``w`` (n_h, K n_h)."""
    layer = SRU(1, 1, alphas=alphas, stat_size=len(w), gate_size=len(w), **LINEAR)
    _set(layer, w)
    return layer


def _set(layer: Layer, w: Tensor) -> None:
    with torch.no_grad():
        layer.get_parameter("weight_ug_l0").copy_(w)
        layer.get_parameter("weight_gh_l0").copy_(torch.eye(w.shape[0]))


def jacobian(layer: Layer, steps: int, start: int = 0, block: int | None = None) -> Tensor:
    """d u(start + steps) / d u(start), (n_u, n_u), in one backward pass.

    A batch of copies of u(start), one for each output whose gradient is wanted. Where W is
    block-diagonal in blocks of ``block``, that many copies do for all blocks at once.
    """
    n_u = layer.state_size
    copies = n_u if block is None else block
    u = torch.zeros(1, copies, n_u, dtype=torch.float64, requires_grad=True)
    t = torch.full((1, copies), start, dtype=torch.int64)
    _, (after, _) = layer(torch.zeros(steps, copies, 1, dtype=torch.float64), (u, t))
    seeds = torch.eye(copies, dtype=torch.float64).repeat(1, n_u // copies)  # (copies, n_u)
    (rows,) = torch.autograd.grad(after[0], u, seeds)  # rows[0, j]: outputs j of all blocks
    if block is None:
        return rows[0]
    blocks = rows[0].unflatten(1, (n_u // block, block)).transpose(0, 1)  # (blocks, block, block)
    return torch.block_diag(*blocks)


def largest(matrix: Tensor) -> float:
    """sigma_max."""
    return float(torch.linalg.matrix_norm(matrix.detach(), 2))


def smallest(matrix: Tensor) -> float:
    """sigma_min."""
    return float(torch.linalg.matrix_norm(matrix.detach(), -2))


class Extremes(NamedTuple):
    """The largest and smallest factor by which a gradient changes on its way back."""

    low: float
    high: float


def extremes(matrix: Tensor) -> Extremes:
    return Extremes(smallest(matrix), largest(matrix))


def step_bound(layer: FRU) -> float:
    """sqrt(M) sigma_max(W2) sigma_max(W1): of T |d u(t)/d u(t-1) - I|, where |phi'| <= 1."""
    sigma = largest(layer.get_parameter("weight_gh_l0"))
    sigma *= largest(layer.get_parameter("weight_ug_l0"))
    return math.sqrt(layer.num_freqs // layer.freqs_per_block) * sigma


def random_square(generator: torch.Generator, size: int, sigma: float) -> Tensor:
    """A random (size, size) matrix with sigma_max = ``sigma``, of one of three kinds.

    Dense normal; symmetric; or -sigma times an orthogonal matrix near the identity, which is
    what the lower bounds find hardest.
    """
    kind = int(torch.randint(3, (), generator=generator))
    w = torch.randn(size, size, generator=generator, dtype=torch.float64)
    if kind == 1:
        w = w + w.t()
    if kind == 2:
        w = -torch.linalg.qr(torch.eye(size, dtype=torch.float64) + 0.3 * w).Q
    return w * (sigma / largest(w))


# The memory ----------------------------------------------------------------------------------


def memories(layer: Layer, x: Tensor, start: Tensor) -> Tensor:
    """u(0..L), (L+1, N, n_u), from u(0) = ``start`` (N, n_u): the layer, read with Y = I."""
    identity = {
        "weight_uy_l0": torch.eye(layer.state_size, dtype=x.dtype),
        "bias_y_l0": torch.zeros(layer.state_size, dtype=x.dtype),
    }
    state = (start.unsqueeze(0), torch.zeros(1, x.shape[1], dtype=torch.int64))
    u, _ = functional_call(layer, identity, (x, state), strict=False)
    return torch.cat([start.unsqueeze(0), u])


def hidden(layer: Layer, u: Tensor, x: Tensor) -> Tensor:
    """h(1..L), (L, ..., n_h), by the update rule from u(0..L-1) and x(1..L)."""
    w, phi = weights_of(layer, "_l0"), NONLINEARITIES[layer.nonlinearity]
    g = phi(F.linear(u, w.weight_ug, w.bias_g))
    return phi(F.linear(g, w.weight_gh) + F.linear(x, w.weight_xh, w.bias_h))
