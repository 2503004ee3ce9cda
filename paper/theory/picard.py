"""All steps at once: because a step is I + O(1/T), fixed-point rounds should not grow with T.

    u_0(t) = u(0),     u_{r+1}(t) = u(0) + sum_{s<=t} C(s) h(u_r(s-1), x(s))     for all t at once

One round is matrix products and one cumulative sum: no loop over time. It is Picard's
iteration for an integral equation, and after r rounds

    |u_r - u|  <=  R^r / r!  max |u_1 - u_0| e^R,     R = sqrt(M) sigma_max(W2) sigma_max(W1)

which does not know T. It also says where it fails: rounds grow with R, that is with the
weights, and a solution that itself grows like e^R is out of reach of any fixed number of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchfru.nn import FRU
from torchfru.ops.reference import spread

from .finding import Finding, Settings, panel
from .linear import hidden, memories, step_bound

LENGTHS = (100, 1_000, 10_000, 100_000)
GAINS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
GAIN_LENGTH = 1_000
TARGET = 1e-6
LIMIT = 200  # rounds after which it counts as failed


def fresh_layer(length: int, gain: float = 1.0, seed: int = 0) -> FRU:
    """K = 10, d = 10, n_g = 20 at its initialisation, W1 and W2 multiplied by ``gain``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = FRU(1, 1, seq_len=length, num_freqs=10, gate_size=20, dtype=torch.float64)
    with torch.no_grad():
        layer.get_parameter("weight_ug_l0").mul_(gain)
        layer.get_parameter("weight_gh_l0").mul_(gain)
    return layer


def load_layer(path: Path, length: int) -> FRU:
    """The first layer of the FRU whose weights the file holds, at T = ``length``."""
    stored = _read_weights(path)
    ends = [name for name in stored if name.endswith("weight_ug_l0")]
    if not ends:
        raise ValueError(f"{path}: holds no weight_ug_l0, so no weights of an FRU layer")
    prefix = ends[0].removesuffix("weight_ug_l0")
    own = {name.removeprefix(prefix): v for name, v in stored.items() if name.startswith(prefix)}
    if "phase_l0" not in own or "freqs" not in own:
        raise ValueError(f"{path}: holds no phase_l0 and freqs; only the Fourier basis is read")
    (n_g, n_u), n_h, count = own["weight_ug_l0"].shape, len(own["weight_gh_l0"]), len(own["freqs"])
    sizes: dict[str, Any] = {"num_freqs": count, "freq_dim": n_u // count, "gate_size": n_g}
    layer = FRU(own["weight_xh_l0"].shape[1], len(own["weight_uy_l0"]), bias="bias_g_l0" in own,
                seq_len=length, freqs=own["freqs"].tolist(), freqs_per_block=n_h * count // n_u,
                dtype=torch.float64, **sizes)  # fmt: skip
    layer.load_state_dict({name: own[name] for name, _ in layer.named_parameters()}, strict=False)
    return layer


def _read_weights(path: Path) -> dict[str, Tensor]:
    """A ``state_dict``, or the checkpoint of a training run; neither can run code."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    stored = torch.load(path, map_location="cpu", weights_only=True)
    return stored.get("state_dict", stored)


def one_round(layer: FRU, rows: Tensor, x: Tensor, u: Tensor) -> Tensor:
    """u_{r+1}(0..L) from u_r(0..L), both (L+1, n_u)."""
    terms = spread(rows, hidden(layer, u[:-1], x), layer.state_size)  # (L, n_u)
    return torch.cat([u[:1], u[:1] + terms.cumsum(0)])


@dataclass(frozen=True)
class Rounds:
    """How many rounds it took (inf: more than LIMIT), and the largest iterate on the way."""

    count: float
    reach: float  # the largest |u_r| over the largest |u|


def rounds(layer: FRU, generator: torch.Generator) -> Rounds:
    """Rounds until every u(t) is within 1e-6 of the layer's, relative to the largest |u|."""
    length = layer.seq_len
    x = torch.randn(length, layer.input_size, generator=generator, dtype=torch.float64)
    peak = 0.0
    with torch.no_grad():
        start = torch.zeros(1, layer.state_size, dtype=torch.float64)
        goal = memories(layer, x.unsqueeze(1), start)[:, 0]  # (L+1, n_u)
        size = float(goal.abs().max())
        rows = layer.basis_matrix() / length
        u = goal[:1].expand_as(goal)
        for count in range(1, LIMIT + 1):
            u = one_round(layer, rows, x, u)
            peak = max(peak, float(u.abs().max()) / size)
            if float((u - goal).abs().max()) <= TARGET * size:
                return Rounds(count, peak)
    return Rounds(math.inf, peak)


def rounds_bound(layer: FRU) -> int:
    """The r at which R^r / r! e^R falls below 1e-6: what the estimate promises at any T."""
    r, log_term, big = 0, 0.0, step_bound(layer)
    while log_term + big > math.log(TARGET):
        r += 1
        log_term += math.log(big) - math.log(r)
    return r


def measure(settings: Settings) -> Finding:
    generator = settings.generator

    def over_time(name: str, layers: Iterable[FRU]) -> list[float]:
        settings.tick(f"{name}, T = {_list(LENGTHS)}")
        return [rounds(layer, generator).count for layer in layers]

    def fresh_layers(gain: float) -> Iterable[FRU]:
        return (fresh_layer(length, gain, settings.seed) for length in LENGTHS)

    names = {"at initialisation": 1.0, "weights x 4": 4.0}
    counts = {name: over_time(name, fresh_layers(gain)) for name, gain in names.items()}
    fresh, larger = counts.values()
    sizes, scaled = [], []
    for gain in GAINS:
        settings.tick(f"weights x {gain:g}")
        layer = fresh_layer(GAIN_LENGTH, gain, settings.seed)
        sizes.append(step_bound(layer))
        scaled.append(rounds(layer, generator))
    trained = "no weights file was given: trained weights are not measured"
    if settings.weights is not None:
        layers = [load_layer(settings.weights, length) for length in LENGTHS]
        counts["trained weights"] = found = over_time("trained weights", layers)
        trained = f"trained weights, R = {step_bound(layers[0]):.1f}: {_list(found)} rounds"
    bound = rounds_bound(fresh_layer(LENGTHS[0], seed=settings.seed))
    by_gain = [r.count for r in scaled]
    title, xlabel = "Rounds to 1e-6 against", "R = sqrt(M) sigma(W2) sigma(W1)"
    by_weights, given_up = {"weights scaled up": by_gain}, {"given up": float(LIMIT)}
    return Finding(
        sound=max(fresh) - min(fresh) <= 1 and max(fresh) <= bound,
        tried=f"K = 10, d = 10, n_g = 20, ReLU, float64: T = {_list(LENGTHS)}; weights x "
        f"{_list(GAINS)} at T = {GAIN_LENGTH:,}",
        measure="rounds to 1e-6 at initialisation, the most over T",
        worst=max(fresh),
        bound=bound,
        statement=f"rounds do not grow with T ({_list(fresh)}; weights x 4: {_list(larger)}); they "
        f"grow with the weights: {_list(by_gain)} rounds at R = {_list([round(s) for s in sizes])}"
        f" (none: not within {LIMIT})",
        notes=(
            "the largest iterate over the solution, in that order: "
            f"{_list([float(f'{r.reach:.1e}') for r in scaled])}",
            trained,
        ),
        panels=(
            panel(f"{title} T", "T", "rounds", LENGTHS, counts, yscale="linear"),
            panel(
                f"{title} the weights, T = {GAIN_LENGTH:,}",
                xlabel,
                "rounds",
                sizes,
                by_weights,
                given_up,
            ),
        ),
    )


def _list(values: Sequence[float]) -> str:
    return ", ".join("none" if math.isinf(v) else f"{v:,g}" for v in values)
