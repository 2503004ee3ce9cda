"""Forecasts of the past from many origins, beside naive ones: a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import Scaling
from ..data.arrays import Array, require_count
from ..data.windows import BLOCK, Windows
from ..io import replacing
from ..nn import AnyModel
from ..nn.linear_forecast import Moments, best_of, plain_forecasts
from ..training.forecast import forecast, moments_of, quantile_offsets, spread

SHOWN = 4  # forecasts in a picture
COLOURS = {
    "model": "#c0392b",
    "last value": "#999999",
    "season before": "#2471a3",
    "ridge": "#1e8449",
}


@dataclass(frozen=True)
class Backtest:
    """Errors of forecasts, in units of the training part's deviation.

    Attributes:
        rows: by forecast: ``mse``, ``mae``, and of the model also ``coverage``, the share of values
            within its intervals.
        by_step: the mean squared error at each step ahead, (horizon,), by forecast.
        origins: how many forecasts were made.
        interval: the share of values that the intervals should hold.
        truth, first: the first channel in its own units, from this step on.
        examples: some forecasts of it: ``times``, ``forecast``, ``low``, ``high``.
        kept_naive: whether the model is the linear forecast that training started from.
    """

    rows: dict[str, dict[str, float]]
    by_step: dict[str, Array]
    origins: int
    interval: float
    truth: Array
    first: int
    examples: list[dict[str, Array]]
    kept_naive: bool = False

    def __str__(self) -> str:
        lines = [f"{'forecast':<15}{'mse':>10}{'mae':>10}{'coverage':>11}"]
        for name, row in self.rows.items():
            held = f"{100 * row['coverage']:.1f} %" if "coverage" in row else ""
            lines.append(f"{name:<15}{row['mse']:>10.4f}{row['mae']:>10.4f}{held:>11}")
        steps, share = len(self.by_step["model"]), 100 * self.interval
        lines.append(f"{self.origins} forecasts of {steps} steps; intervals for {share:g} %")
        return "\n".join(lines)

    def plot(self, path: str | Path) -> None:
        """Draw some forecasts over the truth, and errors by the steps ahead; needs matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "a plot needs matplotlib: pip install matplotlib", name="matplotlib"
            ) from None
        figure = Figure(figsize=(9, 6.5), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=[3, 2])
        self._draw_forecasts(above)
        ahead = np.arange(1, len(self.by_step["model"]) + 1)
        for name, errors in self.by_step.items():
            style = {
                "marker": "o" if len(ahead) == 1 else None,
                "zorder": 3 if name == "model" else 2,
            }
            below.plot(ahead, errors, label=name, color=COLOURS[name], **style)
        below.set(xlabel="steps ahead", ylabel="mean squared error", ylim=(0, None))
        for axes in (above, below):
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
            axes.spines[["top", "right"]].set_visible(False)
        path = Path(path)
        with replacing(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:] or "png", dpi=120)

    def _draw_forecasts(self, axes: Any) -> None:
        model, share = COLOURS["model"], f"{100 * self.interval:g} % interval"
        axes.plot(self.first + np.arange(len(self.truth)), self.truth, "k", lw=1, label="truth")
        for i, one in enumerate(self.examples):
            names = ("forecast", share) if i == 0 else (None, None)
            axes.plot(one["times"], one["forecast"], color=model, lw=1.8, label=names[0])
            bounds, style = (one["low"], one["high"]), {"color": model, "alpha": 0.2, "lw": 0}
            axes.fill_between(one["times"], *bounds, label=names[1], **style)
        axes.set(xlabel="step of the series", ylabel="value")


def run_backtest(
    model: AnyModel,
    windows: Windows,
    test: float,
    step: int,
    interval: float,
    errors: Mapping[str, Sequence[float]],
    season: int,
    scaling: Scaling,
) -> Backtest:
    """Forecast the last share of each series from every ``step``-th origin."""
    require_count("step", step)
    judged = windows.last(test).every(step)
    others = _others(windows.in_time(test)[0], season)
    sums = {name: _Sums() for name in ("model", *others)}
    half = (1 + interval) / 2
    inside = count = 0
    numbers = judged.numbers()
    for first in range(0, len(judged), BLOCK):
        part = judged[first : first + BLOCK]
        found = forecast(model, part.inputs)
        low, high = _bounds(
            part.inputs, found, judged, numbers[first : first + BLOCK], errors, half
        )
        inside += int(((part.targets >= low) & (part.targets <= high)).sum())
        count += part.targets.numel()
        sums["model"].add(found - part.targets)
        known = part.inputs[..., : judged.sizes[2]]
        for name, linear in others.items():
            sums[name].add(_apply(known, *linear) - part.targets)
    rows = {name: one.row() for name, one in sums.items()}
    rows["model"]["coverage"] = inside / count
    by_step = {name: one.by_step(judged.sizes[1]) for name, one in sums.items()}
    first, end = judged.spans[0]
    first, end = (
        first + max(0, judged.sizes[0] - 2 * judged.sizes[1]),
        end + sum(judged.sizes[:2]) - 1,
    )
    truth = judged.values[first:end, 0].double().numpy() * scaling.std[0] + scaling.mean[0]
    examples = _examples(model, judged, errors, half, scaling)
    return Backtest(rows, by_step, len(judged), interval, truth, first, examples)


class _Sums:
    def __init__(self) -> None:
        self.squares: Any = 0.0
        self.sizes, self.count = 0.0, 0

    def add(self, error: Tensor) -> None:
        error = error.double()
        self.squares = self.squares + error.square().sum(0)
        self.sizes += float(error.abs().sum())
        self.count += len(error)

    def row(self) -> dict[str, float]:
        terms = self.count * len(self.squares)
        return {"mse": float(self.squares.sum()) / terms, "mae": self.sizes / terms}

    def by_step(self, horizon: int) -> Array:
        return (self.squares / self.count).unflatten(0, (horizon, -1)).mean(1).numpy()


def _others(learned: Windows, season: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Weights and biases of the forecasts beside the model, learned from the part before."""
    width, horizon, _ = learned.sizes
    folds, moments = moments_of(learned), Moments.of(learned.blocks())
    return {
        name: best_of(choices, folds, horizon).fit(moments, horizon)
        for name, choices in plain_forecasts(width, [season]).items()
        if choices
    }


def _apply(known: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear forecast (N, horizon n) after windows (N, L, n)."""
    present = known[:, -1].double()
    differences = (known.double() - present.unsqueeze(1)).flatten(1)
    return differences @ weight + bias + present.repeat(1, weight.shape[1] // known.shape[2])


def _bounds(
    inputs: Tensor,
    found: Tensor,
    windows: Windows,
    numbers: Tensor,
    errors: Mapping[str, Sequence[float]],
    level: float,
) -> tuple[Tensor, Tensor]:
    size = spread(inputs, windows.sizes[2], windows.sizes[1])
    each = dict(errors) | {"series": np.asarray(errors["series"])[numbers.numpy()]}
    offset = quantile_offsets(each, size, level)
    return found - offset, found + offset


def _examples(
    model: AnyModel,
    windows: Windows,
    errors: Mapping[str, Sequence[float]],
    level: float,
    scaling: Scaling,
) -> list[dict[str, Array]]:
    """A few windows of the first channel that do not overlap, in its units."""
    horizon, n = windows.sizes[1], windows.sizes[2]
    first = (windows.numbers() == 0).nonzero().flatten()
    apart = first[:: max(1, -(-horizon // max(1, int(windows.starts[:2].diff().sum()))))]
    chosen = apart[torch.linspace(0, len(apart) - 1, min(SHOWN, len(apart))).long().unique()]
    part, starts = windows[chosen], windows.starts[chosen]
    found = forecast(model, part.inputs)
    low, high = _bounds(part.inputs, found, windows, windows.numbers()[chosen], errors, level)
    mean, std = scaling.mean[0], scaling.std[0]
    lines = {"forecast": found, "low": low, "high": high}
    examples = []
    for i, start in enumerate(starts.tolist()):
        one = {name: (line[i, ::n] * std + mean).numpy() for name, line in lines.items()}
        one["times"] = start + windows.sizes[0] + np.arange(horizon)
        examples.append(one)
    return examples
