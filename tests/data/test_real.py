"""The real files, where TORCHFRU_DATA names a folder that has them."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from torchfru.data import available, load, temperature, verify

HERE = {
    name: bool(os.environ.get("TORCHFRU_DATA")) and available(name)
    for name in ("pixel-mnist", "imdb", "beijing")
}


def needs(name):
    return pytest.mark.skipif(not HERE[name], reason=f"TORCHFRU_DATA has no {name}")


@needs("pixel-mnist")
def test_mnist():
    data = load("pixel-mnist")
    assert data.train.inputs.shape == (60_000, 784, 1)
    assert data.test.inputs.shape == (10_000, 784, 1)
    assert data.train.targets[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.test.targets.bincount().tolist()[:3] == [980, 1135, 1032]
    assert data.train.inputs.mean().item() == pytest.approx(0.1307, abs=1e-4)
    assert (data.train.inputs.min(), data.train.inputs.max()) == (0, 1)
    mixed = load("permuted-mnist", split="released")
    assert (len(mixed.train), len(mixed.test)) == (56_000, 14_000)
    torch.testing.assert_close(
        torch.cat([mixed.train.targets, mixed.test.targets]).bincount(),
        torch.cat([data.train.targets, data.test.targets]).bincount(),
    )


@needs("imdb")
def test_imdb(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHFRU_CACHE", str(tmp_path))
    data = load("imdb")
    assert data.train.inputs.shape == data.test.inputs.shape == (25_000, 300)
    assert data.vocab_size == 10_002
    assert data.words[2:6] == ("the", "and", "a", "of")
    assert data.train.targets.bincount().tolist() == [12_500, 12_500]
    assert data.train.lengths.min() >= 1
    assert data.train.lengths.max() == 300
    padding = torch.arange(300) >= data.train.lengths[:, None]
    assert torch.equal(data.train.inputs == 0, padding)
    again = load("imdb")
    assert torch.equal(again.train.inputs, data.train.inputs)


@needs("beijing")
def test_beijing():
    hours, days = temperature(), temperature(every="day")
    assert (len(hours), len(days)) == (26_304, 1_096)
    np.testing.assert_array_equal(hours[:4], [-11, -12, -11, -14])
    assert days[:2] == pytest.approx([-6.75, -5.125])
    data = load("beijing")
    assert (len(data.train), len(data.test), data.seq_len) == (125, 31, 168)


@pytest.mark.parametrize("name", ["pixel-mnist", "beijing"])
def test_verify(name):
    if not HERE[name]:
        pytest.skip(f"TORCHFRU_DATA has no {name}")
    assert [found.problem for found in verify(name)] == [None] * len(verify(name))
