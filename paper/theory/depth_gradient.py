"""The paper's last words, "non-recurrent deep neural network, e.g. MLP/CNN": gradients over depth.

A network that sums its layers against K bounded functions of depth (:class:`FourierMLP`) has

    u_l = u_{l-1} + 1/L c(l) (x) h_l,     du_l/du_{l-1} = I + 1/L C(l) D2_l W2_l D1_l W1_l,

where D1 and D2 hold the slopes of phi and |C(l)| <= sqrt(K). The proof of the paper's theorem needs
no more: not that the layers share weights, and of phi only that its slopes are within [-1, 1].
With s_l = |W2_l| |W1_l| (for phi the identity: |W2_l W1_l|) and r = sqrt(K)/L sum_l s_l over the
layers l0 < l <= L

    exp(-2 r)  <=  |dL/du_l0| / |dL/du_L|  <=  exp(r),      the lower half where sqrt(K) s_l / L <=
                                                            0.797 in every layer.

Two networks without the factor 1/L, with the same s_l:

    plain      u_l = phi(W2_l phi(W1_l u_{l-1})):                        at most  prod s_l
    residual   u_l = u_{l-1} + W2_l phi(W1_l u_{l-1}):     within prod max(0, 1 -+ s_l)

both attained, and so exponential in L unless s_l is 1, or 0, to within 1/L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchfru.nn import FourierMLP

from ..experiments import BASES, FOURIER, GATES, KINDS
from ..networks import Stack
from ..plots import Panel
from .finding import Finding, Settings, panel
from .gradient_fru import MEASURE, ROUNDING, excess, hull, inequality_ends
from .linear import Extremes, extremes, largest, random_square

DEPTHS = (10, 30, 100, 300, 1_000)
DEEP = (10, 100, 1_000, 10_000)
SLOPES = ("identity", "relu", "tanh")
SIGMA = 2.0  # of r in the figure
GAINS = {"plain": (0.9, 1.0, 1.1), "residual": (-0.05, 0.01, 0.05)}


def state_jacobian(net: FourierMLP | Stack, x: Tensor, start: int = 0) -> Tensor:
    """du_L/du_start at the state that x (n_in,) leads to, (n, n), in one backward pass.

    A batch of copies of x, one for each output whose gradient is wanted.
    """
    fourier = isinstance(net, FourierMLP)
    size = net.state_size if isinstance(net, FourierMLP) else net.bias_u.shape[1]
    states = list(net.states(x.expand(size, -1)))
    after = states[-1].view(size, size) if fourier else states[-1]
    seeds = torch.eye(size, dtype=x.dtype)
    (found,) = torch.autograd.grad(after, states[start], seeds)
    return found.view(size, size).t() if fourier else found


@dataclass(frozen=True)
class DepthCase:
    """A network in float64, the state u_0 to look at, and the layer to start from."""

    net: FourierMLP
    x: Tensor  # (n_u,): V is the identity
    start: int = 0

    @property
    def sigmas(self) -> list[float]:
        """s_l of the layers after ``start``."""
        pairs = list(zip(self.net.weight_gh, self.net.weight_ug, strict=True))[self.start :]
        if self.net.nonlinearity == "identity":
            return [largest(w2 @ w1) for w2, w1 in pairs]
        return [largest(w2) * largest(w1) for w2, w1 in pairs]

    def gradients(self) -> Extremes:
        return extremes(state_jacobian(self.net, self.x, self.start))


def fourier_net(
    w1: Tensor, w2: Tensor, freqs: list[float] | None = None, **options: Any
) -> FourierMLP:
    """The network of W1 (L, n_g, K d) and W2 (L, d, n_g), biases 0, phases 0, V = I."""
    depth, n_g, n_u = w1.shape
    freq_dim = w2.shape[1]
    net = FourierMLP(n_u, None, depth, num_freqs=n_u // freq_dim, freq_dim=freq_dim, gate_size=n_g,
                     freqs=freqs, dtype=torch.float64, **options)  # fmt: skip
    start = {"weight_xu": torch.eye(n_u), "weight_ug": w1, "weight_gh": w2}
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(start.get(name, torch.zeros(())))
    return net


def excess_over_depth(case: DepthCase) -> tuple[float, float]:
    """By how much, as logarithms, the bounds are broken below and above (> 0: broken).

    The lower half says nothing where a layer is too large for it.
    """
    scaled = [math.sqrt(case.net.num_freqs) * s / case.net.depth for s in case.sigmas]
    low, high = excess(case.gradients(), sum(scaled))
    return low if max(scaled) <= inequality_ends() else -math.inf, high


def excess_without_root(case: DepthCase) -> float:
    """The same with the paper's exponents, without sqrt(K) and at every s_l."""
    return max(excess(case.gradients(), sum(case.sigmas) / case.net.depth))


def random_case(generator: torch.Generator, index: int) -> DepthCase:
    """A small network of up to 40 layers and 4 functions, each layer with a size of its own.

    In one of three all layers act alike, by functions that are constant and without phi: there
    the bounds are tight.
    """

    def draw(high: int) -> int:
        return int(torch.randint(1, high + 1, (), generator=generator))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    depth, count, freq_dim = draw(40), draw(4), draw(3)
    top = min(float(depth), 6.0) / math.sqrt(count)
    if draw(3) == 1:
        square = random_square(generator, freq_dim, 1.0).repeat(1, count)
        sizes = top * torch.rand(1, 1, 1, generator=generator, dtype=torch.float64)
        w1 = (square / largest(square) * sizes).expand(depth, -1, -1)
        w2 = torch.eye(freq_dim, dtype=torch.float64).expand(depth, -1, -1)
        net = fourier_net(w1, w2, [0.0] * count, nonlinearity="identity")
    else:
        w1, w2 = normal(depth, draw(5), count * freq_dim), None
        w2 = normal(depth, freq_dim, w1.shape[1])
        wanted = top * torch.rand(depth, 1, 1, generator=generator, dtype=torch.float64)
        norms = torch.linalg.matrix_norm(w1, 2) * torch.linalg.matrix_norm(w2, 2)
        options: dict[str, Any] = {
            "nonlinearity": SLOPES[index % 3],
            "basis": BASES[index // 3 % len(BASES)],
        }
        net = fourier_net(w1 * wanted / norms[:, None, None], w2, **options)
    return DepthCase(net, normal(net.state_size), draw(depth) - 1)


def over_depth(alike: bool, settings: Settings) -> list[Extremes]:
    """Factors of linear networks of K = 4 functions with r = 2, at every depth of ``DEEP``.

    The layers are all alike, W2 W1 = (S, ..., S)/K with S = diag(2, -2) and the constant function;
    or random, and differ.
    """
    found = []
    for depth in DEEP:
        settings.tick(f"{'alike' if alike else 'random'}, L = {depth:,}")
        generator, count = settings.generator, 4
        if alike:
            signs = torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))
            w1 = signs.repeat(1, count).expand(depth, -1, -1)
        else:
            w1 = torch.randn(depth, 2, 2 * count, generator=generator, dtype=torch.float64)
        w1 = w1 * (SIGMA / 2 / torch.linalg.matrix_norm(w1, 2)[:, None, None])
        w2 = torch.eye(2, dtype=torch.float64).expand(depth, -1, -1)
        freqs = [0.0] * count if alike else None
        case = DepthCase(
            fourier_net(w1, w2, freqs, nonlinearity="identity"), torch.zeros(8).double()
        )
        found.append(case.gradients())
    return found


# The smallest network that breaks the paper's exponents: one layer, two constant functions.
PAIR = DepthCase(
    fourier_net(
        torch.full((1, 1, 2), 0.3 / math.sqrt(2), dtype=torch.float64),
        torch.ones(1, 1, 1, dtype=torch.float64),
        [0.0, 1.0],
        nonlinearity="identity",
    ),
    torch.zeros(2, dtype=torch.float64),
)


def measure(settings: Settings) -> Finding:
    found = {name: over_depth(name == "alike", settings) for name in ("alike", "random")}
    worst, broken = -math.inf, 0
    for case in settings.random_units(random_case):
        worst = max(worst, *excess_over_depth(case))
        broken += excess_without_root(case) > ROUNDING
    level = max(excess(hull(ends), SIGMA) for ends in found.values())
    start, bound = _as_initialised()
    return Finding(
        tried=f"{settings.examples} random networks to 40 layers with ReLU, tanh and without phi, "
        f"{len(BASES)} bases; linear ones to L = 10,000",
        measure=MEASURE,
        worst=max(worst, *level),
        bound=ROUNDING,
        statement="exp(-2 r) <= |dL/du_l0| / |dL/du_L| <= exp(r), r = sqrt(K)/L sum_l |W2_l| "
        "|W1_l| for every phi with slopes within [-1, 1] (|W2_l W1_l| without phi), the lower half "
        f"where sqrt(K) |W2_l| |W1_l| / L <= {inequality_ends():.4f} in every layer",
        notes=(
            f"with the paper's exponent, without sqrt(K), {broken} of the random networks break "
            f"the bounds; so does one layer of K = 2, W2 W1 = 0.3 (1, 1)/sqrt(2): "
            f"{PAIR.gradients().high:.4f} > exp(0.3) = {math.exp(0.3):.4f}",
            "a network of 1,000 layers as initialised, K = 8, d = 16, ReLU: factors "
            f"{start.low:.2f} to {start.high:.2f}; the bounds, with r = {bound:.1f}, are generous",
        ),
        panels=(_level_panel(found),),
    )


def _as_initialised() -> tuple[Extremes, float]:
    """The factors of a network of the experiment's size, and its r."""
    torch.manual_seed(0)
    net = FourierMLP(128, None, 1_000, **FOURIER["mlp"], dtype=torch.float64)  # type: ignore[arg-type]
    case = DepthCase(net, torch.randn(128, dtype=torch.float64))
    return case.gradients(), math.sqrt(net.num_freqs) * sum(case.sigmas) / net.depth


def _level_panel(found: dict[str, list[Extremes]]) -> Panel:
    curves = {}
    for name, ends in found.items():
        curves[f"layers {name}, largest"] = [e.high for e in ends]
        curves[f"layers {name}, smallest"] = [e.low for e in ends]
    limits = {"upper bound": math.exp(SIGMA), "lower bound": math.exp(-2 * SIGMA)}
    title = "Linear networks with r = 2: the gradient is level in L"
    return panel(title, "layers L", "gradient factor", DEEP, curves, limits)


# Networks without 1/L ------------------------------------------------------------------------


def diagonal_stack(update: str, gain: float, depth: int) -> Stack:
    """W1 = I and W2 = gain I: on a positive state ReLU does nothing."""
    net = Stack(update, 2, 2, depth, 2).double()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            eye = torch.eye(2, dtype=torch.float64) * (gain if name == "weight_2" else 1.0)
            parameter.copy_(eye if name.startswith("weight") else torch.zeros(()))
    return net


def log_factor(update: str, gain: float, depth: int) -> float:
    """log of the factor of :func:`diagonal_stack`: log |gain|, or log |1 + gain|, a layer."""
    x = torch.ones(2, dtype=torch.float64)
    return math.log(largest(state_jacobian(diagonal_stack(update, gain, depth), x)))


def random_stack(generator: torch.Generator, index: int) -> tuple[Stack, Tensor]:
    """A plain or a residual network of up to 12 layers with random weights, and its input."""
    depth, width = (int(torch.randint(1, n, (), generator=generator)) for n in (13, 5))
    net = Stack(("plain", "residual")[index % 2], width, width, depth, width).double()
    with torch.no_grad():
        for parameter in net.parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(values / math.sqrt(width))
    return net, torch.randn(width, generator=generator, dtype=torch.float64)


def stack_excess(net: Stack, x: Tensor) -> float:
    """By how much, as a relative amount, the factors leave prod s_l, or prod (1 -+ s_l)."""
    found = extremes(state_jacobian(net, x))
    sigmas = [largest(w2) * largest(w1) for w2, w1 in zip(net.weight_2, net.weight_1, strict=True)]
    residual = net.update == "residual"
    high = math.prod(1 + s if residual else s for s in sigmas)
    low = math.prod(max(0.0, 1 - s) for s in sigmas) if residual else 0.0
    return max(found.high - high, low - found.low) / high


def measure_plain(settings: Settings) -> Finding:
    logs = {
        (update, gain): [log_factor(update, gain, depth) for depth in DEPTHS]
        for update, gains in GAINS.items()
        for gain in gains
    }
    off = max(
        abs(log / depth - math.log(abs(gain + (update == "residual"))))
        for (update, gain), found in logs.items()
        for depth, log in zip(DEPTHS, found, strict=True)
    )
    worst = max(stack_excess(*case) for case in settings.random_units(random_stack))
    factors = initialised(settings)
    shown = ", ".join(f"{kind} 10^{values[-1]:.3g}" for kind, values in factors.items())
    curves = {
        f"{update}, W2 = {gain:g} I": [log / math.log(10) for log in found]
        for (update, gain), found in logs.items()
    }
    title = "W1 = I: exponential in L"
    drawn = panel(
        title, "layers L", "log10 of the gradient factor", DEPTHS, curves, yscale="symlog"
    )
    return Finding(
        tried=f"{settings.examples} random networks to 12 layers; W1 = I and W2 = a I for "
        f"{len(logs)} a, to L = 1,000",
        measure="relative distance outside the bounds, and of the slopes from log |a|, log |1 + a|",
        worst=max(off, worst),
        bound=ROUNDING,
        notes=(
            f"exponential: over 1,000 layers W2 = 0.9 I leaves 10^"
            f"{logs['plain', 0.9][-1] / math.log(10):.0f} of a plain network's gradient, and "
            "W2 = 0.05 I makes 10^"
            f"{logs['residual', 0.05][-1] / math.log(10):.0f} of a residual one's",
            "networks of 1,000 layers as they are initialised, 128 numbers of state, ReLU: "
            f"{shown}",
        ),
        panels=(drawn, _drawn("Networks as they are initialised", factors)),
    )


def initialised(settings: Settings) -> dict[str, list[float]]:
    """By kind, for each depth: log10 of |dL/du_0| / |dL/du_L| of the experiment's networks."""
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for depth in DEPTHS:
            settings.tick(f"{kind}, L = {depth:,}")
            torch.manual_seed(settings.seed)
            net: FourierMLP | Stack
            if kind == "fourier":
                net = FourierMLP(128, None, depth, **FOURIER["mlp"])  # type: ignore[arg-type]
            else:
                net = Stack(kind, 128, 128, depth, GATES["mlp"])
            states = list(net.double().states(torch.randn(16, 128, dtype=torch.float64)))
            seed = torch.randn_like(states[-1])
            (gradient,) = torch.autograd.grad(states[-1], states[0], seed)
            found[kind].append(_log10_norm(gradient) - _log10_norm(seed))
    return found


def _log10_norm(values: Tensor) -> float:
    """Of values whose squares may be beyond float64."""
    top = values.abs().max()
    return float(top.log10() + (values / top).norm().log10())


def _drawn(title: str, curves: dict[str, list[float]]) -> Panel:
    axis = "log10 of the gradient factor"
    return panel(title, "layers L", axis, DEPTHS, curves, yscale="symlog")
