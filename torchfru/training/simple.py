"""Predictors that need no training, to compare trained ones with."""

from __future__ import annotations

from torch import Tensor

from ..data import SequenceData


def simple_predictors(data: SequenceData, skip: int = 0) -> dict[str, float]:
    """Test MSE of saying the last value again, and of the straight line through the last two.

    At the first step there is no line yet, and the last value stands in for it; ``skip`` leaves so
    many steps out.
    """
    x, y = data.test.inputs, data.test.targets  # (N, L, 1)
    before = x.roll(1, dims=1)
    before[:, 0] = x[:, 0]
    guesses = {"last value": x, "straight line": 2 * x - before}
    return {name: _mse(guess[:, skip:], y[:, skip:]) for name, guess in guesses.items()}


def _mse(guess: Tensor, targets: Tensor) -> float:
    return float((guess - targets).square().mean())
