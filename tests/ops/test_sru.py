"""The fused loop of the SRU: awkward sizes, the rules of an operator, and what it may write."""

from __future__ import annotations

import pytest
import torch
from helpers import TOLERANCE, assert_close, assert_pure, empty_is_nan, results
from hypothesis import given, settings
from hypothesis import strategies as st

import torchfru

pytest.importorskip("numba")
from torchfru.ops.cpu import sru_loop as cpu

STEPS = [1, 2, 3, 4, 7, 24]  # chunks have three steps
BATCHES = [1, 2, 8, 9, 17, 64, 65, 130]  # tiles have eight samples, blocks 64
WIDTHS = [1, 5, 8, 16, 32, 33, 64]  # on both sides of whole panels


def make(draw, dtype):
    """A layer, and arguments for a call of it."""
    layer = torchfru.SRU(
        draw(st.sampled_from([1, 3, 33])),
        draw(st.sampled_from(WIDTHS)),
        bias=draw(st.booleans()),
        batch_first=draw(st.booleans()),
        alphas=draw(st.sampled_from([(0.0,), (0.9, 0.5), (0.0, 0.25, 0.5, 0.9, 0.99)])),
        stat_size=draw(st.sampled_from(WIDTHS)),
        gate_size=draw(st.sampled_from(WIDTHS)),
        nonlinearity=draw(st.sampled_from(["relu", "tanh", "identity"])),
        return_sequences=draw(st.booleans()),
        dtype=dtype,
    )
    torch.manual_seed(draw(st.integers(0, 999)))
    for parameter in layer.parameters():
        torch.nn.init.uniform_(parameter, -0.3, 0.3)
    steps, batch = draw(st.sampled_from(STEPS)), draw(st.sampled_from(BATCHES))
    shape = (batch, steps) if layer.batch_first else (steps, batch)
    inputs = {"input": torch.randn(*shape, layer.input_size, dtype=dtype, requires_grad=True)}
    if draw(st.booleans()):
        u = torch.randn(1, batch, layer.state_size, dtype=dtype, requires_grad=True)
        inputs["hx"] = (u, torch.zeros(1, batch, dtype=torch.int64))
    if draw(st.booleans()):
        inputs["lengths"] = torch.randint(0, steps + 1, (batch,))
    return layer, inputs


@st.composite
def calls(draw, dtypes=(torch.float32, torch.float64)):
    return make(draw, draw(st.sampled_from(dtypes)))


@settings(max_examples=40)
@given(calls())
def test_kernels_equal_the_definition_at_awkward_sizes(call):
    layer, inputs = call
    expected = results(layer, inputs, "reference")
    with empty_is_nan():
        found = results(layer, inputs, "numba")
    assert_close(found, expected, TOLERANCE[inputs["input"].dtype])


@settings(max_examples=15)
@given(calls(dtypes=(torch.float32,)))
def test_a_call_changes_nothing_that_it_was_given(call):
    with torchfru.use_backend("numba"):
        assert_pure(*call)


def test_groups_of_chunks_change_nothing(monkeypatch):
    layer = torchfru.SRU(2, 5, stat_size=20, gate_size=9, dtype=torch.float64)
    x = torch.randn(40, 10, 2, dtype=torch.float64, requires_grad=True)
    inputs = {"input": x, "lengths": torch.randint(0, 41, (10,))}
    whole = results(layer, inputs, "numba")
    monkeypatch.setattr(cpu, "DEEP", 32)  # rows, hence two chunks of 16 at once
    monkeypatch.setattr(cpu, "BLOCK", 8)
    assert_close(results(layer, inputs, "numba"), whole, 1e-12)


def operator_arguments(batch, every_step, started=True):
    make = torch.Generator().manual_seed(0)

    def tensor(*shape):
        values = torch.randn(shape, generator=make, dtype=torch.float64) / 2
        return values.requires_grad_()

    weights = [tensor(4, 6), tensor(4), tensor(3, 4), tensor(3, 2), tensor(3)]
    outputs = [tensor(5, 6), tensor(5)] if every_step else [None, None]
    alphas = torch.tensor([0.0, 0.9], dtype=torch.float64)
    lengths = None if every_step else torch.randint(0, 6, (batch,), generator=make)
    u = tensor(batch, 6) if started else None
    return (tensor(5, batch, 2), u, *weights, *outputs, alphas, lengths, "tanh")


@pytest.mark.parametrize("batch", [1, 9])
@pytest.mark.parametrize("every_step", [True, False])
def test_operator_keeps_the_rules_of_torch(batch, every_step):
    arguments = operator_arguments(batch, every_step, started=batch > 1)
    torch.library.opcheck(torch.ops.torchfru.sru_steps.default, arguments)
    with torch.no_grad():
        y, u, *saved = torch.ops.torchfru.sru_steps(*arguments)
    plain = [a.detach() if isinstance(a, torch.Tensor) else a for a in arguments]
    backward = (y if every_step else None, u, *saved, every_step, *plain)
    torch.library.opcheck(torch.ops.torchfru.sru_steps_backward.default, backward)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("every_step", [True, False])
def test_derivatives_of_the_operator(batch, every_step):
    def run(*arguments):
        y, u, *_ = torch.ops.torchfru.sru_steps(*arguments)
        return (y, u) if every_step else u

    arguments = operator_arguments(batch, every_step)
    assert torch.autograd.gradcheck(run, arguments)
    if batch == 1:
        assert torch.autograd.gradgradcheck(run, arguments)


@pytest.mark.parametrize("count", [1, 3])
def test_runs_are_equal_bit_for_bit(count):
    layer = torchfru.SRU(1, 4, stat_size=20)
    inputs = {"input": torch.randn(20, 70, 1, requires_grad=True)}
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        first, second = (results(layer, inputs, "numba") for _ in range(2))
    finally:
        torch.set_num_threads(before)
    assert_close(first, results(layer, inputs, "reference"), 1e-5)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_rows_without_a_sample_cannot_spoil_a_gradient():
    """No sample here is ever active, but an input of 0 would be, and grow beyond all bounds."""
    layer = torchfru.SRU(1, 2, stat_size=3, gate_size=3)
    for parameter in layer.parameters():
        torch.nn.init.constant_(parameter, 100.0)
    inputs = {"input": torch.full((60, 9, 1), -1e5, requires_grad=True)}
    expected = results(layer, inputs, "reference")
    assert_close(results(layer, inputs, "numba"), expected, 1e-5)


def test_the_choice_of_a_backend(monkeypatch):
    layer, x, ran = torchfru.SRU(2, 3, stat_size=5), torch.randn(4, 3, 2), []
    steps = cpu.run_forward
    monkeypatch.setattr(cpu, "run_forward", lambda inputs: ran.append(1) or steps(inputs))
    for backend, count in (("auto", 1), ("reference", 0), ("collapsed", 0), ("numba", 1)):
        ran.clear()
        with torchfru.use_backend(backend):
            layer(x)
        assert len(ran) == count, backend
    with torchfru.use_backend("numba"), pytest.raises(ValueError, match="not on meta"):
        layer.to("meta")(x.to("meta"))


def test_compiled_code_is_the_operator():
    torch._dynamo.reset()
    layer, x = torchfru.SRU(2, 3, stat_size=5, bidirectional=True), torch.randn(4, 3, 2)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    expected = layer(x)[0]
    expected.sum().backward()
    gradient = layer.weight_ug_l0.grad.clone()
    layer.zero_grad()
    found = compiled(x)[0]
    found.sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(layer.weight_ug_l0.grad, gradient)


def test_memory_grows_with_h_and_g_only():
    layer, saved = torchfru.SRU(2, 3, stat_size=20, gate_size=7), []
    x = torch.randn(50, 9, 2)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor.shape) or tensor, lambda tensor: tensor
    ):
        layer(x)
    assert sorted(s for s in saved if s[:2] == (50, 9)) == [(50, 9, 2), (50, 9, 7), (50, 9, 20)]
