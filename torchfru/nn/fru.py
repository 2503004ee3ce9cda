"""The Fourier Recurrent Unit, as a layer and as a cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..basis import Basis
from ..ops import fru_scan
from .again import made_again
from .cell import RecurrentCell
from .checks import values_of
from .memory import FRUMemory
from .recurrent import RecurrentLayer, weights_of

# Steps whose basis rows are held at once: longer sequences are read in pieces, and the rows of each
# are made again for the backward pass, so that h is all that grows with the number of steps.
PIECE = 8192


class FRU(FRUMemory, RecurrentLayer):
    """Fourier Recurrent Unit: a drop-in for ``nn.LSTM`` whose memory does not fade.

    For each step t = 1..T, with ``c_k(t) = cos(2 pi f_k t / T + theta_k) / T``::

        g(t) = phi(W1 u(t-1) + b1)
        h(t) = phi(W2 g(t) + U x(t) + b2)
        u(t) = u(t-1) + c(t) (x) h(t)
        y(t) = Y u(t) + b_y

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as for
            ``nn.LSTM``; hidden_size is the width of y.
        seq_len: T, the longest sequence that the layer will ever read. It sets the time scale
            of the basis, so it belongs to the layer and not to a batch.
        num_freqs, freq_dim: K frequencies of d numbers each: u holds K d.
        gate_size: the width of g.
        freqs_per_block: m; h has m d entries, and frequency k sees slice k mod m of them.
        freqs: the K frequencies, in turns per seq_len. Default: 0, then log-spaced from 0.25
            to seq_len. For the other bases: degrees, by default 0..K-1.
        basis: "fourier", "chebyshev", "legendre", "walsh", or a :class:`torchfru.Basis`.
        nonlinearity: "relu", "tanh" or "identity".
        return_sequences: False gives y at each sequence's own last step, and computes no other.

    Shape:
        input (L, N, input_size), or (N, L, input_size) with batch_first, or (L, input_size),
        or a PackedSequence; output likewise with D*hidden_size, or (N, D*hidden_size) without
        return_sequences. State (u, t): (D*num_layers, N, K d) and (D*num_layers, N), int64.

    >>> fru = FRU(3, 8, batch_first=True, seq_len=100)
    >>> output, (u, t) = fru(torch.randn(2, 40, 3))
    >>> output, (u, t) = fru(torch.randn(2, 60, 3), (u, t))
    >>> output.shape, u.shape, t.tolist()
    (torch.Size([2, 60, 8]), torch.Size([1, 2, 600]), [[100, 100]])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        seq_len: int,
        num_freqs: int = 60,
        freq_dim: int = 10,
        gate_size: int = 60,
        freqs_per_block: int = 1,
        freqs: Sequence[float] | Tensor | None = None,
        basis: str | Basis = "fourier",
        nonlinearity: str = "relu",
        return_sequences: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            gate_size=gate_size,
            nonlinearity=nonlinearity,
            return_sequences=return_sequences,
        )
        self._init_memory(seq_len, num_freqs, freq_dim, freqs_per_block, freqs, basis)
        self._register_parameters(device, dtype)
        self._register_freqs(device, dtype)
        self.reset_parameters()
        for suffix in self._suffixes():
            self._check_own_basis(suffix)

    def basis_matrix(self, layer: int = 0, reverse: bool = False) -> Tensor:
        """The basis of one layer and direction for t = 1..seq_len, (seq_len, K), differentiable.

        Its values lie within [-1, 1]: the factor 1/T of the update rule is left out.
        """
        steps = torch.arange(1, self.seq_len + 1, device=self.freqs.device)
        return self._basis_rows(steps, self.suffix(layer, reverse))

    def cell(self, layer: int = 0, reverse: bool = False) -> FRUCell:
        """A cell that shares the parameters of one layer and direction: for stepping."""
        suffix = self.suffix(layer, reverse)
        n_in = getattr(self, f"weight_xh{suffix}").shape[1]
        cell = FRUCell(n_in, self.hidden_size, self.bias, device="meta", **self._memory_arguments())
        for name, _ in list(cell.named_parameters()):
            setattr(cell, name, getattr(self, name + suffix))
        cell.freqs = self.freqs
        return cell

    def _read(
        self,
        suffix: str,
        x: Tensor,
        u: Tensor | None,
        t: Tensor | None,
        *,
        lengths: Tensor | None,
        every_step: bool,
    ) -> tuple[Tensor, Tensor]:
        taken = x.shape[0] if lengths is None else lengths
        self._check_time(taken if t is None else t + taken)
        weights = weights_of(self, suffix)
        outputs, memory, done = [], u, 0
        long = not torch.compiler.is_exporting() and x.shape[0] > PIECE
        for piece in x.split(PIECE) if long else (x,):
            make = partial(self._scaled_rows, t, slice(done, done + piece.shape[0]), suffix)
            scan = partial(
                fru_scan,
                piece,
                memory,
                weights=weights,
                nonlinearity=self.nonlinearity,
                every_step=every_step,
                lengths=None if lengths is None else lengths - done,
            )
            if long:
                with made_again(make) as rows:
                    y, memory = scan(rows=rows)
            else:
                y, memory = scan(rows=make())
            if y is not None:
                outputs.append(y)
            done += piece.shape[0]
        assert memory is not None  # there is one piece at least
        if not every_step:
            return F.linear(memory, weights.weight_uy, weights.bias_y), memory
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs), memory

    def _scaled_rows(self, t: Tensor | None, part: slice, suffix: str) -> Tensor:
        """c(t) for a part of the sequence: the basis with the factor 1/T of the update rule."""
        return self._basis_rows(self._steps(t, part), suffix) / self.seq_len

    def _steps(self, t: Tensor | None, part: slice) -> Tensor:
        """Absolute steps of a part: (L,) where all samples agree, or else (L, N)."""
        steps = torch.arange(part.start + 1, part.stop + 1, device=self.freqs.device)
        if t is not None:
            agree = values_of((t == t[0]).all()) if t.shape[0] else None
            together = agree is not None and bool(agree.all())
            steps = steps + t[0] if together else steps.unsqueeze(-1) + t
        return steps.clamp(max=self.seq_len)  # padding may reach further than time does


class FRUCell(FRUMemory, RecurrentCell):
    """One step of a Fourier Recurrent Unit: ``y, (u, t) = cell(x, (u, t))``.

    Arguments as for :class:`FRU`. Samples of a batch may be at different steps t.

    Shape:
        x (N, input_size) or (input_size,); y the same with hidden_size; u (N, K d) and t (N,),
        int64, the steps taken so far. No state means the start.

    >>> cell = FRUCell(3, 8, seq_len=100)
    >>> y, state = cell(torch.randn(2, 3))
    >>> y, (u, t) = cell(torch.randn(2, 3), state)
    >>> y.shape, u.shape, t
    (torch.Size([2, 8]), torch.Size([2, 600]), tensor([2, 2]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        seq_len: int,
        num_freqs: int = 60,
        freq_dim: int = 10,
        gate_size: int = 60,
        freqs_per_block: int = 1,
        freqs: Sequence[float] | Tensor | None = None,
        basis: str | Basis = "fourier",
        nonlinearity: str = "relu",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, bias, gate_size=gate_size, nonlinearity=nonlinearity
        )
        self._init_memory(seq_len, num_freqs, freq_dim, freqs_per_block, freqs, basis)
        self._register_parameters(device, dtype)
        self._register_freqs(device, dtype)
        self.reset_parameters()
        self._check_own_basis("")

    def _advance(self, x: Tensor, u: Tensor, t: Tensor) -> Tensor:
        self._check_time(t + 1)
        rows = self._basis_rows(t + 1, "") / self.seq_len  # (N, K)
        _, u = fru_scan(
            x.unsqueeze(0),
            u,
            rows.unsqueeze(0),
            weights_of(self),
            nonlinearity=self.nonlinearity,
            every_step=False,
        )
        return u
