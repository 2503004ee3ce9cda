"""Forecasts of series: the linear one that training starts from, and how far forecasts go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import SequenceData, Split
from ..data.windows import Windows, find_season
from ..nn import AnyModel, NaiveForecast, spread_of
from ..nn.linear_forecast import Mixture, Moments, chance, mix_forecasts

BATCH = 256
LEVELS = np.linspace(0.0, 1.0, 41)  # of the errors' sizes, kept for intervals
LEAST_GAIN = 0.01
ROLLING = 50  # independent windows, below which errors are those of linear forecasts of the past
FEW = 30  # windows that count as much as those of all other series for the errors of one


def start_forecast(model: AnyModel, data: SequenceData, split: Split) -> dict[str, Any]:
    """Fit a model's naive forecast, if it has one, to a part; gives the entries of the record."""
    if model.naive is None:
        return {}
    if model.naive.kind != "best":
        model.naive.fit(split.inputs, split.targets, split.lengths)
        return {}
    if not isinstance(split, Windows) or not isinstance(data.train, Windows):
        raise ValueError(
            f"model.naive=best is for windows over series, and {data.name} has none; choose last, "
            "line, seasonal or ridge"
        )
    mixture = mixture_of(data.train, model.naive.season)
    moments = Moments.of(split.blocks())
    weight, bias = mixture.fit(moments, split.sizes[1])
    model.naive.set_weights(weight, bias, moments.error(weight, bias))
    found: dict[str, Any] = {"naive": str(mixture)}
    if data.train.independent < ROLLING:
        found["errors"] = _rolling_errors(mixture, data.train)
    return found


def least_gain(held: Split) -> float:
    """The share by which training has to lower the error on a part to be worth it."""
    independent = held.independent if isinstance(held, Windows) else float(len(held))
    return max(LEAST_GAIN, chance(independent))


def mixture_of(windows: Windows, season: int) -> Mixture:
    """The mixture of linear forecasts by the last parts of these windows.

    A season of 1 is to look for one in their series.
    """
    width, horizon, _ = windows.sizes
    found = season if season > 1 else find_season(windows.series(), width)
    seasons = [found] if found > 1 else []
    independent = sum(judged.independent for _, judged in windows.folds())
    return mix_forecasts(moments_of(windows), horizon, width, seasons, independent)


def moments_of(windows: Windows) -> list[tuple[Moments, Moments]]:
    """The moments of the folds of windows."""
    return [(Moments.of(a.blocks()), Moments.of(b.blocks())) for a, b in windows.folds()]


# Intervals ----------------------------------------------------------------------------------


def measure_forecasts(
    model: AnyModel, data: SequenceData, parts: Mapping[str, Split]
) -> dict[str, Any]:
    """The sizes of errors on the validation part.

    The errors of short series are those of :func:`start_forecast`, which are more.
    """
    found: dict[str, Any] = {}
    held, train = parts.get("validation"), data.train
    if isinstance(held, Windows) and isinstance(train, Windows) and train.independent >= ROLLING:
        found["errors"] = error_sizes(held, lambda inputs: forecast(model, inputs))
    return found


def error_sizes(windows: Windows, forecast: Callable[[Tensor], Tensor]) -> dict[str, list[float]]:
    """How large the errors of forecasts are: by step ahead, by series, and in general.

    The error of a forecast is taken in units of its window's spread, so that quiet times have
    narrow intervals. Its size is ``steps`` (horizon n), the root mean square at that step ahead,
    times ``series``, that of the series relative to all; and ``quantiles`` are those of errors in
    this unit, at :data:`LEVELS`.
    """
    blocks = (windows[first : first + BATCH] for first in range(0, len(windows), BATCH))
    errors = [_in_spreads(part, forecast(part.inputs), windows) for part in blocks]
    return _sizes(torch.cat(errors), windows.numbers(), len(windows.spans), windows.sizes[1])


def _rolling_errors(mixture: Mixture, windows: Windows) -> dict[str, list[float]]:
    """The errors of linear forecasts over the second half, each learned from what is before."""
    errors, numbers, horizon = [], [], windows.sizes[1]
    pairs = windows.folds(max(1, round(windows.independent / len(windows.spans) / 2)), 0.0)
    for learned, judged in pairs:
        naive = NaiveForecast("best", judged.sizes[2], width=judged.sizes[0], horizon=horizon)
        naive.set_weights(*mixture.fit(Moments.of(learned.blocks()), horizon))
        part = judged[:]
        ends = torch.full((len(judged),), judged.sizes[0])
        known = part.inputs[..., : judged.sizes[2]]
        errors.append(_in_spreads(part, naive.after(known, ends), judged))
        numbers.append(judged.numbers())
    return _sizes(torch.cat(errors), torch.cat(numbers), len(windows.spans), horizon)


def _in_spreads(part: Split, found: Tensor, windows: Windows) -> Tensor:
    return (part.targets - found) / spread(part.inputs, windows.sizes[2], windows.sizes[1])


def _sizes(error: Tensor, numbers: Tensor, count: int, horizon: int) -> dict[str, list[float]]:
    """By errors (N, horizon n) in spreads, and the number of each one's series."""
    error = error.double()
    steps = _smooth(error.square().mean(0).unflatten(0, (horizon, -1))).flatten().sqrt()
    steps = steps.clamp(min=1e-12)
    squares = (error / steps).square().mean(1)  # (N,)
    total = torch.zeros(count, dtype=torch.float64).index_add_(0, numbers, squares)
    series = ((total + FEW) / (torch.bincount(numbers, minlength=count) + FEW)).sqrt()
    sizes = (error / (steps * series[numbers].unsqueeze(-1))).abs().flatten().numpy()
    return {
        "steps": steps.tolist(),
        "series": series.tolist(),
        "quantiles": [0.0, *np.quantile(sizes, LEVELS[1:]).tolist()],
    }


def _smooth(values: Tensor) -> Tensor:
    """Means over neighbouring steps of values (horizon, n), of an eighth to each side."""
    reach = len(values) // 8
    shares = [values[max(0, i - reach) : i + reach + 1].mean(0) for i in range(len(values))]
    return torch.stack(shares)


def spread(inputs: Tensor, n: int, horizon: int) -> Tensor:
    """The deviation within windows (N, L, n_in) for each output, (N, horizon n)."""
    known = inputs[..., :n]
    return spread_of(known - known.mean(1, keepdim=True)).repeat(1, horizon)


def quantile_offsets(errors: Mapping[str, Sequence[float]], spread: Tensor, level: float) -> Tensor:
    """The distance (S, horizon n) from the forecast to a quantile, for a window of each series."""
    size = float(np.interp(abs(2 * level - 1), LEVELS, errors["quantiles"]))
    unit = torch.tensor(errors["steps"]) * torch.tensor(errors["series"]).unsqueeze(-1)
    return (size if level > 0.5 else -size) * unit * spread


@torch.no_grad()
def forecast(model: AnyModel, inputs: Tensor) -> Tensor:
    """The forecasts (N, horizon n) after windows (N, L, n_in)."""
    model.eval()
    parts = inputs.split(BATCH)
    return torch.cat([model(part) for part in parts])
