"""Naive forecasts: the start from which a model learns to do better."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

FORECASTS = ("none", "last", "line", "seasonal", "seasonal-line", "ridge", "best")


class NaiveForecast(nn.Module):
    """A forecast that is a fixed linear map of the last ``width`` inputs.

    For the inputs up to step t, with the first one repeated before the beginning::

        f(t) = x(t) + V [x(t - width + 1) - x(t), ..., x(t) - x(t)] + b

    and for each of ``horizon`` steps ahead, i = 1..horizon, by kind:

    - "last": x(t).
    - "line": the line through the last two inputs, x(t) + i (x(t) - x(t - 1)).
    - "seasonal": the input one season before, x(t + i - season), or the latest one that is known
      and whole seasons before.
    - "seasonal-line": the same, moved by the change of the last season, x(t) - x(t - season), once
      for each season ahead.
    - "ridge": V and b by ridge regression on the training set, solved in closed form; the penalty
      is the one with the least generalised cross-validation score.
    - "best": the one of all these that does best on held-back windows, set by
      :meth:`set_weights`.

    :meth:`fit` learns V and b, if there is anything to learn, and the units: the root mean square
    of the forecast's error on the training set, for each output, and apart for steps 1, 2, ...,
    ``width`` and later, since a forecast that knows one input errs more than one that knows a
    whole window. A model that predicts ``f(t) + unit(t) * head`` from a head that starts at zero
    starts as good as the naive forecast.

    Args:
        kind: "last", "line", "seasonal", "seasonal-line", "ridge" or "best".
        input_size: n, the features of a step.
        width: how many inputs "ridge" and "best" read. The other kinds know how many they need.
        season: the steps of a season, for the seasonal kinds.
        horizon: how many steps ahead.

    Shape:
        inputs (N, L, n); result (N, L + 1, horizon n): the forecasts before the first input and
        after each one, step by step and in each step feature by feature. The state, the last
        ``width`` inputs, is (N, width, n); without it the first input is repeated.

    >>> line = NaiveForecast("line", input_size=1, horizon=2)
    >>> line(torch.tensor([[[1.0], [3.0], [4.0]]]))[:, 1:]
    tensor([[[1., 1.],
             [5., 7.],
             [5., 6.]]])
    """

    weight: Tensor  # V, (horizon n, width n)
    bias: Tensor
    units: Tensor  # (width, horizon n)

    PENALTIES = torch.logspace(-14, 2, 33, dtype=torch.float64)  # relative to the mean variance

    def __init__(
        self, kind: str, input_size: int, *, width: int = 1, season: int = 1, horizon: int = 1
    ) -> None:
        super().__init__()
        if kind not in FORECASTS[1:]:
            raise ValueError(
                f"NaiveForecast: kind must be one of {', '.join(FORECASTS[1:])}; got {kind!r}"
            )
        for name, value in {"width": width, "season": season, "horizon": horizon}.items():
            if value < 1:
                raise ValueError(f"NaiveForecast: {name} must be greater than zero, got {value}")
        self.kind, self.input_size, self.season, self.horizon = kind, input_size, season, horizon
        needed = {"last": 1, "line": 2, "seasonal": season, "seasonal-line": season + 1}
        self.width = needed.get(kind, width)
        n_out = horizon * input_size
        self.register_buffer("weight", torch.zeros(n_out, self.width * input_size))
        self.register_buffer("bias", torch.zeros(n_out))
        self.register_buffer("units", torch.ones(self.width, n_out))
        if kind == "line":
            self._copy_from([-(i + 1.0) for i in range(horizon)], [0] * horizon)
        elif kind == "seasonal":
            self._copy_from([1.0] * horizon, [i % season for i in range(horizon)])
        elif kind == "seasonal-line":
            self._copy_from([1.0] * horizon, [i % season + 1 for i in range(horizon)])
            self._copy_from([-(i // season + 1.0) for i in range(horizon)], [0] * horizon)

    def _copy_from(self, factors: Sequence[float], places: Sequence[int]) -> None:
        """Let output i add ``factors[i]`` times the difference at place ``places[i]``."""
        weight = self.weight.unflatten(0, (self.horizon, -1))  # (H, n, width n)
        for i, (factor, place) in enumerate(zip(factors, places, strict=True)):
            columns = slice(place * self.input_size, (place + 1) * self.input_size)
            weight[i, :, columns] += factor * torch.eye(self.input_size)

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:
        """Forecasts before the inputs x (N, L, n) and after each: (N, L + 1, horizon n)."""
        features, present = self._differences(x, before)
        change = features @ self.weight.mT + self.bias
        return change + present.repeat(1, 1, self.horizon)

    def after(self, x: Tensor, t: Tensor) -> Tensor:
        """Forecasts (N, horizon n) after the first t (N,) of the inputs x (N, L, n)."""
        steps = t.unsqueeze(-1) + torch.arange(-self.width, 0, device=t.device)  # (N, width)
        place = steps.clamp(min=0).unsqueeze(-1).expand(-1, -1, x.shape[-1])
        window = x.gather(1, place)
        present = window[:, -1]
        change = (window - present.unsqueeze(1)).flatten(1) @ self.weight.mT + self.bias
        return change + present.repeat(1, self.horizon)

    def _differences(self, x: Tensor, before: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The window's inputs less the present one, (N, L + 1, width n), and that one."""
        before = x[:, :1].expand(-1, self.width, -1) if before is None else before
        longer = torch.cat([before, x], 1)  # (N, width + L, n)
        windows = longer.unfold(1, self.width, 1).transpose(2, 3)  # (N, L + 1, width, n)
        present = windows[:, :, -1]
        return (windows - present.unsqueeze(2)).flatten(2), present

    @torch.no_grad()
    def fit(self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None) -> None:
        """Learn from sequences (N, L, n) and their targets.

        Targets are (N, L, horizon n), one for each step, or (N, horizon n), for the last step.
        """
        x, y = inputs.double(), targets.double()
        features, present = (part[:, 1:] for part in self._differences(x))
        counted = _counted(x, y, lengths)  # (N, L)
        if not bool(counted.any()):
            raise ValueError("NaiveForecast: there is no step to learn from")
        y = y if y.dim() == 3 else y.unsqueeze(1).expand(-1, x.shape[1], -1)
        wanted = y - present.repeat(1, 1, self.horizon)  # (N, L, horizon n)
        if self.kind == "ridge":
            whole = counted.clone()
            whole[:, : self.width - 1] = False  # a repeated input would count as a flat beginning
            whole = whole if bool(whole.any()) else counted
            weight, bias = ridge(features[whole], wanted[whole], self.PENALTIES)
            self.weight.copy_(weight)
            self.bias.copy_(bias)
        error = wanted - features @ self.weight.double().mT - self.bias
        self.units.copy_(self._units(error, counted))

    def _units(self, error: Tensor, counted: Tensor) -> Tensor:
        """(width, horizon n): 1 where nothing was counted, or where there was no error."""
        known = torch.arange(error.shape[1], device=error.device).clamp(max=self.width - 1)  # (L,)
        units = torch.ones_like(self.units, dtype=error.dtype)
        for i in known.unique().tolist():
            part = error[counted & (known == i)]  # (S, horizon n)
            if len(part):
                unit = part.square().mean(0).sqrt()
                units[i] = torch.where(unit > 0, unit, 1.0)
        return units

    @torch.no_grad()
    def set_weights(self, weight: Tensor, bias: Tensor, error: Tensor | None = None) -> None:
        """Let this be the forecast with weight' (P, Q) of all differences, and bias (Q,).

        ``error`` (Q,) is its mean squared error on the training set; None keeps the units.
        """
        self.weight.copy_(weight.mT)
        self.bias.copy_(bias)
        if error is not None:
            unit = error.sqrt()
            self.units.copy_(torch.where(unit > 0, unit, 1.0).expand_as(self.units))

    def unit(self, t: Tensor) -> Tensor:
        """The unit (..., horizon n) of forecasts after t (...) inputs."""
        return self.units[t.clamp(1, self.width) - 1]

    def extra_repr(self) -> str:
        return f"{self.kind!r}, width={self.width}, horizon={self.horizon}"


def ridge(x: Tensor, y: Tensor, penalties: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (outputs, features) and bias of a ridge regression of y (S, outputs) on x.

    The penalty is relative to the mean variance of a feature. Of those given the one is taken
    whose generalised cross-validation score, RSS / (S - degrees of freedom)^2, is the least.
    """
    mean_x, mean_y = x.mean(0), y.mean(0)
    x, y = x - mean_x, y - mean_y
    size = len(x)
    values, vectors = torch.linalg.eigh(x.mT @ x)  # (P,), (P, P)
    values = values.clamp(min=0)
    scale = values.mean().clamp(min=torch.finfo(x.dtype).tiny)
    products = vectors.mT @ (x.mT @ y)  # (P, outputs)
    scores, solutions = [], []
    for penalty in penalties.tolist():
        shrunk = values + penalty * scale
        weight = vectors @ (products / shrunk.unsqueeze(-1))  # (P, outputs)
        freedom = float((values / shrunk).sum()) + 1
        residual = float((y - x @ weight).square().sum())
        scores.append(residual / max(size - freedom, 1e-9) ** 2)
        solutions.append(weight)
    weight = solutions[min(range(len(scores)), key=scores.__getitem__)]
    return weight.mT, mean_y - mean_x @ weight


def _counted(x: Tensor, y: Tensor, lengths: Tensor | None) -> Tensor:
    """Which steps (N, L) have a target."""
    steps = torch.arange(x.shape[1], device=x.device)
    ends = torch.full((len(x),), x.shape[1], device=x.device) if lengths is None else lengths
    if y.dim() == 3:
        return steps < ends.unsqueeze(-1)
    return steps == ends.unsqueeze(-1) - 1
