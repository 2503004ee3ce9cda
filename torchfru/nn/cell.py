"""What the cells share: one step, ``y, (u, t) = cell(x, (u, t))``."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checks import (
    check_dtype,
    check_shape,
    check_state_pair,
    check_steps,
    check_width,
    require_bool,
    require_nonlinearity,
    require_size,
    without_autocast,
)
from .recurrent import State, describe, register_parameters, weights_of


class RecurrentCell(nn.Module):
    """One step of a recurrent unit, for a batch (N, input_size) or one sample (input_size,).

    The state is ``(u, t)``: the memories u (N, n_u) and the steps taken, t (N,), int64, which
    may differ between samples. No state means the start.
    """

    state_size: int  # n_u

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        *,
        gate_size: int,
        nonlinearity: str,
    ) -> None:
        super().__init__()
        require_bool(self, "bias", bias)
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "gate_size": gate_size}
        for name, size in sizes.items():
            require_size(self, name, size)
        require_nonlinearity(self, nonlinearity)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.gate_size = gate_size
        self.nonlinearity = nonlinearity

    def _parameter_shapes(self, input_size: int) -> dict[str, tuple[int, ...]]:
        raise NotImplementedError

    def _advance(self, x: Tensor, u: Tensor, t: Tensor) -> Tensor:
        """u after reading x (N, n_in) at the steps t + 1."""
        raise NotImplementedError

    def _register_parameters(self, device: Any, dtype: Any) -> None:
        shapes = self._parameter_shapes(self.input_size)
        register_parameters(self, shapes, "", self.bias, device, dtype)

    def forward(self, input: Tensor, hx: State | None = None) -> tuple[Tensor, State]:
        """The output of one step, and the state after it."""
        if input.dim() not in (1, 2):
            name = type(self).__name__
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        check_dtype(self, "input", input)
        check_width(input, self.input_size)
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        u, t = self._state(hx, x, batched)
        weights = weights_of(self)
        with without_autocast(x):
            dtype = weights.weight_uy.dtype
            u = self._advance(x.to(dtype), u.to(dtype), t)
            y = F.linear(u, weights.weight_uy, weights.bias_y)
        t = t + 1
        return (y, (u, t)) if batched else (y.squeeze(0), (u.squeeze(0), t.squeeze(0)))

    def _state(self, hx: State | None, x: Tensor, batched: bool) -> State:
        n = x.shape[0]
        if hx is None:
            zeros = torch.zeros(n, dtype=torch.int64, device=x.device)
            return x.new_zeros(n, self.state_size), zeros
        u, t = check_state_pair(self, hx, dims=(2, 1) if batched else (1, 0))
        if not batched:
            u, t = u.unsqueeze(0), t.unsqueeze(0)
        check_shape(self, "u", u, (n, self.state_size))
        check_shape(self, "t", t, (n,))
        check_dtype(self, "u", u)
        return u, check_steps(self, t)

    def extra_repr(self) -> str:
        return describe(self, {"bias": True, **self._extra_defaults(), "nonlinearity": "relu"})

    def _extra_defaults(self) -> dict[str, Any]:
        """The subclass's own arguments with their defaults, for ``repr``."""
        raise NotImplementedError
