"""A short causal window before a recurrent layer: each step reads the last few inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checks import check_shape, require_bool, require_size

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "relu": F.relu,
    "tanh": torch.tanh,
    "gelu": F.gelu,
}


class CausalWindow(nn.Module):
    """A dense causal convolution over the last ``width`` inputs, with a state for streaming.

    For each step t, with zeros before the first input::

        v(t) = phi(norm(V [x(t - width + 1), ..., x(t)] + b))

    A recurrent unit that reads one value at a time has to keep recent values in its memory to
    tell local shapes. The window hands them over: one matrix product for all steps.

    Args:
        input_size, output_size: the features of a step, before and after. Without output_size
            there is no product: v(t) holds the last inputs themselves, the oldest first.
        width: how many inputs a step reads, its own included.
        norm: whether a LayerNorm follows the product.
        activation: phi: "identity", "relu", "tanh" or "gelu".
        bias: whether b exists.
        batch_first: as for ``nn.LSTM``.

    Shape:
        input (L, N, input_size), or (N, L, input_size) with batch_first; output likewise with
        output_size. ``lengths`` (N,) gives the true lengths of padded sequences. The state holds
        the last width - 1 inputs: (N, width - 1, input_size).

    >>> window = CausalWindow(3, 8, width=5, batch_first=True)
    >>> x = torch.randn(2, 40, 3)
    >>> whole, _ = window(x)
    >>> first, state = window(x[:, :30])
    >>> rest, state = window(x[:, 30:], state)
    >>> torch.allclose(whole, torch.cat([first, rest], 1), atol=1e-6), state.shape
    (True, torch.Size([2, 4, 3]))
    """

    def __init__(
        self,
        input_size: int,
        output_size: int | None = None,
        width: int = 1,
        *,
        norm: bool = False,
        activation: str = "identity",
        bias: bool = True,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        stacks = output_size is None
        output_size = input_size * width if output_size is None else output_size
        sizes = {"input_size": input_size, "output_size": output_size, "width": width}
        for name, size in sizes.items():
            require_size(self, name, size)
        for name, flag in {"norm": norm, "bias": bias, "batch_first": batch_first}.items():
            require_bool(self, name, flag)
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"CausalWindow: activation must be one of {', '.join(ACTIVATIONS)}; "
                f"got {activation!r}"
            )
        self.input_size, self.output_size, self.width = input_size, output_size, width
        self.activation, self.batch_first = activation, batch_first
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        shape = (output_size, input_size, width)
        self.weight = None if stacks else nn.Parameter(torch.empty(shape, **place))
        self.bias = nn.Parameter(torch.empty(output_size, **place)) if bias and not stacks else None
        self.norm = nn.LayerNorm(output_size, **place) if norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights uniform within 1 / sqrt(input_size * width), as ``nn.Linear`` starts."""
        bound = (self.input_size * self.width) ** -0.5
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)
        if self.norm is not None:
            self.norm.reset_parameters()

    def forward(
        self, input: Tensor, state: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Read sequences; return ``(output, state)``. ``state=None`` means zeros."""
        if input.dim() != 3:
            raise ValueError(f"CausalWindow: Expected input to be 3D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"CausalWindow: Expected {self.input_size} features per step, got {input.shape[-1]}"
            )
        x = input if self.batch_first else input.transpose(0, 1)  # (N, L, n_in)
        x, state = extend(self, x, state, lengths)  # (N, width - 1 + L, n_in)
        if self.weight is None:
            y = x.unfold(1, self.width, 1).transpose(2, 3).flatten(2)  # (N, L, width n_in)
        else:
            y = F.conv1d(x.transpose(1, 2), self.weight, self.bias).transpose(1, 2)
        y = ACTIVATIONS[self.activation](y if self.norm is None else self.norm(y))
        return (y if self.batch_first else y.transpose(0, 1)), state

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.output_size}, width={self.width}"


def extend(
    window: CausalWindow, x: Tensor, state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The inputs (N, L, n) with those before them in front, and the state after the last one."""
    kept = window.width - 1
    if state is None:
        state = x.new_zeros(x.shape[0], kept, x.shape[2])
    check_shape(window, "state", state, (x.shape[0], kept, x.shape[2]))
    longer = torch.cat([state, x], 1)  # (N, width - 1 + L, n)
    if lengths is None:
        return longer, longer[:, longer.shape[1] - kept :]
    check_shape(window, "lengths", lengths, (x.shape[0],))
    steps = torch.arange(kept, device=x.device)  # the inputs before each sequence's own end
    place = (lengths.unsqueeze(-1) + steps).unsqueeze(-1).expand(-1, -1, x.shape[2])
    return longer, longer.gather(1, place)
