"""Windows over series: the values that are known, and those that follow them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .arrays import Array
from .scaling import RESOLUTION
from .sequence import Scaling, SequenceData, Split

BLOCK = 2048  # windows gathered at once
FOLDS, FOLD_SHARE, FOLD_WINDOWS = 3, 0.1, 8  # to judge by, with so many to learn from at least
FEW = 50  # independent windows: with less there are twice as many folds
MOST_JUDGED = 4096  # windows held back: neighbours tell little new
LONGEST_ACF = 100_000  # values of a series that are searched for a season
LONGEST_SEASON = WIDEST = 500  # steps; with a wider window linear forecasts take long
LEAST_ACF, NEARLY = 0.2, 0.75  # autocorrelation of a season; relative to the highest one


class Windows(Split):
    """All windows of ``width`` steps over some series, and the ``horizon`` steps after each.

    The series are stored once. A batch is gathered from them when it is asked for, so that a
    million windows take the memory of a million values, and not of a million windows.

    Args:
        values: (rows, n_in), the series one after the other.
        spans: for each series, the row of its first window, and that after its last one's first.
        width, horizon: steps that are known, and steps to forecast.
        outputs: n; the first n of the inputs are forecast.

    Shape:
        windows[i]: inputs (N, width, n_in), targets (N, horizon n), step by step.

    >>> few = Windows.over([np.arange(6.0)[:, None]], width=3, horizon=2)
    >>> few[:].inputs[:, :, 0].tolist(), few[:].targets.tolist()
    ([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]], [[3.0, 4.0], [4.0, 5.0]])
    """

    def __init__(
        self,
        values: Tensor,
        spans: Sequence[tuple[int, int]],
        width: int,
        horizon: int,
        outputs: int,
        stride: int = 1,
    ) -> None:
        set_once = object.__setattr__  # a Split is frozen
        set_once(self, "values", values)
        set_once(self, "spans", tuple(spans))
        set_once(self, "sizes", (width, horizon, outputs))
        steps = [torch.arange(first, max(first, end), stride) for first, end in spans]
        set_once(self, "starts", torch.cat(steps) if steps else torch.arange(0))
        set_once(self, "lengths", None)

    values: Tensor
    spans: tuple[tuple[int, int], ...]
    sizes: tuple[int, int, int]
    starts: Tensor

    @classmethod
    def over(
        cls, series: Sequence[Array], width: int, horizon: int, outputs: int | None = None
    ) -> Windows:
        """The windows over series (T_i, n_in); one that is too short has none."""
        rows, spans = 0, []
        for one in series:
            spans.append((rows, rows + max(0, len(one) - width - horizon + 1)))
            rows += len(one)
        values = np.concatenate([np.asarray(one, np.float32) for one in series])
        n = values.shape[1] if outputs is None else outputs
        return cls(torch.from_numpy(values), spans, width, horizon, n)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, chosen: slice | Tensor) -> Split:
        width, horizon, n = self.sizes
        rows = self.starts[chosen].unsqueeze(-1) + torch.arange(width + horizon)
        known, ahead = rows.split([width, horizon], 1)
        return Split(self.values[known], self.values[:, :n][ahead].flatten(1))

    @property
    def inputs(self) -> Tensor:
        """(N, width, n_in) for all windows, as a copy."""
        return self[:].inputs

    @property
    def targets(self) -> Tensor:
        """(N, horizon n) for all windows, as a copy."""
        return self[:].targets

    def blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The forecast inputs (N, width, n) and targets of all windows, some at a time."""
        for first in range(0, len(self), BLOCK):
            part = self[first : first + BLOCK]
            yield part.inputs[..., : self.sizes[2]], part.targets

    def series(self) -> list[Array]:
        """The forecast values (T_i, n) of each series, as far as these windows see them."""
        width, horizon, n = self.sizes
        seen = ((a, b + width + horizon - 1) for a, b in self.spans if b > a)
        return [self.values[a:b, :n].numpy() for a, b in seen]

    def numbers(self) -> Tensor:
        """The number of each window's series, (N,)."""
        firsts = torch.tensor([first for first, _ in self.spans])
        return torch.searchsorted(firsts, self.starts, right=True) - 1

    def in_time(self, share: float) -> tuple[Windows, Windows]:
        """The windows before the last share of each series, and those that forecast it.

        No target of the first is a target of the second. The second ones are thinned out where
        there are very many.
        """
        return self._within(share, None, 1), self.last(share).thinned(MOST_JUDGED)

    def last(self, share: float) -> Windows:
        """The windows that forecast the last share of each series."""
        return self._within(share, 1, 0)

    def thinned(self, most: int) -> Windows:
        """So few of the windows that there are about ``most``."""
        return self.every(max(1, len(self) // most))

    def every(self, step: int) -> Windows:
        """Every so manyth window of each series."""
        return Windows(self.values, self.spans, *self.sizes, step)

    def folds(
        self, count: int | None = None, share: float = FOLD_SHARE
    ) -> list[tuple[Windows, Windows]]:
        """Pairs of windows to learn from and the next ones to judge by, the latest last.

        Those to judge by forecast two shares, so that their ends are in all parts of a season.
        """
        if count is None:
            count = FOLDS if self.independent >= FEW else 2 * FOLDS
        pairs = []
        for back in range(count + 1, 1, -1):
            learned, judged = self._within(share, None, back), self._within(share, back, back - 2)
            if len(learned) >= FOLD_WINDOWS and len(judged):
                pairs.append((learned, judged.thinned(MOST_JUDGED)))
        return pairs or [self.in_time(0.0)]

    @property
    def independent(self) -> float:
        """How many windows there would be with no target in common."""
        horizon = self.sizes[1]
        return sum((b - a + horizon - 1) / horizon for a, b in self.spans if b > a)

    def _within(self, share: float, first: int | None, last: int) -> Windows:
        """The windows with targets between so many times the share before the end of a series.

        From the beginning, if ``first`` is None. A share has at least the rows of one's targets.
        """
        width, horizon, _ = self.sizes
        spans = []
        for start, end in self.spans:
            rows = end - start + width + horizon - 1
            held = held_rows(rows, share, horizon)
            low = 0 if first is None else max(0, rows - first * held - width)
            high = rows - last * held - width - horizon + 1
            spans.append((start + low, start + max(low, high)))
        return Windows(self.values, spans, *self.sizes)


def find_season(series: Sequence[Array], longest: int) -> int:
    """The first lag with about the highest peak of the autocorrelation; 1 if there is no peak.

    Of series (T_i, n), for lags up to ``longest``. A straight line is taken off first.

    >>> find_season([np.sin(2 * np.pi * np.arange(200) / 12)[:, None]], 50)
    12
    """
    longest = min(longest, LONGEST_SEASON)
    total = np.zeros(longest + 2)
    for one in series:
        values = np.asarray(one, np.float64)[-LONGEST_ACF:]
        t = np.linspace(-1, 1, len(values))[:, None]
        values = values - values.mean(0)
        values = values - t * (t * values).sum(0) / max((t * t).sum(), 1e-12)
        power = np.abs(np.fft.rfft(values, 2 * len(values), axis=0)) ** 2
        found = np.fft.irfft(power, axis=0)[: longest + 2].sum(1)
        total[: len(found)] += found / max(found[0], 1e-12)
    scores = total / max(total[0], 1e-12)
    peaks = [
        lag
        for lag in range(2, longest + 1)
        if scores[lag - 1] < scores[lag] >= scores[lag + 1] and scores[lag] > LEAST_ACF
    ]
    highest = max((scores[lag] for lag in peaks), default=0.0)
    return next((lag for lag in peaks if scores[lag] > NEARLY * highest), 1)


def held_rows(rows: int, share: float, horizon: int) -> int:
    """How many of a series' rows a share of it is: at least those of one window's targets."""
    return max(horizon, round(share * rows))


def default_width(rows: int, horizon: int, season: int) -> int:
    """How many steps to read: three seasons, or twice the horizon, or a third of the rows."""
    wished = max(3 * season, horizon) if season > 1 else max(2 * horizon, 24)
    return max(2, min(wished, WIDEST, rows // 3, (rows - 2 * horizon) // 2))


def require_rows(
    name: str, rows: int, horizon: int, width: int | None = None, held: int = 1
) -> None:
    """Refuse a series too short to learn a forecast from and to judge it by later parts."""
    least = (1 + held) * horizon + (4 if width is None else width + 1)
    if rows < least:
        known = "" if width is None else f" after {width} known ones"
        raise ValueError(
            f"{name}: a series of {rows} values is too short to learn to forecast {horizon} "
            f"steps{known}: that takes {least}; give a longer one, or choose a smaller horizon"
        )


def scale_series(name: str, series: Sequence[Array], rows: Sequence[int]) -> Scaling:
    """The mean and deviation of each channel of each series in its first rows; none is flat."""
    means, deviations = [], []
    for number, (one, count) in enumerate(zip(series, rows, strict=True)):
        mean, std = one[:count].mean(0), one[:count].std(0)
        flat = np.flatnonzero(std <= RESOLUTION * np.abs(mean))
        if len(flat):
            place = f"series {number}, " if len(series) > 1 else ""
            place += f"channel {flat[0]}" if one.shape[1] > 1 else ""
            raise ValueError(
                f"{name}: all {count} values to learn from are {mean[flat[0]]:g}"
                f"{f' in {place}' if place else ''}; there is nothing to forecast, leave it out"
            )
        means += mean.tolist()
        deviations += std.tolist()
    return Scaling(tuple(means), tuple(deviations))


def scaled_rows(scaling: Scaling, series: Sequence[Array]) -> list[Array]:
    """Each series (T_i, n) in units of the scaling."""
    mean, std = (np.reshape(part, (len(series), -1)) for part in (scaling.mean, scaling.std))
    return [(one - mean[i]) / std[i] for i, one in enumerate(series)]


def forecast_data(
    name: str,
    series: Sequence[Array],
    *,
    width: int,
    horizon: int,
    scaling: Scaling,
    test: float | None = None,
    beside: Sequence[Array] | None = None,
    **more: Any,
) -> SequenceData:
    """Windows over series (T_i, n) as a data set: forecast all n, ``horizon`` steps at once.

    Args:
        scaling: of all channels of all series, one after the other.
        test: the share at the end of each series that is kept for the test; None for no test.
        beside: other inputs (T_i, m) at each step.
    """
    rows = scaled_rows(scaling, series)
    n = rows[0].shape[1]
    if beside is not None:
        rows = [np.concatenate([x, c], 1) for x, c in zip(rows, beside, strict=True)]
    train = Windows.over(rows, width, horizon, n)
    train, later = (
        (train, Windows(train.values, (), *train.sizes)) if test is None else train.in_time(test)
    )
    return SequenceData(
        name=name,
        task="regress",
        train=train,
        test=later,
        input_size=rows[0].shape[1],
        output_size=horizon * n,
        seq_len=width,
        scaling=scaling,
        horizon=horizon,
        **more,
    )
