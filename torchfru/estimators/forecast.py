"""A forecaster of series, trained as ``torchfru train`` trains one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..data import Scaling, SequenceData
from ..data.arrays import Array, floats, require_choice, require_count, sha256
from ..data.windows import (
    BLOCK,
    Windows,
    default_width,
    find_season,
    forecast_data,
    held_rows,
    require_rows,
    scale_series,
    scaled_rows,
)
from ..io import did_you_mean
from ..nn.linear_forecast import Moments
from ..records import best_epoch
from ..training.automatic import MODELS
from ..training.config import DataConfig, RunConfig, override
from ..training.fit import fit
from ..training.forecast import forecast, mixture_of, quantile_offsets, spread
from ..training.recipes import FORECAST_STEPS, FORECAST_VALIDATION, HORIZON, forecaster
from .backtest import Backtest, run_backtest
from .progress import StepBar
from .sequences import SequenceEstimator
from .series import (
    SeriesSet,
    calendar_features,
    cycles_of,
    next_dates,
    read_covariates,
    read_series,
    usual_season,
)

F = TypeVar("F", bound="FRUForecaster")
MODES = ("independent", "joint")


class FRUForecaster(SequenceEstimator):
    """Forecast series with a Fourier Recurrent Unit that starts from the best linear forecasts.

    The last parts of the series judge naive forecasts and ridge regressions; their mixture,
    weighted by these errors, is the start, or the best plain one of them if the mixture is not
    clearly better. A network learns what is left. Its weights are kept only
    where they lower the error on the held-back part by 1 %, or more where that part is short: a
    forecast is never worse there than the start, and ``kept_naive_`` says whether it is the start.

    Args:
        horizon: how many steps ahead to forecast, all at once.
        window: how many values a forecast reads; None: by season, horizon and length.
        season: the steps of a season; None: by the dates, or found in the series.
        mode: "independent", one model for all channels, each by itself, or "joint", all channels of
            a step read and forecast together.
        calendar: whether the time of day, week and year, as far as the dates have them, are inputs.
        refit: whether the linear forecasts are fitted again at the end, with the held-back part.
        validation: the share at the end of each series that is held back to judge; None: 0.2.
        layer, max_steps, max_minutes, settings, folder, accelerator, verbose, random_state: as for
            :class:`FRUClassifier`.

    Attributes:
        naive_: the linear forecast, in words.
        kept_naive_: whether the forecast is that one alone.
        season_, window_: as they were chosen.
        model_, record_: the trained model, and the record of its run.

    >>> import numpy as np
    >>> t = np.arange(120)
    >>> series = 0.1 * t + np.sin(2 * np.pi * t / 12)
    >>> model = FRUForecaster(horizon=6, max_steps=20, random_state=0, verbose=False).fit(series)
    >>> (model.predict() - 12).round(1) + 0.0  # the season and the trend go on
    array([0. , 0.6, 1.1, 1.3, 1.3, 1. ])
    >>> forecast, low, high = model.predict(3, interval=0.8)
    >>> forecast.shape, bool((low <= forecast).all())
    ((3,), True)
    """

    task = "regress"
    naive_: str
    kept_naive_: bool
    season_: int
    window_: int
    series_: SeriesSet  # the last window of each
    covariates_: list[Array]
    cycles_: tuple[float, ...]  # of the calendar, in seconds
    scaling_: Scaling
    beside_scaling_: Scaling
    effects_: list[Array]

    def __init__(
        self,
        horizon: int = HORIZON,
        *,
        window: int | None = None,
        season: int | None = None,
        mode: str = "independent",
        calendar: bool = False,
        refit: bool = True,
        validation: float | None = None,
        layer: str = "fru",
        max_steps: int | None = None,
        max_minutes: float | None = None,
        settings: Any = (),
        folder: Any = None,
        accelerator: str = "auto",
        verbose: bool = True,
        random_state: Any = None,
    ) -> None:
        self.horizon = horizon
        self.window = window
        self.season = season
        self.mode = mode
        self.calendar = calendar
        self.refit = refit
        self.validation = validation
        self.layer = layer
        self.max_steps = max_steps
        self.max_minutes = max_minutes
        self.settings = settings
        self.folder = folder
        self.accelerator = accelerator
        self.verbose = verbose
        self.random_state = random_state

    def fit(self: F, series: Any, covariates: Any = None, dates: Any = None) -> F:
        """Learn to forecast a series (T,) or (T, C), a pandas Series or DataFrame, or a list.

        Args:
            covariates: (T, m), known ahead: :meth:`predict` then asks for those of the horizon. A
                list of tables for a list of series.
            dates: (T,) dates, where there is no DatetimeIndex; a list for a list of series.
        """
        require_count("horizon", self.horizon)
        require_choice("mode", self.mode, MODES)
        given = read_series(self._name, series, dates)
        lengths = [len(one) for one in given.values]
        for rows in lengths:
            require_rows(self._name, rows, self.horizon, self.window)
        tables = read_covariates(self._name, covariates, lengths)
        self.cycles_ = () if given.dates is None else cycles_of(given.dates[0])
        beside = self._beside(given, tables)
        self._fit_effects(given.values, beside)
        parts = self._parts(given.values, beside)
        learned = [self._learned(len(one)) for one in parts]
        self.scaling_ = scale_series(self._name, parts, learned)
        self._choose_sizes(given, [one[:n] for one, n in zip(parts, learned, strict=True)])
        self._train(self._windows(parts, beside, sha256(*parts)))
        self.series_ = given.tail(self.window_)
        self.covariates_ = [one[-self.window_ :] for one in tables]
        return self

    def _learned(self, rows: int) -> int:
        """The rows of a series before those that are held back."""
        share = self.validation or FORECAST_VALIDATION
        return rows - held_rows(rows, share, self.horizon)

    def _choose_sizes(self, given: SeriesSet, parts: list[Array]) -> None:
        rows = min(map(len, parts))
        season = self.season
        if season is None and given.dates is not None:
            season = usual_season(given.dates[0])
        self.season_ = season or find_season(scaled_rows(self.scaling_, parts), rows // 3)
        self.window_ = self.window or default_width(rows, self.horizon, self.season_)

    def _train(self, data: SequenceData) -> None:
        self.model_, self.record_ = fit(
            data,
            self._config(data),
            seed=self._seed(),
            folder=None if self.folder is None else Path(self.folder),
            accelerator=self.accelerator,
            hooks=[StepBar(self._name)] if self.verbose else [],
        )
        found, naive = self.record_.measurements, self.model_.model.naive
        self.naive_ = found["naive"]
        self.kept_naive_ = best_epoch(self.record_.epochs, found["start"]) == 0
        if self.refit and naive is not None:
            windows = data.train
            assert isinstance(windows, Windows)
            mixture = mixture_of(windows, self.season_)
            naive.set_weights(*mixture.fit(Moments.of(windows.blocks()), self.horizon))
        if self.verbose:
            print(f"{self._name}: {self._in_words()}")

    def _config(self, data: SequenceData) -> RunConfig:
        if self.layer not in MODELS:
            hint = did_you_mean(str(self.layer), MODELS)
            raise ValueError(f"{self._name}: there is no layer {self.layer!r}; {hint}")
        share = self.validation or FORECAST_VALIDATION
        source = DataConfig(data.name, horizon=self.horizon, validation=share)
        config = forecaster(
            source,
            self.window_,
            layer=self.layer,
            season=self.season_,
            steps=FORECAST_STEPS if self.max_steps is None else self.max_steps,
        )
        minutes = [] if self.max_minutes is None else [f"training.max_minutes={self.max_minutes}"]
        return override(config, [*minutes, *self.settings])

    def _in_words(self) -> str:
        """Whether training was of use, by the errors on the held-back part."""
        before = self.record_.measurements["start"]["validation_mse"]
        if self.kept_naive_:
            return f"no weights did better than the start on the held-back part: {self.naive_}"
        gain = 100 * (1 - self.record_.last["validation_mse"] / before)
        return f"{gain:.1f} % less error on the held-back part than the start: {self.naive_}"

    # Inputs ---------------------------------------------------------------------------------

    def _beside(self, given: SeriesSet, covariates: list[Array], ahead: int = 0) -> list[Array]:
        """Covariates and calendar (T_i + ahead, m) for each series; m may be 0."""
        tables = covariates or [np.empty((len(one) + ahead, 0)) for one in given.values]
        if not self.calendar:
            return tables
        if given.dates is None:
            raise ValueError(
                f"{self._name}: calendar=True needs dates; give a DatetimeIndex, or dates"
            )
        days = [np.concatenate([one, next_dates(one, ahead)]) for one in given.dates]
        phases = [calendar_features(one, self.cycles_) for one in days]
        return [np.concatenate(pair, 1) for pair in zip(tables, phases, strict=True)]

    def _fit_effects(self, values: list[Array], beside: list[Array]) -> None:
        """Regressions of the series' changes on those of the covariates, since levels drift."""
        rows = np.concatenate(beside)
        std = rows.std(0)
        self.beside_scaling_ = Scaling(
            tuple(rows.mean(0).tolist()), tuple(np.where(std > 0, std, 1.0).tolist())
        )
        self.effects_ = []
        for x, c in zip(values, self._known(beside), strict=True):
            end = self._learned(len(x))
            known, change = np.diff(c[:end], axis=0), np.diff(x[:end], axis=0)
            self.effects_.append(np.linalg.lstsq(known, change, rcond=None)[0])  # (m, C)

    def _known(self, beside: list[Array]) -> list[Array]:
        """Covariates and calendar in units of the training."""
        mean, std = self.beside_scaling_.mean, self.beside_scaling_.std
        return [(one - mean) / std for one in beside]

    def _parts(self, values: list[Array], beside: list[Array]) -> list[Array]:
        """The series less the effects, channel by channel, or all channels together."""
        pairs = zip(values, self._known(beside), self.effects_, strict=True)
        left = [x - c[: len(x)] @ effect for x, c, effect in pairs]
        if self.mode == "joint":
            return left
        return [one[:, [i]] for one in left for i in range(one.shape[1])]

    def _windows(self, parts: list[Array], beside: list[Array], digest: str) -> SequenceData:
        """Windows over the parts. Beside each value is what is known of a horizon later.

        So the last rows of a window hold the covariates of all the steps that are forecast.
        """
        times = len(parts) // len(beside)
        later = [np.concatenate([c, c[-1:].repeat(self.horizon, 0)]) for c in self._known(beside)]
        ahead = [one[self.horizon :] for one in later for _ in range(times)]
        return forecast_data(
            "series",
            parts,
            width=self.window_,
            horizon=self.horizon,
            scaling=self.scaling_,
            beside=[c[: len(x)] for c, x in zip(ahead, parts, strict=True)],
            checksums={"series": digest},
        )

    # Forecasts ------------------------------------------------------------------------------

    def predict(
        self,
        horizon: int | None = None,
        *,
        series: Any = None,
        covariates: Any = None,
        dates: Any = None,
        interval: float | None = None,
        quantiles: Sequence[float] | None = None,
    ) -> Any:
        """The values that follow, in the form of the series: (horizon,), (horizon, C) or a list.

        Args:
            horizon: how many steps, up to the one that was learned.
            series: other series to continue, as many and with as many channels as those of
                :meth:`fit`; None: these themselves.
            covariates: (horizon, m), if :meth:`fit` was given covariates; for another series with
                those of its own steps before, (T + horizon, m).
            dates: those of the other series, as for :meth:`fit`.
            interval: a share, such as 0.8: the result is then (forecast, low, high).
            quantiles: such as (0.1, 0.9): the result is then a tuple with one for each.
        """
        check_is_fitted(self)
        steps = self.horizon if horizon is None else horizon
        require_count("horizon", steps)
        if steps > self.horizon:
            raise ValueError(
                f"{self._name}: was fitted to forecast {self.horizon} steps, not {steps}; fit it "
                f"with horizon={steps}"
            )
        levels = _levels(self._name, interval, quantiles)
        given = self.series_ if series is None else self._other(series, dates)
        tables = self._future(given, covariates, steps, series is None)
        beside = [_extended(c, self.horizon - steps) for c in self._beside(given, tables, steps)]
        windows = self._last_windows(given, beside)
        found = forecast(self.model_.model, windows)  # (S, H n)
        size = spread(windows, found.shape[1] // self.horizon, self.horizon)
        errors = self.record_.measurements["errors"]
        results = []
        for level in levels:
            moved = found if level is None else found + quantile_offsets(errors, size, level)
            results.append(given.like(self._in_units(moved, beside, steps)))
        return results[0] if levels == [None] else tuple(results)

    def _other(self, series: Any, dates: Any) -> SeriesSet:
        """Another series of the same form, as long as a window at least."""
        given = read_series(self._name, series, dates)
        shapes = [(len(one.values), one.channels) for one in (self.series_, given)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{self._name}: was fitted to {shapes[0][0]} series of {shapes[0][1]} channels, "
                f"not {shapes[1][0]} of {shapes[1][1]}"
            )
        shortest = min(map(len, given.values))
        if shortest < self.window_:
            raise ValueError(
                f"{self._name}: reads the last {self.window_} values, and a series has {shortest}; "
                "give a longer one, or fit with a smaller window"
            )
        return given

    def _future(self, given: SeriesSet, covariates: Any, steps: int, own: bool) -> list[Array]:
        """The covariates of the series and of the steps ahead."""
        if (covariates is None) != (not self.covariates_):
            had = "no covariates" if covariates is not None else "covariates"
            remedy = "leave them out" if covariates is not None else "give those of the next steps"
            raise ValueError(f"{self._name}: was fitted with {had}; {remedy}")
        lengths = [steps + (0 if own else len(one)) for one in given.values]
        tables = read_covariates(self._name, covariates, lengths)
        for one, kept in zip(tables, self.covariates_, strict=True):
            if one.shape[1] != kept.shape[1]:
                raise ValueError(
                    f"{self._name}: covariates had {kept.shape[1]} columns in fit, and have "
                    f"{one.shape[1]} now"
                )
        pairs = zip(self.covariates_, tables, strict=True)
        return [np.concatenate(pair) for pair in pairs] if own else tables

    def _last_windows(self, given: SeriesSet, beside: list[Array]) -> Tensor:
        """The last window of each part, (S, L, n_in)."""
        cut = given.tail(self.window_)
        ends = [c[-self.window_ - self.horizon :] for c in beside]
        parts = self._parts(cut.values, ends)
        rows, times = scaled_rows(self.scaling_, parts), len(parts) // len(ends)
        ahead = [c[self.horizon :] for c in self._known(ends) for _ in range(times)]
        return floats(np.stack([np.concatenate(pair, 1) for pair in zip(rows, ahead, strict=True)]))

    def _in_units(self, scaled: Tensor, beside: list[Array], steps: int) -> list[Array]:
        """Forecasts (S, H n) as arrays (steps, C) in the units of each series."""
        values = scaled.double().unflatten(1, (self.horizon, -1)).numpy()  # (S, H, n)
        mean, std = (np.reshape(part, (len(values), 1, -1)) for part in _pair(self.scaling_))
        values = values * std + mean
        groups = np.split(values, len(beside))  # of the channels of a series
        effects = [
            c[-self.horizon :] @ b for c, b in zip(self._known(beside), self.effects_, strict=True)
        ]
        return [
            (np.concatenate(list(group), 1) + effect)[:steps]
            for group, effect in zip(groups, effects, strict=True)
        ]

    def score(self, series: Any, covariates: Any = None, dates: Any = None) -> float:
        """The share of the last value's squared error that the forecasts take away, at most 1.

        Over all windows of a series like that of :meth:`fit`; 0 is as good as the last value.
        """
        check_is_fitted(self)
        given = self._other(series, dates)
        tables = read_covariates(self._name, covariates, [len(one) for one in given.values])
        beside = self._beside(given, tables)
        windows = self._windows(self._parts(given.values, beside), beside, "").train
        assert isinstance(windows, Windows)
        if not len(windows):
            raise ValueError(f"{self._name}: no window with {self.horizon} steps after it to score")
        error = last = 0.0
        for first in range(0, len(windows), BLOCK):
            part = windows[first : first + BLOCK]
            present = part.inputs[:, -1, : windows.sizes[2]].repeat(1, self.horizon)
            error += float((part.targets - forecast(self.model_.model, part.inputs)).square().sum())
            last += float((part.targets - present).square().sum())
        return 1.0 - error / max(last, 1e-12)

    def backtest(
        self,
        series: Any,
        *,
        test: float = 0.2,
        interval: float = 0.8,
        step: int = 1,
        covariates: Any = None,
        dates: Any = None,
    ) -> Backtest:
        """Fit a clone to all but the last part of the series, and forecast that from many origins.

        Every ``step``-th origin of the last share ``test`` counts; beside the model are the last
        value, the season before and a ridge regression. Print the result, or ``.plot(path)`` it.
        """
        given = read_series(self._name, series, dates)
        lengths = [len(one) for one in given.values]
        tables = read_covariates(self._name, covariates, lengths)
        kept = [rows - held_rows(rows, test, self.horizon) for rows in lengths]
        cut = [
            None if not part else [one[:n] for one, n in zip(part, kept, strict=True)]
            for part in (given.values, tables, given.dates)
        ]
        model = clone(self).fit(*cut)
        beside = model._beside(given, tables)
        windows = model._windows(model._parts(given.values, beside), beside, "").train
        assert isinstance(windows, Windows)
        errors = model.record_.measurements["errors"]
        found = run_backtest(
            model.model_.model, windows, test, step, interval, errors, model.season_, model.scaling_
        )
        return replace(found, kept_naive=model.kept_naive_)

    # Files ----------------------------------------------------------------------------------

    def _fitted(self) -> dict[str, Any]:
        given = self.series_
        dates = given.dates or []
        return {
            "kind": self._name,
            "values": [one.tolist() for one in given.values],
            "dates": [one.astype(np.int64).tolist() for one in dates],
            "form": given.form,
            "steps": given.steps,
            "covariates": [one.tolist() for one in self.covariates_],
            "cycles": self.cycles_,
            "effects": [one.tolist() for one in self.effects_],
            "beside": _pair(self.beside_scaling_),
            "naive": self.naive_,
            "kept_naive": self.kept_naive_,
            "season": self.season_,
        }

    def _restore(self, stored: dict[str, Any]) -> None:
        spec = self.model_.data
        assert spec.scaling is not None
        self.scaling_, self.window_ = spec.scaling, spec.seq_len
        values = [np.array(one) for one in stored["values"]]
        days = [np.array(one).astype("datetime64[s]") for one in stored["dates"]]
        self.series_ = SeriesSet(values, str(stored["form"]), int(stored["steps"]), days or None)
        self.covariates_ = [np.array(one) for one in stored["covariates"]]
        self.cycles_ = tuple(map(float, stored["cycles"]))
        mean, std = stored["beside"]
        self.beside_scaling_ = Scaling(tuple(mean), tuple(std))
        columns = values[0].shape[1]
        self.effects_ = [np.array(one).reshape(-1, columns) for one in stored["effects"]]
        self.naive_, self.kept_naive_ = str(stored["naive"]), bool(stored["kept_naive"])
        self.season_ = int(stored["season"])


def _pair(scaling: Scaling) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return scaling.mean, scaling.std


def _extended(table: Array, steps: int) -> Array:
    """The table with its last row repeated: of steps that nobody asks for."""
    return np.concatenate([table, table[-1:].repeat(steps, 0)])


def _levels(
    name: str, interval: float | None, quantiles: Sequence[float] | None
) -> list[float | None]:
    """The quantiles to give; None is the forecast itself."""
    if interval is not None and quantiles is not None:
        raise ValueError(f"{name}: give interval or quantiles, not both")
    if interval is not None:
        if not 0 < interval < 1:
            raise ValueError(f"{name}: interval must lie between 0 and 1, got {interval!r}")
        return [None, (1 - interval) / 2, (1 + interval) / 2]
    if quantiles is None:
        return [None]
    levels: list[float | None] = [float(level) for level in quantiles]
    if not levels or not all(level is not None and 0 < level < 1 for level in levels):
        raise ValueError(f"{name}: quantiles must lie between 0 and 1, got {quantiles!r}")
    return levels
