"""What user code does to a layer: compile, export, copy, pickle, move, cast, swap weights."""

from __future__ import annotations

import copy
import io
import pickle
import shutil

import pytest
import torch
from helpers import both, make_fru, make_sru

import torchfru

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None,
    reason="torch's own compiler needs a C++ compiler",
)


def example(dtype=torch.float64):
    return torch.randn(6, 2, 3, dtype=dtype)


def gradients(layer):
    return {name: p.grad.clone() for name, p in layer.named_parameters()}


@both
@pytest.mark.parametrize("backend", ["reference", *torchfru.available_backends()[1:]])
def test_compile_without_graph_breaks(make, backend):
    torch._dynamo.reset()
    layer = make(num_layers=2, bidirectional=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, lengths = example(), torch.tensor([6, 2])
    with torchfru.use_backend(backend):
        expected, state = layer(x, lengths=lengths)
        expected.square().sum().backward()
        wanted = gradients(layer)
        layer.zero_grad()
        output, end = compiled(x, lengths=lengths)
        output.square().sum().backward()
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(end, state)
    torch.testing.assert_close(gradients(layer), wanted)


@both
def test_compiled_layer_continues_from_a_state(make):
    torch._dynamo.reset()
    layer = make()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = example()
    whole, _ = layer(x)
    _, state = compiled(x[:4])
    torch.testing.assert_close(compiled(x[4:], state)[0], whole[4:])


def test_compiled_layer_refuses_a_step_past_the_end():
    torch._dynamo.reset()
    layer = make_fru(seq_len=6)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = example()
    _, state = compiled(x)
    with pytest.raises(RuntimeError, match="a step is past seq_len=6"):
        compiled(x, state)


@needs_compiler
@pytest.mark.filterwarnings("ignore")  # the compiler warns about its own parts
def test_compile_with_the_default_compiler():
    torch._dynamo.reset()
    layer = make_fru(dtype=torch.float32)
    x = example(torch.float32)
    output, _ = torch.compile(layer, fullgraph=True)(x)
    output.sum().backward()
    torch.testing.assert_close(output, layer(x)[0])


@both
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_export_and_load_again(make):
    layer = make(return_sequences=False).eval()
    x = example()
    program = torch.export.export(layer, (x,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    torch.testing.assert_close(loaded(x), layer(x))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_export_of_the_cell():
    cell = make_fru().cell()
    x, state = torch.randn(2, 3, dtype=torch.float64), None
    _, state = cell(x)
    program = torch.export.export(cell, (x, state)).module()
    torch.testing.assert_close(program(x, state), cell(x, state))


@both
def test_deepcopy_pickle_and_state_dict_give_equal_outputs(make):
    layer = make(num_layers=2)
    x = example()
    restored = make(num_layers=2)
    restored.load_state_dict(layer.state_dict())
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), restored):
        assert torch.equal(twin(x)[0], layer(x)[0])
        assert twin.weight_ug_l0 is not layer.weight_ug_l0


def test_state_dict_carries_the_frequencies():
    chosen = make_fru(freqs=[0, 1, 2, 3])
    other = make_fru()
    other.load_state_dict(chosen.state_dict())
    assert other.freqs.tolist() == [0, 1, 2, 3]
    x = example()
    assert torch.equal(other(x)[0], chosen(x)[0])


@both
def test_swapped_weights_are_the_ones_used(make):
    layer, other = make(), make()
    x = example()
    swapped = torch.func.functional_call(layer, dict(other.named_parameters()), (x,))
    torch.testing.assert_close(swapped, other(x))


@both
def test_meta_device_and_back(make):
    layer = make(device="meta", dtype=torch.float32)
    output, (u, t) = layer(torch.empty(6, 2, 3, device="meta"))
    assert output.shape == (6, 2, 6)
    assert u.is_meta
    assert t.shape == (1, 2)
    layer = layer.to_empty(device="cpu")
    layer.reset_parameters()
    twin = make(dtype=torch.float32)
    twin.load_state_dict(layer.state_dict())
    x = example(torch.float32)
    assert torch.equal(layer(x)[0], twin(x)[0])
    for name, buffer in layer.named_buffers():
        assert torch.equal(buffer, dict(twin.named_buffers())[name])


class Steps(torchfru.Basis):
    """A user's basis, written without a thought of devices."""

    def default_freqs(self, num_freqs, seq_len):
        return torch.arange(num_freqs).double()

    def rows(self, steps, freqs, phase, seq_len):
        return torch.cos(steps.unsqueeze(-1) * freqs / seq_len)


def make_own_basis(**changes):
    return make_fru(basis=Steps(), **changes)


@pytest.mark.parametrize("make", [make_fru, make_sru, make_own_basis])
@pytest.mark.parametrize("assign", [True, False])
def test_built_on_meta_and_loaded(make, assign):
    """As from_pretrained and FSDP2 do: whatever is not in the state_dict stays uninitialised."""
    layer, x = make(num_layers=2), example()
    with torch.device("meta"):
        twin = make(num_layers=2)
    twin.to_empty(device="cpu")
    for tensor in (*twin.parameters(), *twin.buffers()):
        tensor.data.fill_(float("nan"))
    twin.load_state_dict(layer.state_dict(), assign=assign)
    assert torch.equal(twin(x)[0], layer(x)[0])


def test_an_unbounded_basis_is_refused_on_meta_too():
    class Doubled(Steps):
        def rows(self, *arguments):
            return 2 * super().rows(*arguments)

    with torch.device("meta"), pytest.raises(ValueError, match=r"within \[-1, 1\], got 2"):
        make_fru(basis=Doubled())


def test_half_precision_keeps_the_decays_of_sru():
    """0.99 rounded to bfloat16 would be 0.988: a memory a sixth shorter."""
    layer = make_sru(alphas=(0.99,), nonlinearity="identity", dtype=torch.bfloat16)
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    u = torch.ones(1, 1, 4, dtype=torch.bfloat16)
    _, (u, _) = layer(torch.zeros(100, 1, 3, dtype=torch.bfloat16), (u, torch.zeros(1, 1).long()))
    assert u[0, 0, 0].item() == pytest.approx(0.99**100, rel=0.005)


@both
def test_moves_between_dtypes(make):
    layer = make(dtype=torch.float32)
    x = example(torch.float32)
    narrow = layer(x)[0]
    wide, (u, _) = layer.double()(x.double())
    assert wide.dtype == u.dtype == torch.float64
    torch.testing.assert_close(wide.float(), narrow, rtol=1e-4, atol=1e-5)
    assert layer.float()(x)[0].dtype == torch.float32


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_layers_stay_finite_and_close(make, dtype):
    layer = make(dtype=torch.float32, num_layers=2)
    x = torch.randn(20, 4, 3)
    exact, _ = layer(x)
    output, (u, _) = layer.to(dtype)(x.to(dtype))
    output.float().sum().backward()
    assert output.dtype == u.dtype == dtype
    torch.testing.assert_close(output.float(), exact, rtol=0.1, atol=0.05)
    for parameter in layer.parameters():
        assert bool(parameter.grad.isfinite().all())


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_autocast_keeps_the_sum_in_float32(make, dtype):
    layer = make(dtype=torch.float32)
    x = torch.randn(20, 4, 3, dtype=dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, (u, _) = layer(x)
        again, _ = layer(x[:1], (u, torch.zeros(1, 4).long()))
    output.sum().backward()
    torch.testing.assert_close(output, layer(x.float())[0])
    assert bool(again.isfinite().all())
    assert bool(layer.weight_ug_l0.grad.isfinite().all())


@pytest.mark.parametrize("backend", torchfru.available_backends())
def test_a_long_sum_survives_half_precision(backend):
    """1,000 equal terms: summed in bfloat16 itself, they would stop growing at a quarter."""
    layer = torchfru.FRU(1, 1, seq_len=1000, num_freqs=1, freq_dim=1, nonlinearity="identity")
    for name, parameter in layer.named_parameters():
        torch.nn.init.constant_(parameter, 1.0 if name.startswith(("weight_x", "weight_uy")) else 0)
    with torchfru.use_backend(backend):
        output, _ = layer.bfloat16()(torch.ones(1000, 1, 1, dtype=torch.bfloat16))
    assert output[-1].item() == pytest.approx(1.0, rel=0.01)


@both
def test_backward_works_in_eval_mode(make):
    layer = make(num_layers=2, dropout=0.3).eval()
    x = example().requires_grad_()
    layer(x)[0].sum().backward()
    assert bool((x.grad != 0).any())


@both
def test_nothing_is_kept_without_gradients(make):
    with torch.no_grad():
        output, (u, _) = make()(example())
    assert not output.requires_grad
    assert not u.requires_grad


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (torchfru.FRU(3, 6, seq_len=9), "FRU(3, 6, seq_len=9)"),
        (
            torchfru.FRU(3, 6, 2, batch_first=True, seq_len=9, basis="walsh", gate_size=5),
            "FRU(3, 6, num_layers=2, batch_first=True, seq_len=9, gate_size=5, basis='walsh')",
        ),
        (torchfru.SRU(3, 6, alphas=(0.5,)), "SRU(3, 6, alphas=(0.5,))"),
        (torchfru.FRUCell(3, 6, seq_len=9), "FRUCell(3, 6, seq_len=9)"),
        (torchfru.SRUCell(3, 6, bias=False), "SRUCell(3, 6, bias=False)"),
    ],
)
def test_repr_shows_what_is_not_default(layer, expected):
    assert repr(layer) == expected


def test_two_runs_are_equal_bit_for_bit():
    layer, x = make_fru(num_layers=2), example()
    assert torch.equal(layer(x)[0], layer(x)[0])
    assert torch.equal(make_sru_output(x), make_sru_output(x))


def make_sru_output(x):
    torch.manual_seed(3)
    return make_sru()(x)[0]
