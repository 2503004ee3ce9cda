"""Gradients over depth: searched for counterexamples, and each claim can fail."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paper import networks
from paper.theory import depth_gradient
from paper.theory.depth_gradient import DepthCase, fourier_net, state_jacobian
from paper.theory.finding import Settings
from paper.theory.registry import one_thread

SEARCH = settings(max_examples=200, deadline=None)
ROUNDING = 1e-9


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@SEARCH
@given(seed=st.integers(0, 2**31), index=st.integers(0, 11))
def test_gradients_over_depth_stay_within_their_bounds(seed: int, index: int) -> None:
    case = depth_gradient.random_case(torch.Generator().manual_seed(seed), index)
    assert max(depth_gradient.excess_over_depth(case)) <= ROUNDING


@st.composite
def corner_cases(draw: st.DrawFn) -> DepthCase:
    """Entries and frequencies that a random draw would hardly find: zeros, ones, equal signs."""
    depth, count, d = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    entries = st.sampled_from([-1.0, 0.0, 0.5, 1.0])

    def matrices(rows: int, columns: int) -> torch.Tensor:
        size = depth * rows * columns
        found = draw(st.lists(entries, min_size=size, max_size=size))
        return torch.tensor(found, dtype=torch.float64).view(depth, rows, columns)

    w1, w2 = matrices(d, count * d), matrices(d, d)
    freqs = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=count, max_size=count))
    phi = draw(st.sampled_from(depth_gradient.SLOPES))
    net = fourier_net(draw(st.sampled_from([0.3, 1.0])) * w1, w2, freqs, nonlinearity=phi)
    return DepthCase(
        net, torch.linspace(-1, 1, count * d).double(), draw(st.integers(0, depth - 1))
    )


@SEARCH
@given(corner_cases())
def test_so_do_those_of_corner_cases(case: DepthCase) -> None:
    assert max(depth_gradient.excess_over_depth(case)) <= ROUNDING


def test_without_the_root_the_upper_bound_is_broken() -> None:
    assert depth_gradient.excess_without_root(depth_gradient.PAIR) > 0.05
    assert max(depth_gradient.excess_over_depth(depth_gradient.PAIR)) <= 0


def test_the_lower_bound_says_nothing_of_a_layer_that_is_too_large() -> None:
    def of(w: float) -> DepthCase:
        w1 = torch.full((1, 1, 1), w, dtype=torch.float64)
        net = fourier_net(w1, torch.ones(1, 1, 1), [0.0], nonlinearity="identity")
        return DepthCase(net, torch.zeros(1, dtype=torch.float64))

    assert depth_gradient.excess_over_depth(of(-0.9))[0] == -math.inf
    assert -0.05 < depth_gradient.excess_over_depth(of(-0.79))[0] <= 0


def test_the_jacobian_is_the_product_of_the_layers() -> None:
    w1, w2 = torch.randn(5, 3, 4, dtype=torch.float64), torch.randn(5, 2, 3, dtype=torch.float64)
    net = fourier_net(w1, w2, [0.0, 1.5], nonlinearity="identity")
    product = torch.eye(4, dtype=torch.float64)
    for layer in range(2, 5):
        cosines = (math.cos(2 * math.pi * f * (layer + 1) / 5) / 5 for f in (0.0, 1.5))
        both = torch.cat([c * w2[layer] @ w1[layer] for c in cosines])
        product = (torch.eye(4, dtype=torch.float64) + both) @ product
    found = state_jacobian(net, torch.zeros(4, dtype=torch.float64), start=2)
    torch.testing.assert_close(found, product)


def test_the_claim_fails_where_the_factor_over_depth_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stacked = depth_gradient.FourierMLP._stacked

    def unscaled(net: depth_gradient.FourierMLP) -> tuple[torch.Tensor, ...]:
        *weights, rows = stacked(net)
        return *weights, rows * net.depth

    monkeypatch.setattr(depth_gradient.FourierMLP, "_stacked", unscaled)
    monkeypatch.setattr(depth_gradient, "DEEP", (10,))
    monkeypatch.setattr(
        depth_gradient, "_as_initialised", lambda: (depth_gradient.Extremes(1, 1), 0)
    )
    assert depth_gradient.measure(Settings(examples=10)).verdict == "fails"


@SEARCH
@given(seed=st.integers(0, 2**31), index=st.integers(0, 1))
def test_plain_and_residual_networks_stay_within_theirs(seed: int, index: int) -> None:
    net, x = depth_gradient.random_stack(torch.Generator().manual_seed(seed), index)
    assert depth_gradient.stack_excess(net, x) <= ROUNDING


def test_that_claim_fails_for_a_network_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_gradient, "DEPTHS", (10, 30))
    quick = Settings(examples=10)
    assert depth_gradient.measure_plain(quick).verdict == "holds"
    larger = {"plain": lambda u, f, depth: 1.1 * torch.relu(f(u))}
    monkeypatch.setattr(networks, "UPDATES", networks.UPDATES | larger)
    assert depth_gradient.measure_plain(quick).verdict == "fails"


def test_one_factor_over_depth_decides() -> None:
    factors = depth_gradient.initialised(Settings())
    assert factors["plain"][-1] < -10
    assert factors["residual"][-1] > 100
    assert abs(factors["fourier"][-1]) < 0.1
    assert abs(factors["mean"][-1]) < 0.1
