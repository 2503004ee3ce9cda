"""Linear forecasts by sums over windows, against forecasts by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.series import AIRLINE
from torchfru.data.windows import Windows
from torchfru.nn import NaiveForecast
from torchfru.nn.linear_forecast import (
    Choice,
    Mixture,
    Moments,
    best_of,
    iterate,
    mix_forecasts,
    plain_forecasts,
)


def windows(n: int = 1, count: int = 80, width: int = 6, horizon: int = 3, seed: int = 0):
    """Inputs (N, width, n) and targets (N, horizon n) of noisy waves."""
    make = torch.Generator().manual_seed(seed)
    t = torch.arange(count + width + horizon - 1)
    x = torch.sin(t.unsqueeze(-1) * 2.1 + torch.arange(n)) + 0.02 * t.unsqueeze(-1)
    x = (x + 0.1 * torch.randn(x.shape, generator=make)).double()
    blocks = x.unfold(0, width + horizon, 1).transpose(1, 2)
    return blocks[:, :width], blocks[:, width:].flatten(1)


def error_by_hand(x, y, weight, bias):
    naive = NaiveForecast("best", x.shape[2], width=x.shape[1], horizon=y.shape[1] // x.shape[2])
    naive.double().set_weights(weight, bias)
    return (naive.after(x, torch.full((len(x),), x.shape[1])) - y).square().mean(0)


CHOICES = (
    Choice("last"),
    Choice("line"),
    Choice("seasonal", 3),
    Choice("seasonal-line", 3),
    Choice("last", width=6, penalty=0.1, bias=True),
    Choice("seasonal", 3, width=4, penalty=1.0),
    Choice("last", width=6, penalty=0.1, bias=True, iterated=True),
)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_errors_by_moments_are_those_of_the_forecasts(choice, n):
    x, y = windows(n)
    moments = Moments.of([(x[:50], y[:50]), (x[50:], y[50:])])
    weight, bias = Mixture((choice,), (1.0,)).fit(moments, 3)
    torch.testing.assert_close(moments.error(weight, bias), error_by_hand(x, y, weight, bias))
    if not choice.width:
        naive = NaiveForecast(choice.base, n, season=choice.season, horizon=3).double()
        expected = (naive.after(x, torch.full((len(x),), 6)) - y).square().mean(0)
        torch.testing.assert_close(moments.error(weight, bias), expected)


def test_a_regression_without_penalty_has_the_least_error():
    x, y = windows()
    moments = Moments.of([(x, y)])
    errors = [
        float(moments.error(*Mixture((one,), (1.0,)).fit(moments, 3)).sum())
        for one in (
            Choice("last", width=6, penalty=1e-9, bias=True),
            Choice("last", width=6, penalty=1.0, bias=True),
            Choice("last", width=6, penalty=1e9),
        )
    ]
    assert errors == sorted(errors)
    last = moments.error(*Mixture((Choice("last"),), (1.0,)).fit(moments, 3)).sum()
    assert errors[-1] == pytest.approx(float(last), rel=1e-5)
    features = torch.cat([(x - x[:, -1:])[:, :-1, 0], torch.ones(len(x), 1).double()], 1)
    left = y - x[:, -1]
    fitted = features @ torch.linalg.lstsq(features, left).solution
    assert errors[0] == pytest.approx(float((fitted - left).square().mean(0).sum()), rel=1e-5)


def test_iterating_is_forecasting_one_step_again_and_again():
    x, y = windows(n=2)
    moments = Moments.of([(x, y[:, :2])])
    one = Mixture((Choice("last", width=6, penalty=0.1, bias=True),), (1.0,)).fit(moments, 1)
    many = iterate(*one, horizon=3)
    ends, known, steps = torch.full((len(x),), 6), x, []
    step = NaiveForecast("best", 2, width=6).double()
    step.set_weights(*one)
    for _ in range(3):
        steps.append(step.after(known, ends))
        known = torch.cat([known[:, 1:], steps[-1].unsqueeze(1)], 1)
    block = NaiveForecast("best", 2, width=6, horizon=3).double()
    block.set_weights(*many)
    torch.testing.assert_close(block.after(x, ends), torch.cat(steps, 1))


def folds_of(series):
    values = np.array(series, float)
    values = (values - values.mean()) / values.std()
    parts = Windows.over([values[:, None]], width=24, horizon=12).folds()
    return [(Moments.of(a.blocks()), Moments.of(b.blocks())) for a, b in parts]


def total(mixture, folds):
    return sum(judged.total(*mixture.fit(learned, 12)) for learned, judged in folds)


def test_much_to_judge_by_chooses_one_and_little_mixes():
    folds = folds_of(AIRLINE)
    few, many = (mix_forecasts(folds, 12, 24, [12], independent) for independent in (6.0, 1e6))
    assert len(few.choices) > 3 * len(many.choices)
    for mixture in (few, many):
        assert sum(mixture.weights) == pytest.approx(1.0)
        assert mixture.weights[0] == max(mixture.weights)
        plain = [best_of(each, folds, 12) for each in plain_forecasts(24, [12]).values()]
        assert total(mixture, folds) < 0.8 * min(total(one, folds) for one in plain)


def test_a_mixture_that_is_not_clearly_better_is_the_best_plain_forecast():
    """In a random walk there is nothing to gain by chance."""
    folds = folds_of(np.random.default_rng(0).normal(size=120).cumsum())
    mixture = mix_forecasts(folds, 12, 24, [12], 6.0)
    plain = [best_of(each, folds, 12) for each in plain_forecasts(24, [12]).values()]
    assert mixture == min(plain, key=lambda one: total(one, folds))


def test_no_windows_are_one_line():
    with pytest.raises(ValueError, match="needs at least one window to learn from"):
        Moments.of([])
