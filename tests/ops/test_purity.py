"""Forward and backward change no bit of parameters, inputs, states or upstream gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import KINDS, assert_pure
from hypothesis import given, settings
from hypothesis import strategies as st

import torchfru

WIDTHS = [3, 4, 8, 16, 17, 32]  # on both sides of the lanes of every vector


@st.composite
def calls(draw):
    """A layer and a call of it, with sizes that are whole vectors as often as not."""
    dtype, nonlinearity = draw(st.sampled_from(KINDS))
    layer = torchfru.FRU(
        draw(st.sampled_from([1, 5, 12])),
        draw(st.sampled_from(WIDTHS)),
        num_layers=draw(st.sampled_from([1, 1, 2])),
        bias=draw(st.booleans()),
        batch_first=draw(st.booleans()),
        bidirectional=draw(st.booleans()),
        seq_len=40,
        num_freqs=2,
        freq_dim=draw(st.sampled_from([3, 5, 10])),
        gate_size=draw(st.sampled_from(WIDTHS)),
        nonlinearity=nonlinearity,
        return_sequences=draw(st.booleans()),
        dtype=dtype,
    )
    steps, batch = draw(st.sampled_from([1, 17])), draw(st.sampled_from([1, 1, 2, 4, 8, 16, 33]))
    shape = (batch, steps) if layer.batch_first else (steps, batch)
    inputs = {"input": torch.randn(*shape, layer.input_size, dtype=dtype, requires_grad=True)}
    if draw(st.booleans()):
        layers = layer.num_layers * layer.num_directions
        u = torch.randn(layers, batch, layer.state_size, dtype=dtype, requires_grad=True)
        inputs["hx"] = (u, torch.zeros(layers, batch, dtype=torch.int64))
    if draw(st.booleans()):
        inputs["lengths"] = torch.randint(0, steps + 1, (batch,))
    return layer, inputs


@pytest.mark.parametrize("backend", torchfru.available_backends())
@settings(max_examples=60)
@given(call=calls())
def test_a_call_changes_nothing_that_it_was_given(backend, call):
    with torchfru.use_backend(backend):
        assert_pure(*call)


def test_a_batch_of_one_keeps_the_output_bias():
    layer = torchfru.FRU(64, 128, batch_first=True, seq_len=1000)
    x = torch.randn(1, 70, 64)
    first, second = layer(x)[0], layer(x)[0]
    assert torch.equal(first, second)
    assert not layer.bias_y_l0.any()


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("width", [8, 16, 32])
def test_operator_keeps_the_rules_of_torch(size, width):
    pytest.importorskip("numba")
    make = torch.Generator().manual_seed(0)

    def tensor(*shape):
        return (torch.randn(shape, generator=make) / 2).requires_grad_()

    weights = [tensor(width, 6), tensor(width), tensor(2, width), tensor(2, 3), tensor(2)]
    outputs = [tensor(width, 6), tensor(width)]
    basis = [None, tensor(3)]
    arguments = (tensor(5, size, 3), None, *basis, *weights, *outputs, torch.ones(3), None)
    arguments = (*arguments, 0, 9, "relu")
    torch.library.opcheck(torch.ops.torchfru.fru_scan.default, arguments)
    with torch.no_grad():
        y, u, *saved = torch.ops.torchfru.fru_scan(*arguments)
    plain = [a.detach() if isinstance(a, torch.Tensor) else a for a in arguments]
    backward = (y, u, *plain, *saved, True, False, True)
    torch.library.opcheck(torch.ops.torchfru.fru_scan_backward.default, backward)


# Other processors ----------------------------------------------------------------------------

PROGRAM = """
import itertools, sys
import torch
sys.path.insert(0, sys.argv[1])
import torchfru
from test_purity import assert_pure, lane_bytes
assert lane_bytes() == int(sys.argv[2]), lane_bytes()
torch.set_num_threads(1)
for batch, width in itertools.product(map(int, sys.argv[3:]), [4, 8, 16, 17]):
    layer = torchfru.FRU(3, width, seq_len=20, num_freqs=2, freq_dim=5, gate_size=width)
    assert_pure(layer, {"input": torch.randn(5, batch, 3, requires_grad=True)})
    with torchfru.use_backend("reference"):
        x = torch.randn(5, batch, 3)
        expected = layer(x)[0]
    torch.testing.assert_close(layer(x)[0], expected)
print("pure")
"""
"""Arguments: the folder of this file, the bytes of a vector, and the batches."""


def lane_bytes() -> int:
    from torchfru.ops.cpu import simd

    return simd.VECTOR_BYTES


@pytest.mark.parametrize(
    ("features", "batches"),
    [
        ("+avx2,+fma", "1 16"),
        pytest.param("+avx2,+fma", "2 4 8", marks=pytest.mark.long),  # each compiles for itself
        pytest.param("", "1 2 4 8 16", marks=pytest.mark.long),
    ],
)
def test_narrower_vectors_change_nothing_either(features, batches):
    """As on a processor without 512-bit vectors: Numba is told what it may use."""
    pytest.importorskip("numba")
    environment = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    paths = [str(Path(torchfru.__file__).parents[1]), str(Path(__file__).parents[1])]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), "32", *batches.split()],
        env=os.environ | environment | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "pure\n", run.stderr


def test_a_kernel_that_writes_to_its_inputs_does_not_compile():
    numba = pytest.importorskip("numba")
    from torchfru.ops.cpu import simd

    @numba.njit
    def store_vector(address, like):
        array = simd.array_at(address, (16,), like, False)
        simd.store_row(array, 0, simd.zeros_tile(array, 1, 1))

    @numba.njit
    def store_number(address, like):
        simd.array_at(address, (16,), like, False)[0] = 1

    @numba.njit
    def store_allowed(address, like):
        simd.array_at(address, (16,), like, True)[0] = 2

    tensor, like = torch.ones(16), np.empty(0, np.float32)
    for kernel in (store_vector, store_number):
        with pytest.raises(numba.TypingError):
            kernel(tensor.data_ptr(), like)
    store_allowed(tensor.data_ptr(), like)
    assert tensor.tolist() == [2.0] + [1.0] * 15
