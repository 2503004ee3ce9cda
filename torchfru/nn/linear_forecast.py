"""Linear forecasts, naive ones and ridge regressions, weighted by errors on held-back data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from .forecast import NaiveForecast

PENALTIES = (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # relative to the mean variance
POWERS = (4.0, 8.0, 16.0, 32.0)  # of a mixture's weights, at least: with less, poor ones count
LIGHT = 1e-3  # the weight, relative to the largest, below which a forecast is left out
FEW_WINDOWS = 5000  # with more, a regression for each step needs no help from a naive forecast
MOST_FEATURES = 1024  # of a regression: its cost grows with their cube


@dataclass(frozen=True)
class Choice:
    """A linear forecast: a naive one, and a ridge regression on what that leaves over.

    Attributes:
        base: a kind of :class:`NaiveForecast`, to which the regression shrinks.
        season: of the base.
        width: how many inputs the regression reads; 0 for the base alone.
        penalty: of the regression, relative to the mean variance of a feature.
        iterated: whether it forecasts one step, again and again, or each step by itself.
        bias: whether it has a constant.
    """

    base: str
    season: int = 1
    width: int = 0
    penalty: float = math.inf
    iterated: bool = False
    bias: bool = False

    def __str__(self) -> str:
        names = {
            "last": "the last value",
            "line": "the line through the last two values",
            "seasonal": f"the value one season ({self.season} steps) before",
            "seasonal-line": f"the season ({self.season} steps) before, moved by its change",
        }
        if not self.width:
            return names[self.base]
        how = "step by step" if self.iterated else "for each step ahead"
        return (
            f"a ridge regression on {self.width} values {how}, towards {names[self.base]} "
            f"(penalty {self.penalty:g})"
        )


@dataclass(frozen=True)
class Moments:
    """Sums over windows, from which every linear forecast is fitted and judged.

    A window of width inputs has the features d, its inputs less the last one (P = width n), and
    the targets z, the next horizon inputs less the last one (Q = horizon n).
    """

    count: int
    d: Tensor  # sum of d, (P,)
    z: Tensor  # sum of z, (Q,)
    dd: Tensor  # sum of d d', (P, P)
    dz: Tensor  # sum of d z', (P, Q)
    zz: Tensor  # sum of z^2, (Q,)

    @classmethod
    def of(cls, blocks: Iterable[tuple[Tensor, Tensor]]) -> Moments:
        """Add up blocks of inputs (N, width, n) and targets (N, horizon n), in float64."""
        total: Moments | None = None
        for inputs, targets in blocks:
            x = inputs.double()
            present = x[:, -1]
            d = (x - present.unsqueeze(1)).flatten(1)
            z = targets.double() - present.repeat(1, targets.shape[1] // x.shape[2])
            part = cls(len(d), d.sum(0), z.sum(0), d.mT @ d, d.mT @ z, z.square().sum(0))
            total = part if total is None else total + part
        if total is None or not total.count:
            raise ValueError("a linear forecast needs at least one window to learn from")
        return total

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.count + other.count,
            self.d + other.d,
            self.z + other.z,
            self.dd + other.dd,
            self.dz + other.dz,
            self.zz + other.zz,
        )

    def error(self, weight: Tensor, bias: Tensor) -> Tensor:
        """The mean squared error (Q,) of the forecast weight' d + bias, weight (P, Q)."""
        fitted = (weight * (self.dd @ weight)).sum(0) + self.count * bias.square()
        fitted = fitted + 2 * bias * (self.d @ weight)
        crossed = (weight * self.dz).sum(0) + bias * self.z
        return ((self.zz - 2 * crossed + fitted) / self.count).clamp(min=0)

    def total(self, weight: Tensor, bias: Tensor) -> float:
        """The sum of the squared errors; infinite if one is not finite."""
        total = float(self.count * self.error(weight, bias).sum())
        return total if math.isfinite(total) else math.inf

    def ridge(
        self, base: Tensor, features: int, penalties: Sequence[float], bias: bool
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """For each penalty, weight (P, Q) and bias of base plus a regression on its error.

        The regression reads the last ``features`` features, those of the latest inputs.
        """
        part = slice(len(self.d) - features, None)
        dd, dz = self.dd[part, part], (self.dz - self.dd @ base)[part]
        mean_d, mean_z = self.d / self.count, self.z / self.count
        if bias:
            left = mean_z - mean_d @ base
            dd = dd - self.count * torch.outer(mean_d[part], mean_d[part])
            dz = dz - self.count * torch.outer(mean_d[part], left)
        values, vectors = torch.linalg.eigh(dd)
        values = values.clamp(min=0)
        scale = values.mean().clamp(min=torch.finfo(values.dtype).tiny)
        products = vectors.mT @ dz
        for penalty in penalties:
            weight = base.clone()
            weight[part] += vectors @ (products / (values + penalty * scale).unsqueeze(-1))
            yield weight, (mean_z - mean_d @ weight if bias else torch.zeros_like(self.z))


@dataclass(frozen=True)
class Mixture:
    """A weighted mean of linear forecasts, which is a linear forecast as well.

    The weight of a forecast with the mean squared error e on held-back windows is proportional to
    e^(-n / 2), its likelihood, if n of their targets are independent of each other, or to a higher
    power where that does better.
    """

    choices: tuple[Choice, ...]  # the heaviest first
    weights: tuple[float, ...]

    def fit(self, moments: Moments, horizon: int) -> tuple[Tensor, Tensor]:
        """Weight (P, Q) and bias (Q,), learned from these windows."""
        weight, bias = torch.zeros_like(moments.dz), torch.zeros_like(moments.z)
        alike: dict[Choice, dict[float, float]] = {}  # shares by penalty: one decomposition for all
        for choice, share in zip(self.choices, self.weights, strict=True):
            alike.setdefault(replace(choice, penalty=math.inf), {})[choice.penalty] = share
        for choice, shares in alike.items():
            fits = _fits(choice, moments, horizon, tuple(shares))
            for (one, constant), share in zip(fits, shares.values(), strict=True):
                weight, bias = weight + share * one, bias + share * constant
        return weight, bias

    def __str__(self) -> str:
        if len(self.choices) == 1:
            return str(self.choices[0])
        return (
            f"a mean of {len(self.choices)} linear forecasts, {100 * self.weights[0]:.0f} % of it "
            f"{self.choices[0]}"
        )


def mix_forecasts(
    folds: Sequence[tuple[Moments, Moments]],
    horizon: int,
    width: int,
    seasons: Sequence[int],
    independent: float,
) -> Mixture:
    """The mixture by the errors on the second parts of the folds, learned from the first parts.

    ``independent`` is how many of the windows to judge by have no target in common.

    On little data to judge by, a mean of many forecasts does better than the one with the least
    error, which is often so by chance; on much data it comes to that one. Where a mixture is not
    better than the best of :func:`plain_forecasts` by more than chance, it is that one.
    """
    errors: dict[Choice, list[float]] = {}  # the sum of squares in each fold
    for choice in _candidates(folds[0][0], horizon, width, seasons):
        penalties = PENALTIES if choice.width else (math.inf,)
        named = [replace(choice, penalty=penalty) for penalty in penalties]
        for learned, judged in folds:
            for one, fitted in zip(named, _fits(choice, learned, horizon, penalties), strict=True):
                errors.setdefault(one, []).append(judged.total(*fitted))
    mixture = _weigh(errors, _best_power(folds, errors, horizon, independent))
    plain = _plainest(errors, width, seasons)
    total = sum(judged.total(*mixture.fit(learned, horizon)) for learned, judged in folds)
    worth = total < (1 - chance(independent)) * sum(errors[plain])
    return mixture if worth else Mixture((plain,), (1.0,))


def chance(independent: float) -> float:
    """The share by which the least of many errors may be lower by chance.

    It is the larger, the fewer independent targets there are.
    """
    return 1 / (1 + independent)


def plain_forecasts(width: int, seasons: Sequence[int]) -> dict[str, list[Choice]]:
    """The forecasts that any other has to beat; the ridge regression has several penalties."""
    ridge = Choice("last", width=width, bias=True)
    return {
        "last value": [Choice("last")],
        "season before": [Choice("seasonal", season) for season in seasons if 1 < season <= width],
        "ridge": [replace(ridge, penalty=penalty) for penalty in PENALTIES],
    }


def best_of(
    choices: Sequence[Choice], folds: Sequence[tuple[Moments, Moments]], horizon: int
) -> Mixture:
    """The one of several forecasts with the least error on the second parts of the folds."""
    mixtures = [Mixture((choice,), (1.0,)) for choice in choices]
    return min(mixtures, key=lambda one: sum(b.total(*one.fit(a, horizon)) for a, b in folds))


def _plainest(errors: dict[Choice, list[float]], width: int, seasons: Sequence[int]) -> Choice:
    plain = [one for named in plain_forecasts(width, seasons).values() for one in named]
    return min((one for one in plain if one in errors), key=lambda one: sum(errors[one]))


def _best_power(
    folds: Sequence[tuple[Moments, Moments]],
    errors: dict[Choice, list[float]],
    horizon: int,
    independent: float,
) -> float:
    """The power of the weights that does best in each fold with weights from the others."""
    powers = sorted({max(independent / 2, power) for power in POWERS})
    if len(powers) == 1 or len(folds) == 1:
        return powers[0]

    def total(power: float) -> float:
        found = 0.0
        for i, (learned, judged) in enumerate(folds):
            others = {one: [*each[:i], *each[i + 1 :]] for one, each in errors.items()}
            found += judged.total(*_weigh(others, power).fit(learned, horizon))
        return found

    return min(powers, key=total)


def _weigh(errors: dict[Choice, list[float]], power: float) -> Mixture:
    """Weights by the summed squared errors; very light ones are left out."""
    sums = {choice: sum(each) for choice, each in errors.items()}
    finite = {choice: total for choice, total in sums.items() if math.isfinite(total)}
    least = max(min(finite.values()), 1e-300)
    shares = {choice: (max(total, least) / least) ** -power for choice, total in finite.items()}
    heavy = sorted((c for c in shares if shares[c] > LIGHT), key=lambda c: -shares[c])
    total = sum(shares[choice] for choice in heavy)
    return Mixture(tuple(heavy), tuple(shares[choice] / total for choice in heavy))


def _candidates(
    moments: Moments, horizon: int, width: int, seasons: Sequence[int]
) -> Iterator[Choice]:
    """Naive forecasts, and regressions towards them."""
    n = len(moments.z) // horizon
    bases = [Choice("last")]
    for season in seasons:
        bases += [Choice("seasonal", season)] if 1 < season <= width else []
        bases += [Choice("seasonal-line", season)] if 1 < season < width else []
    yield from bases
    if width > 1:
        yield Choice("line")
    few = moments.count < FEW_WINDOWS
    ways = (False, True) if few and horizon > 1 else (False,)
    towards = bases if few else bases[:1]
    for size in sorted({width, max(2, width // 2), *(season + 1 for season in seasons)}):
        if 1 < size <= width and size * n <= MOST_FEATURES:
            for base, bias, iterated in product(towards, (False, True), ways):
                yield replace(base, width=size, bias=bias, iterated=iterated)


def _fits(
    choice: Choice, moments: Moments, horizon: int, penalties: Sequence[float]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Weight and bias for each penalty."""
    n = len(moments.z) // horizon
    ahead = 1 if choice.iterated else horizon
    base = base_weight(choice, n, len(moments.d), ahead)
    if not choice.width:
        yield base, torch.zeros_like(moments.z)
        return
    now = moments if ahead == horizon else _one_step(moments, n)
    for weight, bias in now.ridge(base, choice.width * n, penalties, choice.bias):
        yield iterate(weight, bias, horizon) if choice.iterated else (weight, bias)


def _one_step(moments: Moments, n: int) -> Moments:
    """The same windows with the first step ahead as their only target."""
    return replace(moments, z=moments.z[:n], dz=moments.dz[:, :n], zz=moments.zz[:n])


def base_weight(choice: Choice, n: int, features: int, horizon: int) -> Tensor:
    """The base as weights (P, horizon n) of the differences d."""
    naive = NaiveForecast(choice.base, n, season=choice.season, horizon=horizon)
    weight = torch.zeros(features, horizon * n, dtype=torch.float64)
    weight[features - naive.width * n :] = naive.weight.mT
    return weight


def iterate(weight: Tensor, bias: Tensor, horizon: int) -> tuple[Tensor, Tensor]:
    """A forecast of one step, weight (P, n) and bias (n,), applied horizon times to itself.

    The result is linear as well: its weights are the forecasts of P unit windows.
    """
    features, n = weight.shape
    unit = torch.eye(features, dtype=weight.dtype)
    unit[features - n :] = 0  # the last input less itself
    windows = torch.cat([unit, torch.zeros(1, features, dtype=weight.dtype)])  # (P + 1, P)
    summed = weight.unflatten(0, (-1, n)).sum(0)  # (n, n): of the last input in all differences
    steps = []
    for _ in range(horizon):
        last = windows[:, features - n :]
        step = last + windows @ weight - last @ summed + bias
        steps.append(step)
        windows = torch.cat([windows[:, n:], step], 1)
    forecasts = torch.cat(steps, 1)  # (P + 1, horizon n)
    return forecasts[:-1] - forecasts[-1], forecasts[-1]
