"""The operators of the fused scans: their schema, and derivatives of every kind.

The first derivative is an operator too. All others follow torch's own operators, through
:mod:`torchfru.ops.collapsed`: a fused backward pass has no derivatives, and no rule for vmap.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from . import collapsed
from .collapsed import ScanInputs
from .weights import transforms_active

_INPUTS = (
    "Tensor x, Tensor z, Tensor rows, Tensor weight_ug, Tensor weight_gh, Tensor weight_xh, "
    "Tensor? bias_h, Tensor? weight_uy, Tensor? y, Tensor? lengths, str nonlinearity"
)
_TENSORS = 9  # of them, that may have gradients


def define(steps: str, backward: str, saved: str) -> None:
    """Define two operators with the inputs of :class:`ScanInputs`.

    ``steps`` returns y (L, N, n_y), or (0,) without weight_uy; u(T) - u(0); and the tensors that
    ``saved`` declares, which ``backward`` gets. Defined piece by piece: torch.library.custom_op,
    which does it in one go, imports torch's compiler at the first call, and that takes longer than
    all else that a first call does. torch keeps compiled programs on disk by the names of their
    operators: an operator whose schema changes needs a new name.
    """
    tags = torch.Tag.pt2_compliant_tag
    outputs = f"(Tensor y, Tensor change, {saved})"
    torch.library.define(steps, f"({_INPUTS}) -> {outputs}", tags=tags)
    gradients = "Tensor? d_y, Tensor? d_change"
    flags = "bool needs_x, bool needs_rows"
    torch.library.define(
        backward, f"({gradients}, {_INPUTS}, {saved}, {flags}) -> Tensor[]", tags=tags
    )
    torch.library.register_fake(backward, _shapes_backward)
    torch.library.register_autograd(steps, partial(_backward, backward), setup_context=_save)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.nonlinearity = inputs
    ctx.save_for_backward(*tensors, *output[2:])
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)  # h is by far the largest output, and gets no gradient


def _backward(
    operator: str, ctx: Any, d_y: Tensor | None, d_change: Tensor | None, *_: Any
) -> tuple[Tensor | None, ...]:
    tensors = ctx.saved_tensors  # read once: rows that are not held are recomputed by this
    inputs, saved = tensors[: _TENSORS + 1], tensors[_TENSORS + 1 :]
    needed = list(ctx.needs_input_grad[:_TENSORS])
    d_y = None if inputs[_TENSORS - 1] is None else d_y  # then there is no y
    if d_y is None:  # weight_uy and the first y take no part, and get None as autograd has it
        needed[_TENSORS - 2 :] = False, False
    if d_y is None and d_change is None:
        return (None,) * (_TENSORS + 2)
    if torch.is_grad_enabled() or transforms_active(d_y, d_change):
        gradients = _backward_by_autograd(inputs, ctx.nonlinearity, needed, d_y, d_change)
        return (*gradients, None, None)
    run = getattr(torch.ops.torchfru, operator.partition("::")[2])
    grads = run(d_y, d_change, *inputs, ctx.nonlinearity, *saved, needed[0], needed[2])
    found = (grad if wanted else None for grad, wanted in zip(grads, needed, strict=True))
    return (*found, None, None)


def _shapes_backward(d_y: Tensor | None, d_change: Tensor | None, *rest: Any) -> list[Tensor]:
    needs_x, needs_rows = rest[-2:]
    wanted = [needs_x, True, needs_rows] + [True] * (_TENSORS - 3)
    shapes = [
        tensor.shape if tensor is not None and needed else 0
        for tensor, needed in zip(rest[:_TENSORS], wanted, strict=True)
    ]
    return [rest[0].new_empty(shape) for shape in shapes]


def _backward_by_autograd(
    tensors: tuple[Any, ...], nonlinearity: str, needed: list[bool], *d_outputs: Tensor | None
) -> list[Tensor | None]:
    """The gradients of the tensors as functions of all of them, from the collapsed form."""
    graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # As new tensors: z may have been computed from weight_ug, and the gradient of weight_ug
        # here must not contain that of z.
        own = [
            (t.view_as(t) if graph else t.detach().requires_grad_()) if is_needed else t
            for t, is_needed in zip(tensors, needed, strict=False)
        ]
        outputs = collapsed.run(ScanInputs._make([*own, tensors[-1], nonlinearity]))
    reached = [(out, d) for out, d in zip(outputs, d_outputs, strict=True) if d is not None]
    found = torch.autograd.grad(
        [out for out, _ in reached if out is not None],
        [t for t, is_needed in zip(own, needed, strict=True) if is_needed],
        [d for _, d in reached],
        create_graph=graph,
        materialize_grads=True,
    )
    rest = iter(found)
    return [next(rest) if is_needed else None for is_needed in needed]
