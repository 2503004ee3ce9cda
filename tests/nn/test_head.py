"""The head part by part, and the energy that does not see a shift in time."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from torchfru.nn.head import EnergyReadout, Head


def test_a_bare_head_is_a_linear_map_with_its_names():
    head, y = Head(5, 3, seq_len=10), torch.randn(2, 5)
    assert set(head.state_dict()) == {"weight", "bias"}
    torch.testing.assert_close(head(y), nn.functional.linear(y, head.weight, head.bias))


@pytest.mark.parametrize("scale", ["sqrt", "learned"])
def test_scale_starts_at_the_root_of_the_length(scale):
    head, y = Head(5, 3, seq_len=49, scale=scale), torch.randn(2, 5)
    torch.testing.assert_close(head(y), nn.functional.linear(7 * y, head.weight, head.bias))
    assert ("scale" in head.state_dict()) == (scale == "learned")


def test_the_head_can_tell_every_step_from_every_other():
    head = Head(1, 1, seq_len=64, time_freqs=8)
    rows = head._time(torch.arange(1, 65), torch.zeros(64, 1))  # (64, 16)
    distance = torch.cdist(rows, rows) + 10 * torch.eye(64)
    assert float(distance.min()) > 0.5


def test_dropout_norm_energy_and_hidden_layers_have_their_places():
    head = Head(
        4, 2, seq_len=9, norm=True, activation="relu", sizes=(6, 5), energy=3, window=2, dropout=0.5
    ).eval()
    y, energy, window = torch.randn(7, 4), torch.randn(7, 3), torch.randn(7, 2)
    v = torch.relu(head.norm(torch.cat([y, energy], -1)))
    v = torch.cat([v, window], -1)
    for linear in head.hidden:
        v = torch.relu(linear(v))
    expected = nn.functional.linear(v, head.weight, head.bias)
    torch.testing.assert_close(head(y, energy, window=window), expected)
    assert not torch.equal(head.train()(y, energy, window=window), expected)


def test_zero_start():
    head = Head(4, 2, seq_len=9, sizes=(6,), zero=True)
    assert not head(torch.randn(3, 4)).any()


def test_energy_of_a_shifted_pattern_is_the_same():
    """A pattern far from both ends of a long sequence, and the same one 37 steps later."""
    steps, freqs, pattern = torch.arange(1, 401), torch.arange(6.0), torch.randn(20)
    angle = 2 * math.pi * steps.unsqueeze(-1) * freqs / 400
    rows = torch.cat([angle.cos(), angle.sin()], -1) / 400  # (T, 12)
    memories = []
    for start in (100, 137):
        h = torch.zeros(400)
        h[start : start + 20] = pattern
        memories.append(h @ rows)
    u = torch.stack(memories)  # (2, 12)
    energy = EnergyReadout(6, 1, 4, seq_len=400).double()
    first, second = energy(u.double())
    torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-3)
    assert not torch.allclose(u[0], u[1], rtol=0.1)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="scale must be one of none, sqrt, learned; got 'log'"):
        Head(4, 2, seq_len=9, scale="log")
    with pytest.raises(ValueError, match=r"activation must be one of .*; got 'sin'"):
        Head(4, 2, seq_len=9, activation="sin")
