"""Equations: the memories of FRU and SRU are sums over all past steps.

    FRU:  u_i(t) = u_i(0) + 1/T sum_{s=1..t} cos(2 pi f_k s / T + theta_k) h_j(s),  i = d(k-1) + j
    SRU:  u_k(t) = a_k^t u_k(0) + (1 - a_k) sum_{s=1..t} a_k^(t-s) h(s)

FRU's weights do not decay with age, SRU's do. (With m frequencies a block, j is d ((k-1) mod m) +
its place: the paper writes m = 1.) The layer's u(t) is compared with that sum of its own h, which
is computed in float64. SRU's sums end where a^age falls below 10^-40, far under what float64 can
add.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torchfru.nn import FRU, SRU
from torchfru.ops import use_backend

from .finding import Finding, Settings, panel
from .linear import Layer, hidden, memories

LENGTHS = (1, 100, 10_000, 100_000)
TOLERANCE = 1e-10


def fru_sums(layer: FRU, start: Tensor, h: Tensor) -> Tensor:
    """u(0..L), (L+1, N, n_u), as the equation has it."""
    steps = torch.arange(1, len(h) + 1, dtype=torch.float64).unsqueeze(1)
    turns = (steps * layer.freqs.double() / layer.seq_len) % 1.0
    cosine = torch.cos(2 * math.pi * turns + layer.get_parameter("phase_l0").detach())  # (L, K)
    place = torch.arange(layer.num_freqs) % layer.freqs_per_block
    slices = h.unflatten(2, (layer.freqs_per_block, layer.freq_dim))[:, :, place]  # (L, N, K, d)
    terms = (cosine[:, None, :, None] * slices).flatten(2) / layer.seq_len
    return torch.cat([start.unsqueeze(0), start + terms.cumsum(0)])


def sru_sum(layer: SRU, start: Tensor, h: Tensor, t: int) -> Tensor:
    """u(t), (N, K n_h), as the equation has it."""
    sums = []
    for alpha, first in zip(layer.alphas, start.chunk(len(layer.alphas), 1), strict=True):
        reach = 1 if alpha == 0 else math.ceil(-40 * math.log(10) / math.log(alpha))
        ages = torch.arange(min(t, reach), dtype=torch.float64)  # 0 is the newest
        weights = (1 - alpha) * alpha**ages
        recent = h[t - len(ages) : t].flip(0)  # (ages, N, n_h)
        sums.append(alpha**t * first + torch.einsum("a,anh->nh", weights, recent))
    return torch.cat(sums, 1)


def run(layer: Layer, length: int, backend: str, seed: int) -> tuple[Tensor, Tensor]:
    """u(0..L) and h(1..L) of two random sequences, the weights as at the start of training."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    with torch.no_grad(), use_backend(backend):
        for name, parameter in layer.named_parameters():
            if not name.startswith(("weight_uy", "bias_y")):
                parameter.copy_(0.1 * draw(*parameter.shape))
        x = draw(length, 2, 2)
        u = memories(layer, x, draw(2, layer.state_size))
        return u, hidden(layer, u[:-1], x)


def fru_difference(length: int, backend: str, per_block: int, seed: int) -> float:
    """The largest |layer - sum| over all t, against the largest |u|."""
    freqs = [0.0, 0.25, 1.0, length / 7, length / 3, float(length)]
    layer = FRU(2, 12, seq_len=length, num_freqs=6, freq_dim=2, gate_size=5, freqs=freqs,
                freqs_per_block=per_block, dtype=torch.float64)  # fmt: skip
    u, h = run(layer, length, backend, seed)
    return float((u - fru_sums(layer, u[0], h)).abs().max() / u.abs().max())


def sru_difference(length: int, backend: str, seed: int) -> float:
    """The largest |layer - sum| at a dozen steps from 0 to T, against the largest |u|."""
    layer = SRU(2, 15, stat_size=3, gate_size=4, dtype=torch.float64)
    u, h = run(layer, length, backend, seed)
    steps = sorted({round(length * i / 11) for i in range(12)})
    worst = max(float((u[t] - sru_sum(layer, u[0], h, t)).abs().max()) for t in steps)
    return worst / float(u.abs().max())


def measure_fru(settings: Settings) -> Finding:
    def difference(length: int, backend: str) -> float:
        blocks = (1, 3) if length < 100_000 else (1,)
        return max(fru_difference(length, backend, m, settings.seed) for m in blocks)

    tried = "K = 6, d = 2, ReLU, float64; every t up to T = 100,000; both backends; m = 1, 3"
    return _finding("FRU", tried, settings, difference, {"collapsed": "collapsed"})


def measure_sru(settings: Settings) -> Finding:
    def difference(length: int, backend: str) -> float:
        return sru_difference(length, backend, settings.seed)

    tried = "five decays, n_h = 3, ReLU, float64; 12 steps t up to T = 100,000; both scans"
    return _finding("SRU", tried, settings, difference, {"fast": "collapsed"})


def _finding(
    layer: str,
    tried: str,
    settings: Settings,
    difference: Callable[[int, str], float],
    fast: dict[str, str],
) -> Finding:
    """The differences of the slow backend, and of the fast one at the longest T as well."""
    found: dict[str, list[float]] = {}
    for name, backend in {"reference": "reference", **fast}.items():
        found[name] = []
        for length in LENGTHS if name in fast else LENGTHS[:-1]:
            settings.tick(f"{name}, T = {length:,}")
            found[name].append(difference(length, backend))
    curves = {name: [max(v, 1e-18) for v in values] for name, values in found.items()}
    title, limits = f"{layer} memory against its closed form", {"allowed": TOLERANCE}
    return Finding(
        tried=tried,
        measure="largest relative |u(t) - sum|",
        worst=max(max(values) for values in found.values()),
        bound=TOLERANCE,
        panels=(panel(title, "T", "difference", LENGTHS, curves, limits),),
    )
