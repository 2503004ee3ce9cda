"""FRUForecaster: forms of series, covariates, intervals, files, errors, and the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from training_helpers import torchfru_here

from benchmarks.series import AIRLINE, LYNX
from torchfru import FRUForecaster
from torchfru.estimators.series import calendar_features, cycles_of, next_dates, usual_season
from torchfru.records import RunResult

AIR = np.array(AIRLINE, float)


def quick(horizon: int = 4, **options) -> FRUForecaster:
    return FRUForecaster(
        horizon, **{"max_steps": 10, "random_state": 0, "verbose": False, **options}
    )


def waves(n: int = 90, channels: int = 1, seed: int = 0) -> np.ndarray:
    rng, t = np.random.default_rng(seed), np.arange(n)[:, None]
    clean = np.sin(2 * np.pi * t / 8 + np.arange(channels)) * (1 + np.arange(channels))
    return clean + 0.05 * rng.normal(size=(n, channels)) + 10 * np.arange(channels)


# Forms ------------------------------------------------------------------------------------


def test_a_series_goes_on_as_it_was():
    t = np.arange(94)
    series = 3 * np.sin(2 * np.pi * t / 8) + 0.1 * t
    found = quick().fit(series[:90]).predict()
    np.testing.assert_allclose(found, series[90:], atol=0.05)


@pytest.mark.parametrize("mode", ["independent", "joint"])
def test_channels_are_forecast_each_in_its_own_units(mode):
    series = waves(94, channels=3)
    model = quick(mode=mode).fit(series[:90])
    assert model.predict().shape == (4, 3)
    np.testing.assert_allclose(model.predict(), series[90:], atol=0.6)
    assert model.predict(2).shape == (2, 3)


def test_several_series_are_learned_by_one_model():
    series = [waves(80, seed=1)[:, 0], waves(60, seed=2)[:, 0] * 100, waves(90, seed=3)[:, 0]]
    model = quick().fit([one[:-4] for one in series])
    for one, found in zip(series, model.predict(), strict=True):
        np.testing.assert_allclose(found, one[-4:], atol=0.25 * one.std())


def test_pandas_in_pandas_out():
    index = pd.date_range("2000-01-31", periods=90, freq="ME")
    frame = pd.DataFrame(waves(channels=2), index=index, columns=["a", "b"])
    found = quick().fit(frame).predict()
    assert list(found.columns) == ["a", "b"]
    days = pd.date_range("2000-01-01", periods=90, freq="D", name="day")
    one = pd.Series(waves()[:, 0], index=days, name="w")
    found = quick().fit(one).predict(3)
    assert found.name == "w"
    assert list(found.index) == list(pd.date_range("2000-03-31", periods=3, freq="D"))
    plain = quick().fit(one.reset_index(drop=True)).predict(3)
    assert list(plain.index) == [90, 91, 92]
    np.testing.assert_allclose(plain.to_numpy(), quick(season=7).fit(one).predict(3), atol=0.5)


def test_another_series_is_continued_with_the_same_model():
    series = waves(120)[:, 0]
    model = quick().fit(series[:90])
    np.testing.assert_allclose(model.predict(series=series[:90]), model.predict(), rtol=1e-6)
    np.testing.assert_allclose(model.predict(series=series[:116]), series[116:], atol=0.3)
    assert model.score(series) > 0.9


def test_dates():
    months = np.arange("2001-01", "2003-01", dtype="datetime64[M]").astype("datetime64[s]")
    assert usual_season(months) == 12
    assert str(next_dates(months, 2)[-1]) == "2003-02-01T00:00:00"
    hours = np.arange("2001-01-01T00", "2001-01-20T00", dtype="datetime64[h]").astype(
        "datetime64[s]"
    )
    assert usual_season(hours) == 24
    assert str(next_dates(hours, 1)[0]) == "2001-01-20T00:00:00"
    features = calendar_features(hours, cycles_of(hours))
    assert features.shape == (len(hours), 4)  # day and week; there is no year to learn from
    np.testing.assert_allclose(features[:24, :2], features[24:48, :2], atol=1e-9)


# Covariates -------------------------------------------------------------------------------


def promoted(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A random walk with jumps on some days, which are known ahead."""
    rng = np.random.default_rng(seed)
    days = (rng.random(n) < 0.3).astype(float)
    return np.cumsum(0.1 * rng.normal(size=n)) + 5 * days, days


def test_covariates_that_are_known_ahead_are_used():
    series, days = promoted(154)
    model = quick().fit(series[:150], covariates=days[:150])
    found = model.predict(covariates=days[150:])
    np.testing.assert_allclose(found, series[150:], atol=1.0)
    other = model.predict(covariates=1 - days[150:])
    np.testing.assert_allclose((other - found) / (1 - 2 * days[150:]), 5.0, atol=1.0)
    same = model.predict(series=series[:150], covariates=days)
    np.testing.assert_allclose(same, found, rtol=1e-5)
    three = model.predict(3, covariates=days[150:153])
    assert three.shape == (3,)


def test_the_calendar_is_known_ahead():
    hours = np.arange("2001-01-01T00", "2001-01-13T00", dtype="datetime64[h]")
    series = waves(len(hours))[:, 0]
    model = quick(calendar=True).fit(series, dates=hours.astype("datetime64[ns]"))
    assert model.model_.data.input_size == 1 + 4
    assert model.predict().shape == (4,)
    with pytest.raises(ValueError, match="calendar=True needs dates"):
        quick(calendar=True).fit(series)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "was fitted with covariates; give those of the next steps"),
        (np.zeros(3), "covariates must have 4 rows, one for each step; got the shape"),
        (np.zeros((4, 2)), "covariates had 1 columns in fit, and have 2 now"),
    ],
)
def test_covariates_that_do_not_fit(given, message):
    series, days = promoted(60)
    model = quick().fit(series, covariates=days)
    with pytest.raises(ValueError, match=message):
        model.predict(covariates=given)
    with pytest.raises(ValueError, match="covariates must have 60 rows"):
        quick().fit(series, covariates=days[:50])


# What is learned ---------------------------------------------------------------------------


def test_the_start_is_kept_unless_training_does_better():
    model = quick(12, max_steps=30).fit(AIR)
    start, epochs = model.record_.measurements["start"], model.record_.epochs
    gain = 1 - min(epoch["validation_mse"] for epoch in epochs) / start["validation_mse"]
    assert model.kept_naive_ == (gain < start["least_gain"])
    assert model.kept_naive_
    assert not model.model_.model.head.weight.any()
    assert model.record_.last["validation_mse"] == start["validation_mse"]
    assert "ridge regression" in model.naive_


def test_training_learns_what_is_not_linear():
    """A tent map: what follows depends on the size of a value, which no linear map knows."""
    rng, x = np.random.default_rng(0), [0.3]
    for _ in range(1500):
        x.append(0.9 - 1.7 * abs(x[-1]) + 0.02 * rng.normal())
    model = quick(1, window=8, max_steps=300).fit(np.array(x))
    assert not model.kept_naive_
    start = model.record_.measurements["start"]["validation_mse"]
    assert model.record_.last["validation_mse"] < 0.5 * start


def test_refit_learns_from_the_held_back_part_as_well():
    series = np.concatenate([waves(80)[:, 0], 5 + waves(40, seed=1)[:, 0]])
    once, twice = (quick(refit=refit).fit(series).model_.model.naive for refit in (False, True))
    assert not torch.allclose(once.weight, twice.weight)
    torch.testing.assert_close(once.units, twice.units)


def test_the_same_seed_gives_the_same_forecast():
    first, second = (quick(max_steps=40).fit(AIR).predict() for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_parameters_and_clone():
    model = quick(7, window=30, season=12)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(horizon=3).horizon == 3


# Intervals and backtests -------------------------------------------------------------------


def test_intervals_hold_about_their_share_and_grow_with_it():
    rng = np.random.default_rng(0)
    series = waves(600)[:, 0] + rng.normal(size=600)
    found = quick().backtest(series, test=0.3, interval=0.8)
    assert 0.7 < found.rows["model"]["coverage"] < 0.9
    model = quick().fit(series)
    forecast, low, high = model.predict(interval=0.5)
    lower, middle, higher = model.predict(quantiles=(0.05, 0.5, 0.95))
    for below, above in ((lower, low), (low, forecast), (forecast, high), (high, higher)):
        assert (below < above).all()
    np.testing.assert_allclose(middle, forecast)


def test_backtest_compares_with_naive_forecasts(tmp_path):
    found = quick(12).backtest(AIR, test=0.2)
    assert set(found.rows) == {"model", "last value", "season before", "ridge"}
    assert found.rows["model"]["mse"] < 0.5 * found.rows["season before"]["mse"]
    assert found.by_step["model"].mean() == pytest.approx(found.rows["model"]["mse"])
    # the last value by hand: every forecast of 12 of the last 29 months
    scaled = AIR / AIR[: 115 - 23].std()
    errors = [(scaled[i : i + 12] - scaled[i - 1]) ** 2 for i in range(115, 133)]
    assert found.rows["last value"]["mse"] == pytest.approx(np.mean(errors), rel=1e-4)
    assert found.origins == 18
    assert "season before" in str(found)
    found.plot(tmp_path / "new" / "airline.png")
    assert (tmp_path / "new" / "airline.png").read_bytes().startswith(b"\x89PNG")


# Files --------------------------------------------------------------------------------------


def test_a_saved_forecaster_forecasts_the_same(tmp_path):
    series, days = promoted(80)
    dates = np.arange("2001-01-01", "2001-03-22", dtype="datetime64[D]")
    model = quick(calendar=True).fit(series, covariates=days, dates=dates)
    model.save(tmp_path / "model.safetensors")
    loaded = FRUForecaster.load(tmp_path / "model.safetensors")
    ahead = np.array([1.0, 0.0, 1.0, 0.0])
    for found, expected in zip(
        loaded.predict(covariates=ahead, interval=0.8),
        model.predict(covariates=ahead, interval=0.8),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (loaded.naive_, loaded.kept_naive_) == (model.naive_, model.kept_naive_)
    assert loaded.get_params() == model.get_params() | {"settings": []}


# Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        (np.arange(10.0), {}, "a series of 10 values is too short to learn to forecast 4 steps"),
        (np.arange(30.0), {"window": 28}, "after 28 known ones: that takes 37"),
        (np.ones(50), {}, "all 40 values to learn from are 1; there is nothing to forecast"),
        (np.array([1.0, np.nan] * 30), {}, "missing or not finite at step 1; fill it in first"),
        (np.array(["a"] * 30), {}, "must hold numbers only"),
        (np.zeros((2, 3, 4)), {}, r"must be \(steps,\) or \(steps, channels\); got the shape"),
        (waves(), {"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        (waves(), {"mode": "both"}, "mode must be one of 'independent', 'joint'; got 'both'"),
        (waves(), {"layer": "frru"}, "there is no layer 'frru'; did you mean 'fru'"),
    ],
)
def test_series_that_cannot_be_learned(series, options, message):
    with pytest.raises(ValueError, match=message) as error:
        quick(**options).fit(series)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 5}, "was fitted to forecast 4 steps, not 5; fit it with horizon=5"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1"),
        ({"interval": 1.5}, "interval must lie between 0 and 1, got 1.5"),
        ({"quantiles": (0.1, 1.0)}, "quantiles must lie between 0 and 1"),
        ({"interval": 0.8, "quantiles": (0.1,)}, "give interval or quantiles, not both"),
        ({"covariates": np.zeros(4)}, "was fitted with no covariates; leave them out"),
        ({"series": np.arange(5.0)}, "reads the last 24 values, and a series has 5"),
        ({"series": np.zeros((50, 2))}, "was fitted to 1 series of 1 channels, not 1 of 2"),
    ],
)
def test_forecasts_that_cannot_be_made(options, message):
    with pytest.raises(ValueError, match=message):
        fitted().predict(**options)


CACHE: list[FRUForecaster] = []


def fitted() -> FRUForecaster:
    if not CACHE:
        CACHE.append(quick(season=8).fit(waves()[:, 0]))
    return CACHE[0]


# The command line ---------------------------------------------------------------------------


def test_a_file_is_trained_on_and_forecast(tmp_path):
    path = tmp_path / "lynx.csv"
    path.write_text("lynx\n" + "\n".join(map(str, LYNX)) + "\n")
    settings = ("--set", "data.horizon=5", "--set", "training.steps=10")
    results = ("--results", str(tmp_path / "results"))
    assert "linear forecasts" in torchfru_here("train", str(path), *settings, *results)
    (record,) = (tmp_path / "results").glob("lynx-*/fru-seed0.json")
    found = RunResult.load(record)
    assert {"naive", "errors", "start", "outcome"} <= set(found.measurements)
    kept = found.measurements["outcome"]["forecasts"]
    assert (
        {len(entry["forecast"]) for entry in kept} == {len(entry["truth"]) for entry in kept} == {5}
    )
    rows = json.loads(torchfru_here("predict", str(record), "--input", str(path), "--json"))
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert all(row["low"][0] < row["value"][0] < row["high"][0] for row in rows)
    assert 0 < np.mean([row["value"][0] for row in rows]) < max(LYNX)
