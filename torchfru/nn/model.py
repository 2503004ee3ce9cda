"""A whole model for sequences: (embedding), a recurrent layer, (dropout), a linear head."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..basis import log_frequencies
from ..ops import NONLINEARITIES
from .fru import FRU
from .recurrent import RecurrentLayer, sequence_mask
from .sru import ALPHAS, SRU


def _torch_layer(
    kind: type[nn.RNN] | type[nn.LSTM] | type[nn.GRU],
    input_size: int,
    hidden_size: int,
    num_layers: int,
    seq_len: int,
    every_step: bool,
    **ignored: Any,
) -> nn.Module:
    layer = kind(input_size, hidden_size, num_layers, batch_first=True)
    if kind is not nn.GRU:  # the second bias does nothing that the first does not
        for name, parameter in layer.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(parameter.requires_grad_(False))
    return layer


def _sru(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    seq_len: int,
    every_step: bool,
    *,
    alphas: tuple[float, ...] = ALPHAS,
    stat_size: int = 200,
    gate_size: int = 60,
    nonlinearity: str = "relu",
    **ignored: Any,
) -> nn.Module:
    return SRU(
        input_size,
        hidden_size,
        num_layers,
        batch_first=True,
        alphas=alphas,
        stat_size=stat_size,
        gate_size=gate_size,
        nonlinearity=nonlinearity,
        return_sequences=every_step,
    )


def _fru(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    seq_len: int,
    every_step: bool,
    *,
    num_freqs: int = 60,
    min_freq: float = 0.25,
    max_freq: float | None = None,
    basis: str = "fourier",
    **options: Any,
) -> nn.Module:
    top = float(seq_len) if max_freq is None else max_freq
    kept = ("freq_dim", "gate_size", "freqs_per_block", "nonlinearity")
    return FRU(
        input_size,
        hidden_size,
        num_layers,
        batch_first=True,
        seq_len=seq_len,
        num_freqs=num_freqs,
        freqs=log_frequencies(num_freqs, top, min_freq) if basis == "fourier" else None,
        basis=basis,
        return_sequences=every_step,
        **{name: options[name] for name in kept if name in options},
    )


# By name: how to build a layer that reads (N, L, n_in). Each takes the options of all of them.
LAYERS: dict[str, Callable[..., nn.Module]] = {
    "rnn": partial(_torch_layer, nn.RNN),
    "lstm": partial(_torch_layer, nn.LSTM),
    "gru": partial(_torch_layer, nn.GRU),
    "sru": _sru,
    "fru": _fru,
}


class SequenceModel(nn.Module):
    """A recurrent layer with a linear head, on sequences of numbers or of tokens.

    Args:
        layer: one of :data:`LAYERS`: "rnn", "lstm", "gru", "sru", "fru".
        input_size: numbers a step; of no use when ``vocab_size`` is given.
        output_size: classes, or numbers to predict.
        seq_len: the longest sequence that will be read.
        every_step: an output for every step, or for each sequence's own last step only.
        vocab_size: when the inputs are token ids, how many there are.
        dropout: the probability of zeroing an output of the layer, before the head.
        output: what stands between layer and head: "identity", as in the paper, or "relu", as
            in its authors' program (or "tanh").
        options: the layer's own: num_freqs, freq_dim, max_freq, basis, alphas, ...

    Shape:
        inputs (N, L, input_size), or (N, L) int64 tokens; lengths (N,) where they are padded;
        result (N, output_size), or (N, L - output_from, output_size) with every_step, where
        output_from, 0 unless given, is the first step that is to be answered.

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
        hidden_size: int = 200,
        num_layers: int = 1,
        every_step: bool = False,
        vocab_size: int | None = None,
        embedding_size: int = 128,
        dropout: float = 0.0,
        output: str = "identity",
        **options: Any,
    ) -> None:
        super().__init__()
        if layer not in LAYERS:
            raise ValueError(
                f"SequenceModel: layer must be one of {', '.join(LAYERS)}; got {layer!r}"
            )
        if output not in NONLINEARITIES:
            raise ValueError(
                f"SequenceModel: output must be one of {', '.join(NONLINEARITIES)}; got {output!r}"
            )
        self.kind = layer
        self.every_step = every_step
        self.output = output
        self.embedding = None if vocab_size is None else nn.Embedding(vocab_size, embedding_size)
        n_in = input_size if vocab_size is None else embedding_size
        build = LAYERS[layer]
        self.layer = build(n_in, hidden_size, num_layers, seq_len, every_step, **options)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden_size, output_size)
        nn.init.trunc_normal_(self.head.weight, std=0.1, a=-0.2, b=0.2)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, inputs: Tensor, lengths: Tensor | None = None, output_from: int = 0
    ) -> Tensor:
        x = inputs if self.embedding is None else self.embedding(inputs)  # (N, L, n_in)
        if isinstance(self.layer, RecurrentLayer):
            y, _ = self.layer(x, lengths=lengths, output_from=output_from)
        else:
            y = _read_torch(self.layer, x, lengths, self.every_step)
            y = y[:, output_from:] if self.every_step else y
        return self.answer(y)

    def answer(self, y: Tensor) -> Tensor:
        """What the head makes of the layer's outputs (..., hidden_size)."""
        return self.head(self.dropout(NONLINEARITIES[self.output](y)))

    def count_parameters(self, embedding: bool = False) -> int:
        """How many numbers are trained; the paper does not count the embedding's."""
        left_out = "" if embedding else "embedding."
        return sum(
            parameter.numel()
            for name, parameter in self.named_parameters()
            if parameter.requires_grad and not (left_out and name.startswith(left_out))
        )


def _read_torch(layer: nn.Module, x: Tensor, lengths: Tensor | None, every_step: bool) -> Tensor:
    """One of torch's layers on (N, L, n_in): y at every step, or at each sequence's last one."""
    if lengths is None:
        y, _ = layer(x)
        return y if every_step else y[:, -1]
    padded = x.shape[1]
    x = x[:, : max(1, int(lengths.max()))]
    mask = sequence_mask(x.transpose(0, 1), lengths).transpose(0, 1)  # (N, L, 1)
    y, _ = layer(torch.where(mask, x, 0.0))
    if every_step:
        return F.pad(torch.where(mask, y, 0.0), (0, 0, 0, padded - x.shape[1]))
    last = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, y.shape[-1])
    return y.gather(1, last).squeeze(1)
