"""The gradient claims: what holds is searched for counterexamples, what does not has one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paper.experiments import BASES
from paper.theory import gradient_fru, gradient_rnn, gradient_sru, residual
from paper.theory.linear import extremes, jacobian, largest, linear_fru, linear_sru
from paper.theory.registry import one_thread
from torchfru import FRU

SEARCH = settings(max_examples=200, deadline=None)
ROUNDING = 1e-9


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@st.composite
def matrices(draw: st.DrawFn, rows: int, columns: int, sigma: float) -> torch.Tensor:
    """Any (rows, columns) matrix with sigma_max = sigma (0 for the zero matrix)."""
    size = rows * columns
    entries = draw(st.lists(st.floats(-1, 1), min_size=size, max_size=size))
    w = torch.tensor(entries, dtype=torch.float64).reshape(rows, columns)
    norm = largest(w)
    return w * (sigma / norm) if norm > 1e-6 else w * 0.0


@st.composite
def fru_cases(draw: st.DrawFn, basis: str = "fourier") -> gradient_fru.FRUCase:
    seq_len, blocks = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    per_block, freq_dim = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    count, n_h = blocks * per_block, per_block * freq_dim
    sigma = draw(st.floats(0.01, min(float(seq_len), 5.0)))
    w = draw(matrices(n_h, count * freq_dim, sigma))
    freqs = [float(k) for k in range(count)]
    if basis == "fourier":
        turns = st.just(0.0) | st.floats(0, seq_len)  # 0: where the bounds are tight
        freqs = draw(st.lists(turns, min_size=count, max_size=count))
    angles = st.just(0.0) | st.floats(-math.pi, math.pi)
    phase = draw(st.lists(angles, min_size=count, max_size=count))
    start = draw(st.integers(0, seq_len - 1))
    return gradient_fru.FRUCase(w, seq_len, start, freqs, phase, per_block, basis)


@SEARCH
@given(fru_cases())
def test_fru_gradients_stay_within_the_corrected_bounds(case: gradient_fru.FRUCase) -> None:
    assert max(gradient_fru.excess_corrected(case)) <= ROUNDING


@pytest.mark.parametrize("basis", [name for name in BASES if name != "fourier"])
@SEARCH
@given(data=st.data())
def test_so_do_those_of_every_basis(basis: str, data: st.DataObject) -> None:
    assert max(gradient_fru.excess_corrected(data.draw(fru_cases(basis)))) <= ROUNDING


def test_the_bounds_as_stated_are_broken_below_by_a_short_sequence() -> None:
    low, high = gradient_fru.excess_as_stated(gradient_fru.LOWER)
    assert low > 0.4
    assert high <= 0


def test_the_corrected_lower_bound_says_nothing_beyond_its_condition() -> None:
    assert gradient_fru.excess_corrected(gradient_fru.LOWER)[0] == -math.inf
    within = replace(gradient_fru.LOWER, w=torch.tensor([[-0.79]], dtype=torch.float64))
    assert -0.05 < gradient_fru.excess_corrected(within)[0] <= 0


def test_the_bounds_as_stated_are_broken_above_by_two_frequencies() -> None:
    low, high = gradient_fru.excess_as_stated(gradient_fru.UPPER)
    assert low <= 0
    assert high > 0.05


def test_one_block_keeps_the_paper_s_bounds_where_sigma_is_small_against_t() -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        case = gradient_fru.random_case(generator)
        if case.blocks == 1 and case.sigma <= 0.79 * case.seq_len:
            assert max(gradient_fru.excess_as_stated(case)) <= ROUNDING


def test_the_order_of_the_product_matters() -> None:
    """W1 W2 = 0 and W2 W1 != 0: read as it is printed, the theorem would say |J| = 1."""
    layer = FRU(1, 1, bias=False, seq_len=10, num_freqs=1, freq_dim=2, gate_size=1,
                freqs=[0.0], nonlinearity="identity", dtype=torch.float64)  # fmt: skip
    with torch.no_grad():
        layer.phase_l0.zero_()
        layer.weight_ug_l0.copy_(torch.tensor([[0.0, 1.0]]))
        layer.weight_gh_l0.copy_(torch.tensor([[1.0], [0.0]]))
    assert largest(layer.weight_ug_l0 @ layer.weight_gh_l0) == 0
    assert extremes(jacobian(layer, 10)).high > 1.5


def test_the_inequality_ends_where_it_should() -> None:
    x = gradient_fru.inequality_ends()
    assert 1 - x == pytest.approx(math.exp(-2 * x))
    assert math.exp(-2 * 0.81) > 1 - 0.81


def test_the_jacobian_of_blocks_is_the_jacobian() -> None:
    w = torch.block_diag(*torch.randn(4, 2, 2, dtype=torch.float64))
    layer = linear_fru(w, seq_len=9, freqs=[0.0, 1.5], freqs_per_block=2)
    torch.testing.assert_close(jacobian(layer, 9, block=2), jacobian(layer, 9))


def test_the_jacobian_is_the_product_of_its_steps() -> None:
    w = torch.randn(2, 2, dtype=torch.float64)
    layer = linear_fru(w, seq_len=5, freqs=[0.7], phase=[0.3])
    product = torch.eye(2, dtype=torch.float64)
    for t in range(3, 6):
        cosine = math.cos(2 * math.pi * 0.7 * t / 5 + 0.3)
        product = (torch.eye(2, dtype=torch.float64) + cosine / 5 * w) @ product
    torch.testing.assert_close(jacobian(layer, 3, start=2), product)


@st.composite
def sru_cases(draw: st.DrawFn) -> gradient_sru.SRUCase:
    size, count = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    w = draw(matrices(size, size * count, draw(st.floats(0.01, 2.0))))
    alphas = draw(st.lists(st.floats(0.05, 0.95), min_size=count, max_size=count))
    return gradient_sru.SRUCase(w, alphas, draw(st.integers(1, 8)))


@SEARCH
@given(sru_cases())
def test_sru_gradients_stay_within_the_corrected_bounds(case: gradient_sru.SRUCase) -> None:
    assert gradient_sru.excess_corrected(case) <= ROUNDING


def test_sru_s_lower_bound_as_stated_is_broken() -> None:
    assert gradient_sru.excess_as_stated(gradient_sru.COUNTEREXAMPLE) > 1


@SEARCH
@given(data=st.data())
def test_for_symmetric_positive_w_sru_s_bounds_hold_as_stated(data: st.DataObject) -> None:
    root = data.draw(matrices(2, 2, data.draw(st.floats(0.1, 1.4))))
    alpha, steps = data.draw(st.floats(0.05, 0.95)), data.draw(st.integers(1, 8))
    case = gradient_sru.SRUCase(root @ root.t(), [alpha], steps)
    assert gradient_sru.excess_as_stated(case) <= ROUNDING


def test_the_linear_sru_is_the_layer() -> None:
    w = torch.randn(3, 3, dtype=torch.float64)
    expected = torch.linalg.matrix_power(0.3 * torch.eye(3, dtype=torch.float64) + 0.7 * w, 4)
    torch.testing.assert_close(jacobian(linear_sru(w, [0.3]), 4), expected)


@SEARCH
@given(data=st.data())
def test_rnn_gradients_stay_within_their_bounds(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 3))
    w = data.draw(matrices(size, size, data.draw(st.floats(0.1, 1.5))))
    loss = torch.tensor(data.draw(st.lists(st.floats(0.1, 1), min_size=size, max_size=size)))
    steps = data.draw(st.integers(1, 15))
    assert gradient_rnn.excess(w, steps, loss.double()) <= ROUNDING


def test_exponents_beyond_float64_are_followed() -> None:
    expected = 100_000 * math.log(0.9)
    assert gradient_rnn.log_gradients(0.9, 100_000) == pytest.approx(expected)
    expected = 100_000 * math.log(0.25 + 0.75 * 0.5)
    assert gradient_sru.log_gradients(0.25, 100_000) == pytest.approx(expected)


@SEARCH
@given(
    length=st.integers(1, 100_000),
    phi=st.sampled_from(residual.NONLINEARITIES),
    per_block=st.sampled_from([1, 2, 3]),
    seed=st.integers(0, 2**31),
)
def test_one_step_is_the_identity_plus_a_bounded_term_over_t(
    length: int, phi: str, per_block: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    found, bound = residual.ratio(
        length, phi, generator, num_freqs=6, freq_dim=2, freqs_per_block=per_block
    )
    assert found <= bound * (1 + length * 1e-13)  # J - I is a difference of ones, times T
