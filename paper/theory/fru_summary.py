"""Equation: the memory of an FRU is a sum over all past steps, with weights that do not decay.

    u_i(t) = u_i(0) + 1/T sum_{s=1..t} cos(2 pi f_k s / T + theta_k) h_j(s),   i = d(k-1) + j

(with m frequencies a block, j is d ((k-1) mod m) + its place: the paper writes m = 1). The
layer's u(t) is compared, at every t, with that sum of its own h, cosines taken in float64.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchfru.nn import FRU

from .finding import Finding, Settings
from .summaries import fill, memories, summary_finding

LENGTHS = (1, 100, 10_000, 100_000)


def closed_form(layer: FRU, start: Tensor, h: Tensor) -> Tensor:
    """u(0..L), (L+1, N, n_u), as the equation has it."""
    steps = torch.arange(1, len(h) + 1, dtype=torch.float64).unsqueeze(1)
    turns = (steps * layer.freqs.double() / layer.seq_len) % 1.0
    cosine = torch.cos(2 * math.pi * turns + layer.get_parameter("phase_l0").detach())  # (L, K)
    place = torch.arange(layer.num_freqs) % layer.freqs_per_block
    slices = h.unflatten(2, (layer.freqs_per_block, layer.freq_dim))[:, :, place]  # (L, N, K, d)
    terms = (cosine[:, None, :, None] * slices).flatten(2) / layer.seq_len
    return torch.cat([start.unsqueeze(0), start + terms.cumsum(0)])


def difference(length: int, backend: str, per_block: int, seed: int) -> float:
    """The largest |layer - sum| over all t, against the largest |u|."""
    generator = torch.Generator().manual_seed(seed)
    layer = FRU(
        2,
        12,
        seq_len=length,
        num_freqs=6,
        freq_dim=2,
        gate_size=5,
        freqs_per_block=per_block,
        freqs=[0.0, 0.25, 1.0, length / 7, length / 3, float(length)],
        dtype=torch.float64,
    )
    fill(layer, generator)
    x = torch.randn(length, 2, 2, generator=generator, dtype=torch.float64)
    start = torch.randn(2, 12, generator=generator, dtype=torch.float64)
    u, h = memories(layer, x, start, backend)
    return float((u - closed_form(layer, start, h)).abs().max() / u.abs().max())


def measure(settings: Settings) -> Finding:
    found: dict[str, list[float]] = {"reference": [], "collapsed": []}
    for backend, values in found.items():
        for length in LENGTHS if backend == "collapsed" else LENGTHS[:-1]:
            settings.tick(f"{backend}, T = {length:,}")
            blocks = (1, 3) if length < 100_000 else (1,)
            values.append(max(difference(length, backend, m, settings.seed) for m in blocks))
    tried = "K = 6, d = 2, ReLU, float64; every t up to T = 100,000; both backends; m = 1, 3"
    return summary_finding("fru-summary", tried, LENGTHS, found)
