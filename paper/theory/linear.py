"""Linear units to measure gradients on: the real layers with the identity for phi.

d u(T) / d u(T0),   an (n_u, n_u) matrix, by autograd through the layer's own loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torchfru.basis import Basis
from torchfru.nn import FRU, SRU

Layer = FRU | SRU


def linear_fru(
    w: Tensor,
    *,
    seq_len: int,
    freqs: list[float],
    phase: list[float] | None = None,
    freqs_per_block: int = 1,
    basis: str | Basis = "fourier",
) -> FRU:
    """An FRU with phi the identity and W2 W1 = ``w`` (n_h, n_u): W1 = w and W2 = I."""
    n_h, n_u = w.shape
    layer = FRU(
        1,
        1,
        bias=False,
        seq_len=seq_len,
        num_freqs=len(freqs),
        freq_dim=n_u // len(freqs),
        gate_size=n_h,
        freqs_per_block=freqs_per_block,
        freqs=freqs,
        basis=basis,
        nonlinearity="identity",
        return_sequences=False,
        dtype=torch.float64,
    )
    _set(layer, w)
    if layer.basis.has_phase:
        with torch.no_grad():
            layer.get_parameter("phase_l0").copy_(torch.tensor(phase or [0.0] * len(freqs)))
    return layer


def linear_sru(w: Tensor, alphas: list[float]) -> SRU:
    """An SRU with phi the identity and W2 W1 = ``w`` (n_h, K n_h)."""
    layer = SRU(
        1,
        1,
        bias=False,
        alphas=alphas,
        stat_size=w.shape[0],
        gate_size=w.shape[0],
        nonlinearity="identity",
        return_sequences=False,
        dtype=torch.float64,
    )
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


@dataclass(frozen=True)
class Extremes:
    """The largest and smallest factor by which a gradient changes on its way back."""

    low: float
    high: float


def extremes(matrix: Tensor) -> Extremes:
    return Extremes(smallest(matrix), largest(matrix))


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
