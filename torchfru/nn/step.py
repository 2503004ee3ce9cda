"""One step of a whole model as a plain function of tensors: what leaves the building."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import reference, sru
from .fru import FRU
from .model import SequenceModel
from .recurrent import weights_of
from .sru import SRU


class StepModel(nn.Module):
    """``output, *state = step(x, *state)``: a :class:`SequenceModel`, one step at a time.

    x is (N, input_size), or (N,) int64 for tokens; output (N, output_size). The state, by layer:

        rnn, gru   h (num_layers, N, hidden_size)
        lstm       h and c, each as above
        sru        u (num_layers, N, n_u)
        fru        u (num_layers, N, n_u), and t (N,) int64, the steps taken so far

    It starts as zeros. The basis of an FRU is kept as a table of seq_len rows, so that no basis
    needs an operator that the other side may not have.

    >>> step = StepModel(SequenceModel("fru", 1, 10, seq_len=5))
    >>> output, u, t = step(torch.zeros(2, 1), *step.start(2))
    >>> output.shape, t.tolist()
    (torch.Size([2, 10]), [1, 1])
    """

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model.eval()
        layer = model.layer
        if isinstance(layer, FRU):
            for k in range(layer.num_layers):
                rows = layer.basis_matrix(k).detach() / layer.seq_len
                self.register_buffer(f"rows_l{k}", rows)  # (T, K)

    @property
    def state_names(self) -> tuple[str, ...]:
        return {"fru": ("u", "t"), "sru": ("u",), "lstm": ("h", "c")}.get(self.model.kind, ("h",))

    def start(self, n: int) -> tuple[Tensor, ...]:
        """The state before the first step, for n sequences."""
        layer = self.model.layer
        if isinstance(layer, (FRU, SRU)):
            u = torch.zeros(layer.num_layers, n, layer.state_size)
            return (u, torch.zeros(n, dtype=torch.int64)) if isinstance(layer, FRU) else (u,)
        assert isinstance(layer, nn.RNNBase)
        size = (layer.num_layers, n, layer.hidden_size)
        return tuple(torch.zeros(size) for _ in self.state_names)  # not one tensor twice

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        if self.model.embedding is not None:
            x = self.model.embedding(x)
        layer = self.model.layer
        if isinstance(layer, FRU):
            y, u = self._fru(layer, x, *state)
            return self.model.answer(y), u, state[1] + 1
        if isinstance(layer, SRU):
            y, u = self._sru(layer, x, *state)
            return self.model.answer(y), u
        pair = state if self.model.kind == "lstm" else state[0]
        output, after = layer(x.unsqueeze(1), pair)
        after = after if isinstance(after, tuple) else (after,)
        return self.model.answer(output[:, 0]), *after

    def _fru(self, layer: FRU, x: Tensor, u: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        memories = []
        for k in range(layer.num_layers):
            weights = weights_of(layer, layer.suffix(k))
            row = self.get_buffer(f"rows_l{k}")[t]  # (N, K), of the step t + 1
            memory = reference.step(x, u[k], row, weights, layer.nonlinearity)
            x = F.linear(memory, weights.weight_uy, weights.bias_y)
            memories.append(memory)
        return x, torch.stack(memories)

    def _sru(self, layer: SRU, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        memories = []
        for k in range(layer.num_layers):
            weights = weights_of(layer, layer.suffix(k))
            memory = sru.step(x, u[k], layer.decays_for(x), weights, layer.nonlinearity)
            x = F.linear(memory, weights.weight_uy, weights.bias_y)
            memories.append(memory)
        return x, torch.stack(memories)
