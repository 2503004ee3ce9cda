"""Equation: the memory of an SRU is a sum over past steps, with weights that decay with age.

    u_k(t) = a_k^t u_k(0) + (1 - a_k) sum_{s=1..t} a_k^(t-s) h(s)

The layer's u(t) is compared with that sum of its own h. Sums of decaying terms are cut where
a^age falls below 10^-40, far under what float64 can add.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchfru.nn import SRU

from .finding import Finding, Settings
from .summaries import fill, memories, summary_finding

LENGTHS = (1, 100, 10_000, 100_000)


def closed_form(layer: SRU, start: Tensor, h: Tensor, t: int) -> Tensor:
    """u(t), (N, K n_h), as the equation has it."""
    sums = []
    for alpha, first in zip(layer.alphas, start.chunk(len(layer.alphas), 1), strict=True):
        reach = 1 if alpha == 0 else math.ceil(-40 * math.log(10) / math.log(alpha))
        ages = torch.arange(min(t, reach), dtype=torch.float64)  # 0 is the newest
        weights = (1 - alpha) * alpha**ages
        recent = h[t - len(ages) : t].flip(0)  # (ages, N, n_h)
        sums.append(alpha**t * first + torch.einsum("a,anh->nh", weights, recent))
    return torch.cat(sums, 1)


def difference(length: int, backend: str, seed: int) -> float:
    """The largest |layer - sum| at a dozen steps from 0 to T, against the largest |u|."""
    generator = torch.Generator().manual_seed(seed)
    layer = SRU(2, 15, stat_size=3, gate_size=4, dtype=torch.float64)
    fill(layer, generator)
    x = torch.randn(length, 2, 2, generator=generator, dtype=torch.float64)
    start = torch.randn(2, 15, generator=generator, dtype=torch.float64)
    u, h = memories(layer, x, start, backend)
    steps = sorted({round(length * i / 11) for i in range(12)})
    worst = max(float((u[t] - closed_form(layer, start, h, t)).abs().max()) for t in steps)
    return worst / float(u.abs().max())


def measure(settings: Settings) -> Finding:
    found: dict[str, list[float]] = {"reference": [], "fast": []}
    for name, values in found.items():
        for length in LENGTHS if name == "fast" else LENGTHS[:-1]:
            settings.tick(f"{name}, T = {length:,}")
            backend = "collapsed" if name == "fast" else name
            values.append(difference(length, backend, settings.seed))
    tried = "five decays, n_h = 3, ReLU, float64; 12 steps t up to T = 100,000; both scans"
    return summary_finding("sru-summary", tried, LENGTHS, found)
