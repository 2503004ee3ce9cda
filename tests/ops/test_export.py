"""An exported layer reads batches and sequences of any size, in torch, ONNX and AOTInductor."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import torchfru
from torchfru.ops.weights import EXPORTS_LOOPS

BATCH, LENGTH = Dim("batch"), Dim("length", max=30) if EXPORTS_LOOPS else Dim.STATIC
# Batches and lengths; traced with others.
SHAPES = ((1, 1), (1, 5), (6, 30), (3, 9)) if EXPORTS_LOOPS else ((1, 7), (6, 7))

# torch.export and torch.onnx warn about their own parts.
pytestmark = pytest.mark.filterwarnings("ignore")


def make(unit, **options):
    if unit == "fru":
        own = {"seq_len": 30, "num_freqs": 3, "freq_dim": 2}
        layer = torchfru.FRU(2, 3, batch_first=True, gate_size=4, **own, **options)
    else:
        layer = torchfru.SRU(2, 3, batch_first=True, gate_size=4, stat_size=5, **options)
    for parameter in layer.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return layer.eval()


def export(layer, strict=False):
    x = torch.randn(4, 7, 2)
    shapes = {"input": {0: BATCH, 1: LENGTH}}
    return torch.export.export(layer, (x,), dynamic_shapes=shapes, strict=strict)


def assert_same(run, layer):
    """``run(x)`` gives output, u and t as the layer does."""
    for batch, length in SHAPES:
        x = torch.randn(batch, length, 2)
        output, (u, t) = layer(x)
        for found, expected in zip(run(x), (output, u, t), strict=True):
            torch.testing.assert_close(torch.as_tensor(found), expected.detach())


def flat(module):
    def run(x):
        output, (u, t) = module(x)
        return output.detach(), u.detach(), t

    return run


units = pytest.mark.parametrize("unit", ["fru", "sru"])


@units
def test_any_batch_and_any_length(unit):
    layer = make(unit)
    program = export(layer)
    assert "torchfru" not in str(program.graph)  # it runs where this package is not installed
    assert_same(flat(program.module()), layer)


@units
def test_an_exported_layer_can_be_trained(unit):
    layer = make(unit)
    module, x = export(layer).module(), torch.randn(2, 7, 2)
    module(x)[0].square().sum().backward()
    layer(x)[0].square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(module.get_parameter(name).grad, parameter.grad)


@units
@pytest.mark.long
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("sequences", [False, True])
def test_stacks_in_both_directions(unit, strict, sequences):
    layer = make(unit, num_layers=2, bidirectional=True, return_sequences=sequences)
    assert_same(flat(export(layer, strict).module()), layer)


@units
@pytest.mark.long
def test_states_and_lengths(unit):
    layer = make(unit)
    x, lengths = torch.randn(4, 7, 2), torch.tensor([7, 3, 5, 0])
    shapes = {"input": {0: BATCH, 1: LENGTH}, "hx": ({1: BATCH}, {1: BATCH}), "lengths": {0: BATCH}}
    program = torch.export.export(layer, (x, layer(x)[1], lengths), dynamic_shapes=shapes)
    y, state, lengths = torch.randn(5, 9, 2), layer(torch.randn(5, 4, 2))[1], torch.arange(5) * 2
    found, expected = program.module()(y, state, lengths), layer(y, state, lengths)
    torch.testing.assert_close(found, expected)


@units
@pytest.mark.long
def test_onnx(unit, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    layer = make(unit, num_layers=2)
    shapes = {"input": {0: BATCH, 1: LENGTH}}
    inputs = (torch.randn(4, 7, 2),)
    program = torch.onnx.export(layer, inputs, dynamo=True, dynamic_shapes=shapes, verbose=False)
    program.save(tmp_path / "layer.onnx")
    session = runtime.InferenceSession(tmp_path / "layer.onnx")
    name = session.get_inputs()[0].name
    assert_same(lambda x: session.run(None, {name: x.numpy()}), layer)


@units
@pytest.mark.long
def test_aot_inductor(unit, tmp_path):
    layer = make(unit)
    with torch.no_grad():
        path = torch._inductor.aoti_compile_and_package(
            export(layer), package_path=str(tmp_path / "layer.pt2")
        )
        run = torch._inductor.aoti_load_package(path)
        assert_same(flat(run), layer)
