"""Windows over series: what they hold, how they are parted in time, and the memory they take."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torchfru.data.windows import Windows, default_width, find_season, held_rows
from torchfru.training.batches import Batches, hold_back


def counted(*lengths: int, width: int = 5, horizon: int = 3) -> Windows:
    """Series that count on from 0, 1000, 2000, ..., with a covariate that is negative."""
    series = [1000 * i + np.arange(n, dtype=float)[:, None] for i, n in enumerate(lengths)]
    return Windows.over([np.concatenate([x, -x - 1], 1) for x in series], width, horizon, outputs=1)


def test_a_window_and_its_targets_follow_each_other_within_one_series():
    windows = counted(20, 4, 12)
    assert len(windows) == 13 + 0 + 5
    part = windows[:]
    steps = torch.cat([part.inputs[..., 0], part.targets], 1)
    assert (steps.diff() == 1).all()
    assert part.inputs.shape == (18, 5, 2)
    assert (part.inputs[..., 1] == -part.inputs[..., 0] - 1).all()
    assert windows.numbers().tolist() == [0] * 13 + [2] * 5
    torch.testing.assert_close(windows[torch.tensor([3, 17])].inputs, part.inputs[[3, 17]])
    torch.testing.assert_close(windows.inputs, part.inputs)
    seen = torch.cat([inputs for inputs, _ in windows.blocks()])
    torch.testing.assert_close(seen, part.inputs[..., :1])


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
def test_parts_in_time_share_no_target(share):
    windows = counted(40, 60)
    before, after = windows.in_time(share)
    held = [held_rows(n, share, 3) for n in (40, 60)]
    assert before[:].targets[before.numbers() == 0].max() == 40 - held[0] - 1
    assert after[:].targets[after.numbers() == 1].min() == 1000 + 60 - held[1]
    assert after[:].targets.max() == 1059
    assert len(before) + len(after) == len(windows) - 2 * 2  # those across the cut


def test_training_holds_back_the_end():
    windows = counted(50)
    train, held = hold_back(windows, 0.2)
    assert train[:].targets.max() < held[:].targets.min() == 40


def test_folds_learn_from_what_is_before_what_judges():
    folds = counted(100).folds()
    assert len(folds) == 6  # twice as many as of a long series
    assert len(counted(2000).folds()) == 3
    for learned, judged in folds:
        assert learned[:].targets.max() + 1 == judged[:].targets.min()
    assert folds[-1][1][:].targets.max() == 99
    assert len(counted(12).folds()) == 1  # too short for more


def test_a_million_values_take_little_memory():
    windows = Windows.over([np.zeros((1_000_000, 1))], width=500, horizon=100)
    assert windows.values.numel() == 1_000_000
    assert windows.starts.numel() == len(windows) == 1_000_000 - 599
    batch = next(Batches(windows, "regress", 32).epoch(0))
    assert batch.inputs.shape == (32, 500, 1)
    assert batch.terms == 3200
    before, after = windows.in_time(0.2)
    assert before.values.data_ptr() == windows.values.data_ptr()
    assert len(after) < 10_000  # thinned out


@pytest.mark.parametrize(("season", "trend"), [(12, 0.0), (7, 0.1), (24, -1.0)])
def test_a_season_is_found(season, trend):
    t = np.arange(300)
    series = np.sin(2 * np.pi * t / season) + 0.3 * np.random.default_rng(0).normal(size=300)
    assert find_season([(series + trend * t)[:, None]], 100) == season


def test_noise_has_no_season():
    assert find_season([np.random.default_rng(0).normal(size=(500, 1))], 100) == 1


def test_a_default_window_leaves_something_to_learn_from():
    assert default_width(1000, horizon=12, season=12) == 36
    for rows in range(28, 200):
        width = default_width(rows, horizon=12, season=12)
        assert width >= 2
        assert rows - width - 12 + 1 > 0
