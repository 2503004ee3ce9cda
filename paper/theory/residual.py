"""Paragraph "Connection with residual learning": one step is the identity plus O(1/T).

    d u(t+1)/d u(t) = I + dF/du,     dF/du = 1/T C(t+1) phi' W2 phi' W1

so that, with phi' within [-1, 1] and M blocks of frequencies,

    T |d u(t+1)/d u(t) - I|  <=  sqrt(M) sigma_max(W2) sigma_max(W1)     at every t.
"""

from __future__ import annotations

import torch

from torchfru.nn import FRU

from .finding import Finding, Settings, panel
from .linear import largest, step_bound

LENGTHS = (10, 100, 1_000, 10_000, 100_000)
NONLINEARITIES = ("relu", "tanh", "identity")


def step_minus_identity(layer: FRU, t: int, generator: torch.Generator) -> float:
    """T |d u(t)/d u(t-1) - I| at a random memory and input."""
    n_u = layer.state_size
    u = torch.randn(1, 1, n_u, generator=generator, dtype=torch.float64)
    u = u.expand(1, n_u, n_u).detach().requires_grad_()
    x = torch.randn(1, 1, 1, generator=generator, dtype=torch.float64).expand(1, n_u, 1)
    before = torch.full((1, n_u), t - 1, dtype=torch.int64)
    _, (after, _) = layer(x, (u, before))
    (rows,) = torch.autograd.grad(after[0], u, torch.eye(n_u, dtype=torch.float64))
    return layer.seq_len * largest(rows[0] - torch.eye(n_u, dtype=torch.float64))


def ratio(
    length: int,
    nonlinearity: str,
    generator: torch.Generator,
    *,
    num_freqs: int = 20,
    freq_dim: int = 5,
    freqs_per_block: int = 1,
) -> tuple[float, float]:
    """The largest T |J - I| over steps of a layer as it is initialised, and its bound."""
    layer = FRU(1, 1, seq_len=length, num_freqs=num_freqs, freq_dim=freq_dim, gate_size=20,
                freqs_per_block=freqs_per_block, nonlinearity=nonlinearity,
                dtype=torch.float64, return_sequences=False)  # fmt: skip
    with torch.no_grad():
        for name in ("weight_ug_l0", "weight_gh_l0"):
            weight = layer.get_parameter(name)
            weight.copy_(0.1 * torch.randn(weight.shape, generator=generator).double())
    steps = {1, (length + 1) // 2, length}
    found = max(step_minus_identity(layer, t, generator) for t in steps)
    return found, step_bound(layer)


def random_ratio(generator: torch.Generator, index: int) -> tuple[float, float]:
    length = int(torch.randint(1, 2_000, (), generator=generator))
    phi, per_block = NONLINEARITIES[index % 3], (1, 2, 3)[index // 3 % 3]
    return ratio(length, phi, generator, num_freqs=6, freq_dim=2, freqs_per_block=per_block)


def measure(settings: Settings) -> Finding:
    found: dict[str, list[tuple[float, float]]] = {}
    for phi in NONLINEARITIES:
        settings.tick(phi)
        found[phi] = [ratio(length, phi, settings.generator) for length in LENGTHS]
    fixed = [pair for pairs in found.values() for pair in pairs]
    curves = {phi: [value for value, _ in pairs] for phi, pairs in found.items()}
    limits = {"bound": max(bound for _, bound in fixed)}
    every = [*fixed, *settings.random_units(random_ratio)]
    return Finding(
        tried=f"{len(NONLINEARITIES)} nonlinearities x {len(LENGTHS)} lengths to T = 100,000 with "
        f"K = 20, d = 5; {settings.examples} random layers",
        measure="T |J - I| over sqrt(M) sigma(W2) sigma(W1)",
        worst=max(value / bound for value, bound in every),
        bound=1.0,
        panels=(panel("One step is I + O(1/T)", "T", "T |J - I|", LENGTHS, curves, limits),),
    )
