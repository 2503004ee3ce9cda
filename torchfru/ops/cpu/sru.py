"""The operator of the SRU's fused loop: its schema, and derivatives of every kind.

The first derivative is an operator too. All others follow torch's own operators, through
:func:`torchfru.ops.sru.fast_scan`. Numba is imported where the operator runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..sru import SRUInputs, fast_scan
from ..weights import Weights, transforms_active, without_padding

GRADIENTS = 9  # of the inputs, from the first, can have one
STEPS, STEPS_BACKWARD = "torchfru::sru_steps", "torchfru::sru_steps_backward"
_INPUTS = (
    "Tensor x, Tensor? u, Tensor weight_ug, Tensor? bias_g, Tensor weight_gh, Tensor weight_xh, "
    "Tensor? bias_h, Tensor? weight_uy, Tensor? bias_y, Tensor alphas, Tensor? lengths, "
    "str nonlinearity"
)
_SAVED = "Tensor h, Tensor g"
_TAGS = torch.Tag.pt2_compliant_tag
torch.library.define(STEPS, f"({_INPUTS}) -> (Tensor y, Tensor u, {_SAVED})", tags=_TAGS)
torch.library.define(
    STEPS_BACKWARD,
    f"(Tensor? d_y, Tensor? d_u, {_SAVED}, bool needs_x, {_INPUTS}) -> Tensor[]",
    tags=_TAGS,
)


def scan(
    x: Tensor, u: Tensor | None, alphas: Tensor, weights: Weights, **options: Any
) -> tuple[Tensor | None, Tensor]:
    """As :func:`torchfru.ops.sru.fast_scan`, in float32 or float64; u=None means zeros."""
    if x.shape[0] == 1 or x.shape[1] == 0 or alphas.requires_grad:
        u = x.new_zeros(x.shape[1], weights.weight_ug.shape[1]) if u is None else u
        return fast_scan(x, u, alphas, weights, **options)
    every_step, lengths = options["every_step"], options.get("lengths")
    outputs = weights[5:] if every_step else (None, None)
    inputs = (x, u, *weights[:5], *outputs, alphas, lengths, options["nonlinearity"])
    y, u, *_ = torch.ops.torchfru.sru_steps(*inputs)
    return without_padding(y, lengths) if every_step else None, u


@torch.library.impl(STEPS, "cpu")
def _steps(*inputs: Any) -> tuple[Tensor, ...]:
    from .sru_loop import run_forward  # imports Numba

    return run_forward(SRUInputs(*inputs))


@torch.library.impl(STEPS_BACKWARD, "cpu")
def _steps_backward(
    d_y: Tensor | None, d_u: Tensor | None, h: Tensor, g: Tensor, needs_x: bool, *inputs: Any
) -> list[Tensor]:
    from .sru_loop import run_backward

    return run_backward(SRUInputs(*inputs), d_y, d_u, h, g, needs_x)


def _shapes(x: Tensor, u: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    inputs, time = SRUInputs(x, u, *rest), x.shape[:2]
    (n_g, n_u), n_h = inputs.weight_ug.shape, len(inputs.weight_gh)
    y = 0 if inputs.weight_uy is None else (*time, len(inputs.weight_uy))
    shapes: tuple[Any, ...] = (y, (time[1], n_u), (*time, n_h), (*time, n_g))
    return tuple(x.new_empty(shape) for shape in shapes)


def _shapes_backward(
    d_y: Tensor | None, d_u: Tensor | None, h: Tensor, g: Tensor, needs_x: bool, *inputs: Any
) -> list[Tensor]:
    x, _, *weights = inputs[:GRADIENTS]
    shapes: list[Any] = [0 if weight is None else weight.shape for weight in weights]
    shapes = [x.shape if needs_x else 0, (x.shape[1], weights[0].shape[1]), *shapes]
    return [x.new_empty(shape) for shape in shapes]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.nonlinearity = inputs
    ctx.save_for_backward(*tensors, *output[2:])
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_y: Tensor | None, d_u: Tensor | None, *_: Any) -> tuple[Any, ...]:
    *tensors, h, g = ctx.saved_tensors
    inputs, needed = (
        SRUInputs._make([*tensors, ctx.nonlinearity]),
        list(ctx.needs_input_grad[:GRADIENTS]),
    )
    d_y = None if inputs.weight_uy is None else d_y  # then there is no y
    if d_y is None:  # Y and its bias take no part, and get None as autograd has it
        needed[7:] = False, False
    if d_y is None and d_u is None:
        return (None,) * len(inputs)
    if torch.is_grad_enabled() or transforms_active(d_y, d_u):
        found = _backward_by_autograd(inputs, needed, d_y, d_u)
    else:
        found = torch.ops.torchfru.sru_steps_backward(d_y, d_u, h, g, needed[0], *inputs)
    wanted = [d if is_needed else None for d, is_needed in zip(found, needed, strict=True)]
    return (*wanted, *[None] * (len(inputs) - GRADIENTS))


torch.library.register_fake(STEPS, _shapes)
torch.library.register_fake(STEPS_BACKWARD, _shapes_backward)
torch.library.register_autograd(STEPS, _backward, setup_context=_save)


def _backward_by_autograd(
    inputs: SRUInputs, needed: list[bool], d_y: Tensor | None, d_u: Tensor | None
) -> list[Tensor | None]:
    """The gradients as functions of all inputs, from the plain scan."""
    given: Any = inputs
    graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # As new tensors: u may have been computed from the weights, whose gradient here must not
        # contain that of u.
        own: list[Any] = [
            (t.view_as(t) if graph else t.detach().requires_grad_()) if is_needed else t
            for t, is_needed in zip(given, needed, strict=False)
        ]
        x, u, *weights = own
        u = x.new_zeros(x.shape[1], inputs.weight_ug.shape[1]) if u is None else u
        options: Any = {"nonlinearity": inputs.nonlinearity, "lengths": inputs.lengths}
        every_step = d_y is not None
        y, u = fast_scan(x, u, inputs.alphas, Weights(*weights), every_step=every_step, **options)
    if d_y is not None and inputs.lengths is not None:
        running = torch.arange(len(x)).unsqueeze(-1) < inputs.lengths
        d_y = torch.where(running.unsqueeze(-1), d_y, 0.0)  # the fused one ignores the rest too
    reached = [(out, d) for out, d in ((y, d_y), (u, d_u)) if d is not None]
    outputs, gradients = zip(*reached, strict=True)
    wanted = [t for t, is_needed in zip(own, needed, strict=True) if is_needed]
    found = iter(
        torch.autograd.grad(outputs, wanted, gradients, create_graph=graph, materialize_grads=True)
    )
    return [next(found) if is_needed else None for is_needed in needed]
