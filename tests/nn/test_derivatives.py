"""Derivatives of every kind are those of the reference scan, for layers and cells, by default."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap

import torchfru
from torchfru.nn import fru as fru_module

# torch's own rules for forward mode are written in the deprecated torch.jit.script.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

EXACT = {"rtol": 1e-8, "atol": 1e-8}
SIZES = {"gate_size": 3, "nonlinearity": "tanh", "dtype": torch.float64}


def make_layer(unit: str, **changes):
    if unit == "fru":
        own = {"seq_len": 12, "num_freqs": 3, "freq_dim": 2, **SIZES, **changes}
        return torchfru.FRU(2, 3, **own)
    return torchfru.SRU(2, 3, **{"alphas": (0.0, 0.9), "stat_size": 2, **SIZES, **changes})


def make_cell(unit: str):
    if unit == "fru":
        return torchfru.FRUCell(2, 3, seq_len=12, num_freqs=3, freq_dim=2, **SIZES)
    return torchfru.SRUCell(2, 3, alphas=(0.0, 0.9), stat_size=2, **SIZES)


def enlarge(module):
    """Weights so large that every term counts, biases included."""
    for parameter in module.parameters():
        torch.nn.init.uniform_(parameter, -0.7, 0.7)
    return module


def problem(unit: str, kind: str, steps: int = 4):
    """A scalar function of a module's parameters and input, and values for both."""
    module = enlarge(make_cell(unit) if kind == "cell" else make_layer(unit))
    x = torch.randn(*([steps] if kind == "layer" else []), 2, 2, dtype=torch.float64)

    def loss(parameters, x):
        output, (u, _) = functional_call(module, parameters, (x,))
        return output.sin().sum() + u.square().sum()

    return loss, {name: p.detach() for name, p in module.named_parameters()}, x


units = pytest.mark.parametrize("unit", ["fru", "sru"])
kinds = pytest.mark.parametrize("kind", ["layer", "cell", "one step"])


def of_kind(unit, kind):
    return problem(unit, "layer", steps=1) if kind == "one step" else problem(unit, kind)


def both_ways(compute):
    """The result by default, and by the reference scan."""
    found = compute()
    with torchfru.use_backend("reference"):
        return found, compute()


def first_order(loss, parameters, x, create_graph):
    leaves = {name: p.clone().requires_grad_() for name, p in parameters.items()}
    x = x.clone().requires_grad_()
    found = torch.autograd.grad(loss(leaves, x), [x, *leaves.values()], create_graph=create_graph)
    return [gradient.detach() for gradient in found]


@settings(max_examples=40)
@given(data=st.data())
def test_a_graph_of_the_gradients_changes_none_of_them(data):
    """Gradients with and without create_graph, for layers of every kind."""
    unit = data.draw(st.sampled_from(["fru", "sru"]))
    changes = {
        "num_layers": data.draw(st.integers(1, 2)),
        "bias": data.draw(st.booleans()),
        "bidirectional": data.draw(st.booleans()),
        "return_sequences": data.draw(st.booleans()),
        "nonlinearity": data.draw(st.sampled_from(["relu", "tanh", "identity"])),
    }
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    module = enlarge(make_layer(unit, **changes))
    steps, batch = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    x = torch.randn(steps, batch, 2, dtype=torch.float64, requires_grad=True)
    lengths = torch.randint(0, steps + 1, (batch,)) if data.draw(st.booleans()) else None
    inputs = [x, *module.parameters()]

    def gradients(create_graph):
        output, (u, _) = module(x, lengths=lengths)
        value = output.sin().sum() + u.square().sum()
        return torch.autograd.grad(value, inputs, create_graph=create_graph)

    for plain, graphed in zip(gradients(False), gradients(True), strict=True):
        torch.testing.assert_close(graphed.detach(), plain, rtol=1e-10, atol=1e-12)


@units
@kinds
def test_second_derivatives(unit, kind):
    loss, parameters, x = of_kind(unit, kind)

    def second():
        leaves = {name: p.clone().requires_grad_() for name, p in parameters.items()}
        inputs = [x.clone().requires_grad_(), *leaves.values()]
        first = torch.autograd.grad(loss(leaves, inputs[0]), inputs, create_graph=True)
        return torch.autograd.grad(sum(g.sin().sum() for g in first), inputs)

    torch.testing.assert_close(*both_ways(second), **EXACT)


@units
@kinds
def test_gradients_by_torch_func(unit, kind):
    loss, parameters, x = of_kind(unit, kind)
    found = grad(loss, argnums=(0, 1))(parameters, x)
    expected = first_order(loss, parameters, x, create_graph=False)
    torch.testing.assert_close([found[1], *found[0].values()], expected, **EXACT)


@units
@kinds
@pytest.mark.parametrize("how", [jacrev, jacfwd], ids=["jacrev", "jacfwd"])
def test_jacobians(unit, kind, how):
    loss, parameters, x = of_kind(unit, kind)
    found, expected = both_ways(partial(how(loss, argnums=(0, 1)), parameters, x))
    torch.testing.assert_close(found, expected, **EXACT)
    assert found[1].abs().max() > 1e-3  # a forward mode that knows nothing gives zeros


@units
@kinds
def test_hessian_vector_product(unit, kind):
    """Forward over reverse, as Newton's methods use it."""
    loss, parameters, x = of_kind(unit, kind)
    ones = {name: torch.ones_like(p) for name, p in parameters.items()}
    product = partial(jvp, grad(loss), (parameters, x), (ones, torch.ones_like(x)))
    torch.testing.assert_close(*both_ways(product), **EXACT)


@units
def test_forward_mode_without_torch_func(unit):
    module, x = enlarge(make_layer(unit)), torch.randn(4, 2, 2, dtype=torch.float64)

    def tangent():
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            return torch.autograd.forward_ad.unpack_dual(module(dual)[0]).tangent

    found, expected = both_ways(tangent)
    torch.testing.assert_close(found, expected, **EXACT)
    assert found.abs().max() > 1e-3


@units
@kinds
def test_gradients_of_each_sample(unit, kind):
    """vmap over the samples, each without a batch dimension."""
    loss, parameters, x = of_kind(unit, kind)
    samples = torch.randn(5, *x.shape[:-2], x.shape[-1], dtype=torch.float64)
    found = vmap(grad(loss), (None, 0))(parameters, samples)
    for n, sample in enumerate(samples):
        alone = first_order(loss, parameters, sample, create_graph=False)[1:]
        torch.testing.assert_close([g[n] for g in found.values()], alone, **EXACT)


@units
def test_an_ensemble(unit):
    """vmap over the parameters: several layers at once."""
    layers = [enlarge(make_layer(unit)) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(layers)
    x = torch.randn(4, 2, 2, dtype=torch.float64)

    def run(parameters, buffers):
        return functional_call(layers[0], (parameters, buffers), (x,))[0]

    found = vmap(run)(parameters, buffers)
    torch.testing.assert_close(found, torch.stack([layer(x)[0] for layer in layers]), **EXACT)


@units
def test_samples_with_states_and_lengths_of_their_own(unit):
    """vmap over what a layer checks by value: the steps taken, and the lengths."""
    layer = enlarge(make_layer(unit))
    x = torch.randn(5, 4, 2, dtype=torch.float64)  # (samples, steps, features)
    u = torch.randn(5, 1, layer.state_size, dtype=torch.float64)
    t, lengths = torch.tensor([0, 3, 8, 2, 1]), torch.tensor([4, 0, 2, 1, 3])
    run = vmap(lambda x, u, t, lengths: layer(x, (u, t.reshape(1)), lengths))
    output, (after, steps) = run(x, u, t, lengths)
    for n in range(5):
        state = (u[n], t[n].reshape(1))
        expected, (u_n, t_n) = layer(x[n], state, lengths[n])
        torch.testing.assert_close(output[n], expected, **EXACT)
        torch.testing.assert_close(after[n], u_n, **EXACT)
        assert torch.equal(steps[n], t_n)


def test_time_ends_for_samples_within_vmap_too():
    layer = make_layer("fru")
    x, u = torch.randn(3, 4, 2, dtype=torch.float64), torch.zeros(3, 1, 6, dtype=torch.float64)
    with pytest.raises(ValueError, match="step 13 is past seq_len=12"):
        vmap(lambda x, u, t: layer(x, (u, t.reshape(1)))[0])(x, u, torch.tensor([0, 9, 8]))


@units
@kinds
def test_many_gradients_at_once(unit, kind):
    """vmap over the gradients that reach the outputs, as is_grads_batched does."""
    loss, parameters, x = of_kind(unit, kind)
    leaves = [p.clone().requires_grad_() for p in parameters.values()]
    x = x.clone().requires_grad_()
    value = loss(dict(zip(parameters, leaves, strict=True)), x)
    scales = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    found = torch.autograd.grad(
        value, [x, *leaves], scales, is_grads_batched=True, retain_graph=True
    )
    for gradient, expected in zip(found, torch.autograd.grad(value, [x, *leaves]), strict=True):
        shape = (-1, *[1] * expected.dim())
        torch.testing.assert_close(gradient, scales.view(shape) * expected, **EXACT)


def test_a_tangent_of_the_gradient_that_reaches_an_output():
    """Forward over reverse where the forward pass knew nothing of it."""
    layer = enlarge(make_layer("fru"))
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(4, 2, 3, dtype=torch.float64)

    def tangent():
        output = layer(x)[0]
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(upstream, torch.ones_like(upstream))
            gradient = torch.autograd.grad(output, x, dual)[0]
            return torch.autograd.forward_ad.unpack_dual(gradient).tangent

    found, expected = both_ways(tangent)
    torch.testing.assert_close(found, expected, **EXACT)
    assert found.abs().max() > 1e-3


@pytest.mark.parametrize("batch", [2, 6])  # both forms of the kernels
def test_second_derivatives_of_a_sequence_in_pieces(batch, monkeypatch):
    """The rows of each piece are recomputed in the backward pass."""
    monkeypatch.setattr(fru_module, "PIECE", 4)
    layer = enlarge(make_layer("fru"))
    x = torch.randn(10, batch, 2, dtype=torch.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]

    def second():
        output, (u, _) = layer(x, lengths=torch.tensor([10, 3, 0, 7, 1, 9][:batch]))
        loss = output.sin().sum() + u.square().sum()
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        return torch.autograd.grad(sum(g.sin().sum() for g in first), inputs)

    torch.testing.assert_close(*both_ways(second), **EXACT)


@pytest.mark.parametrize("backend", torchfru.available_backends())
@settings(max_examples=25)
@given(data=st.data())
def test_only_what_takes_part_in_the_loss_has_a_gradient(backend, data):
    """As autograd has it: None, and never zeros, for what the loss does not depend on."""
    unit = data.draw(st.sampled_from(["fru", "sru"]))
    sequences = data.draw(st.booleans())
    layers = data.draw(st.integers(1, 2))
    module = make_layer(unit, num_layers=layers, return_sequences=sequences)
    batch, steps = data.draw(st.sampled_from([1, 3, 5])), data.draw(st.integers(1, 4))
    x = torch.randn(steps, batch, 2, dtype=torch.float64, requires_grad=True)
    hx = None
    if data.draw(st.booleans()):
        u = torch.randn(layers, batch, module.state_size, dtype=torch.float64, requires_grad=True)
        hx = (u, torch.zeros(layers, batch, dtype=torch.int64))
    used = data.draw(st.sampled_from(["output", "state"]))
    given = {"x": x} | ({} if hx is None else {"u": hx[0]}) | dict(module.named_parameters())

    def without_gradient(backend):
        with torchfru.use_backend(backend):
            output, (u, _) = module(x, hx)
        loss = output.sum() if used == "output" else u.sum()
        found = torch.autograd.grad(loss, list(given.values()), allow_unused=True)
        return {name for name, value in zip(given, found, strict=True) if value is None}

    last = layers - 1
    unused = {f"weight_uy_l{last}", f"bias_y_l{last}"} if used == "state" else set()
    assert without_gradient(backend) == unused
