"""The bases: their values, their bound, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchfru
from torchfru.basis import BASES, Chebyshev, Fourier, Legendre, Pairs, Walsh


@given(
    st.sampled_from(sorted(BASES)),
    st.integers(1, 40),
    st.integers(1, 3000),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_every_basis_stays_within_one(name, num_freqs, seq_len, dtype):
    basis = BASES[name]
    num_freqs = 2 * num_freqs if name == "pairs" else num_freqs
    freqs = basis.default_freqs(num_freqs, seq_len).to(dtype)
    phase = torch.randn(num_freqs, dtype=dtype) if basis.has_phase else None
    rows = basis.rows(torch.arange(1, seq_len + 1), freqs, phase, seq_len)
    assert rows.shape == (seq_len, num_freqs)
    assert rows.dtype == dtype
    assert rows.abs().max() <= 1


def test_fourier_is_the_cosine_of_the_paper():
    steps, freqs, phase = torch.arange(1, 8), torch.tensor([0.0, 0.3, 7.0]), torch.randn(3)
    rows = Fourier().rows(steps, freqs, phase, 7)
    for t in range(1, 8):
        for k in range(3):
            expected = math.cos(2 * math.pi * freqs[k].item() * t / 7 + phase[k].item())
            assert rows[t - 1, k].item() == pytest.approx(expected, abs=1e-6)


def test_pairs_are_cosines_and_sines():
    steps, half = torch.arange(1, 8), torch.tensor([0.0, 0.5, 3.5])
    rows = Pairs().rows(steps, torch.cat([half, half]), None, 7)  # (7, 6)
    angle = 2 * math.pi * steps.unsqueeze(-1) * half / 7
    torch.testing.assert_close(rows, torch.cat([angle.cos(), angle.sin()], 1), atol=1e-5, rtol=0)


def test_even_frequencies_tell_all_steps_apart_and_log_ones_alias():
    """The reason to choose "even": above seq_len / 2, frequencies repeat those below it."""
    steps = torch.arange(1, 65)
    low, high = torch.tensor([20.0]), torch.tensor([44.0])  # 64 - 20
    rows = [Fourier().rows(steps, f, torch.zeros(1), 64) for f in (low, high)]
    torch.testing.assert_close(rows[0], rows[1], atol=1e-4, rtol=0)
    assert torchfru.FRU(1, 2, seq_len=64, num_freqs=9, freqs="even").freqs.max() == 32
    assert torchfru.FRU(1, 2, seq_len=64, num_freqs=9, freqs="log").freqs.max() == 64
    pairs = torchfru.FRU(1, 2, seq_len=64, num_freqs=8, basis="pairs")
    assert pairs.freqs[:4].tolist() == pairs.freqs[4:].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"freqs": "odd"}, "freqs must be 'log', 'even', or the values themselves; got 'odd'"),
        ({"freqs": "even", "basis": "walsh"}, "is for the bases 'fourier' and 'pairs'"),
        ({"basis": "pairs", "num_freqs": 5}, "num_freqs must be even, .*; got 5"),
        ({"basis": "pairs", "num_freqs": 2, "freqs": [1.0, 2.0]}, "name each frequency twice"),
    ],
)
def test_wrong_spacings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        torchfru.FRU(1, 2, seq_len=64, **options)


def test_fourier_keeps_its_precision_over_a_million_steps():
    """In float32 alone the angle, 6e6 radians, would be wrong by half a radian."""
    steps = torch.tensor([999_983])
    freqs = torch.tensor([123_457.0, 999_999.0])
    rows = Fourier().rows(steps, freqs, torch.zeros(2), 1_000_000)
    turns = [f * 999_983 % 1_000_000 / 1_000_000 for f in (123_457, 999_999)]
    expected = torch.tensor([[math.cos(2 * math.pi * turn) for turn in turns]])
    torch.testing.assert_close(rows, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("basis", "evaluate"),
    [
        (Chebyshev(), np.polynomial.chebyshev.chebval),
        (Legendre(), np.polynomial.legendre.legval),
    ],
)
def test_polynomials_match_numpy(basis, evaluate):
    rows = basis.rows(torch.arange(1, 51), torch.arange(12.0, dtype=torch.float64), None, 50)
    s = (2 * np.arange(1, 51) - 1) / 50 - 1
    for k in range(12):
        np.testing.assert_allclose(rows[:, k], evaluate(s, np.eye(12)[k]), atol=1e-12)


@pytest.mark.parametrize("seq_len", [16, 64])
def test_walsh_functions_are_orthogonal_and_ordered_by_sign_changes(seq_len):
    rows = Walsh().rows(torch.arange(1, seq_len + 1), torch.arange(float(seq_len)), None, seq_len)
    assert torch.equal(rows.T @ rows, seq_len * torch.eye(seq_len))
    assert (rows.diff(dim=0) != 0).sum(0).tolist() == list(range(seq_len))


def test_default_frequencies_are_zero_and_then_log_spaced():
    freqs = torchfru.FRU(1, 1, seq_len=784).freqs
    assert freqs[0] == 0
    assert freqs[1] == 0.25
    assert freqs[-1] == pytest.approx(784)
    ratios = freqs[2:] / freqs[1:-1]
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios))
    assert torchfru.FRU(1, 1, seq_len=784, num_freqs=1).freqs.tolist() == [0.0]


def test_basis_matrix_is_differentiable_and_without_the_factor():
    layer = torchfru.FRU(1, 1, num_layers=2, bidirectional=True, seq_len=30, num_freqs=5)
    matrix = layer.basis_matrix(layer=1, reverse=True)
    assert matrix.shape == (30, 5)
    torch.testing.assert_close(matrix[:, 0], torch.cos(layer.phase_l1_reverse[0]).expand(30))
    matrix.sum().backward()
    assert layer.phase_l1_reverse.grad.abs().sum() > 0
    with pytest.raises(ValueError, match="there is no layer=2, reverse=False with num_layers=2"):
        layer.basis_matrix(layer=2)


class Ramp(torchfru.Basis):
    """t/T to the power of k: a basis that a user might bring."""

    def rows(self, steps, freqs, phase, seq_len):
        return (steps.unsqueeze(-1) / seq_len) ** freqs


class Growing(Ramp):
    def rows(self, steps, freqs, phase, seq_len):
        return steps.unsqueeze(-1) * torch.ones_like(freqs)


class Broken(Ramp):
    def rows(self, steps, freqs, phase, seq_len):
        return super().rows(steps, freqs, phase, seq_len) * torch.nan


class Sideways(Ramp):
    def rows(self, steps, freqs, phase, seq_len):
        return super().rows(steps, freqs, phase, seq_len).T


def test_own_basis_is_used():
    layer = torchfru.FRU(1, 2, seq_len=10, num_freqs=3, basis=Ramp())
    torch.testing.assert_close(layer.basis_matrix()[:, 1], torch.arange(1, 11) / 10)
    assert not hasattr(layer, "phase_l0")
    assert layer(torch.randn(10, 2, 1))[0].shape == (10, 2, 2)


@pytest.mark.parametrize(
    ("basis", "error", "message"),
    [
        (Growing(), ValueError, r"within \[-1, 1\], got 2 at step 2 of function 0"),
        (Broken(), ValueError, r"within \[-1, 1\], got nan at step 1 of function 0"),
        (Sideways(), ValueError, r"must return the shape \(10, 3\).*got \(3, 10\)"),
        ("wavelet", ValueError, "one of fourier, pairs, chebyshev, .*got 'wavelet'"),
        (object(), TypeError, "object has no has_phase, default_freqs, check_freqs, rows"),
    ],
)
def test_bad_bases_are_refused(basis, error, message):
    with pytest.raises(error, match=message):
        torchfru.FRU(1, 2, seq_len=10, num_freqs=3, basis=basis)


@pytest.mark.parametrize(
    ("basis", "freqs", "message"),
    [
        ("legendre", [0.0, 2.0], r"legendre: freqs must be the degrees 0..1, got \[0.0, 2.0\]"),
        ("chebyshev", [0.5, 2.0], r"chebyshev: freqs must be whole numbers.*got \[0.5, 2.0\]"),
        ("walsh", [-1.0, 2.0], r"walsh: freqs must be whole numbers from 0 up, got \[-1.0, 2.0\]"),
        ("walsh", [0.0, 2.0**24], "walsh: freqs must be below 16777216"),
        ("fourier", [0.0, math.nan], r"FRU: freqs must be finite, got \[0.0, nan\]"),
        ("fourier", [1.0], r"FRU: freqs must hold num_freqs=2 values, got the shape \(1,\)"),
    ],
)
def test_bad_frequencies_are_refused(basis, freqs, message):
    with pytest.raises(ValueError, match=message):
        torchfru.FRU(1, 2, seq_len=10, num_freqs=2, freqs=freqs, basis=basis)


def test_log_frequencies_refuses_an_empty_range():
    with pytest.raises(ValueError, match=r"got min_freq=2.0, max_freq=1.0"):
        torchfru.log_frequencies(5, max_freq=1.0, min_freq=2.0)
