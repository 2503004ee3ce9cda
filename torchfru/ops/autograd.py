"""The operators of the fused scans: their schema, and derivatives of every kind.

The first derivative is an operator too. All others follow torch's own operators, through
:mod:`torchfru.ops.collapsed`: a fused backward pass has no derivatives, and no rule for vmap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import collapsed
from .collapsed import ScanInputs
from .weights import runs_eagerly, transforms_active

_STEPS = (
    "Tensor x, Tensor z, Tensor rows, Tensor weight_ug, Tensor weight_gh, Tensor weight_xh, "
    "Tensor? bias_h, Tensor? weight_uy, Tensor? y, Tensor? lengths, str nonlinearity"
)


def _collapsed_steps(*inputs: Any) -> tuple[Tensor | None, Tensor]:
    return collapsed.run(ScanInputs(*inputs))


@dataclass(frozen=True)
class Derivatives:
    """How autograd derives one operator; ``backward`` names the operator of its first derivative.

    Of the inputs of the operator the first ``trained`` may have gradients, the last two of these
    belong to y; ``tensors`` counts all that are tensors. ``optional`` has the places of those whose
    gradients are computed only if needed. ``plain`` is the same function in plain torch.
    """

    backward: str
    tensors: int
    trained: int
    optional: tuple[int, ...]
    plain: Callable[..., tuple[Tensor | None, Tensor]]
    eager: Callable[..., list[Tensor]] | None = None  # the operator's code, without torch around it
    fused: bool = True  # or else the plain form gives the first derivative too

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.settings = inputs[self.tensors :]
        ctx.save_for_backward(*inputs[: self.tensors], *output[2:])
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)  # h is by far the largest output, and gets no gradient

    def derive(
        self, ctx: Any, d_y: Tensor | None, d_u: Tensor | None, *_: Any
    ) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors  # read once: rows that are not held are recomputed by this
        inputs, saved = tensors[: self.tensors], tensors[self.tensors :]
        rest = (None,) * (self.tensors - self.trained + len(ctx.settings))
        needed = list(ctx.needs_input_grad[: self.trained])
        d_y = None if inputs[self.trained - 2] is None else d_y  # then there is no y
        if d_y is None:  # the last two take no part, and get None as autograd has it
            needed[-2:] = False, False
        if d_y is None and d_u is None:
            return (None,) * self.trained + rest
        if not self.fused or torch.is_grad_enabled() or transforms_active(d_y, d_u):
            return *self._by_autograd((*inputs, *ctx.settings), needed, d_y, d_u), *rest
        operator = getattr(torch.ops.torchfru, self.backward.partition("::")[2])
        run = self.eager if self.eager is not None and runs_eagerly(d_y, d_u, *inputs) else operator
        flags = [needed[place] for place in self.optional]
        grads = run(d_y, d_u, *inputs, *ctx.settings, *saved, *flags)
        found = (grad if wanted else None for grad, wanted in zip(grads, needed, strict=True))
        return *found, *rest

    def shapes(self, d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
        """Of the gradients, (0,) where there is none."""
        flags = dict(zip(self.optional, rest[-len(self.optional) :], strict=True))
        shapes = [
            tensor.shape if tensor is not None and flags.get(place, True) else 0
            for place, tensor in enumerate(rest[: self.trained])
        ]
        return [rest[0].new_empty(shape) for shape in shapes]

    def _by_autograd(
        self, inputs: tuple[Any, ...], needed: list[bool], *d_outputs: Tensor | None
    ) -> list[Tensor | None]:
        """The gradients of the tensors as functions of all of them, from the plain form."""
        graph = torch.is_grad_enabled()
        with torch.enable_grad():
            # As new tensors: one may have been computed from another, and the gradient of the one
            # here must not contain that of the other.
            own = [
                (t.view_as(t) if graph else t.detach().requires_grad_()) if is_needed else t
                for t, is_needed in zip(inputs, needed, strict=False)
            ]
            outputs = self.plain(*own, *inputs[self.trained :])
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


def define(
    steps: str,
    backward: str,
    saved: str,
    inputs: str = _STEPS,
    trained: int = 9,
    optional: tuple[int, ...] = (0, 2),
    plain: Callable[..., tuple[Tensor | None, Tensor]] = _collapsed_steps,
    eager: Callable[..., list[Tensor]] | None = None,
) -> Derivatives:
    """Define an operator and that of its first derivative.

    ``steps`` returns y (L, N, n_y), or (0,) without outputs; u(T), or its change; and the tensors
    that ``saved`` declares, which ``backward`` gets. Defined piece by piece:
    torch.library.custom_op, which does it in one go, imports torch's compiler at the first call,
    and that takes longer than all else that a first call does. torch keeps compiled programs on
    disk by the names of their operators: an operator whose schema changes needs a new name.
    """
    tags = torch.Tag.pt2_compliant_tag
    names = [argument.split()[-1] for argument in inputs.split(", ")]
    tensors = sum(argument.startswith("Tensor") for argument in inputs.split(", "))
    derivatives = Derivatives(backward, tensors, trained, optional, plain, eager)
    torch.library.define(steps, f"({inputs}) -> (Tensor y, Tensor change, {saved})", tags=tags)
    flags = ", ".join(f"bool needs_{names[place]}" for place in optional)
    gradients = "Tensor? d_y, Tensor? d_change"
    torch.library.define(
        backward, f"({gradients}, {inputs}, {saved}, {flags}) -> Tensor[]", tags=tags
    )
    torch.library.register_fake(backward, derivatives.shapes)
    torch.library.register_autograd(steps, derivatives.derive, setup_context=derivatives.save)
    return derivatives
