"""The Statistical Recurrent Unit (Oliva, Poczos and Schneider, 2017), as a layer and as a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..defaults import ALPHAS, GATE_SIZE, NONLINEARITY, STAT_SIZE
from ..ops import sru, sru_scan
from .checks import require_size, weights_of
from .recurrent import RecurrentCell, RecurrentLayer


class SRU(RecurrentLayer):
    """Statistical Recurrent Unit: moving averages of h at several rates, as a drop-in.

    For each step, and each decay alpha_k::

        g(t)   = phi(W1 u(t-1) + b1)
        h(t)   = phi(W2 g(t) + U x(t) + b2)
        u_k(t) = alpha_k u_k(t-1) + (1 - alpha_k) h(t)
        y(t)   = Y u(t) + b_y

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as for
            ``nn.LSTM``.
        alphas: the decays, each in [0, 1).
        stat_size: the width of h.
        gate_size: the width of g.
        nonlinearity, return_sequences: as for :class:`FRU`.

    Shape:
        as for :class:`FRU`; u is alpha-major, (D*num_layers, N, len(alphas)*stat_size). The
        unit does not depend on t, but its state counts it, so that the layers can be swapped.

    >>> output, (u, t) = SRU(3, 8)(torch.randn(40, 2, 3))
    >>> output.shape, u.shape, t.tolist()
    (torch.Size([40, 2, 8]), torch.Size([1, 2, 1000]), [[40, 40]])
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
        alphas: Sequence[float] = ALPHAS,
        stat_size: int = STAT_SIZE,
        gate_size: int = GATE_SIZE,
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
        require_size(self, "stat_size", stat_size)
        self.alphas = tuple(float(alpha) for alpha in alphas)
        if not self.alphas or not all(0 <= alpha < 1 for alpha in self.alphas):
            raise ValueError(
                f"{self._name}: alphas must be one or more decays in [0, 1), got {self.alphas}"
            )
        self.stat_size = self.inner_size = stat_size
        self.state_size = len(self.alphas) * stat_size
        self._register_parameters(device, dtype)
        self.reset_parameters()

    def cell(self, layer: int = 0, reverse: bool = False) -> SRUCell:
        """A cell that shares the parameters of one layer and direction: for stepping."""
        return self._share(SRUCell, layer, reverse)

    def decays_for(self, x: Tensor) -> Tensor:
        """The alphas (K,) on the device of ``x``, in float32 at least.

        Made when needed: a buffer outside the state_dict would be lost where a model is built on
        the meta device and loaded.
        """
        dtype = torch.promote_types(x.dtype, torch.float32)
        if x.device.type == "cpu":
            return torch.tensor(self.alphas, dtype=dtype)
        # Filled, not copied from the CPU, which a CUDA graph cannot do.
        return torch.stack([x.new_full((), alpha, dtype=dtype) for alpha in self.alphas])

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
        weights = weights_of(self, suffix)
        options = {"nonlinearity": self.nonlinearity, "every_step": every_step, "lengths": lengths}
        y, u = sru_scan(x, u, self.decays_for(x), weights, **options)
        return F.linear(u, weights.weight_uy, weights.bias_y) if y is None else y, u

    def _step_layer(
        self, layer: int, x: Tensor, state: tuple[Tensor, ...], tables: dict[str, Tensor]
    ) -> Tensor:
        weights = weights_of(self, self.suffix(layer))
        return sru.step(x, state[0][layer], self.decays_for(x), weights, self.nonlinearity)


class SRUCell(RecurrentCell, SRU):
    """One step of a Statistical Recurrent Unit: ``y, (u, t) = cell(x, (u, t))``.

    Arguments as for :class:`SRU`, shapes as for :class:`FRUCell`.

    >>> y, (u, t) = SRUCell(3, 8)(torch.randn(2, 3))
    >>> y.shape, u.shape, t
    (torch.Size([2, 8]), torch.Size([2, 1000]), tensor([1, 1]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        alphas: Sequence[float] = ALPHAS,
        stat_size: int = STAT_SIZE,
        gate_size: int = GATE_SIZE,
        nonlinearity: str = NONLINEARITY,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            bias=bias,
            alphas=alphas,
            stat_size=stat_size,
            gate_size=gate_size,
            nonlinearity=nonlinearity,
            device=device,
            dtype=dtype,
        )
