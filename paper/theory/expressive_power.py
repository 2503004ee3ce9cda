"""Section "Fourier Basis", in practice: K Fourier terms against K exponentials in float32.

The paper compares what is possible with any coefficients; training has float32. Here both
sides get K columns on T steps, float32 least squares, and float32 evaluation:

    Fourier       cos(pi j t / T) and sin(pi j t / T), j = 0, 1, ..., K/2
    exponentials  exp(-r_i t / T), r_i log-spaced; of four ranges the one that fits best

The measure is the root mean square of what is left over, relative to the target's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchfru.defaults import ALPHAS

from .finding import Finding, Settings, panel
from .target import target

STEPS = 784
COUNTS = (2, 4, 8, 12, 16, 24, 32, 48, 64)
RANGES = ((0.1, 10.0), (0.1, 50.0), (0.1, 200.0), (1.0, 784.0))


def times() -> Tensor:
    """t / T for t = 1..T, float64."""
    return torch.arange(1, STEPS + 1, dtype=torch.float64) / STEPS


def targets(seed: int) -> dict[str, Tensor]:
    """The theorem's P, random polynomials, and a mix of sines, each on all steps."""
    generator = torch.Generator().manual_seed(seed)
    s = times()
    found = {"P of the theorem": torch.from_numpy(target(s.numpy()))}
    for degree in (5, 10, 15):
        # in Chebyshev polynomials, so that every degree has its share
        weights = torch.randn(degree + 1, generator=generator, dtype=torch.float64)
        angle = torch.acos(2 * s - 1).unsqueeze(1)
        waves = torch.cos(angle * torch.arange(degree + 1))
        found[f"polynomial of degree {degree}"] = waves @ weights
    freqs = 0.1 + 2.9 * torch.rand(5, generator=generator, dtype=torch.float64)
    phases = 2 * math.pi * torch.rand(5, generator=generator, dtype=torch.float64)
    found["five sines"] = torch.sin(2 * math.pi * s.unsqueeze(1) * freqs * 3 + phases).sum(1)
    return found


def fourier(count: int) -> Tensor:
    """(T, count): 1, then sine and cosine by turns at half turns."""
    j = torch.arange(1, count + 1)
    angle = math.pi * times().unsqueeze(1) * (j // 2)
    return torch.where(j % 2 == 1, torch.cos(angle), torch.sin(angle))


def decays(rates: Tensor) -> Tensor:
    """(T, K): exp(-r_i t / T)."""
    return torch.exp(-times().unsqueeze(1) * rates)


def exponentials(count: int) -> list[Tensor]:
    """(T, count) for each range of rates."""
    return [
        decays(torch.logspace(math.log10(low), math.log10(high), count, dtype=torch.float64))
        for low, high in RANGES
    ]


def error(columns: Tensor, goal: Tensor, dtype: torch.dtype = torch.float32) -> float:
    """Relative root mean square error of the least-squares fit, all of it in ``dtype``."""
    a, b = columns.to(dtype), goal.to(dtype).unsqueeze(1)
    cut = torch.finfo(dtype).eps  # of the largest singular value: what the precision resolves
    c = torch.linalg.lstsq(a, b, rcond=cut, driver="gelsd").solution
    return float((a @ c - b).double().norm() / goal.norm())


def best_exponentials(count: int, goal: Tensor, dtype: torch.dtype = torch.float32) -> float:
    return min(error(columns, goal, dtype) for columns in exponentials(count))


def measure(settings: Settings) -> Finding:
    curves: dict[str, dict[str, list[float]]] = {}
    goals = targets(settings.seed)
    for name, goal in goals.items():
        settings.tick(name)
        curves[name] = {
            "Fourier": [error(fourier(k), goal) for k in COUNTS],
            "exponentials": [best_exponentials(k, goal) for k in COUNTS],
        }
    ends = {name: [values[-1] for values in found.values()] for name, found in curves.items()}
    hard, double = "polynomial of degree 15", "exponentials, float64"
    curves[hard][double] = [best_exponentials(k, goals[hard], torch.float64) for k in COUNTS]
    rates = torch.tensor([-STEPS * math.log(a) for a in ALPHAS if a > 0], dtype=torch.float64)
    sru = {name: error(decays(rates), goal) for name, goal in goals.items()}
    worst = max(waves / falls for waves, falls in ends.values())
    return Finding(
        sound=True,  # it is about the paper's words, not about this package
        refuted=worst >= 1,
        tried=f"{len(goals)} targets of {STEPS} steps, K = 2 to 64, float32; exponentials at the "
        f"best of {len(RANGES)} ranges",
        measure="Fourier's error over exponentials' error at K = 64, worst target",
        worst=worst,
        bound=1.0,
        notes=(
            "at K = 64, Fourier and exponentials: "
            + "; ".join(f"{n} {waves:.1e}, {falls:.1e}" for n, (waves, falls) in ends.items()),
            "SRU's rates leave " + "; ".join(f"{n} {v:.2f}" for n, v in sru.items()),
        ),
        panels=tuple(
            panel(
                name[0].upper() + name[1:],
                "K",
                "relative error",
                COUNTS,
                found,
                xscale="linear",
                kinds={double: "dashed"},
            )
            for name, found in curves.items()
        ),
    )
