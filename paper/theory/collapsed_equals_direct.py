"""Identity behind the fast backend: the collapsed loop computes the direct form's function.

    z(t) = W1 u(t-1) + b1,   z(t+1) = z(t) + A(t) h(t),   A(t) = sum_k c_k(t) W1_k

Outputs, last memory and every gradient of the two are compared, and their multiply-adds are
counted by torch's own counter. By hand, per step and sample: n_u n_g + n_g n_h against
2 n_g n_h, plus n_u for the last memory and K n_g n_h / N for A(t), which the N samples of a
batch share.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from torchfru.nn import FRU
from torchfru.ops import use_backend

from .finding import Finding, Settings, panel

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-3}
BATCHES = (1, 4, 16, 64)


def run(layer: FRU, x: Tensor, backend: str) -> dict[str, Tensor]:
    """Outputs, last memory, and the gradient of a sum of squares by everything."""
    layer.zero_grad()
    x = x.detach().requires_grad_()
    with use_backend(backend):
        y, (u, _) = layer(x)
    (y.square().mean() + u.square().sum()).backward()
    grads = {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}
    assert x.grad is not None
    return {"y": y.detach(), "u": u.detach(), "input": x.grad, **grads}


def difference(layer: FRU, x: Tensor) -> float:
    """The largest relative difference between the two, over all tensors of :func:`run`."""
    direct, collapsed = run(layer, x, "reference"), run(layer, x, "collapsed")
    scale = {name: float(value.abs().max()) or 1.0 for name, value in direct.items()}
    return max(float((direct[name] - collapsed[name]).abs().max()) / scale[name] for name in direct)


def multiply_adds(layer: FRU, batch: int, backend: str, steps: int = 784) -> float:
    """Per step and sample, forward, of a layer that gives its last output only."""
    x = torch.zeros(steps, batch, layer.input_size)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), use_backend(backend), counter:
        layer(x)
    return counter.get_total_flops() / 2 / steps / batch


def measure(settings: Settings) -> Finding:
    differences = {}
    generator = settings.generator
    for dtype, length in ((torch.float64, 784), (torch.float32, 784), (torch.float64, 5_000)):
        settings.tick(f"{dtype}, T = {length}")
        num_freqs = 60 if length < 1_000 else 5
        layer = FRU(1, 20, seq_len=length, num_freqs=num_freqs, dtype=dtype)
        x = torch.randn(length, 3, 1, generator=generator).to(dtype)
        differences[dtype, length] = difference(layer, x)
    settings.tick("counting")
    layer = FRU(1, 200, seq_len=784, return_sequences=False)
    backends = ("reference", "collapsed")
    counts = {name: [multiply_adds(layer, n, name) for n in BATCHES] for name in backends}
    direct, collapsed = counts.values()
    saved = direct[-1] / collapsed[-1]
    worst = max(value / TOLERANCE[dtype] for (dtype, _), value in differences.items())
    title, ylabel = "Counted work, K = 60, d = 10, n_g = 60", "multiply-adds per step and sample"
    limits = {"2 n_g n_h, the loop alone": 2.0 * 60 * 10}
    return Finding(
        sound=worst <= 1 and saved > 1,
        tried="K = 60, d = 10, n_g = 60 at T = 784 in float64 and float32, K = 5 at T = 5,000; "
        "outputs, memory, every gradient",
        measure="largest relative difference over what the precision allows",
        worst=worst,
        bound=1.0,
        notes=(
            "differences: "
            + "; ".join(f"{str(d)[6:]}, T = {t:,}: {v:.1e}" for (d, t), v in differences.items()),
            f"multiply-adds per step and sample at batch {BATCHES[-1]}, counted: {direct[-1]:,.0f} "
            f"direct, {collapsed[-1]:,.0f} collapsed ({saved:.1f} times fewer)",
            f"at batch 1 there is nobody to share A(t) with: {direct[0]:,.0f} and "
            f"{collapsed[0]:,.0f}",
        ),
        panels=(panel(title, "batch", ylabel, BATCHES, counts, limits),),
    )
