"""Theorem: the gradient of a linear FRU neither vanishes nor explodes, whatever T.

    exp(-2 s) |dL/du(T)|  <=  |dL/du(T0)|  <=  exp(s) |dL/du(T)|,     s = sigma_max(W2 W1)

The proof writes the unit with one frequency, u(t) = (I + c(t)/T W) u(t-1), |c(t)| <= 1, and
uses 1 - x >= exp(-2x) "for x in [0, 1]". Three things are looked at here:

1. that inequality ends at x = 0.797, so the lower bound needs s/T <= 0.797;
2. with M blocks of frequencies |C(t)| reaches sqrt(M), and so does the exponent;
3. the statement has W1 W2 where the update rule makes W2 W1: their norms differ.

What holds, for every M, T0 <= T and W (r = sqrt(M) s):

    exp(-2 r) <= |dL/du(T0)| / |dL/du(T)| <= exp(r),    the lower half where r/T <= 0.797.

Corollary: the same for any basis with |y_f(t)| <= 1 in the place of the cosines. It is tried with
every basis of the report; what limits the theorem limits it too, as a constant function is in all
of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torchfru.nn import FRU

from ..experiments import BASES
from ..plots import Panel
from . import gradient_rnn, gradient_sru
from .finding import Finding, Settings, log_panel, panel
from .linear import LINEAR, Extremes, extremes, jacobian, largest, linear_fru, random_square

LENGTHS = (10, 100, 1_000, 10_000, 100_000)
SIGMAS = (0.5, 1.0, 2.0)
OverTime = dict[float, list[list[Extremes]]]  # by sigma, then length, then frequency
ROUNDING = 1e-9  # allowed to a product of up to 100,000 factors in float64
MEASURE = "log of gradient over the bound that holds (above 0: broken)"


def inequality_ends() -> float:
    """The x above which 1 - x >= exp(-2x) is false, by bisection.

    >>> round(inequality_ends(), 4)
    0.7968
    """
    low, high = 0.5, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - middle >= math.exp(-2 * middle) else (low, middle)
    return low


@dataclass(frozen=True)
class FRUCase:
    """One linear FRU: W = W2 W1 (n_h, n_u), its frequencies and phases, and a stretch of time."""

    w: Tensor
    seq_len: int
    start: int
    freqs: list[float]
    phase: list[float]
    freqs_per_block: int = 1
    basis: str = "fourier"

    @property
    def blocks(self) -> int:
        """M: how many frequencies act on the same slice of h."""
        return len(self.freqs) // self.freqs_per_block

    @property
    def sigma(self) -> float:
        return largest(self.w)

    def jacobian(self, block: int | None = None) -> Tensor:
        options = {name: value for name, value in vars(self).items() if name not in ("w", "start")}
        layer = linear_fru(self.w, **options)
        return jacobian(layer, self.seq_len - self.start, self.start, block)

    def gradients(self) -> Extremes:
        return extremes(self.jacobian())


def excess(found: Extremes, exponent: float) -> tuple[float, float]:
    """By how much, as logarithms, the lower and the upper bound are broken (> 0: broken).

    >>> excess(Extremes(low=1.0, high=1.0), exponent=1.0)
    (-2.0, -1.0)
    """
    low = math.inf if found.low == 0 else -2 * exponent - math.log(found.low)
    high = -math.inf if found.high == 0 else math.log(found.high) - exponent
    return low, high


def excess_as_stated(case: FRUCase) -> tuple[float, float]:
    return excess(case.gradients(), case.sigma)


def excess_corrected(case: FRUCase) -> tuple[float, float]:
    """For the statement that holds; its lower half says nothing where r/T > 0.797."""
    exponent = math.sqrt(case.blocks) * case.sigma
    low, high = excess(case.gradients(), exponent)
    return low if exponent / case.seq_len <= inequality_ends() else -math.inf, high


def random_case(generator: torch.Generator, basis: str = "fourier") -> FRUCase:
    """A small unit: T up to 40, 1 or 2 frequencies in each of 1 to 4 blocks, s/T up to 1.

    In one of three all blocks act alike and in phase, where the bounds are tight.
    """

    def draw(high: int) -> int:
        return int(torch.randint(1, high + 1, (), generator=generator))

    def uniform(count: int, high: float) -> list[float]:
        return (high * torch.rand(count, generator=generator)).tolist()

    seq_len, blocks, per_block, freq_dim = draw(40), draw(4), draw(2), draw(3)
    count = blocks * per_block
    aligned = draw(3) == 1
    if aligned:
        w = random_square(generator, per_block * freq_dim, 1.0).repeat(1, blocks)
    else:
        w = random_square(generator, count * freq_dim, 1.0)[: per_block * freq_dim]
    w = w * (uniform(1, min(1.0 * seq_len, 6.0))[0] / largest(w))
    freqs, phase = [float(k) for k in range(count)], uniform(count, 2 * math.pi)
    if basis == "fourier":
        freqs = uniform(count, seq_len)
        if aligned:
            freqs, phase = [0.0] * count, [0.0] * count
    return FRUCase(w, seq_len, draw(seq_len) - 1, freqs, phase, per_block, basis)


def search(settings: Settings, bases: tuple[str, ...]) -> tuple[float, int]:
    """Random units: worst excess over the corrected bounds, and how many break the stated ones."""
    worst, broken = -math.inf, 0
    for case in settings.random_units(lambda g, index: random_case(g, bases[index % len(bases)])):
        worst = max(worst, *excess_corrected(case))
        broken += max(excess_as_stated(case)) > ROUNDING
    return worst, broken


# The smallest units that break the theorem as it is stated: one number of state and one step
# for the lower bound, two for the upper.
LOWER = FRUCase(torch.tensor([[-0.9]], dtype=torch.float64), 1, 0, [0.0], [0.0])
PAIR = torch.full((1, 2), 0.3 / math.sqrt(2), dtype=torch.float64)
UPPER = FRUCase(PAIR, 1, 0, [0.0, 1.0], [0.0, 0.0])


def over_time(
    lengths: tuple[int, ...], freqs: list[float], basis: str, settings: Settings, skip: int = 0
) -> OverTime:
    """Units of one frequency each: for every sigma and length, the factors by frequency.

    T0 is 0, or T / ``skip``: over whole waves from 0 there is nothing to see, as the steps of one
    unit commute, their product is close to exp(W mean c(t)), and that mean is 0.

    One layer with M = 1 and a block-diagonal W holds len(freqs) independent units; the d numbers
    of a frequency hold one 2 x 2 block for each sigma.
    """
    found: OverTime = {sigma: [] for sigma in SIGMAS}
    for length in lengths:
        settings.tick(f"{basis}, T = {length:,}")
        generator = settings.generator  # the same W for all
        squares = [random_square(generator, 2, sigma) for _ in freqs for sigma in SIGMAS]
        w = torch.block_diag(*squares)
        phase = torch.rand(len(freqs), generator=generator).mul(2 * math.pi).tolist()
        start = length // skip if skip else 0
        jac = FRUCase(w, length, start, freqs, phase, len(freqs), basis).jacobian(block=2)
        units = [jac[i : i + 2, i : i + 2] for i in range(0, len(jac), 2)]
        for place, sigma in enumerate(SIGMAS):
            found[sigma].append([extremes(unit) for unit in units[place :: len(SIGMAS)]])
    return found


def hull(ends: list[Extremes]) -> Extremes:
    """The smallest and largest of all."""
    return Extremes(min(e.low for e in ends), max(e.high for e in ends))


def worst_over_time(found: OverTime) -> float:
    return max(max(excess(hull(e), sigma)) for sigma, ends in found.items() for e in ends)


def stated_sum_is_off(steps: int = 1_000) -> tuple[float, float]:
    """u(T) from u(0) = 0, W = 1, c(t) = 1 and W3 x + B = 1: the layer's, and the paper's claim.

    The claim drops the products in front of the inputs, so it gives 1; the layer gives
    (1 + 1/T)^T - 1. The derivative by u(T0), and so the theorem, does not see it.
    """
    layer = linear_fru(torch.ones(1, 1, dtype=torch.float64), seq_len=steps, freqs=[0.0])
    with torch.no_grad():
        layer.get_parameter("weight_xh_l0").fill_(1.0)
        _, (u, _) = layer(torch.ones(steps, 1, 1, dtype=torch.float64))
    return float(u), 1.0


def paper_sized() -> tuple[Extremes, float]:
    """The factors of a layer of the paper's size as it is initialised, and its sigma_max(W2 W1)."""
    layer = FRU(1, 1, seq_len=784, num_freqs=60, **LINEAR)
    w = layer.get_parameter("weight_gh_l0") @ layer.get_parameter("weight_ug_l0")
    return extremes(jacobian(layer, 784)), largest(w)


def measure(settings: Settings) -> Finding:
    found = over_time(LENGTHS, [0.0, 0.25, 1.0, 10.0], "fourier", settings)
    worst, broken = search(settings, ("fourier",))
    low, high = LOWER.gradients().low, UPPER.gradients().high
    refuted = max(*excess_as_stated(LOWER), *excess_as_stated(UPPER)) > 0
    layer, claimed = stated_sum_is_off()
    settings.tick("a layer of the paper's size")
    real, sigma = paper_sized()
    return Finding(
        refuted=refuted,
        tried=f"{len(LENGTHS)} lengths to T = 100,000 x 12 units; {settings.examples} random "
        f"units, of which {broken} break the bounds as stated",
        measure=MEASURE,
        worst=max(worst, worst_over_time(found)),
        bound=ROUNDING,
        statement="exp(-2 sqrt(M) s) <= |dL/du(T0)| / |dL/du(T)| <= exp(sqrt(M) s) with s = "
        "sigma_max(W2 W1) and M blocks of frequencies, the lower half where sqrt(M) s/T <= "
        f"{inequality_ends():.4f}; as the paper has it for M = 1",
        counterexample=f"lower: T = 1, one frequency 0, W = -0.9: gradient {low:.4f} < "
        f"exp(-1.8) = {math.exp(-1.8):.4f}. Upper: T = 1, frequencies 0 and 1, d = 1, "
        f"W2 W1 = 0.3 (1, 1)/sqrt(2): gradient {high:.4f} > exp(0.3) = {math.exp(0.3):.4f}",
        notes=(
            f"a layer as initialised, K = 60, d = 10, T = 784: factors {real.low:.2f} to "
            f"{real.high:.2f}; exp(-2 s) = {math.exp(-2 * sigma):.2g}, exp(s) = "
            f"{math.exp(sigma):.2g}, exp(sqrt(M) s) = {math.exp(math.sqrt(60) * sigma):.2g}",
            "the theorem writes W1 W2; the update rule makes W2 W1, and sigma_max(W1 W2) can be "
            "0 while W2 W1 is not",
            f"the claim for u(T) drops the products before the inputs: it gives {claimed:.3f} "
            f"where the layer gives {layer:.3f}; the gradient is not touched",
        ),
        panels=(_level_panel(found), _three_units([hull(e) for e in found[1.0]])),
    )


def measure_every_basis(settings: Settings) -> Finding:
    freqs, lengths = [0.0, 1.0, 2.0, 3.0], LENGTHS[:-1]
    found = [over_time(lengths, freqs, name, settings) for name in BASES]
    halves = [over_time(lengths, freqs, name, settings, skip=2) for name in BASES]
    worst, broken = search(settings, BASES)
    constant = [replace(LOWER, basis=name) for name in BASES]
    curves: dict[str, list[float]] = {}
    for name, ends in zip(BASES, halves, strict=True):
        curves |= _ends(f"{name}, largest", f"{name}, smallest", [unit[3] for unit in ends[2.0]])
    limits = {"upper bound": math.exp(2.0), "lower bound": math.exp(-4.0)}
    title = "sigma_max(W) = 2, T0 = T/2, the fourth function of each"
    return Finding(
        refuted=any(max(excess_as_stated(case)) > 0 for case in constant),
        tried=f"{', '.join(BASES)}: {len(lengths)} lengths to T = 10,000 x 12 units; "
        f"{settings.examples} random units, of which {broken} break the bounds as stated",
        measure=MEASURE,
        worst=max(worst, *(worst_over_time(ends) for ends in (*found, *halves))),
        bound=ROUNDING,
        statement="for every bounded basis exp(-2 sqrt(M) s) <= |dL/du(T0)| / |dL/du(T)| <= "
        f"exp(sqrt(M) s), the lower half where sqrt(M) s/T <= {inequality_ends():.4f}",
        counterexample="T = 1, the constant function of each basis, W = -0.9: gradient "
        f"{LOWER.gradients().low:.4f} < exp(-1.8) = {math.exp(-1.8):.4f}",
        panels=(panel(title, "T", "gradient factor", lengths, curves, limits),),
    )


def _ends(high: str, low: str, ends: Sequence[Extremes]) -> dict[str, list[float]]:
    """Two curves by name: the largest and the smallest factors."""
    return {high: [e.high for e in ends], low: [e.low for e in ends]}


def _level_panel(found: OverTime) -> Panel:
    curves: dict[str, list[float]] = {}
    for sigma, units in found.items():
        names = (f"largest, sigma {sigma:g}", f"smallest, sigma {sigma:g}")
        curves |= _ends(*names, [hull(e) for e in units])
    top = max(SIGMAS)
    limits = {
        f"upper bound, sigma {top:g}": math.exp(top),
        f"lower bound, sigma {top:g}": math.exp(-2 * top),
    }
    title = "Linear FRU: the gradient is level in T"
    return panel(title, "T", "gradient factor", LENGTHS, curves, limits)


def _three_units(fru: list[Extremes]) -> Panel:
    """FRU beside the two units whose gradient is exponential in T."""
    logs = {
        "FRU, sigma 1: largest": [math.log(e.high) for e in fru],
        "FRU, sigma 1: smallest": [math.log(e.low) for e in fru],
        "SRU, W = I/2, alpha 0.99": [gradient_sru.log_gradients(0.99, n) for n in LENGTHS],
        "RNN, W = 0.9 I": [gradient_rnn.log_gradients(0.9, n) for n in LENGTHS],
    }
    return log_panel("Three linear units: level, exponential, exponential", LENGTHS, logs)
