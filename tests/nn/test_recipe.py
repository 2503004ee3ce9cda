"""A model with window, energy, scale, norm, time and hidden layers, for every layer."""

from __future__ import annotations

import pytest
import torch

from torchfru.nn import LAYERS, SequenceModel, StepModel

SMALL = {
    "fru": {"num_freqs": 6, "freq_dim": 3, "gate_size": 4, "freqs": "even"},
    "sru": {"stat_size": 5, "gate_size": 4},
}
RECIPE = {
    "hidden_size": 7,
    "window": 4,
    "window_size": 5,
    "window_norm": True,
    "window_activation": "gelu",
    "scale": "learned",
    "norm": True,
    "output": "relu",
    "head_sizes": (6,),
    "time_freqs": 3,
    "dropout": 0.5,
}


def make(layer: str, **changes) -> SequenceModel:
    options = {**RECIPE, **SMALL.get(layer, {}), **changes}
    return SequenceModel(layer, 2, 3, seq_len=12, **options).eval()


def stepped(model: SequenceModel, x: torch.Tensor) -> torch.Tensor:
    """The outputs of the single-step model, (N, L, n_out)."""
    step = StepModel(model)
    state, outputs = step.start(len(x)), []
    assert len(state) == len(step.state_names)
    for x_t in x.unbind(1):
        output, *state = step(x_t, *state)
        outputs.append(output)
    return torch.stack(outputs, 1)


def streamed(model: SequenceModel, x: torch.Tensor) -> torch.Tensor:
    """The outputs of a stream, (N, L, n_out): copied and reset on the way."""
    stream = model.stream(len(x))
    stream(x[:, 0] + 1)
    stream.reset()
    half = x.shape[1] // 2
    first = [stream(x_t) for x_t in x[:, :half].unbind(1)]
    twin, other = stream.copy(), model.stream(len(x))
    other.state = stream.state
    rest = [stream(x_t) for x_t in x[:, half:].unbind(1)]
    for late in (twin, other):  # neither shares what the first one has read since
        again = [late(x_t) for x_t in x[:, half:].unbind(1)]
        torch.testing.assert_close(again, rest, atol=0, rtol=0)
    return torch.stack(first + rest, 1)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("changes", [{}, {"window_size": None, "window_norm": False}])
def test_stepping_equals_the_whole_sequence(layer, changes):
    changes = changes if changes else {}
    model = make(layer, every_step=True, **changes)
    x = torch.randn(3, 12, 2)
    torch.testing.assert_close(stepped(model, x), model(x), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(streamed(model, x), model(x), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(x, output_from=5), model(x)[:, 5:], atol=1e-6, rtol=1e-5)


def test_stepping_with_energy_equals_the_whole_sequence():
    model, x = make("fru", basis="pairs", energy=4), torch.randn(3, 12, 2)
    for steps in (stepped(model, x), streamed(model, x)):
        for length in (1, 7, 12):
            expected = model(x[:, :length])
            torch.testing.assert_close(steps[:, length - 1], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layer", LAYERS)
def test_padding_changes_no_answer(layer):
    model, lengths = make(layer), torch.tensor([12, 1, 6])
    x = torch.randn(3, 12, 2)
    output = model(x, lengths)
    for n, length in enumerate(lengths.tolist()):
        alone = model(x[n : n + 1, :length])
        torch.testing.assert_close(output[n], alone[0], atol=1e-5, rtol=1e-5)


def test_energy_needs_pairs_and_one_output():
    for changes in ({}, {"basis": "pairs", "every_step": True}):
        with pytest.raises(ValueError, match=r"energy=4 needs the layer 'fru' with basis='pairs'"):
            make("fru", energy=4, **changes)
    with pytest.raises(ValueError, match=r"energy=4 needs the layer 'fru'"):
        make("lstm", energy=4)


def test_every_part_gets_a_gradient():
    model = make("fru", basis="pairs", energy=4)
    model(torch.randn(3, 12, 2)).square().sum().backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not missing
