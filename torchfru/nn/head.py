"""From a layer's output to the answer: scale, energy, normalisation, time, hidden layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..basis import even_frequencies
from .window import ACTIVATIONS

SCALES = ("none", "sqrt", "learned")


class EnergyReadout(nn.Module):
    """Features of a memory that hardly change when a pattern moves in time.

    With the cosine and the sine of each frequency in the memory, u_cos and u_sin (F frequencies
    of d dimensions)::

        e = sqrt(T (u_cos^2 + u_sin^2) + eps)        (F d)
        features = V layer_norm(e) + b

    A shift in time turns each pair (u_cos, u_sin) and leaves its length alone: the linear
    read-out knows when something happened, the energy knows what.

    Shape:
        u (N, 2 F d), as an :class:`FRU` with ``basis="pairs"`` returns it; result (N, features).

    >>> EnergyReadout(num_freqs=6, freq_dim=4, features=8, seq_len=50)(torch.randn(3, 48)).shape
    torch.Size([3, 8])
    """

    EPS = 1e-6  # sqrt has no slope at 0

    def __init__(self, num_freqs: int, freq_dim: int, features: int, seq_len: int) -> None:
        super().__init__()
        self.pairs, self.seq_len = num_freqs * freq_dim, seq_len
        self.norm = nn.LayerNorm(self.pairs)
        self.linear = nn.Linear(self.pairs, features)

    def forward(self, u: Tensor) -> Tensor:
        parts = u.unflatten(-1, (2, self.pairs))  # (N, 2, F d): cosines, then sines
        energy = (self.seq_len * parts.square().sum(-2) + self.EPS).sqrt()  # (N, F d)
        return self.linear(self.norm(energy))


class Head(nn.Linear):
    """The last linear map of a model, with what a recipe puts before it.

    From the layer's output y, and where they are given the energy features, the time t and the
    inputs of the window::

        v = phi(norm([scale y, energy]))
        answer = W hidden(dropout([v, cos(2 pi f t / T), sin(2 pi f t / T), window])) + b

    Every part can be left out; without any the head is ``nn.Linear``.

    Args:
        hidden_size: the width of y.
        output_size: the width of the answer.
        seq_len: T.
        scale: "none", "sqrt" (y times sqrt(T): y is a mean over time, in which one step counts
            1 / T), or "learned" (one number that starts at sqrt(T)).
        norm: whether a LayerNorm follows.
        activation: phi, also after each hidden layer unless it is "identity" (then ReLU).
        sizes: the widths of hidden layers.
        dropout: before the first and after every hidden layer.
        energy: the width of the energy features, 0 for none.
        time_freqs: how many frequencies tell the head the time, 0 for none.
        window: how many inputs of a window the head sees, 0 for none.
        zero: whether W and b start at zero, so that the first answer is 0.

    >>> head = Head(16, 10, seq_len=100, scale="sqrt", sizes=(32,), time_freqs=4)
    >>> head(torch.randn(2, 100, 16), t=torch.arange(1, 101)).shape
    torch.Size([2, 100, 10])
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        *,
        seq_len: int,
        scale: str = "none",
        norm: bool = False,
        activation: str = "identity",
        sizes: Sequence[int] = (),
        dropout: float = 0.0,
        energy: int = 0,
        time_freqs: int = 0,
        window: int = 0,
        zero: bool = False,
    ) -> None:
        if scale not in SCALES:
            raise ValueError(f"Head: scale must be one of {', '.join(SCALES)}; got {scale!r}")
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"Head: activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}"
            )
        width = hidden_size + energy + 2 * time_freqs + window
        super().__init__(sizes[-1] if sizes else width, output_size)
        self.seq_len, self.activation, self.time_freqs = seq_len, activation, time_freqs
        self.dropout = nn.Dropout(dropout)
        start = math.sqrt(seq_len)
        self.scale = nn.Parameter(torch.tensor(start)) if scale == "learned" else None
        self.factor = start if scale == "sqrt" else 1.0
        self.norm = nn.LayerNorm(hidden_size + energy) if norm else None
        self.hidden = nn.ModuleList(
            nn.Linear(n_in, n_out) for n_in, n_out in zip([width, *sizes], sizes, strict=False)
        )
        if zero:
            nn.init.zeros_(self.weight)
        else:
            nn.init.trunc_normal_(self.weight, std=0.1, a=-0.2, b=0.2)
        nn.init.zeros_(self.bias)

    def forward(
        self,
        y: Tensor,
        energy: Tensor | None = None,
        t: Tensor | None = None,
        window: Tensor | None = None,
    ) -> Tensor:
        """The answer (..., output_size) for y (..., hidden_size)."""
        phi = ACTIVATIONS[self.activation]
        v = y if self.scale is None and self.factor == 1.0 else y * self._scale()
        v = v if energy is None else torch.cat([v, energy], -1)
        v = phi(v if self.norm is None else self.norm(v))
        beside = [] if t is None else [self._time(t, v)]
        beside += [] if window is None else [window]
        v = self.dropout(torch.cat([v, *beside], -1) if beside else v)
        between = F.relu if self.activation == "identity" else phi
        for linear in self.hidden:
            v = self.dropout(between(linear(v)))
        return F.linear(v, self.weight, self.bias)

    def _scale(self) -> Tensor | float:
        return self.factor if self.scale is None else self.scale

    def _time(self, t: Tensor, like: Tensor) -> Tensor:
        """cos and sin of each frequency at the steps t (...), as (..., 2 time_freqs)."""
        freqs = even_frequencies(self.time_freqs, self.seq_len / 2).to(t.device)
        angle = (2 * math.pi / self.seq_len) * t.unsqueeze(-1) * freqs
        rows = torch.cat([angle.cos(), angle.sin()], -1).to(like.dtype)
        return rows.expand(*like.shape[:-1], -1)
