"""Streams give, step by step, what the layer gives for the whole sequence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_fru, make_sru

import torchfru
from torchfru.nn.baselines import GRU, LSTM
from torchfru.nn.stream import FusedStream, Stream


def read(stream, x):
    return torch.stack([stream(x_t) for x_t in x])


LAYERS = {
    "one layer": lambda: make_fru(),
    "float32": lambda: make_fru(dtype=torch.float32, gate_size=17, hidden_size=19),
    "two layers": lambda: make_fru(num_layers=2, batch_first=True),
    "slices": lambda: make_fru(freqs_per_block=2, bias=False, nonlinearity="identity"),
    "pairs": lambda: make_fru(basis="pairs"),
    "own basis": lambda: make_fru(basis="walsh", return_sequences=False),
    "sru": lambda: make_sru(num_layers=2),
    "gru": lambda: GRU(3, 6).double(),
    "lstm": lambda: LSTM(3, 6, num_layers=2).double(),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("backend", ["auto", "collapsed"])
def test_a_stream_gives_what_the_layer_gives(name, backend):
    layer = LAYERS[name]()
    x = torch.randn(12, 2, 3, dtype=next(layer.parameters()).dtype)
    layer.return_sequences = True
    inputs = x.transpose(0, 1) if layer.batch_first else x
    with torchfru.use_backend(backend), torch.no_grad():
        whole, state = layer(inputs)
        stream = layer.stream(2)
        found = read(stream, x)
    whole = whole.transpose(0, 1) if layer.batch_first else whole
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(stream.state, state, rtol=1e-5, atol=1e-5)


def test_streams_of_waves_on_the_cpu_are_fused():
    pytest.importorskip("numba")
    assert isinstance(make_fru().stream(), FusedStream)
    assert isinstance(make_fru(basis="pairs").stream(), FusedStream)
    assert type(make_fru(basis="walsh").stream()) is Stream
    with torchfru.use_backend("reference"):
        assert type(make_fru().stream()) is Stream


@pytest.mark.parametrize("make", [make_fru, make_sru])
def test_copies_resets_and_states(make):
    layer, x = make(num_layers=2), torch.randn(9, 1, 3, dtype=torch.float64)
    stream = layer.stream()
    first = read(stream, x[:4])
    twin = stream.copy()
    rest = read(stream, x[4:])
    torch.testing.assert_close(read(twin, x[4:]), rest, rtol=0, atol=0)
    stream.reset()
    torch.testing.assert_close(read(stream, x[:4]), first, rtol=0, atol=0)
    with torch.no_grad():
        stream.state = layer(x[:4])[1]
    torch.testing.assert_close(read(stream, x[4:]), rest)
    u, _ = stream.state
    before = u.clone()
    stream.reset()
    assert torch.equal(u, before)  # a state that was handed out is not written to


def test_a_stream_keeps_its_weights_and_takes_arrays():
    layer, x = make_fru(), torch.randn(2, 1, 3, dtype=torch.float64)
    stream, other = layer.stream(), layer.stream()
    expected = stream(x[0])
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    found = other(x[0].numpy())
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, expected.numpy())


def test_errors_are_one_line():
    with pytest.raises(ValueError, match="a stream reads in one direction"):
        make_fru(bidirectional=True).stream()
    with pytest.raises(ValueError, match="batch must be greater than zero, got 0"):
        make_fru().stream(0)
    stream = make_fru(seq_len=2).stream(2)
    x = torch.zeros(2, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"torch.float64 of size \(2, 3\), got torch.float64 of"):
        stream(x[:1])
    with pytest.raises(ValueError, match=r"got torch.float32 of size \(2, 3\)"):
        stream(x.float())
    stream(x), stream(x)
    u, _ = stream.state
    with pytest.raises(ValueError, match="step 3 is past seq_len=2"):
        stream(x)
    assert torch.equal(stream.state[0], u)  # nothing was written
    with pytest.raises(ValueError, match=r"equally many steps, got t=\[\[0, 1\]\]"):
        stream.state = (u, torch.tensor([[0, 1]]))
