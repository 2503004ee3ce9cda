"""SequenceModel: its sizes are the paper's, and padding never changes a result."""

from __future__ import annotations

import re

import pytest
import torch

from torchfru.defaults import LAYER_OPTIONS
from torchfru.nn import LAYERS, SequenceModel
from torchfru.training import find_run


def paper_model(experiment: str, model: str, *sizes: int, **options: object) -> SequenceModel:
    settings = find_run(experiment, model).model.options()
    return SequenceModel(settings.pop("layer"), *sizes, **settings, **options)


@pytest.mark.parametrize(
    ("model", "thousands"),
    [("rnn", 42), ("lstm", 164), ("sru", 275), ("fru-40-10", 107), ("fru-60-10", 159)],
)
def test_sizes_on_pixel_mnist_are_the_papers(model, thousands):
    built = paper_model("pixel-mnist", model, 1, 10, seq_len=784)
    assert round(built.count_parameters() / 1000) == thousands


@pytest.mark.parametrize(
    ("model", "thousands"),
    [("rnn", 33), ("lstm", 132), ("sru", 226), ("fru-5-10", 12), ("fru-1-10", 4)],
)
def test_sizes_on_imdb_are_the_papers(model, thousands):
    built = paper_model("imdb", model, 1, 2, seq_len=300, vocab_size=10_000)
    assert round(built.count_parameters() / 1000) == thousands
    assert built.count_parameters(embedding=True) == built.count_parameters() + 10_000 * 128


def build(layer: str, **options: object) -> SequenceModel:
    own = {
        "fru": {"num_freqs": 4, "freq_dim": 2, "gate_size": 3},
        "sru": {"gate_size": 3, "stat_size": 4},
    }
    sizes = {"hidden_size": 5, "num_layers": 2, **own.get(layer, {})}
    return SequenceModel(layer, 2, 3, seq_len=9, **sizes, **options).eval()


@pytest.mark.parametrize("every_step", [False, True])
@pytest.mark.parametrize("layer", LAYERS)
def test_padding_changes_nothing(layer, every_step):
    model = build(layer, every_step=every_step)
    lengths = torch.tensor([1, 7, 4])
    x = torch.randn(3, 9, 2)
    for i, length in enumerate(lengths):
        x[i, length:] = float("nan")
    found = model(x, lengths)
    for i, length in enumerate(lengths):
        alone = model(x[i : i + 1, :length])[0]
        padded = found[i, :length] if every_step else found[i]
        torch.testing.assert_close(padded, alone, atol=1e-6, rtol=1e-5)
    valid = found if not every_step else found[torch.arange(9) < lengths.unsqueeze(-1)]
    valid.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("lengths", [None, torch.tensor([1, 7, 4])])
@pytest.mark.parametrize("layer", LAYERS)
def test_answers_can_begin_late(layer, lengths):
    model = build(layer, every_step=True)
    x = torch.randn(3, 9, 2)
    found = model(x, lengths, output_from=6)
    torch.testing.assert_close(found, model(x, lengths)[:, 6:], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("layer", LAYERS)
def test_tokens(layer):
    model = build(layer, vocab_size=11, embedding_size=4)
    tokens = torch.randint(0, 11, (3, 9))
    assert model(tokens, torch.tensor([9, 2, 5])).shape == (3, 3)


def test_relu_before_the_head():
    plain, relu = build("fru"), build("fru", output="relu")
    relu.load_state_dict(plain.state_dict())
    x = torch.randn(4, 9, 2)
    y = plain.layer(x)[0]
    torch.testing.assert_close(relu(x), plain.head(y.relu()))


def test_every_basis_can_be_the_memory():
    for basis in ("fourier", "chebyshev", "legendre", "walsh"):
        assert build("fru", basis=basis)(torch.randn(1, 9, 2)).shape == (1, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"layer": "gnu"}, "rnn, lstm, gru, sru, fru; got 'gnu'"), ({"output": "x"}, "got 'x'")],
)
def test_errors_name_the_value(change, message):
    with pytest.raises(ValueError, match=message):
        SequenceModel(**{"layer": "fru", "input_size": 1, "output_size": 1, "seq_len": 3} | change)


@pytest.mark.parametrize(
    ("layer", "option", "message"),
    [
        ("fru", "gatesize", "'fru' has no option 'gatesize'; did you mean 'gate_size'?"),
        ("fru", "hiddensize", "did you mean 'hidden_size'?"),
        ("lstm", "num_freqs", "'lstm' has no option 'num_freqs'; fru has it"),
        ("sru", "basis", "'sru' has no option 'basis'; fru has it"),
        ("rnn", "xyz", "'rnn' has no option 'xyz'; choose one of"),
    ],
)
def test_an_unknown_option_is_refused(layer, option, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        SequenceModel(layer, 1, 1, seq_len=3, **{option: 5})


@pytest.mark.parametrize("layer", LAYERS)
def test_the_options_of_a_layer_are_those_that_it_takes(layer):
    values = {"max_freq": 2.0, "min_freq": 0.5, "basis": "walsh", "nonlinearity": "tanh"}
    options = {name: values.get(name, 3) for name in LAYER_OPTIONS[layer]}
    options |= {"alphas": (0.5,)} if "alphas" in options else {}
    options |= {"freqs_per_block": 1} if "freqs_per_block" in options else {}
    model = SequenceModel(layer, 1, 1, seq_len=3, **options)
    assert model(torch.zeros(2, 3, 1)).shape == (2, 1)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_state_continues_a_sequence(layer):
    """Every layer, torch's too: feeding chunks equals feeding the whole."""
    inner, x = build(layer, every_step=True).layer, torch.randn(3, 9, 2)
    whole, end = inner(x)
    first, state = inner(x[:, :4], inner.start_state(3, x))
    second, state = inner(x[:, 4:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(state, end, atol=1e-6, rtol=1e-5)
