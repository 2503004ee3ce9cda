"""Rows that are made again: nothing of them is held, and no gradient changes."""

import gc
import weakref

import pytest
import torch
from helpers import make_fru

import torchfru
import torchfru.basis
from torchfru.nn import fru as fru_module
from torchfru.nn.recompute import recompute


def make_cosine(phase, calls):
    def make():
        calls.append(1)
        return torch.cos(torch.arange(5.0) + phase) / 3

    return make


def test_what_is_recompute_is_not_held():
    phase, calls, held = torch.zeros(5, requires_grad=True), [], []
    with recompute(make_cosine(phase, calls)) as rows:
        held.append(weakref.ref(rows))
        loss = (rows * torch.arange(1.0, 6.0, requires_grad=True)).sum()
    del rows
    gc.collect()
    assert held[0]() is None  # though the gradient of the product needs it
    loss.backward()
    assert len(calls) == 2  # one call more for the product and for the cosine


def test_gradients_are_those_of_autograd_twice_over_and_once_more():
    given = torch.randn(5, dtype=torch.float64, requires_grad=True)
    phase = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def loss(again):
        make = make_cosine(phase, [])
        with recompute(make) if again else torch.enable_grad() as rows:
            rows = rows if again else make()
            return (rows * given).sin().sum()

    found = []
    for again in (False, True):
        value = loss(again)
        first = torch.autograd.grad(value, (phase, given), create_graph=True)
        repeated = torch.autograd.grad(value, (phase, given), retain_graph=True)
        second = torch.autograd.grad(sum(g.sin().sum() for g in first), (phase, given))
        found.append([*first, *repeated, *second])
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_long_sequence_holds_no_rows(frozen, monkeypatch):
    class Own(torchfru.basis.Fourier):
        """A basis that no operator knows."""

    monkeypatch.setattr(fru_module, "PIECE", 8)
    layer = make_fru(basis=Own())
    layer.phase_l0.requires_grad_(not frozen)
    alive = []
    scaled = layer._scaled_rows

    def watched(*arguments):
        rows = scaled(*arguments)
        alive.append(weakref.ref(rows))
        return rows

    monkeypatch.setattr(layer, "_scaled_rows", watched)
    output, _ = layer(torch.randn(20, 2, 3, dtype=torch.float64))
    gc.collect()
    assert [ref() for ref in alive] == [None] * 3
    output.sum().backward()
    assert len(alive) == 6


def test_torch_func_reads_long_sequences(monkeypatch):
    """It forbids the hooks that this takes: the rows are held then."""
    layer = make_fru(return_sequences=False)
    x = torch.randn(20, 2, 3, dtype=torch.float64)
    parameters = dict(layer.named_parameters())

    def loss(values):
        return torch.func.functional_call(layer, values, (x,))[0].sum()

    with torchfru.use_backend("collapsed"):
        loss(parameters).backward()
        monkeypatch.setattr(fru_module, "PIECE", 8)
        found = torch.func.grad(loss)(parameters)
    for name, parameter in parameters.items():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-10, atol=1e-12)
