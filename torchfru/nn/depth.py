"""Fourier over depth: the unit's sum over time, taken over the layers of an MLP or a CNN."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..basis import BASES, Basis, check_bounded, check_rows, choose_freqs, resolve_basis
from ..defaults import BASIS, NONLINEARITY
from ..ops import NONLINEARITIES
from ..ops.weights import each_step, transforms_active
from .checks import check_dtype, check_input, require_bool, require_nonlinearity, require_size

# A layer of 128 numbers of state, 8 frequencies of 16 each.
NUM_FREQS, FREQ_DIM, GATE_SIZE = 8, 16, 32


class _FourierDepth(nn.Module):
    """Parameters, basis and loop of a network; a subclass says how a layer acts on u.

    The parameters of all layers are stacked, (L, ...), so that the loop over layers takes them
    apart once and not layer by layer.
    """

    freqs: Tensor
    weight_xu: Tensor
    bias_u: Tensor
    weight_ug: Tensor
    bias_g: Tensor
    weight_gh: Tensor
    bias_h: Tensor
    weight_uy: Tensor
    bias_y: Tensor
    depth: int
    num_freqs: int
    freq_dim: int
    gate_size: int

    def __init__(
        self,
        sizes: dict[str, int],
        *,
        input_size: int,
        output_size: int | None,
        kernel: tuple[int, ...],
        freqs: str | Sequence[float] | Tensor | None,
        basis: str | Basis,
        nonlinearity: str,
        recompute: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        for name, size in sizes.items():
            require_size(self, name, size)
            setattr(self, name, size)
        require_nonlinearity(self, nonlinearity)
        require_bool(self, "recompute", recompute)
        self.nonlinearity, self.recompute = nonlinearity, recompute
        self.basis = resolve_basis(basis)
        name = type(self).__name__
        self._first_freqs = choose_freqs(self.basis, freqs, self.num_freqs, self.depth, name)
        n_u, d, n_g, depth = self.state_size, self.freq_dim, self.gate_size, self.depth
        shapes: dict[str, tuple[int, ...]] = {
            "weight_xu": (n_u, input_size, *kernel),
            "bias_u": (n_u,),
            "weight_ug": (depth, n_g, n_u, *kernel),
            "bias_g": (depth, n_g),
            "weight_gh": (depth, d, n_g, *kernel),
            "bias_h": (depth, d),
            **({"phase": (self.num_freqs,)} if self.basis.has_phase else {}),
        }
        if output_size is not None:
            shapes |= {"weight_uy": (output_size, n_u), "bias_y": (output_size,)}
        for parameter, shape in shapes.items():
            empty = torch.empty(shape, device=device, dtype=dtype)
            self.register_parameter(parameter, nn.Parameter(empty))
        self.register_buffer("freqs", torch.empty(self.num_freqs, device=device, dtype=dtype))
        self.reset_parameters()
        if self.basis not in BASES.values():
            phase = getattr(self, "phase", None)
            check_bounded(self.basis, self._first_freqs, self.freqs, phase, self.depth)

    @property
    def state_size(self) -> int:
        """K d, the numbers of u; of a CNN its channels."""
        return self.num_freqs * self.freq_dim

    def reset_parameters(self) -> None:
        """W1 and W2 uniform within sqrt(6 / inputs), which keeps the size of what ReLU lets
        through; V and Y within sqrt(1 / inputs), as ``nn.Linear`` starts; biases 0, phases from a
        normal of 0.1 turns."""
        for name, parameter in self.named_parameters(recurse=False):
            if name.startswith("weight_"):
                stacked = name in ("weight_ug", "weight_gh")
                inputs = parameter.shape[1 + stacked :].numel()
                bound = math.sqrt((6 if stacked else 1) / inputs)
                nn.init.uniform_(parameter, -bound, bound)
            elif name.startswith("bias_"):
                nn.init.zeros_(parameter)
            elif name == "phase":
                nn.init.normal_(parameter, std=0.1 * 2 * math.pi)
        with torch.no_grad():
            self.freqs.copy_(torch.tensor(self._first_freqs, dtype=torch.float64, device="cpu"))

    def basis_matrix(self) -> Tensor:
        """The basis for the layers 1..L, (L, K), within [-1, 1], differentiable.

        The factor 1/L of the update rule is left out.
        """
        layers = torch.arange(1, self.depth + 1, device=self.freqs.device)
        rows = self.basis.rows(layers, self.freqs, getattr(self, "phase", None), self.depth)
        return check_rows(rows, layers, self.freqs)

    def extra_repr(self) -> str:
        return (
            f"depth={self.depth}, num_freqs={self.num_freqs}, freq_dim={self.freq_dim}, "
            f"gate_size={self.gate_size}, recompute={self.recompute}"
        )

    # A subclass provides ------------------------------------------------------------------

    def _enter(self, x: Tensor) -> Tensor:
        """u_0 as the loop carries it, in the dtype of the basis: float32 or more."""
        raise NotImplementedError

    def _step(
        self, u: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, row: Tensor
    ) -> Tensor:
        """u_l from u_{l-1}, the weights of layer l, and its row of the basis over L."""
        raise NotImplementedError

    # The loop -----------------------------------------------------------------------------

    def _stacked(self) -> tuple[Tensor, ...]:
        """The arguments of :meth:`_step`, for all layers."""
        rows = self.basis_matrix() / self.depth
        return self.weight_ug, self.bias_g, self.weight_gh, self.bias_h, rows

    def _walk(self, u: Tensor, *stacked: Tensor) -> Tensor:
        """u after the layers whose arguments are given."""
        return each_step(lambda u, *layer: (self._step(u, *layer), None), u, *stacked)[0]

    def _deepest(self, u: Tensor) -> Tensor:
        """u_L. With ``recompute``, u is held every sqrt(L) layers only, and the layers between are
        computed once more in the backward pass."""
        stacked = self._stacked()
        traced = torch.compiler.is_compiling() or transforms_active()
        if traced or not (self.recompute and torch.is_grad_enabled()):
            return self._walk(u, *stacked)
        size = math.isqrt(self.depth - 1) + 1  # the square root, rounded up
        for part in zip(*(tensor.split(size) for tensor in stacked), strict=True):
            u = _Recomputed.apply(self._walk, u, *part)
        return u

    def states(self, input: Tensor) -> Iterator[Tensor]:
        """u_0, ..., u_L, one after another, in the layout of the loop.

        Each is part of the graph of the next, so that gradients by layer can be had.

        >>> u = list(FourierMLP(3, 4, depth=50).states(torch.randn(2, 3)))
        >>> first, last = torch.autograd.grad(u[-1].sum(), (u[0], u[-1]))
        >>> len(u), round(float(first.norm() / last.norm()))
        (51, 1)
        """
        u = self._enter(input)
        yield u
        for layer in zip(*(tensor.unbind(0) for tensor in self._stacked()), strict=True):
            u = self._step(u, *layer)
            yield u


class _Recomputed(torch.autograd.Function):
    """``function(*given)``, which holds the given tensors and nothing else until the backward pass.

    It is several times cheaper than torch's checkpoint, whose hooks see every saved tensor.
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], *given: Tensor) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(*given)
        return function(*given)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        twice = torch.is_grad_enabled()  # then the gradients are functions of what was given
        with torch.enable_grad():
            given = [
                tensor.view_as(tensor) if twice else tensor.detach().requires_grad_()
                for tensor in ctx.saved_tensors
            ]
            result = ctx.function(*given)
            found = torch.autograd.grad(
                result, given, gradient, create_graph=twice, allow_unused=True
            )
        return None, *found


class FourierMLP(_FourierDepth):
    """A deep MLP without vanishing or exploding gradients, of any depth, without normalisation.

    For the layers l = 1..L, each with weights of its own, and
    ``c_k(l) = cos(2 pi f_k l / L + theta_k) / L``::

        u_0 = V x + b_u
        h_l = phi(W2_l phi(W1_l u_{l-1} + b1_l) + b2_l)
        u_l = u_{l-1} + c(l) (x) h_l
        y   = Y u_L + b_y

    u_L sums the features of all layers against K functions of depth, as :class:`FRU` sums those of
    all steps against functions of time. A layer is the identity plus O(1/L): the gradient changes
    from layer 0 to L by a factor within exp(-2 r) and exp(r), where
    ``r = sqrt(K) mean_l |W2_l| |W1_l|``, whatever the depth.

    Args:
        input_size, output_size: features of x and y. output_size=None gives y = u_L.
        depth: L.
        num_freqs, freq_dim: K functions of d numbers each: u holds K d.
        gate_size: the width of phi(W1 u + b1).
        freqs, basis, nonlinearity: as for :class:`FRU`, with depth in the place of seq_len.
        recompute: hold u every sqrt(L) layers only, and compute the layers between once more in
            the backward pass: memory grows with sqrt(L), not L, for a quarter more time. Compiled
            and in ``torch.func`` it does nothing.

    Shape:
        input (..., input_size), output (..., output_size). weight_ug, bias_g, weight_gh and bias_h
        hold W1, b1, W2 and b2 of all layers: (L, n_g, K d), (L, n_g), (L, d, n_g), (L, d).

    >>> mlp = FourierMLP(784, 10, depth=1000, recompute=True)
    >>> mlp(torch.randn(2, 784)).shape, sum(p.numel() for p in mlp.parameters())
    (torch.Size([2, 10]), 4757778)
    """

    def __init__(
        self,
        input_size: int,
        output_size: int | None = None,
        depth: int = 100,
        *,
        num_freqs: int = NUM_FREQS,
        freq_dim: int = FREQ_DIM,
        gate_size: int = GATE_SIZE,
        freqs: str | Sequence[float] | Tensor | None = None,
        basis: str | Basis = BASIS,
        nonlinearity: str = NONLINEARITY,
        recompute: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = {"input_size": input_size, "depth": depth, "num_freqs": num_freqs}
        sizes |= {"freq_dim": freq_dim, "gate_size": gate_size}
        super().__init__(
            sizes | ({} if output_size is None else {"output_size": output_size}),
            input_size=input_size,
            output_size=output_size,
            kernel=(),
            freqs=freqs,
            basis=basis,
            nonlinearity=nonlinearity,
            recompute=recompute,
            device=device,
            dtype=dtype,
        )
        self.input_size, self.output_size = input_size, output_size

    def forward(self, input: Tensor) -> Tensor:
        """y (..., output_size) of x (..., input_size)."""
        check_input(self, input, self.input_size, dims=(max(1, input.dim()),))
        u = self._deepest(self._enter(input))
        u = u.view(self.state_size, -1).t().to(self.weight_xu.dtype)  # (N, K d)
        y = u if self.output_size is None else F.linear(u, self.weight_uy, self.bias_y)
        return y.reshape(*input.shape[:-1], y.shape[-1])

    # The batch is the last axis: K rows of u get the same h, each with a weight of its own, which
    # is one update of rank 1. This takes three quarters of the time of u as (N, K d).

    def _enter(self, x: Tensor) -> Tensor:
        columns = x.reshape(-1, self.input_size).t()  # (n_in, N)
        u = torch.addmm(self.bias_u.unsqueeze(-1), self.weight_xu, columns)  # (K d, N)
        wide = torch.promote_types(self.weight_xu.dtype, torch.float32)
        return u.to(wide).view(self.num_freqs, self.freq_dim * columns.shape[1])  # (K, d N)

    def _step(
        self, u: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, row: Tensor
    ) -> Tensor:
        phi = NONLINEARITIES[self.nonlinearity]
        flat = u.view(w1.shape[1], u.shape[1] // w2.shape[0])  # (K d, N)
        g = phi(torch.addmm(b1.unsqueeze(-1), w1, flat.to(w1.dtype)))  # (n_g, N)
        h = phi(torch.addmm(b2.unsqueeze(-1), w2, g))  # (d, N)
        return torch.addr(u, row, h.view(u.shape[1]).to(u.dtype))


class FourierConv2d(_FourierDepth):
    """A deep CNN as :class:`FourierMLP` is a deep MLP: W1_l and W2_l are convolutions.

    ::

        u_0 = V * x + b_u
        h_l = phi(W2_l * phi(W1_l * u_{l-1} + b1_l) + b2_l)
        u_l = u_{l-1} + c(l) (x) h_l
        y   = Y u_L + b_y                                      at every pixel

    All of them have stride 1 and zeros around the image, so that its size stays.

    Args:
        in_channels, out_channels: of x and y. out_channels=None gives y = u_L.
        kernel_size: of V, W1 and W2; an odd number.
        depth, num_freqs, freq_dim, gate_size, freqs, basis, nonlinearity, recompute: as for
            :class:`FourierMLP`; u has K d channels.

    Shape:
        input (N, in_channels, H, W) or (in_channels, H, W); output likewise with out_channels.

    >>> net = FourierConv2d(3, 10, depth=50)
    >>> net(torch.randn(2, 3, 8, 8)).mean((-1, -2)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int | None = None,
        depth: int = 50,
        kernel_size: int = 3,
        *,
        num_freqs: int = NUM_FREQS,
        freq_dim: int = FREQ_DIM,
        gate_size: int = GATE_SIZE,
        freqs: str | Sequence[float] | Tensor | None = None,
        basis: str | Basis = BASIS,
        nonlinearity: str = NONLINEARITY,
        recompute: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = {"in_channels": in_channels, "depth": depth, "kernel_size": kernel_size}
        sizes |= {"num_freqs": num_freqs, "freq_dim": freq_dim, "gate_size": gate_size}
        super().__init__(
            sizes | ({} if out_channels is None else {"out_channels": out_channels}),
            input_size=in_channels,
            output_size=out_channels,
            kernel=(kernel_size, kernel_size),
            freqs=freqs,
            basis=basis,
            nonlinearity=nonlinearity,
            recompute=recompute,
            device=device,
            dtype=dtype,
        )
        if kernel_size % 2 == 0:
            raise ValueError(f"FourierConv2d: kernel_size must be odd, got {kernel_size}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.padding = kernel_size // 2

    def forward(self, input: Tensor) -> Tensor:
        """y (N, out_channels, H, W) of x (N, in_channels, H, W)."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"FourierConv2d: Expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        check_dtype(self, "input", input)
        if input.shape[-3] != self.in_channels:
            raise RuntimeError(
                f"FourierConv2d: Expected {self.in_channels} channels, got {input.shape[-3]}"
            )
        x = input if input.dim() == 4 else input.unsqueeze(0)
        y = self._deepest(self._enter(x)).to(self.weight_xu.dtype)  # (N, K d, H, W)
        if self.out_channels is not None:
            y = F.conv2d(y, self.weight_uy[:, :, None, None], self.bias_y)
        return y if input.dim() == 4 else y.squeeze(0)

    def _enter(self, x: Tensor) -> Tensor:
        wide = torch.promote_types(self.weight_xu.dtype, torch.float32)
        return F.conv2d(x, self.weight_xu, self.bias_u, padding=self.padding).to(wide)

    def _step(
        self, u: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, row: Tensor
    ) -> Tensor:
        phi = NONLINEARITIES[self.nonlinearity]
        g = phi(F.conv2d(u.to(w1.dtype), w1, b1, padding=self.padding))  # (N, n_g, H, W)
        h = phi(F.conv2d(g, w2, b2, padding=self.padding))  # (N, d, H, W)
        blocks = u.unflatten(1, (row.shape[0], h.shape[1]))  # (N, K, d, H, W)
        added = torch.addcmul(blocks, row.view(-1, 1, 1, 1), h.unsqueeze(1).to(u.dtype))
        return added.flatten(1, 2)
