"""Naive forecasts, and models that start from one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torchfru.nn import LAYERS, NaiveForecast, SequenceModel, StepModel
from torchfru.nn.forecast import ridge


def by_definition(kind: str, x: torch.Tensor, season: int, horizon: int) -> torch.Tensor:
    """(L, horizon n) for one sequence (L, n), a step at a time."""
    rows = []
    for t in range(len(x)):
        seen = lambda s: x[max(s, 0)]  # noqa: E731  the first input is repeated
        ahead = range(1, horizon + 1)
        if kind == "last":
            row = [x[t] for _ in ahead]
        elif kind == "line":
            row = [x[t] + i * (x[t] - seen(t - 1)) for i in ahead]
        else:
            row = [seen(t + (i - 1) % season + 1 - season) for i in ahead]
        if kind == "seasonal-line":
            change = x[t] - seen(t - season)
            row = [
                value + ((i - 1) // season + 1) * change
                for i, value in zip(ahead, row, strict=True)
            ]
        rows.append(torch.cat(row))
    return torch.stack(rows)


@pytest.mark.parametrize("kind", ["last", "line", "seasonal", "seasonal-line"])
@pytest.mark.parametrize(("n", "horizon"), [(1, 1), (2, 1), (2, 7)])
def test_forecasts_by_definition(kind, n, horizon):
    x = torch.randn(3, 9, n)
    naive = NaiveForecast(kind, n, season=4, horizon=horizon)
    for sequence, found in zip(x, naive(x)[:, 1:], strict=True):
        torch.testing.assert_close(found, by_definition(kind, sequence, 4, horizon))
    ends = torch.tensor([9, 1, 4])
    expected = torch.stack([naive(x)[i, end] for i, end in enumerate(ends)])
    torch.testing.assert_close(naive.after(x, ends), expected)


def test_ridge_equals_the_normal_equations():
    x, y = torch.randn(200, 5).double(), torch.randn(200, 2).double()
    penalty = torch.tensor([0.3]).double()
    weight, bias = ridge(x, y, penalty)
    centred = (x - x.mean(0)).numpy()
    gram = centred.T @ centred
    gram += 0.3 * np.trace(gram) / 5 * np.eye(5)
    expected = np.linalg.solve(gram, centred.T @ (y - y.mean(0)).numpy())
    np.testing.assert_allclose(weight.numpy().T, expected, atol=1e-12)
    np.testing.assert_allclose(
        bias.numpy(), y.mean(0).numpy() - x.mean(0).numpy() @ expected, atol=1e-12
    )


def test_ridge_chooses_a_penalty_that_fits_the_noise():
    make = torch.Generator().manual_seed(0)
    x = torch.randn(60, 40, generator=make).double()
    signal, noise = x[:, :1], torch.randn(60, 1, generator=make).double()
    exact, _ = ridge(x, signal, NaiveForecast.PENALTIES)
    assert (exact[0, 0] - 1).abs() < 1e-6  # nothing to shrink
    shrunk, _ = ridge(x, noise, NaiveForecast.PENALTIES)
    least, _ = ridge(x, noise, NaiveForecast.PENALTIES[:1])
    assert shrunk.norm() < 0.3 * least.norm()


def test_ridge_finds_a_recurrence_and_its_unit_is_the_error():
    t = torch.arange(60).double()
    x = torch.stack([torch.sin(0.3 * t + p) + p for p in range(5)]).unsqueeze(-1).float()
    naive = NaiveForecast("ridge", 1, width=4)
    naive.fit(x[:, :-1], x[:, 1:])
    error = naive(x[:, :-1])[:, 1:] - x[:, 1:]
    assert error[:, 3:].abs().max() < 1e-3
    assert naive.units[-1].item() == pytest.approx(
        error[:, 3:].square().mean().sqrt().item(), rel=0.1
    )
    assert naive.units[0].item() == pytest.approx(error[:, 0].square().mean().sqrt().item())


def test_the_padding_of_shorter_sequences_is_not_learned_from():
    x, lengths = torch.randn(4, 9, 2), torch.tensor([9, 3, 5, 1])
    padded = x.clone()
    padded[torch.arange(9) >= lengths.unsqueeze(-1)] = 1e6
    units = []
    for inputs in (x, padded):
        naive = NaiveForecast("ridge", 2, width=2)
        naive.fit(inputs, x.flip(0), lengths)
        units.append(naive.units)
    torch.testing.assert_close(units[0], units[1])


def test_a_constant_series_has_a_unit_of_one():
    naive = NaiveForecast("last", 1)
    naive.fit(torch.ones(2, 5, 1), torch.ones(2, 5, 1))
    assert naive.units.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"kind": "mean"},
            "kind must be one of last, line, seasonal, seasonal-line, ridge, best; got 'mean'",
        ),
        ({"kind": "ridge", "width": 0}, "width must be greater than zero, got 0"),
        ({"kind": "seasonal", "season": 0}, "season must be greater than zero, got 0"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        NaiveForecast(input_size=1, **arguments)


# Models -----------------------------------------------------------------------------------

SMALL = {
    "fru": {"num_freqs": 6, "freq_dim": 3, "gate_size": 4, "freqs": "even"},
    "sru": {"stat_size": 5, "gate_size": 4},
}


def make(layer: str, naive: str = "ridge", horizon: int = 1, **changes) -> SequenceModel:
    options = {"hidden_size": 7, "window": 3, "skip": True, "naive_width": 2, "season": 3}
    options |= SMALL.get(layer, {}) | changes
    return SequenceModel(layer, 2, 2 * horizon, seq_len=12, naive=naive, **options).eval()


@pytest.mark.parametrize("naive", ["last", "line", "seasonal", "ridge"])
def test_a_model_starts_as_its_naive_forecast(naive):
    x = torch.randn(5, 13, 2).cumsum(1)
    model = make("fru", naive, every_step=True)
    model.fit_naive(x[:, :-1], x[:, 1:])
    torch.testing.assert_close(model(x[:, :-1]), model.naive(x[:, :-1])[:, 1:])


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("every_step", [True, False])
def test_stepping_equals_the_whole_sequence(layer, every_step):
    x = torch.randn(3, 12, 2).cumsum(1)
    model = make(layer, horizon=2, every_step=every_step, time_freqs=2)
    targets = torch.randn(3, 12, 4) if every_step else torch.randn(3, 4)
    model.fit_naive(x, targets)
    torch.nn.init.normal_(model.head.weight)
    step, outputs = StepModel(model), []
    state = step.start(3)
    assert [value.shape[axis] for value, axis in zip(state, step.batch_axes, strict=True)] == [
        3
    ] * len(state)
    for x_t in x.unbind(1):
        output, *state = step(x_t, *state)
        outputs.append(output)
    stream = model.stream(3)
    for found in (outputs, [stream(x_t) for x_t in x.unbind(1)]):
        last = torch.stack(found, 1) if every_step else found[-1]
        torch.testing.assert_close(last, model(x), atol=1e-5, rtol=1e-5)
    if every_step:
        torch.testing.assert_close(model(x, output_from=5), model(x)[:, 5:], atol=1e-5, rtol=1e-5)


def test_a_forecast_after_padded_sequences_is_that_after_their_own_ends():
    x, lengths = torch.randn(3, 12, 2), torch.tensor([12, 1, 6])
    model = make("fru", "line", horizon=3)
    torch.nn.init.normal_(model.head.weight)
    output = model(x, lengths)
    for n, length in enumerate(lengths.tolist()):
        alone = model(x[n : n + 1, :length])
        torch.testing.assert_close(output[n], alone[0], atol=1e-5, rtol=1e-5)


def test_a_forecast_needs_numbers_and_whole_steps():
    with pytest.raises(ValueError, match="got output_size=3, input_size=2"):
        SequenceModel("fru", 2, 3, seq_len=12, naive="last")
    with pytest.raises(ValueError, match="needs numbers as inputs"):
        SequenceModel("fru", 1, 1, seq_len=12, naive="last", vocab_size=5)
    with pytest.raises(ValueError, match="naive must be one of none, last, line"):
        SequenceModel("fru", 1, 1, seq_len=12, naive="lst")


def test_a_relative_model_forecasts_a_shifted_window_shifted():
    """Level and scale of a window pass through: only its shape is learned."""
    x = torch.randn(4, 12, 3).cumsum(1)
    model = SequenceModel(
        "fru", 3, 4, seq_len=12, naive="last", horizon=2, relative=True, skip=True
    )
    torch.nn.init.normal_(model.eval().head.weight)
    moved = x.clone()
    moved[..., :2] += 7.0  # the third input is a covariate
    torch.testing.assert_close(model(moved), model(x) + 7.0, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(model(x), model.naive.after(x[..., :2], torch.full((4,), 12)))
    moved[..., 2] += 1.0
    assert not torch.allclose(model(moved), model(x) + 7.0, atol=1e-3)


def test_a_relative_model_is_for_whole_windows():
    with pytest.raises(ValueError, match="relative=True needs naive, and one output"):
        SequenceModel("fru", 2, 2, seq_len=12, naive="last", relative=True, every_step=True)
    with pytest.raises(ValueError, match="cannot be taken step by step"):
        make("fru", "last", relative=True).stream()


def test_input_dropout_drops_whole_steps_while_training():
    model = SequenceModel("fru", 3, 2, seq_len=50, input_dropout=0.5)
    kept = model.embed(torch.ones(4, 50, 3))
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(kept[..., :1].expand_as(kept), kept)
    model.eval()
    assert torch.equal(model.embed(torch.ones(1, 5, 3)), torch.ones(1, 5, 3))


def test_a_horizon_longer_than_the_outputs_is_one_line():
    with pytest.raises(ValueError, match="output_size=3, input_size=1, horizon=5"):
        SequenceModel("fru", 1, 3, seq_len=20, naive="last", horizon=5)
