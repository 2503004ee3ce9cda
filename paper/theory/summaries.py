"""Shared by the two summary checks: the layer's memory at every step, and the h behind it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torchfru.nn import FRU, SRU
from torchfru.nn.recurrent import weights_of
from torchfru.ops import NONLINEARITIES, use_backend

from .finding import Finding, line, panel

TOLERANCE = 1e-10


def fill(layer: FRU | SRU, generator: torch.Generator) -> None:
    """Random weights as at the start of training, and Y = I, so that y(t) is u(t)."""
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith("weight_uy"):
                parameter.copy_(torch.eye(len(parameter)))
            elif name.startswith("bias_y"):
                parameter.zero_()
            else:
                drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(0.1 * drawn)


def memories(layer: FRU | SRU, x: Tensor, start: Tensor, backend: str) -> tuple[Tensor, Tensor]:
    """u(0..L) as (L+1, N, n_u), and h(1..L) as (L, N, n_h) by the update rule from those u."""
    state = (start.unsqueeze(0), torch.zeros(1, x.shape[1], dtype=torch.int64))
    with torch.no_grad(), use_backend(backend):
        u = torch.cat([start.unsqueeze(0), layer(x, state)[0]])
        w, phi = weights_of(layer, "_l0"), NONLINEARITIES[layer.nonlinearity]
        g = phi(F.linear(u[:-1], w.weight_ug, w.bias_g))
        h = phi(F.linear(g, w.weight_gh) + F.linear(x, w.weight_xh, w.bias_h))
    return u, h


def summary_finding(
    claim: str, tried: str, lengths: tuple[int, ...], found: dict[str, list[float]]
) -> Finding:
    """The finding from the differences of each backend at the first of ``lengths``."""
    worst = max(max(values) for values in found.values())
    lines = [
        line(name, lengths[: len(values)], [max(v, 1e-18) for v in values])
        for name, values in found.items()
    ]
    title = f"{claim[:3].upper()} memory against its closed form"
    return Finding(
        claim=claim,
        verdict="holds" if worst <= TOLERANCE else "fails",
        tried=tried,
        measure="largest relative |u(t) - sum|",
        worst=worst,
        bound=TOLERANCE,
        panels=(panel(title, "T", "difference", lines, {"allowed": TOLERANCE}),),
    )
