"""The backend ``numba``: the collapsed form around a fused loop, as an operator of torch.

Everything but the loop is matrix algebra. It is done here in chunks over time, so that of all
that grows with the number of steps only h is held, and z at every few steps. Numba is imported
where the operator runs: importing this file needs torch only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import collapsed
from .memory import Memory
from .weights import Weights

if TYPE_CHECKING:
    from .batch_loop import BatchLoop
    from .small_loop import SmallLoop

_WEIGHTS = (
    "Tensor weight_ug, Tensor? bias_g, Tensor weight_gh, Tensor weight_xh, Tensor? bias_h, "
    "Tensor? weight_uy, Tensor? bias_y"
)
_INPUTS = f"Tensor x, Tensor u, Tensor rows, {_WEIGHTS}, Tensor? lengths, str nonlinearity"


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
    """As :func:`torchfru.ops.collapsed.scan`, on the CPU, in float32 or float64."""
    if x.shape[1] == 0:  # no samples, no loop
        options = {"nonlinearity": nonlinearity, "every_step": every_step, "lengths": lengths}
        return collapsed.scan(x, u, rows, weights, **options)  # type: ignore[arg-type]
    if not every_step:  # then Y is not used here, and must get no gradient
        weights = weights._replace(weight_uy=None, bias_y=None)  # type: ignore[arg-type]
    y, u, _, _ = torch.ops.torchfru.fru_scan(x, u, rows, *weights, lengths, nonlinearity)
    return (y if every_step else None), u


# The operators -----------------------------------------------------------------------------
#
# Defined piece by piece: torch.library.custom_op, which does it in one go, imports torch's compiler
# at the first call, and that takes longer than all else that a first call does. torch keeps
# compiled programs on disk by the names of their operators: an operator whose schema changes needs
# a new name.

SCAN, SCAN_BACKWARD = "torchfru::fru_scan", "torchfru::fru_scan_backward"
torch.library.define(
    SCAN,
    f"({_INPUTS}) -> (Tensor y, Tensor u, Tensor h, Tensor kept)",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    SCAN_BACKWARD,
    f"(Tensor? d_y, Tensor? d_u, {_INPUTS}, Tensor h, Tensor kept, bool needs_x, "
    "bool needs_rows) -> Tensor[]",
    tags=torch.Tag.pt2_compliant_tag,
)


@torch.library.impl(SCAN, "cpu")
def _fru_scan(
    x: Tensor, u: Tensor, rows: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y (L, N, n_y), or (0,) without weight_uy; the last u; h and kept for the backward pass."""
    from .outputs import Outputs

    *parameters, lengths, nonlinearity = rest
    weights = Weights(*parameters)
    loop = new_loop(x, weights, nonlinearity)
    memory = Memory(rows, u.shape[1], weights.weight_gh.shape[0])
    gate = loop.lay_out(memory.place(weights.weight_ug))  # (K, numbers in A)
    h, kept = loop.new_hidden(x.shape[0]), loop.new_kept(x.shape[0])
    z = loop.pack_z(F.linear(u, weights.weight_ug, weights.bias_g))
    total = memory.empty(loop.lanes).zero_()
    y, outputs = _new_outputs(x, weights.weight_uy), None
    if weights.weight_uy is not None:
        y_first = F.linear(u, weights.weight_uy, weights.bias_y)
        outputs = Outputs(memory.place(weights.weight_uy), y_first)
    for part, segments in loop.chunks(x.shape[0]):
        c = rows[part]
        loop.forward(x[part], c @ gate, stop_within(lengths, part), z, kept[segments], h[part])
        hidden = loop.hidden(h[part])  # (L, n_h, lanes)
        memory.add_products(c, hidden, total)
        if outputs is not None:
            outputs.forward(c, hidden[:, :, : x.shape[1]], y[part])
    return y, (u + memory.gather(total, x.shape[1])).contiguous(), h, kept


def _shapes(
    x: Tensor, u: Tensor, rows: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *parameters, _, nonlinearity = rest
    weights = Weights(*parameters)
    loop = new_loop(x, weights, nonlinearity)
    steps = x.shape[0]
    y = _new_outputs(x, weights.weight_uy)
    return y, u.new_empty(u.shape), loop.new_hidden(steps), loop.new_kept(steps)


@torch.library.impl(SCAN_BACKWARD, "cpu")
def _fru_scan_backward(d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
    """The gradients of x, u, rows and the weights, in that order; (0,) where there is none.

    Those of x and of rows cost time, and are left out where they are not needed.
    """
    from .fused_backward import Backward

    x, u, rows, *parameters = rest[:10]
    lengths, nonlinearity, h, kept, needs_x, needs_rows = rest[10:]
    weights = Weights(*parameters)
    loop = new_loop(x, weights, nonlinearity)
    walk = Backward(loop, d_y, d_u, x, u, rows, weights, needs_x=needs_x, needs_rows=needs_rows)
    for part, segments in reversed(loop.chunks(x.shape[0])):
        walk.through(part, stop_within(lengths, part), kept[segments], h[part])
    return [grad.contiguous() for grad in walk.gradients()]


def _shapes_backward(d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
    x, u, rows, *weights = rest[: 3 + len(Weights._fields)]
    needs_x, needs_rows = rest[-2:]
    d_x, d_rows = x.new_empty(x.shape if needs_x else 0), rows.new_empty(rows.shape)
    d_rows = d_rows if needs_rows else rows.new_empty(0)
    d_weights = (x.new_empty(0 if w is None else w.shape) for w in weights)
    return [d_x, u.new_empty(u.shape), d_rows, *d_weights]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.nonlinearity = inputs
    ctx.save_for_backward(*tensors, output[2], output[3])
    ctx.mark_non_differentiable(output[2], output[3])
    ctx.set_materialize_grads(False)  # h is by far the largest output, and gets no gradient


def _backward(
    ctx: Any, d_y: Tensor | None, d_u: Tensor | None, *_: Any
) -> tuple[Tensor | None, ...]:
    *tensors, h, kept = ctx.saved_tensors
    d_y = None if tensors[8] is None else d_y  # without weight_uy there is no y
    grads = torch.ops.torchfru.fru_scan_backward(
        d_y, d_u, *tensors, ctx.nonlinearity, h, kept, *ctx.needs_input_grad[0:3:2]
    )
    wanted = zip(grads, ctx.needs_input_grad, strict=False)
    return (*(grad if needed else None for grad, needed in wanted), None, None)


def _refuse(ctx: Any, *_: Any) -> None:
    raise RuntimeError(
        "FRU: the backend 'numba' has no second derivatives; compute them inside "
        "`with torchfru.use_backend('collapsed'):`"
    )


torch.library.register_fake(SCAN, _shapes)
torch.library.register_fake(SCAN_BACKWARD, _shapes_backward)
torch.library.register_autograd(SCAN, _backward, setup_context=_save)
torch.library.register_autograd(SCAN_BACKWARD, _refuse)


# The parts ---------------------------------------------------------------------------------


def new_loop(x: Tensor, weights: Weights, nonlinearity: str) -> BatchLoop | SmallLoop:
    """The loop for inputs (L, N, n_in)."""
    from .loop import choose_loop

    kind = choose_loop(x.shape[1])
    w = weights
    return kind(w.weight_gh, w.weight_xh, w.bias_h, x.shape[1], nonlinearity)


def stop_within(lengths: Tensor | None, part: slice) -> Tensor | None:
    """Where each sequence ends, counted from the first step of a part."""
    return None if lengths is None else lengths - part.start


def _new_outputs(x: Tensor, weight_uy: Tensor | None) -> Tensor:
    if weight_uy is None:
        return x.new_empty(0)
    return x.new_empty(x.shape[0], x.shape[1], weight_uy.shape[0])
