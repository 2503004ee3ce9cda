"""The Triton kernels on the CPU, by Triton's interpreter; ``test_triton.py`` runs this file.

TRITON_INTERPRET=1 must be set before Triton is imported: hence a process of its own.
"""

from __future__ import annotations

import json
import os
import warnings

import pytest
import torch
import triton
import triton.language as tl
from helpers import Case, assert_close, definition, distance, results
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.library import opcheck

import torchfru
from torchfru import ops
from torchfru.ops import gpu, reference
from torchfru.ops.gpu import check, kernels, loop, operator, steps

CPU = torch.device("cpu")


@st.composite
def awkward_cases(draw: st.DrawFn) -> Case:
    """Sizes on both sides of every tile, mask and chunk."""
    per_block = draw(st.sampled_from([1, 2, 3]))
    length = draw(st.integers(1, 9))
    arguments = {
        "input_size": draw(st.integers(1, 3)),
        "hidden_size": draw(st.integers(1, 5)),
        "bias": draw(st.booleans()),
        "bidirectional": draw(st.booleans()),
        "seq_len": length + 4 + draw(st.integers(0, 30)),
        "num_freqs": per_block * draw(st.integers(1, 4)),
        "freq_dim": draw(st.sampled_from([1, 2, 5, 8, 11, 16])),
        "gate_size": draw(st.sampled_from([1, 3, 15, 16, 17, 60, 65, 257])),
        "freqs_per_block": per_block,
        "nonlinearity": draw(st.sampled_from(["relu", "tanh", "identity"])),
        "return_sequences": draw(st.booleans()),
    }
    return Case(
        arguments,
        steps=length,
        batch=draw(st.sampled_from([0, 1, 2, 16, 17])),
        started=draw(st.sampled_from([None, 0, 4])),
        ragged=draw(st.booleans()),
        dtype=torch.float32,
        seed=draw(st.integers(0, 10_000)),
    )


def build(case: Case) -> torchfru.FRU:
    """A layer whose sums stay near 1, whatever its width."""
    layer = case.build()
    for weight in layer.parameters():
        weight.data /= max(1, weight.shape[-1] / 4) ** 0.5
    return layer


@settings(
    max_examples=int(os.environ.get("TORCHFRU_GPU_EXAMPLES", "15")),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much],
)
@given(case=awkward_cases(), chunk=st.sampled_from([1, 3, 256]))
def test_outputs_states_and_gradients_equal_reference(case: Case, chunk: int) -> None:
    layer = build(case)
    inputs = case.inputs(layer)
    expected = definition(layer, inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "CHUNK", chunk)
        patch.setattr(operator, "CHUNK", chunk)
        assert_close(results(layer, inputs, "triton"), expected, 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", check.SHAPES[False])
def test_half_precision_inputs(dtype: torch.dtype, shape: check.Shape) -> None:
    """Against the definition in float32, from the same rounded numbers."""
    tensors = {name: value.to(dtype) for name, value in check._problem(shape).items()}
    with torchfru.use_backend("triton"):
        found = check._results(ops.fru_scan, shape, tensors)
    wide = {name: value.float() for name, value in tensors.items()}
    expected = check._results(reference.scan, shape, wide)
    assert {value.dtype for value in found} == {dtype}
    for value, right in zip(found, expected, strict=True):
        assert distance(value.float(), right, scale=1e-3) <= 0.02


@pytest.mark.parametrize("every_step", [True, False])
def test_operator_passes_opcheck(every_step: bool) -> None:
    torch.manual_seed(0)
    n_h, n_g, freqs = 4, 6, 3
    sizes = [(5, 3, 2), (3, n_g), (5, freqs), (n_g, freqs * n_h), (n_h, n_g), (n_h, 2), (n_h,)]
    tensors = [torch.randn(size).requires_grad_() for size in sizes]
    y = [torch.randn(size).requires_grad_() for size in [(2, freqs * n_h), (3, 2)]]
    y = y if every_step else [None, None]
    arguments = (*tensors, *y, torch.tensor([0, 3, 5]), "tanh")
    opcheck(torch.ops.torchfru.fru_gpu_steps.default, arguments)


def test_nothing_that_was_given_is_written_to_and_bits_repeat() -> None:
    layer = torchfru.FRU(2, 16, seq_len=9, num_freqs=4, freq_dim=4, gate_size=16)
    x = torch.randn(9, 16, 2, requires_grad=True)
    u = torch.randn(1, 16, 16, requires_grad=True)
    inputs = {"input": x, "hx": (u, torch.zeros(1, 16, dtype=torch.long))}
    given_tensors = [x, u, *layer.parameters()]
    before = [tensor.detach().clone() for tensor in given_tensors]
    first = results(layer, inputs, "triton")
    for tensor, value in zip(given_tensors, before, strict=True):
        assert torch.equal(tensor, value)
    second = results(layer, inputs, "triton")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_backward_inside_autocast() -> None:
    layer, x = torchfru.FRU(2, 4, seq_len=9), torch.randn(9, 3, 2)
    with torchfru.use_backend("triton"):
        layer(x)[0].square().sum().backward()
        expected = layer.weight_ug_l0.grad.clone()
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            layer(x)[0].float().square().sum().backward()
    gradient = layer.weight_ug_l0.grad
    assert gradient is not None
    assert gradient.dtype == torch.float32
    assert distance(gradient, expected, scale=1e-3) <= 0.02


def test_nan_comes_through() -> None:
    layer = torchfru.FRU(2, 4, seq_len=9)
    x = torch.randn(9, 2, 2)
    x[3, 0] = torch.nan
    with torchfru.use_backend("triton"):
        output, _ = layer(x)
    assert output[2:, 0].isnan().any()
    assert output[:, 1].isfinite().all()


def test_only_h_grows_with_time() -> None:
    with torch.device("meta"):
        layer = torchfru.FRU(1, 8, seq_len=100_000)
        x, rows = torch.empty(100_000, 3, 1), torch.empty(100_000, 60)
        z, y = torch.empty(3, 60), torch.empty(3, 8)
    weights = [getattr(layer, f"{name}_l0") for name in ("weight_ug", "weight_gh", "weight_xh")]
    arguments = (x, z, rows, *weights, None, layer.weight_uy_l0, y, None, "relu")
    _, _, h, z_chunks = torch.ops.torchfru.fru_gpu_steps(*arguments)
    assert h.shape == (100_000, 3, 10)
    assert z_chunks.numel() < 0.03 * h.numel()


@pytest.mark.parametrize("dynamic", [True, False])
def test_compiles_as_one_graph(dynamic: bool) -> None:
    layer = torchfru.FRU(2, 4, seq_len=9, num_freqs=4, freq_dim=4, gate_size=16)
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for shape in [(9, 3, 2), (7, 5, 2)]:
        x = {"input": torch.randn(shape, requires_grad=True)}
        found, expected = results(compiled, x, "triton"), results(layer, x, "collapsed")
        names = {name: name.replace("_orig_mod.", "") for name in found}
        assert_close({names[name]: value for name, value in found.items()}, expected, 1e-5)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, in jvp
def test_second_derivatives_and_transforms() -> None:
    layer = torchfru.FRU(2, 3, seq_len=9, num_freqs=2, freq_dim=2, nonlinearity="tanh")
    x = torch.randn(4, 2, 2, requires_grad=True)

    def penalty(x: torch.Tensor) -> torch.Tensor:
        gradient = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)[0]
        return gradient.square().sum()

    found = {}
    for backend in ("reference", "triton"):
        with torchfru.use_backend(backend):
            second = torch.autograd.grad(penalty(x), [x, *layer.parameters()], allow_unused=True)
            forward = torch.func.jvp(lambda x: layer(x)[0], (x,), (torch.ones_like(x),))[1]
            each = torch.func.vmap(lambda x: layer(x)[0])(torch.stack([x, 2 * x]))
        kept = [value for value in second if value is not None]
        values = {f"second {i}": value.detach() for i, value in enumerate(kept)}
        found[backend] = values | {"jvp": forward.detach(), "vmap": each.detach()}
    assert_close(found["triton"], found["reference"], 1e-5)


# Choosing ------------------------------------------------------------------------------------


@pytest.fixture
def on_gpu(monkeypatch, tmp_path):
    """As if the CPU were a GPU on which nothing was proved yet."""
    monkeypatch.setattr(gpu, "DEVICES", ("cpu",))
    monkeypatch.setattr(check, "_verdicts", {})
    monkeypatch.setenv("TORCHFRU_CACHE", str(tmp_path))
    return tmp_path


@triton.jit
def wrong_phi(a, KIND: tl.constexpr):  # noqa: N803
    return a * 1.001


def picked_with_warnings(layer: torchfru.FRU, x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        output = layer(x)[0]
        assert torch.equal(layer(x)[0], output)
    return output, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("break_it", ["wrong values", "does not compile"])
def test_broken_kernel_is_refused_and_collapsed_serves(on_gpu, monkeypatch, break_it) -> None:
    if break_it == "wrong values":
        monkeypatch.setattr(kernels, "phi", wrong_phi)
    else:
        monkeypatch.delitem(loop.NARROW, "backward")
    layer, x = torchfru.FRU(2, 4, seq_len=9), torch.randn(9, 3, 2)
    output, messages = picked_with_warnings(layer, x)
    assert len(messages) == 1
    assert "failed its self-check on cpu" in messages[0]
    assert ("relative difference" if break_it == "wrong values" else "KeyError") in messages[0]
    with torchfru.use_backend("collapsed"):
        assert torch.equal(layer(x)[0], output)
    assert not list(on_gpu.rglob("*.json"))  # a failure is not remembered


def test_nan_fails_the_check(on_gpu, monkeypatch) -> None:
    monkeypatch.setattr(check, "_problem", lambda shape: {"x": torch.full((2,), torch.nan)})
    monkeypatch.setattr(check, "_results", lambda scan, shape, tensors: [tensors["x"]])
    assert not check.run(CPU).proved


def test_a_pass_is_remembered_on_disk(on_gpu, monkeypatch) -> None:
    layer, x = torchfru.FRU(2, 4, seq_len=9), torch.randn(9, 3, 2)
    assert picked_with_warnings(layer, x)[1] == []
    assert ops.backend_for(x, 60) == "triton"
    (file,) = on_gpu.rglob("*.json")
    assert json.loads(file.read_text())["reason"].startswith("outputs and gradients agree")
    check._verdicts.clear()  # as a new process
    monkeypatch.setattr(check, "run", lambda *key: pytest.fail("checked again"))
    assert ops.backend_for(x, 60) == "triton"
    monkeypatch.setattr(check, "_version", lambda package: "another")  # and checked again
    monkeypatch.setattr(check, "run", lambda *key: check.Verdict(False, "for this test"))
    check._verdicts.clear()
    with pytest.warns(UserWarning, match="for this test"):
        assert ops.backend_for(x, 60) == "collapsed"


def test_a_cache_that_cannot_be_written_or_read_is_no_obstacle(on_gpu, monkeypatch) -> None:
    monkeypatch.setattr(check, "run", lambda *key: check.Verdict(True, "for this test"))
    file = check.cache_file(CPU, False)
    file.parent.mkdir(parents=True)
    file.write_text("[]")
    assert check.verdict_on(CPU, False).proved
    check._verdicts.clear()
    monkeypatch.setenv("TORCHFRU_CACHE", str(file / "below-a-file"))
    assert check.verdict_on(CPU, False).proved


def test_check_ignores_the_users_settings(on_gpu) -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            assert check.run(CPU).proved
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_kernels_for_a_wide_gate_are_checked_by_themselves(on_gpu, monkeypatch) -> None:
    monkeypatch.setitem(loop.WIDE, "forward", None)
    x = torch.randn(3, 2, 2)
    assert ops.backend_for(x, 256) == "triton"
    with pytest.warns(UserWarning, match="failed its self-check"):
        assert ops.backend_for(x, 257) == "collapsed"
    monkeypatch.undo()
    assert check.run(CPU, wide=True).proved


def test_auto_leaves_what_the_backend_cannot_do_to_collapsed(on_gpu, monkeypatch) -> None:
    monkeypatch.setattr(check, "run", lambda *key: check.Verdict(True, "for this test"))
    x = torch.randn(3, 2, 2)
    assert ops.backend_for(x, 60) == "triton"
    assert ops.backend_for(x.bfloat16(), 60) == "triton"
    assert ops.backend_for(x.double(), 60) == "collapsed"


def test_auto_asks_while_torch_compile_traces(on_gpu) -> None:
    layer, x = torchfru.FRU(2, 4, seq_len=9), torch.randn(9, 3, 2)
    output = torch.compile(layer, fullgraph=True, backend="aot_eager")(x)[0]
    assert check._verdicts[CPU, False].proved
    with torchfru.use_backend("triton"):
        assert torch.equal(layer(x)[0], output)


def test_insisting_names_the_limit() -> None:
    layer = torchfru.FRU(2, 3, seq_len=9, dtype=torch.float64)
    message = "in float32, bfloat16 or float16, not in float64"
    with torchfru.use_backend("triton"), pytest.raises(ValueError, match=message):
        layer(torch.randn(9, 1, 2, dtype=torch.float64))
