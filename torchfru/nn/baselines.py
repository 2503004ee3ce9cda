"""torch's RNN, LSTM and GRU under the contract of our layers, with torch's parameter names.

``output, state = layer(x, state, lengths, output_from)`` as for :class:`RecurrentLayer`; the state
is always a tuple: (h,) of RNN and GRU, (h, c) of LSTM, each (num_layers, N, hidden_size).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.weights import sequence_mask
from .stream import Stream

State = tuple[Tensor, ...]


class _TorchLayer(nn.RNNBase):
    """Reads (N, L, input_size) in one direction; comes first among the bases of a layer of torch.

    Of the two biases of RNN and LSTM, the second does nothing that the first does not: it stays 0.
    """

    step_names: tuple[str, ...] = ("h",)
    _second_bias = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        batch_first: bool = True,
        return_sequences: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, batch_first=True)  # type: ignore[arg-type]
        if not batch_first:
            raise ValueError(f"{type(self).__name__}: batch_first must be True, got False")
        self.return_sequences = return_sequences
        for name, parameter in self.named_parameters():
            if name.startswith("bias_hh") and not self._second_bias:
                nn.init.zeros_(parameter.requires_grad_(False))

    def forward(
        self,
        x: Tensor,
        hx: State | None = None,
        lengths: Tensor | None = None,
        output_from: int = 0,
    ) -> tuple[Tensor, State | None]:
        """Outputs from a step on, or the last one of each sequence, and the state after them.

        With ``lengths`` there is no state: torch's layers would have read the padding into it.
        """
        if lengths is None:
            y, state = self._run(x, hx)
            return (y[:, output_from:] if self.return_sequences else y[:, -1]), state
        padded = x.shape[1]
        x = x[:, : max(1, int(lengths.max()))]
        mask = sequence_mask(x.transpose(0, 1), lengths).transpose(0, 1)  # (N, L, 1)
        y, _ = self._run(torch.where(mask, x, 0.0), hx)
        if self.return_sequences:
            y = F.pad(torch.where(mask, y, 0.0), (0, 0, 0, padded - x.shape[1]))
            return y[:, output_from:], None
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, y.shape[-1])
        return y.gather(1, last).squeeze(1), None

    def _run(self, x: Tensor, hx: State | None) -> tuple[Tensor, State]:
        """torch's own forward pass, with the state as a tuple."""
        single = len(self.step_names) == 1
        y, state = super().forward(x, hx[0] if single and hx is not None else hx)
        return y, ((state,) if single else state)

    def start_state(self, n: int, like: Tensor) -> State:
        """The state before the first step of n sequences, in the dtype of ``like``."""
        size = (self.num_layers, n, self.hidden_size)
        return tuple(like.new_zeros(size) for _ in self.step_names)  # not one tensor twice

    def stream(self, batch: int = 1) -> Stream:
        """A stream of this layer: ``y = stream(x)``, step by step, see :class:`Stream`."""
        return Stream(self, batch)

    def step_start(self, n: int) -> State:
        return self.start_state(n, torch.zeros(()))

    def step_tables(self) -> dict[str, Tensor]:
        return {}

    def step(self, x: Tensor, state: State, tables: dict[str, Tensor]) -> tuple[Tensor, State]:
        """One step of all layers on x (N, n_in): y (N, n_y) and the next state."""
        y, state = self._run(x.unsqueeze(1), state)
        return y[:, 0], state


class RNN(_TorchLayer, nn.RNN):  # type: ignore[misc]
    """``nn.RNN`` with tanh.

    >>> output, (h,) = RNN(3, 8)(torch.randn(2, 40, 3))
    >>> output.shape, h.shape
    (torch.Size([2, 40, 8]), torch.Size([1, 2, 8]))
    """


class LSTM(_TorchLayer, nn.LSTM):  # type: ignore[misc]
    """``nn.LSTM``, with a state (h, c)."""

    step_names = ("h", "c")


class GRU(_TorchLayer, nn.GRU):  # type: ignore[misc]
    """``nn.GRU``, whose second bias acts inside a gate, and is trained."""

    _second_bias = True
