"""The networks of the experiment ``depth``, as layers that the library's loop can train.

Each reads a whole image, (N, 1, pixels), through a linear map (or a convolution) into a state u of
n numbers (or channels), and applies L layers to it, f_l(u) = W2_l phi(W1_l u + b1_l) + b2_l:

    plain      u_l = phi(f_l(u_{l-1}))
    residual   u_l = u_{l-1} + f_l(u_{l-1})
    prenorm    u_l = u_{l-1} + f_l(norm(u_{l-1}))       LayerNorm without weights of its own: W1
                                                        and b1 can take their place
    mean       u_l = u_{l-1} + phi(f_l(u_{l-1})) / L    the residual network with the Fourier one's
                                                        factor: one frequency, 0
    fourier    :class:`torchfru.FourierMLP`, :class:`torchfru.FourierConv2d`

The convolutions see 28 x 28 images as 7 x 7 pixels of 16 channels. Their output is the mean of u
over the pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchfru.nn import FourierConv2d, FourierMLP
from torchfru.nn.model import ADDED_BUILDERS

from .experiments import CONVOLUTIONAL, NETWORKS

BLOCK = 4  # the side of the squares of pixels that become channels

# By name: u_l from u, f_l and L.
Update = Callable[[Tensor, Callable[[Tensor], Tensor], int], Tensor]
UPDATES: dict[str, Update] = {
    "plain": lambda u, f, depth: torch.relu(f(u)),
    "residual": lambda u, f, depth: u + f(u),
    "prenorm": lambda u, f, depth: u + f(F.layer_norm(u, u.shape[1:])),
    "mean": lambda u, f, depth: torch.add(u, torch.relu(f(u)), alpha=1 / depth),
}
RECTIFIED = ("plain", "mean")  # those with a ReLU after W2


class Stack(nn.Module):
    """L layers of one of :data:`UPDATES` on u (N, n), or (N, n, H, W) with a kernel of 3 x 3.

    The weights are stacked, (L, ...), as those of :class:`FourierMLP`, and start as those do:
    uniform within sqrt(6 / inputs) before a ReLU, sqrt(3 / inputs) where there is none; biases 0.
    """

    bias_u: Tensor
    weight_1: Tensor
    weight_2: Tensor

    def __init__(
        self, update: str, input_size: int, width: int, depth: int, gate_size: int, kernel: Any = ()
    ) -> None:
        super().__init__()
        self.update, self.depth, self.kernel = update, depth, kernel
        shapes: dict[str, tuple[int, ...]] = {
            "weight_xu": (1, width, input_size, *kernel),
            "bias_u": (1, width),
            "weight_1": (depth, gate_size, width, *kernel),
            "bias_1": (depth, gate_size),
            "weight_2": (depth, width, gate_size, *kernel),
            "bias_2": (depth, width),
        }
        gains = {"weight_xu": 1, "weight_1": 6, "weight_2": 6 if update in RECTIFIED else 3}
        for name, shape in shapes.items():
            values = torch.zeros(shape)
            if name in gains:
                bound = math.sqrt(gains[name] / values.shape[2:].numel())
                nn.init.uniform_(values, -bound, bound)
            self.register_parameter(name, nn.Parameter(values))

    def apply_map(self, u: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.conv2d(u, weight, bias, padding=1) if self.kernel else F.linear(u, weight, bias)

    def states(self, x: Tensor) -> Iterator[Tensor]:
        """u_0, ..., u_L."""
        stacked = [parameter.unbind(0) for parameter in self.parameters()]
        (v, b), layers = (part[0] for part in stacked[:2]), zip(*stacked[2:], strict=True)
        u = self.apply_map(x, v, b)
        yield u
        for w1, b1, w2, b2 in layers:

            def f(u: Tensor, w1: Any = w1, b1: Any = b1, w2: Any = w2, b2: Any = b2) -> Tensor:
                return self.apply_map(torch.relu(self.apply_map(u, w1, b1)), w2, b2)

            u = UPDATES[self.update](u, f, self.depth)
            yield u

    def forward(self, x: Tensor) -> Tensor:
        for u in self.states(x):  # noqa: B007
            pass
        return u


class DeepLayer(nn.Module):
    """A network under the contract of the library's layers: images in, the last u out."""

    def __init__(
        self,
        kind: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        seq_len: int,
        batch_first: bool,
        return_sequences: bool,
        gate_size: int,
        num_freqs: int | None = None,
        freq_dim: int | None = None,
    ) -> None:
        super().__init__()
        update, _, shape = kind.partition("-")
        pixels, self.convolves = seq_len * input_size, shape == CONVOLUTIONAL
        size = BLOCK**2 if self.convolves else pixels
        if num_freqs is not None and freq_dim is not None:
            if num_freqs * freq_dim != hidden_size:
                raise ValueError(
                    f"{kind}: hidden_size must be num_freqs * freq_dim = "
                    f"{num_freqs * freq_dim}, got {hidden_size}"
                )
            own: dict[str, Any] = {
                "num_freqs": num_freqs,
                "freq_dim": freq_dim,
                "gate_size": gate_size,
            }
            build = FourierConv2d if self.convolves else FourierMLP
            self.stack: nn.Module = build(size, None, num_layers, **own)
        else:
            kernel = (3, 3) if self.convolves else ()
            self.stack = Stack(update, size, hidden_size, num_layers, gate_size, kernel)

    def images(self, x: Tensor) -> Tensor:
        """(N, L, n_in) as the stack reads it."""
        flat = x.flatten(1)  # (N, pixels)
        if not self.convolves:
            return flat
        side = math.isqrt(flat.shape[1])
        return F.pixel_unshuffle(flat.view(-1, 1, side, side), BLOCK)

    def pooled(self, u: Tensor) -> Tensor:
        """The output (N, n) of u_L, as :meth:`Stack.forward` or the Fourier networks give it."""
        return u.mean((-1, -2)) if self.convolves else u

    def forward(
        self, x: Tensor, hx: None = None, lengths: Tensor | None = None, output_from: int = 0
    ) -> tuple[Tensor, None]:
        return self.pooled(self.stack(self.images(x))), None

    def states(self, x: Tensor) -> Iterator[Tensor]:
        """u_0, ..., u_L, each in the layout of the network's own loop."""
        found: Iterator[Tensor] = self.stack.states(self.images(x))  # type: ignore[operator]
        return found

    def output(self, u: Tensor) -> Tensor:
        """The output (N, n) of the last of :meth:`states`."""
        if isinstance(self.stack, FourierMLP):
            u = u.view(self.stack.state_size, -1).t()
        return self.pooled(u)


def register() -> None:
    """Let :class:`torchfru.nn.SequenceModel` build these networks."""
    ADDED_BUILDERS.update({kind: partial(DeepLayer, kind) for kind in NETWORKS})
