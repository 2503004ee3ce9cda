"""Weights of one layer and direction, nonlinearities, and sizes: shared by all scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad


class Weights(NamedTuple):
    """The matrices of the update rule, named as the layer's parameters are."""

    weight_ug: Tensor  # W1 (n_g, n_u)
    bias_g: Tensor | None  # b1 (n_g,)
    weight_gh: Tensor  # W2 (n_h, n_g)
    weight_xh: Tensor  # U  (n_h, n_in)
    bias_h: Tensor | None  # b2 (n_h,)
    weight_uy: Tensor  # Y  (n_y, n_u); a backend that gives no outputs may get None
    bias_y: Tensor | None  # b_y (n_y,)

    def to(self, dtype: torch.dtype) -> Weights:
        wide: list[Any] = [None if w is None else w.to(dtype) for w in self]
        return Weights(*wide)


def block_sizes(rows: Tensor, n_u: int, n_h: int) -> tuple[int, int, int]:
    """M, m and d: n_u = M m d, n_h = m d, and K = M m columns in rows."""
    num_freqs = rows.shape[1]
    freq_dim = n_u // num_freqs
    per_block = n_h // freq_dim
    return num_freqs // per_block, per_block, freq_dim


def identity(x: Tensor) -> Tensor:
    return x


NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "identity": identity,
}


def transforms_active(*gradients: Tensor | None) -> bool:
    """Whether torch.func (grad, vmap, jvp, ...) or forward-mode differentiation is at work.

    They follow torch's own operators and nothing else: no kernel, no ``out=``, no hand-written
    backward pass. ``gradients`` are those that reach a backward pass: with ``is_grads_batched``
    they stand for several at once, and have no storage.
    """
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return True
    return not all(g is None or torch._C._has_storage(g) for g in gradients)
