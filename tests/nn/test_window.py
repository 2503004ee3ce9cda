"""The causal window against its definition: a loop over steps, and pieces against the whole."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchfru.nn.window import ACTIVATIONS, CausalWindow


def by_definition(window: CausalWindow, x: Tensor) -> Tensor:
    """v(t) from x(t - width + 1)..x(t), a step at a time; x (N, L, n_in)."""
    outputs = []
    for t in range(x.shape[1]):
        total = window.bias.expand(x.shape[0], -1)
        for back in range(min(window.width, t + 1)):
            total = total + x[:, t - back] @ window.weight[:, :, window.width - 1 - back].t()
        total = total if window.norm is None else window.norm(total)
        outputs.append(ACTIVATIONS[window.activation](total))
    return torch.stack(outputs, 1)


@settings(max_examples=40)
@given(
    samples=st.integers(1, 4),
    steps=st.integers(1, 12),
    n_in=st.integers(1, 3),
    n_out=st.integers(1, 9),
    width=st.integers(1, 15),
    norm=st.booleans(),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    cut=st.integers(0, 12),
)
def test_window_agrees_with_its_definition(
    samples, steps, n_in, n_out, width, norm, activation, cut
):
    window = CausalWindow(n_in, n_out, width, norm=norm, activation=activation, batch_first=True)
    window, x = window.double(), torch.randn(samples, steps, n_in, dtype=torch.float64)
    whole, after = window(x)
    torch.testing.assert_close(whole, by_definition(window, x), atol=1e-10, rtol=0)
    cut = min(cut, steps - 1)
    pieces, state = [], None
    for part in (x[:, :cut], x[:, cut:]) if cut else (x,):
        y, state = window(part, state)
        pieces.append(y)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=1e-12, rtol=0)
    torch.testing.assert_close(state, after)


def test_padding_changes_neither_output_nor_state():
    window, lengths = CausalWindow(2, 3, width=4), torch.tensor([5, 1, 3])
    x = torch.randn(5, 3, 2)
    output, state = window(x, lengths=lengths)
    for n, length in enumerate(lengths.tolist()):
        alone, after = window(x[:length, n : n + 1])
        torch.testing.assert_close(output[:length, n], alone[:, 0])
        torch.testing.assert_close(state[n], after[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CausalWindow(2, 3, width=0), "width must be greater than zero, got 0"),
        (lambda: CausalWindow(2, 3, width=2, activation="sin"), "one of identity.*got 'sin'"),
        (lambda: CausalWindow(2, 3, width=2)(torch.zeros(4, 2)), "Expected input to be 3D"),
        (
            lambda: CausalWindow(2, 3, width=2)(torch.zeros(4, 1, 5)),
            "Expected 2 features per step, got 5",
        ),
        (
            lambda: CausalWindow(2, 3, width=3)(torch.zeros(4, 1, 2), torch.zeros(1, 1, 2)),
            r"Expected state of size \(1, 2, 2\), got \(1, 1, 2\)",
        ),
    ],
)
def test_errors_name_the_value(build, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        build()


def test_without_output_size_the_inputs_stand_side_by_side():
    window, x = CausalWindow(2, width=3, batch_first=True), torch.randn(1, 4, 2)
    output, _ = window(x)
    assert output.shape == (1, 4, 6)
    assert not list(window.parameters())
    torch.testing.assert_close(output[0, 3], x[0, 1:4].flatten())
    assert not output[0, 0, :4].any()  # before the first input
