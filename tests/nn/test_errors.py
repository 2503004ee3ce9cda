"""Every mistake that a user can make is answered by one clear line with the value in it."""

from __future__ import annotations

import warnings

import pytest
import torch
from helpers import both, make_fru, make_sru
from torch.nn.utils.rnn import pack_sequence

import torchfru


@both
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"bias": 1}, TypeError, "bias should be of type bool, got: int"),
        ({"batch_first": "yes"}, TypeError, "batch_first should be of type bool, got: str"),
        ({"bidirectional": 0}, TypeError, "bidirectional should be of type bool, got: int"),
        ({"return_sequences": None}, TypeError, "return_sequences should be of type bool"),
        ({"input_size": 0}, ValueError, "input_size must be greater than zero, got 0"),
        ({"hidden_size": -3}, ValueError, "hidden_size must be greater than zero, got -3"),
        ({"num_layers": 0}, ValueError, "num_layers must be greater than zero, got 0"),
        ({"gate_size": 0}, ValueError, "gate_size must be greater than zero, got 0"),
        ({"hidden_size": 2.5}, TypeError, "hidden_size should be of type int, got: float"),
        ({"dropout": 1.5}, ValueError, r"dropout must be a number in \[0, 1\].*got 1.5"),
        ({"dropout": "no"}, ValueError, r"dropout must be a number in \[0, 1\].*got 'no'"),
        ({"dropout": float("nan")}, ValueError, r"dropout must be a number.*got nan"),
        ({"nonlinearity": "elu"}, ValueError, "one of relu, tanh, identity; got 'elu'"),
    ],
)
def test_constructor(make, changes, error, message):
    with pytest.raises(error, match=message):
        make(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"seq_len": 0}, ValueError, "FRU: seq_len must be greater than zero, got 0"),
        ({"num_freqs": 0}, ValueError, "FRU: num_freqs must be greater than zero, got 0"),
        ({"freq_dim": 0}, ValueError, "FRU: freq_dim must be greater than zero, got 0"),
        (
            {"freqs_per_block": 3},
            ValueError,
            "num_freqs must be divisible by freqs_per_block, got num_freqs=4, freqs_per_block=3",
        ),
    ],
)
def test_fru_constructor(changes, error, message):
    with pytest.raises(error, match=message):
        make_fru(**changes)


@pytest.mark.parametrize("alphas", [(), (1.0,), (-0.1, 0.5), (float("nan"),)])
def test_sru_alphas(alphas):
    with pytest.raises(ValueError, match=r"alphas must be one or more decays in \[0, 1\), got \("):
        make_sru(alphas=alphas)


def test_seq_len_is_required():
    with pytest.raises(TypeError, match="seq_len"):
        torchfru.FRU(1, 2)


@both
def test_useless_dropout_warns(make):
    with pytest.warns(UserWarning, match="dropout=0.5 does nothing with num_layers=1"):
        make(dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(dropout=0.5, num_layers=2)


def state(layers=1, batch=2, width=12, dtype=torch.float64):
    return torch.zeros(layers, batch, width, dtype=dtype), torch.zeros(layers, batch).long()


def x(*shape, dtype=torch.float64):
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((x(2, 2, 2, 3),), ValueError, "FRU: Expected input to be 2D or 3D, got 4D instead"),
        ((x(3),), ValueError, "FRU: Expected input to be 2D or 3D, got 1D instead"),
        (
            (x(5, 2, 4),),
            RuntimeError,
            r"input.size\(-1\) must be equal to input_size. Expected 3, got 4",
        ),
        (
            (x(5, 2, 3, dtype=torch.float32),),
            ValueError,
            r"input dtype \(torch.float32\) does not match weight dtype \(torch.float64\)",
        ),
        ((x(0, 2, 3),), RuntimeError, "Expected sequence length to be larger than 0, got 0"),
        (
            (x(5, 2, 3), x(1, 2, 12)),
            RuntimeError,
            r"the state must be a tuple \(u, t\), got Tensor",
        ),
        ((x(5, 2, 3), (x(2, 12), x(2).long())), RuntimeError, "3-D and 2-D, got 2-D and 1-D"),
        ((x(5, 3), state()), RuntimeError, "2-D and 1-D, got 3-D and 2-D"),
        (
            (x(5, 2, 3), state(batch=3)),
            RuntimeError,
            r"Expected u of size \(1, 2, 12\), got \(1, 3, 12\)",
        ),
        (
            (x(5, 2, 3), (x(1, 2, 12), x(1, 3).long())),
            RuntimeError,
            r"Expected t of size \(1, 2\), got \(1, 3\)",
        ),
        (
            (x(5, 2, 3), state(dtype=torch.float32)),
            ValueError,
            r"u dtype \(torch.float32\) does not match weight dtype \(torch.float64\)",
        ),
        (
            (x(5, 2, 3), (x(1, 2, 12), x(1, 2))),
            TypeError,
            "t must hold integers, got torch.float64",
        ),
        (
            (x(5, 2, 3), (x(1, 2, 12), -torch.ones(1, 2).long())),
            ValueError,
            r"t must not be negative, got \[\[-1, -1\]\]",
        ),
        ((x(21, 2, 3),), ValueError, "FRU: step 21 is past seq_len=20. Build it with seq_len=21"),
        (
            (x(5, 2, 3), (x(1, 2, 12), torch.tensor([[3, 17]]))),
            ValueError,
            "FRU: step 22 is past seq_len=20. Build it with seq_len=22",
        ),
        (
            (x(5, 2, 3), None, torch.tensor([5, 6])),
            ValueError,
            r"lengths must lie within 0..5, the padded length; got \[5, 6\]",
        ),
        ((x(5, 2, 3), None, torch.tensor([5, -1])), ValueError, r"got \[5, -1\]"),
        (
            (x(5, 2, 3), None, torch.tensor([5])),
            RuntimeError,
            r"Expected lengths of size \(2,\), got \(1,\)",
        ),
        (
            (x(5, 2, 3), None, torch.tensor([5.0, 1.0])),
            TypeError,
            "lengths must be integers, got torch.float32",
        ),
        (
            (pack_sequence([x(5, 3)]), None, torch.tensor([5])),
            ValueError,
            "lengths= belongs to padded tensors",
        ),
        ((pack_sequence([x(5, 4)]),), RuntimeError, "Expected 3, got 4"),
        (
            (pack_sequence([x(5, 3)]), None, None, 2),
            ValueError,
            "output_from= belongs to padded tensors",
        ),
        (
            (x(5, 2, 3), None, None, 5),
            ValueError,
            "output_from must lie within 0..4, the steps of the input; got 5",
        ),
        ((x(5, 2, 3), None, None, -1), ValueError, "0..4, the steps of the input; got -1"),
    ],
)
def test_forward(arguments, error, message):
    with pytest.raises(error, match=message):
        make_fru()(*arguments)


@both
@pytest.mark.parametrize("options", [{"return_sequences": False}, {"bidirectional": True}])
def test_output_from_needs_every_output_of_one_direction(make, options):
    with pytest.raises(ValueError, match="output_from=2 needs return_sequences=True and one dir"):
        make(**options)(x(5, 2, 3), output_from=2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((x(2, 2, 3),), ValueError, "FRUCell: Expected input to be 1D or 2D, got 3D instead"),
        ((x(2, 4),), RuntimeError, "Expected 3, got 4"),
        ((x(2, 3), (x(2, 11), x(2).long())), RuntimeError, r"Expected u of size \(2, 12\)"),
        ((x(2, 3), (x(12), x(2).long())), RuntimeError, "2-D and 1-D, got 1-D and 1-D"),
        (
            (x(2, 3), (x(2, 12), torch.tensor([20, 3]))),
            ValueError,
            "FRUCell: step 21 is past seq_len=20",
        ),
    ],
)
def test_cell(arguments, error, message):
    with pytest.raises(error, match=message):
        make_fru().cell()(*arguments)


def test_backend():
    with pytest.raises(ValueError, match=r"one of auto, reference, collapsed.*; got 'cuda'"):
        torchfru.use_backend("cuda")
