"""Models for sequences: (embedding), a recurrent layer, (dropout), a linear head."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ..basis import log_frequencies
from ..defaults import (
    BASIS,
    EMBEDDING_SIZE,
    HIDDEN_SIZE,
    LAYER_OPTIONS,
    MIN_FREQ,
    NUM_FREQS,
    OUTPUT,
)
from ..io import did_you_mean
from ..ops import NONLINEARITIES
from .baselines import GRU, LSTM, RNN
from .fru import FRU
from .sru import SRU


def _fru(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    seq_len: int,
    num_freqs: int = NUM_FREQS,
    min_freq: float = MIN_FREQ,
    max_freq: float | None = None,
    basis: str = BASIS,
    **options: Any,
) -> FRU:
    """An FRU whose frequencies are given by their range; seq_len is the highest unless given."""
    freqs = None
    if basis == "fourier":
        freqs = log_frequencies(num_freqs, seq_len if max_freq is None else max_freq, min_freq)
    options |= {"seq_len": seq_len, "num_freqs": num_freqs, "freqs": freqs, "basis": basis}
    return FRU(input_size, hidden_size, num_layers, **options)


def _timeless(kind: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A layer that does not depend on seq_len."""
    return lambda *sizes, seq_len, **options: kind(*sizes, **options)


# By name: how to build a layer that reads (N, L, n_in). LAYER_OPTIONS has their own options.
LAYERS: dict[str, Callable[..., nn.Module]] = {
    "rnn": _timeless(RNN),
    "lstm": _timeless(LSTM),
    "gru": _timeless(GRU),
    "sru": _timeless(SRU),
    "fru": _fru,
}


class SequenceModel(nn.Module):
    """A recurrent layer with a linear head, on sequences of features or of tokens.

    Args:
        layer: one of :data:`LAYERS`: "rnn", "lstm", "gru", "sru", "fru".
        input_size: features per step; ignored if ``vocab_size`` is given.
        output_size: the number of classes, or of predicted features.
        seq_len: the longest sequence that will be read.
        every_step: an output for every step, or for each sequence's own last step only.
        vocab_size: for inputs that are token ids, the number of tokens.
        dropout: the probability of zeroing an output of the layer, before the head.
        output: the function between layer and head: "identity", as in the paper, or "relu", as
            in its authors' program (or "tanh").
        options: the layer's own: num_freqs, freq_dim, max_freq, basis, alphas, ...

    Shape:
        inputs (N, L, input_size), or (N, L) int64 tokens; lengths (N,) where they are padded;
        result (N, output_size), or (N, L - output_from, output_size) with every_step, where
        output_from, 0 unless given, is the first step with an output.

    >>> import torch
    >>> model = SequenceModel("fru", 1, 10, seq_len=784, max_freq=784.0)
    >>> model.count_parameters()
    158950
    >>> model(torch.randn(2, 5, 1)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        layer: str,
        input_size: int,
        output_size: int,
        *,
        seq_len: int,
        hidden_size: int = HIDDEN_SIZE,
        num_layers: int = 1,
        every_step: bool = False,
        vocab_size: int | None = None,
        embedding_size: int = EMBEDDING_SIZE,
        dropout: float = 0.0,
        output: str = OUTPUT,
        **options: Any,
    ) -> None:
        super().__init__()
        _require_choice("layer", layer, LAYERS)
        _require_choice("output", output, NONLINEARITIES)
        _require_options(layer, options)
        self.kind = layer
        self.every_step = every_step
        self.output = output
        self.embedding = None if vocab_size is None else nn.Embedding(vocab_size, embedding_size)
        n_in = input_size if vocab_size is None else embedding_size
        shared = {"seq_len": seq_len, "batch_first": True, "return_sequences": every_step}
        self.layer: Any = LAYERS[layer](n_in, hidden_size, num_layers, **shared, **options)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden_size, output_size)
        nn.init.trunc_normal_(self.head.weight, std=0.1, a=-0.2, b=0.2)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, inputs: Tensor, lengths: Tensor | None = None, output_from: int = 0
    ) -> Tensor:
        y, _ = self.layer(self.layer_input(inputs), lengths=lengths, output_from=output_from)
        return self.head_output(y)

    def layer_input(self, inputs: Tensor) -> Tensor:
        """The features (..., n_in) that the layer reads: those given, or embeddings of tokens."""
        return inputs if self.embedding is None else self.embedding(inputs)

    def head_output(self, y: Tensor) -> Tensor:
        """(..., output_size) from the layer's outputs (..., hidden_size)."""
        return self.head(self.dropout(NONLINEARITIES[self.output](y)))

    def count_parameters(self, embedding: bool = False) -> int:
        """Number of trainable parameters; the paper does not count the embedding's."""
        left_out = "" if embedding else "embedding."
        return sum(
            parameter.numel()
            for name, parameter in self.named_parameters()
            if parameter.requires_grad and not (left_out and name.startswith(left_out))
        )


def _require_choice(name: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise ValueError(
            f"SequenceModel: {name} must be one of {', '.join(choices)}; got {value!r}"
        )


def _require_options(layer: str, options: dict[str, Any]) -> None:
    """Refuse an option that the layer does not have, and name the one that was meant."""
    shared = inspect.signature(SequenceModel).parameters
    known = [*LAYER_OPTIONS[layer], *(name for name in shared if name != "options")]
    for name in options:
        if name not in known:
            owners = [kind for kind, own in LAYER_OPTIONS.items() if name in own]
            hint = f"{' and '.join(owners)} has it" if owners else did_you_mean(name, known)
            raise TypeError(f"SequenceModel: the layer {layer!r} has no option {name!r}; {hint}")


class StepModel(nn.Module):
    """Single-step model for export: ``output, *state = step(x, *state)``.

    x is (N, input_size), or (N,) int64 for tokens; output (N, output_size). The state, by layer:

        rnn, gru   h (num_layers, N, hidden_size)
        lstm       h and c, each as above
        sru        u (num_layers, N, n_u)
        fru        u (num_layers, N, n_u), and t (N,) int64, the steps taken so far

    It starts as zeros. The basis of an FRU is kept as a table of seq_len rows, so that an exported
    model needs no operator of the basis.

    >>> import torch
    >>> step = StepModel(SequenceModel("fru", 1, 10, seq_len=5))
    >>> output, u, t = step(torch.zeros(2, 1), *step.start(2))
    >>> output.shape, t.tolist()
    (torch.Size([2, 10]), [1, 1])
    """

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model.eval()
        self._tables = tuple(model.layer.step_tables())
        for name, table in model.layer.step_tables().items():
            self.register_buffer(name, table)

    @property
    def state_names(self) -> tuple[str, ...]:
        return self.model.layer.step_names

    def start(self, n: int) -> tuple[Tensor, ...]:
        """The state before the first step, for n sequences."""
        return self.model.layer.step_start(n)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        tables = {name: self.get_buffer(name) for name in self._tables}
        y, state = self.model.layer.step(self.model.layer_input(x), state, tables)
        return self.model.head_output(y), *state
