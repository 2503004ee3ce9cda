"""The claims about the layers themselves: summaries, the collapsed form, all steps at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paper.theory import collapsed_equals_direct, picard, summaries
from paper.theory.registry import one_thread
from torchfru import FRU

SEARCH = settings(max_examples=200, deadline=None)
BACKENDS = st.sampled_from(["reference", "collapsed"])
SEEDS = st.integers(0, 2**31)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@SEARCH
@given(length=st.integers(1, 30), backend=BACKENDS, m=st.sampled_from([1, 2, 3, 6]), seed=SEEDS)
def test_the_memory_of_an_fru_is_its_sum(length: int, backend: str, m: int, seed: int) -> None:
    assert summaries.fru_difference(length, backend, m, seed) <= 1e-13


@SEARCH
@given(length=st.integers(1, 30), backend=BACKENDS, seed=SEEDS)
def test_the_memory_of_an_sru_is_its_sum(length: int, backend: str, seed: int) -> None:
    assert summaries.sru_difference(length, backend, seed) <= 1e-13


@SEARCH
@given(
    length=st.integers(1, 12),
    blocks=st.integers(1, 3),
    m=st.integers(1, 3),
    phi=st.sampled_from(["relu", "tanh", "identity"]),
    seed=SEEDS,
)
def test_collapsed_equals_direct(length: int, blocks: int, m: int, phi: str, seed: int) -> None:
    torch.manual_seed(seed)
    layer = FRU(2, 3, seq_len=length, num_freqs=blocks * m, freq_dim=2, gate_size=4,
                freqs_per_block=m, nonlinearity=phi, dtype=torch.float64)  # fmt: skip
    x = torch.randn(length, 2, 2, dtype=torch.float64)
    assert collapsed_equals_direct.difference(layer, x) <= 1e-11


def test_counted_work_is_what_the_formula_says() -> None:
    layer = FRU(1, 200, seq_len=784, return_sequences=False)
    n_u, n_g, n_h, steps, batch = 600, 60, 10, 60, 8
    last = (200 * n_u) / steps  # Y u(T)
    direct = n_u * n_g + n_g * n_h + n_h + last
    first = n_u * n_g / steps  # z(1)
    collapsed = 2 * n_g * n_h + n_h + n_u + first + last + 60 * n_g * n_h / batch
    count = collapsed_equals_direct.multiply_adds
    assert count(layer, batch, "reference", steps) == pytest.approx(direct)
    assert count(layer, batch, "collapsed", steps) == pytest.approx(collapsed)


@SEARCH
@given(length=st.integers(2, 25), gain=st.floats(0.1, 6.0), seed=SEEDS)
def test_rounds_stay_below_the_estimate(length: int, gain: float, seed: int) -> None:
    layer = picard.fresh_layer(length, gain, seed)
    found = picard.rounds(layer, torch.Generator().manual_seed(seed)).count
    # after r rounds the first r steps are exact, whatever the weights
    assert found <= min(length, picard.rounds_bound(layer))


def test_rounds_do_not_grow_with_t() -> None:
    generator = torch.Generator().manual_seed(0)
    counts = [picard.rounds(picard.fresh_layer(n), generator).count for n in (50, 500, 5_000)]
    assert max(counts) - min(counts) <= 1


def test_rounds_run_out_where_the_weights_are_huge() -> None:
    generator = torch.Generator().manual_seed(0)
    assert math.isinf(picard.rounds(picard.fresh_layer(500, 100.0), generator).count)


def test_trained_weights_are_read_from_a_file(tmp_path: Path) -> None:
    model = torch.nn.ModuleDict({"layer": FRU(3, 7, seq_len=40, num_freqs=6, freq_dim=2,
                                              gate_size=5, freqs_per_block=2)})  # fmt: skip
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    layer = picard.load_layer(tmp_path / "weights.pt", length=90)
    assert (layer.seq_len, layer.num_freqs, layer.freq_dim) == (90, 6, 2)
    assert layer.freqs_per_block == 2
    stored = model.state_dict()["layer.weight_gh_l0"].double()
    assert torch.equal(layer.weight_gh_l0.detach(), stored)
    assert picard.rounds(layer, torch.Generator().manual_seed(0)).count < 20


def test_a_file_without_an_fru_is_refused(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "other.pt")
    with pytest.raises(ValueError, match="no weights of an FRU"):
        picard.load_layer(tmp_path / "other.pt", length=10)
