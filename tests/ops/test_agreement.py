"""Every backend computes what the definition says: outputs, states and all gradients."""

from __future__ import annotations

import pytest
import torch
from helpers import FAST, TOLERANCE, Case, assert_close, cases, results
from hypothesis import given
from torch.autograd import gradcheck, gradgradcheck

import torchfru


@pytest.mark.parametrize("backend", FAST)
@given(case=cases())
def test_backend_equals_reference(backend: str, case: Case) -> None:
    layer = case.build()
    inputs = case.inputs(layer)
    expected = results(layer, inputs, "reference")
    assert_close(results(layer, inputs, backend), expected, TOLERANCE[case.dtype])


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("every_step", [True, False])
def test_long_sequences_agree_in_float32(backend: str, every_step: bool) -> None:
    layer = torchfru.FRU(1, 20, seq_len=784, return_sequences=every_step)
    inputs = {"input": torch.randn(784, 16, 1, requires_grad=True)}
    expected = results(layer, inputs, "reference")
    assert_close(results(layer, inputs, backend), expected, 1e-5)


def small_layer(nonlinearity: str, per_block: int, every_step: bool) -> torchfru.FRU:
    return torchfru.FRU(
        2,
        3,
        seq_len=9,
        num_freqs=4,
        freq_dim=2,
        gate_size=3,
        freqs_per_block=per_block,
        nonlinearity=nonlinearity,
        return_sequences=every_step,
        dtype=torch.float64,
    )


@pytest.mark.parametrize("backend", ["reference", "collapsed"])
@pytest.mark.parametrize("nonlinearity", ["tanh", "identity"])
@pytest.mark.parametrize("per_block", [1, 2])
@pytest.mark.parametrize("every_step", [True, False])
def test_first_and_second_derivatives(
    backend: str, nonlinearity: str, per_block: int, every_step: bool
) -> None:
    layer = small_layer(nonlinearity, per_block, every_step)
    names = [name for name, _ in layer.named_parameters()]
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    u = torch.randn(1, 2, 8, dtype=torch.float64, requires_grad=True)
    t = torch.full((1, 2), 3)

    def run(x: torch.Tensor, u: torch.Tensor, *weights: torch.Tensor):
        swapped = dict(zip(names, weights, strict=True))
        output, (u, _) = torch.func.functional_call(layer, swapped, (x, (u, t)))
        return output, u

    with torchfru.use_backend(backend):
        inputs = (x, u, *layer.parameters())
        assert gradcheck(run, inputs)
        assert gradgradcheck(run, inputs)


@pytest.mark.parametrize("backend", torchfru.available_backends())
def test_relu_derivative(backend: str) -> None:
    layer = small_layer("relu", 1, every_step=True)
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    with torchfru.use_backend(backend):
        assert gradcheck(lambda x: layer(x)[0], (x,))


def test_definition_is_the_papers_update_rule() -> None:
    """The reference against the formulas written out entry by entry, in plain Python."""
    layer = small_layer("tanh", per_block=2, every_step=True)
    x = torch.randn(5, 1, 2, dtype=torch.float64)
    with torchfru.use_backend("reference"):
        output, (u_last, _) = layer(x)
    w = dict(layer.named_parameters())
    basis = layer.basis_matrix()
    u = torch.zeros(8, dtype=torch.float64)
    for t in range(1, 6):
        g = torch.tanh(w["weight_ug_l0"] @ u + w["bias_g_l0"])
        h = torch.tanh(w["weight_gh_l0"] @ g + w["weight_xh_l0"] @ x[t - 1, 0] + w["bias_h_l0"])
        after = u.clone()
        for k in range(4):  # frequency k of 4, in blocks of 2, of dimension 2
            for j in range(2):
                after[2 * k + j] = u[2 * k + j] + basis[t - 1, k] / 9 * h[2 * (k % 2) + j]
        u = after
        expected = w["weight_uy_l0"] @ u + w["bias_y_l0"]
        torch.testing.assert_close(output[t - 1, 0], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(u_last[0, 0], u, rtol=1e-12, atol=1e-12)
