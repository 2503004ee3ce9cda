"""The Fourier Recurrent Unit, as a layer and as a cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..basis import (
    BASES,
    Basis,
    Fourier,
    Pairs,
    check_bounded,
    check_rows,
    choose_freqs,
    resolve_basis,
)
from ..defaults import BASIS, FREQ_DIM, FREQS_PER_BLOCK, GATE_SIZE, NONLINEARITY, NUM_FREQS
from ..ops import Waves, Weights, backend_for, fru_scan, fru_step, reference
from ..ops.weights import exporting, runs_eagerly
from .checks import require_size, values_of, weights_of
from .recompute import recompute
from .recurrent import RecurrentCell, RecurrentLayer
from .stream import FusedStream, Stream

# Steps whose basis rows are held at once. Longer sequences are read in pieces, and the rows of each
# are recomputed in the backward pass, so that only h grows with the number of steps.
PIECE = 8192


class FRU(RecurrentLayer):
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
        freqs: the K frequencies, in turns per seq_len, or their spacing. "log", the default, is
            the paper's: 0, then log-spaced from 0.25 to seq_len; few frequencies of many
            dimensions. "even": evenly spaced from 0 to seq_len / 2, above which frequencies
            alias; many of them, of few dimensions, tell the steps of a sequence apart. For the
            other bases: degrees, by default 0..K-1.
        basis: "fourier", "chebyshev", "legendre", "walsh", or a :class:`torchfru.Basis`. "pairs"
            is Fourier without phases: the cosine and the sine of each of K/2 frequencies.
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

    step_names = ("u", "t")
    freqs: Tensor
    seq_len: int
    num_freqs: int
    freq_dim: int
    freqs_per_block: int

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
        num_freqs: int = NUM_FREQS,
        freq_dim: int = FREQ_DIM,
        gate_size: int = GATE_SIZE,
        freqs_per_block: int = FREQS_PER_BLOCK,
        freqs: str | Sequence[float] | Tensor | None = None,
        basis: str | Basis = BASIS,
        nonlinearity: str = NONLINEARITY,
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
        sizes = {"seq_len": seq_len, "num_freqs": num_freqs, "freq_dim": freq_dim}
        for name, size in (sizes | {"freqs_per_block": freqs_per_block}).items():
            require_size(self, name, size)
            setattr(self, name, size)
        if num_freqs % freqs_per_block:
            raise ValueError(
                f"{self._name}: num_freqs must be divisible by freqs_per_block, got "
                f"num_freqs={num_freqs}, freqs_per_block={freqs_per_block}"
            )
        self.state_size, self.inner_size = num_freqs * freq_dim, freqs_per_block * freq_dim
        self.basis = resolve_basis(basis)
        self._first_freqs = choose_freqs(self.basis, freqs, num_freqs, seq_len, self._name)
        self._register_parameters(device, dtype)
        self.register_buffer("freqs", torch.empty(num_freqs, device=device, dtype=dtype))
        self.reset_parameters()
        if self.basis not in BASES.values():
            for suffix in self._suffixes():
                phase = getattr(self, f"phase{suffix}", None)
                check_bounded(self.basis, self._first_freqs, self.freqs, phase, seq_len)

    # Parameters ---------------------------------------------------------------------------

    def reset_parameters(self) -> None:
        """Start as the paper's authors did, at the frequencies that the layer was built with."""
        super().reset_parameters()
        with torch.no_grad():
            self.freqs.copy_(torch.tensor(self._first_freqs, dtype=torch.float64, device="cpu"))

    def _parameter_shapes(self, input_size: int) -> dict[str, tuple[int, ...]]:
        phase: dict[str, tuple[int, ...]] = {"phase": (self.num_freqs,)}
        return super()._parameter_shapes(input_size) | (phase if self.basis.has_phase else {})

    def cell(self, layer: int = 0, reverse: bool = False) -> FRUCell:
        """A cell that shares the parameters of one layer and direction: for stepping."""
        return self._share(FRUCell, layer, reverse)

    def _argument(self, name: str) -> Any:
        if name == "freqs":
            return self._first_freqs
        if name == "basis" and self.basis in BASES.values():
            return type(self.basis).__name__.lower()
        return super()._argument(name)

    def stream(self, batch: int = 1) -> Stream:
        """A stream of this layer: ``y = stream(x)``, step by step, see :class:`Stream`."""
        like = next(self.parameters())
        fused = like.dtype in (torch.float32, torch.float64) and not self.bidirectional
        if fused and backend_for(like, self.gate_size) == "numba" and self._waves(0, self.suffix()):
            return FusedStream(self, batch)
        return Stream(self, batch)

    # Basis --------------------------------------------------------------------------------

    def basis_matrix(self, layer: int = 0, reverse: bool = False) -> Tensor:
        """The basis of one layer and direction for t = 1..seq_len, (seq_len, K), differentiable.

        Its values lie within [-1, 1]: the factor 1/T of the update rule is left out.
        """
        steps = torch.arange(1, self.seq_len + 1, device=self.freqs.device)
        return self._basis_rows(steps, self.suffix(layer, reverse))

    def _basis_rows(self, steps: Tensor, suffix: str) -> Tensor:
        """The basis at ``steps`` (...,), as (..., K), without the factor 1/T."""
        phase = getattr(self, f"phase{suffix}", None)
        rows = self.basis.rows(steps, self.freqs, phase, self.seq_len)
        return check_rows(rows, steps, self.freqs)

    def _scaled_rows(self, t: Tensor | int, part: slice, suffix: str) -> Tensor:
        """c(t) for a part of the sequence: the basis with the factor 1/T of the update rule."""
        return self._basis_rows(self._steps(t, part), suffix) / self.seq_len

    def _steps(self, t: Tensor | int, part: slice) -> Tensor:
        """Absolute steps of a part: (L,) where all samples agree, or else (L, N)."""
        steps = torch.arange(part.start + 1, part.stop + 1, device=self.freqs.device)
        steps = steps + t if isinstance(t, int) else steps.unsqueeze(-1) + t
        return steps.clamp(max=self.seq_len)  # padding may exceed seq_len

    def _waves(self, t: int, suffix: str) -> Waves | None:
        """The basis from step t + 1 on, if it is one of waves."""
        kind = type(self.basis)
        if kind is Fourier:
            return Waves(self.freqs, getattr(self, f"phase{suffix}"), t, self.seq_len)
        if kind is Pairs:
            return Waves(self.freqs, self.basis.phase(self.freqs), t, self.seq_len)  # type: ignore[attr-defined]
        return None

    # Forward ------------------------------------------------------------------------------

    def _scan_layer(
        self,
        suffix: str,
        x: Tensor,
        u: Tensor | None,
        t: Tensor | int,
        *,
        lengths: Tensor | None,
        every_step: bool,
    ) -> tuple[Tensor, Tensor]:
        self._check_time(t + (x.shape[0] if lengths is None else lengths))
        weights = weights_of(self, suffix)
        options: dict[str, Any] = {"nonlinearity": self.nonlinearity, "every_step": every_step}
        fused = isinstance(t, int) and backend_for(x, self.gate_size) == "numba"
        waves = self._waves(t, suffix) if fused else None  # type: ignore[arg-type]
        if waves is not None:
            outputs, memory = fru_scan(x, u, waves, weights, lengths=lengths, **options)
        else:
            outputs, memory = self._scan_pieces(suffix, x, u, t, lengths, weights, options)
        if outputs is None:
            outputs = F.linear(memory, weights.weight_uy, weights.bias_y)
        return outputs, memory

    def _scan_pieces(
        self,
        suffix: str,
        x: Tensor,
        u: Tensor | None,
        t: Tensor | int,
        lengths: Tensor | None,
        weights: Weights,
        options: dict[str, Any],
    ) -> tuple[Tensor | None, Tensor]:
        """Scan x with rows of the basis from outside, which are held for one piece at a time."""
        outputs, memory, done = [], u, 0
        long = not exporting() and x.shape[0] > PIECE
        for piece in x.split(PIECE) if long else (x,):
            make = partial(self._scaled_rows, t, slice(done, done + piece.shape[0]), suffix)
            options["lengths"] = None if lengths is None else lengths - done
            scan = partial(fru_scan, piece, memory, weights=weights, **options)
            if long:
                with recompute(make) as rows:
                    y, memory = scan(rows=rows)
            else:
                y, memory = scan(rows=make())
            if y is not None:
                outputs.append(y)
            done += piece.shape[0]
        assert memory is not None  # there is one piece at least
        if not outputs:
            return None, memory
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs), memory

    def _check_time(self, last: Tensor | int) -> None:
        """Refuse steps past seq_len, where the basis has no rows."""
        if isinstance(last, Tensor):
            steps = values_of(last)
            if steps is None:
                if not last.is_meta:  # traced: the check becomes a part of the program
                    message = f"{self._name}: a step is past seq_len={self.seq_len}"
                    torch._assert_async((last <= self.seq_len).all(), message)
                return
            last = int(steps.max()) if steps.numel() else 0
        if last > self.seq_len:
            raise ValueError(
                f"{self._name}: step {last} is past seq_len={self.seq_len}. Build it with "
                f"seq_len={last} or more, or start again without a state"
            )

    # One step -----------------------------------------------------------------------------

    def step_tables(self) -> dict[str, Tensor]:
        """c(t) of every layer, (seq_len, K): an exported step needs no operator of the basis."""
        layers = range(self.num_layers)
        return {f"rows_l{k}": self.basis_matrix(k).detach() / self.seq_len for k in layers}

    def _step_layer(
        self, layer: int, x: Tensor, state: tuple[Tensor, ...], tables: dict[str, Tensor]
    ) -> Tensor:
        row = tables[f"rows_l{layer}"][state[1]]  # (N, K), of the step t + 1
        weights = weights_of(self, self.suffix(layer))
        return reference.step(x, state[0][layer], row, weights, self.nonlinearity)


class FRUCell(RecurrentCell, FRU):
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
        num_freqs: int = NUM_FREQS,
        freq_dim: int = FREQ_DIM,
        gate_size: int = GATE_SIZE,
        freqs_per_block: int = FREQS_PER_BLOCK,
        freqs: str | Sequence[float] | Tensor | None = None,
        basis: str | Basis = BASIS,
        nonlinearity: str = NONLINEARITY,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            bias=bias,
            seq_len=seq_len,
            num_freqs=num_freqs,
            freq_dim=freq_dim,
            gate_size=gate_size,
            freqs_per_block=freqs_per_block,
            freqs=freqs,
            basis=basis,
            nonlinearity=nonlinearity,
            device=device,
            dtype=dtype,
        )

    def _step(self, x: Tensor, u: Tensor | None, t: Tensor | None) -> tuple[Tensor, Tensor]:
        """Each sample has its own step, so that no value of t decides how to compute."""
        weights = weights_of(self)
        if not torch.is_grad_enabled() and backend_for(x, self.gate_size) == "numba":
            waves = self._waves(0, "")
            if waves is not None and runs_eagerly(x, u, t, *waves[:2], *weights):
                y, u, past = fru_step(x, u, waves, weights, self.nonlinearity, t)
                if past >= 0:
                    self._check_time(past + 1)
                return y, u
        self._check_time(1 if t is None else t + 1)
        if t is None:
            t = x.new_zeros(x.shape[:1], dtype=torch.int64)
        u = x.new_zeros(x.shape[0], self.state_size) if u is None else u
        row = self._basis_rows(t + 1, "") / self.seq_len  # (N, K)
        narrow, wide = x.dtype, torch.promote_types(x.dtype, torch.float32)
        if narrow != wide:
            x, u, weights = x.to(wide), u.to(wide), weights.to(wide)
        u = reference.step(x, u, row.to(wide), weights, self.nonlinearity)
        y = F.linear(u, weights.weight_uy, weights.bias_y)
        return y.to(narrow), u.to(narrow)
