"""The backend ``triton``: FRU's collapsed form around a fused loop, as an operator of torch.

Triton is imported where the operator runs: importing this file needs torch only.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..collapsed import collapse
from ..weights import NONLINEARITIES, Weights
from . import steps

_INPUTS = (
    "Tensor x, Tensor z, Tensor rows, Tensor weight_ug, Tensor weight_gh, Tensor weight_xh, "
    "Tensor? bias_h, Tensor? weight_uy, Tensor? y, Tensor? lengths, str nonlinearity"
)
_TENSORS = 9  # of the inputs, that may have gradients


def scan(
    x: Tensor,
    u: Tensor,
    rows: Tensor,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """As :func:`torchfru.ops.collapsed.scan`, on a GPU, in float32."""
    w = weights
    z = F.linear(u, w.weight_ug, w.bias_g)  # (N, n_g)
    y = F.linear(u, w.weight_uy, w.bias_y) if every_step else None  # (N, n_y)
    weight_uy = w.weight_uy if every_step else None
    loop = (w.weight_ug, w.weight_gh, w.weight_xh, w.bias_h, weight_uy)
    y, change, *_ = torch.ops.torchfru.fru_gpu_steps(x, z, rows, *loop, y, lengths, nonlinearity)
    return (y if every_step else None), u + change


# The operators -----------------------------------------------------------------------------

STEPS, STEPS_BACKWARD = "torchfru::fru_gpu_steps", "torchfru::fru_gpu_steps_backward"
torch.library.define(
    STEPS,
    f"({_INPUTS}) -> (Tensor y, Tensor change, Tensor h, Tensor z_chunks)",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    STEPS_BACKWARD,
    f"(Tensor? d_y, Tensor? d_change, {_INPUTS}, Tensor h, Tensor z_chunks) -> Tensor[]",
    tags=torch.Tag.pt2_compliant_tag,
)
_DEVICES = ("cuda", "cpu")  # "cuda" is ROCm's name too; on the CPU only Triton's interpreter runs


@torch.library.impl(STEPS, _DEVICES)
def _fru_gpu_steps(*inputs: Any) -> tuple[Tensor, ...]:
    """y (L, N, n_y), or (0,) without weight_uy; u(T) - u(0); the rest is for the backward pass."""
    return steps.forward(steps.Inputs(*inputs))


@torch.library.impl(STEPS_BACKWARD, _DEVICES)
def _fru_gpu_steps_backward(
    d_y: Tensor | None, d_change: Tensor | None, *rest: Any
) -> list[Tensor]:
    """The gradients of the input tensors, in their order; (0,) where there is none."""
    *inputs, h, z_chunks = rest
    backward = steps.Backward(steps.Inputs(*inputs), d_y, d_change)
    return backward.run(h, z_chunks)


def _shapes(*inputs: Any) -> tuple[Tensor, ...]:
    given = steps.Inputs(*inputs)
    x, (samples, n_g) = given.x, given.z.shape
    change = x.new_empty(samples, given.weight_ug.shape[1])
    chunks = (x.shape[0] + steps.CHUNK - 1) // steps.CHUNK
    return given.new_outputs(), change, given.new_hidden(), x.new_empty(chunks, samples, n_g)


def _shapes_backward(d_y: Tensor | None, d_change: Tensor | None, *rest: Any) -> list[Tensor]:
    tensors = [rest[0] if tensor is None else tensor for tensor in rest[:_TENSORS]]
    missing = [tensor is None for tensor in rest[:_TENSORS]]
    if d_y is None:
        missing[-2:] = [True, True]  # weight_uy and y
    return [
        tensor.new_empty(0 if none else tensor.shape)
        for tensor, none in zip(tensors, missing, strict=True)
    ]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.nonlinearity = inputs
    ctx.save_for_backward(*tensors, *output[2:])
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)  # h is by far the largest output, and gets no gradient


def _backward(
    ctx: Any, d_y: Tensor | None, d_change: Tensor | None, *_: Any
) -> tuple[Tensor | None, ...]:
    *inputs, h, z_chunks = *ctx.saved_tensors[:-2], ctx.nonlinearity, *ctx.saved_tensors[-2:]
    if torch.is_grad_enabled():  # a second derivative is wanted
        grads = _differentiable_gradients(d_y, d_change, inputs, ctx.needs_input_grad)
    else:
        grads = torch.ops.torchfru.fru_gpu_steps_backward(d_y, d_change, *inputs, h, z_chunks)
    wanted = zip(grads, ctx.needs_input_grad, strict=False)
    found = [g if need and g is not None and g.numel() else None for g, need in wanted]
    return (*found, None, None)


def _differentiable_gradients(
    d_y: Tensor | None, d_change: Tensor | None, inputs: list[Any], needed: tuple[bool, ...]
) -> list[Tensor | None]:
    """The gradients by autograd, through the plain form, so that they can be derived again."""
    wanted = [t for t, need in zip(inputs[:_TENSORS], needed, strict=False) if need]
    outputs = zip(_plain(*inputs), (d_y, d_change), strict=True)
    pairs = [(out, grad) for out, grad in outputs if out is not None and grad is not None]
    grads = torch.autograd.grad(
        [out for out, _ in pairs],
        wanted,
        [grad for _, grad in pairs],
        create_graph=True,
        allow_unused=True,
    )
    found = iter(grads)
    return [next(found) if need else None for need in needed[:_TENSORS]]


def _plain(*inputs: Any) -> tuple[Tensor | None, Tensor]:
    """The operator's y and change in plain torch, as :mod:`torchfru.ops.collapsed` has them."""
    given = steps.Inputs(*inputs)
    phi, z, hidden = NONLINEARITIES[given.nonlinearity], given.z, []
    a = collapse(given.rows, given.weight_ug, given.from_x.shape[-1])  # (L, n_g, n_h)
    for from_x_t, a_t in zip(given.from_x.unbind(0), a.unbind(0), strict=True):
        h = phi(from_x_t + phi(z) @ given.weight_gh.t())
        z = z + h @ a_t.t()
        hidden.append(h)
    h = torch.stack(hidden)  # (L, N, n_h)
    if given.lengths is not None:
        t = torch.arange(len(h), device=h.device).unsqueeze(-1)
        h = torch.where((t < given.lengths).unsqueeze(-1), h, 0.0)
    frequencies, y = given.frequencies(), None
    if given.weight_uy is not None and given.y is not None:
        e = frequencies.mix(given.rows, given.weight_uy)  # (L, n_y, n_h)
        y = given.y + (h @ e.transpose(1, 2)).cumsum(0)
    return y, frequencies.to_weight(given.rows, h)


torch.library.register_fake(STEPS, _shapes)
torch.library.register_fake(STEPS_BACKWARD, _shapes_backward)
torch.library.register_autograd(STEPS, _backward, setup_context=_save)
