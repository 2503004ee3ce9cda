"""The Statistical Recurrent Unit by its definition, in fewer products, and as a fused operator.

For t = 1..T and each decay alpha_k:

    g(t)   = phi(W1 u(t-1) + b1)
    h(t)   = phi(W2 g(t) + U x(t) + b2)
    u_k(t) = alpha_k u_k(t-1) + (1 - alpha_k) h(t)
    y(t)   = Y u(t) + b_y

The weight of a step depends on how long ago it was, not on when it was: no A(t) exists that folds
the K decays into one matrix, as in :mod:`torchfru.ops.collapsed`. The fast scan carries each W1_k
u_k (n_g numbers) instead of u_k (n_h numbers), in plain torch: it serves every device, torch's
compiler and exporter, torch.func, forward mode and second derivatives. On the CPU, the operator of
:mod:`torchfru.ops.cpu.sru` computes the same, and its first derivatives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .weights import NONLINEARITIES, Weights, each_step, exporting, transforms_active


def reference_scan(
    x: Tensor,
    u: Tensor,
    alphas: Tensor,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """Read ``x`` (L, N, n_in) into ``u`` (N, K n_h), alpha-major; y is None unless every_step."""

    def advance(u: Tensor, x_t: Tensor, s: Tensor) -> tuple[Tensor, Tensor | None]:
        after = step(x_t, u, alphas, weights, nonlinearity)
        u = after if lengths is None else torch.where((s < lengths).unsqueeze(-1), after, u)
        return u, F.linear(u, weights.weight_uy, weights.bias_y) if every_step else None

    u, y = each_step(advance, u, x, torch.arange(x.shape[0], device=x.device))
    return y if every_step else None, u


def step(x: Tensor, u: Tensor, alphas: Tensor, weights: Weights, nonlinearity: str) -> Tensor:
    """u(t) from x(t) (N, n_in) and u(t-1) (N, K n_h)."""
    phi = NONLINEARITIES[nonlinearity]
    g = phi(F.linear(u, weights.weight_ug, weights.bias_g))  # (N, n_g)
    h = phi(F.linear(g, weights.weight_gh) + F.linear(x, weights.weight_xh, weights.bias_h))
    u = u.unflatten(-1, (alphas.shape[0], -1))  # (N, K, n_h)
    return torch.lerp(h.unsqueeze(-2), u, alphas.unsqueeze(-1)).flatten(-2)


def fast_scan(
    x: Tensor,
    u: Tensor,
    alphas: Tensor,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """As :func:`reference_scan`, with u formed after the loop instead of inside it.

    After the end of a sample its y is arbitrary.
    """
    if not exporting() and x.shape[0] == 1:  # nothing to gain
        options: Any = {"nonlinearity": nonlinearity, "every_step": every_step, "lengths": lengths}
        return reference_scan(x, u, alphas, weights, **options)
    h = _hidden(x, u, alphas, weights, nonlinearity)  # (L, N, n_h)
    y = _outputs(h, u, alphas, weights) if every_step else None
    return y, _memory(h, u, alphas, lengths)


def _hidden(x: Tensor, u: Tensor, alphas: Tensor, weights: Weights, nonlinearity: str) -> Tensor:
    """h (L, N, n_h) at every step, carrying z_k = W1_k u_k + b1 / K, whose sum is g's argument."""
    count, n_g, phi = len(alphas), len(weights.weight_ug), NONLINEARITIES[nonlinearity]
    from_x = F.linear(x, weights.weight_xh, weights.bias_h)  # (L, N, n_h)
    w = weights.weight_ug.unflatten(1, (count, -1))  # (n_g, K, n_h)
    to_h, to_z = weights.weight_gh.t(), w.permute(2, 1, 0).flatten(1)  # (n_g, n_h), (n_h, K n_g)
    bias = x.new_zeros(n_g) if weights.bias_g is None else weights.bias_g
    bias = (bias / count).repeat(count)  # (K n_g,)
    z = torch.einsum("nkh,gkh->nkg", u.unflatten(1, (count, -1)), w).flatten(1) + bias
    alpha = alphas.repeat_interleave(n_g)  # (K n_g,)

    def step(z: Tensor, from_x_t: Tensor) -> tuple[Tensor, Tensor]:
        # Not z.unflatten(1, (K, n_g)).sum(1): torch cannot derive an exported loop that holds it.
        h = phi(torch.addmm(from_x_t, phi(sum(z.split(n_g, 1))), to_h))
        return torch.lerp(torch.addmm(bias, h, to_z), z, alpha), h

    return each_step(step, z, from_x)[1]


def _outputs(h: Tensor, u: Tensor, alphas: Tensor, weights: Weights) -> Tensor:
    """y at every step (L, N, n_y): the memories by one recurrence, Y by one product."""

    def step(u: Tensor, h_t: Tensor) -> tuple[Tensor, Tensor]:
        u = torch.lerp(h_t.unsqueeze(1), u, alphas.unsqueeze(-1))
        return u, u

    memories = each_step(step, u.unflatten(1, (len(alphas), -1)), h)[1]  # (L, N, K, n_h)
    return F.linear(memories.flatten(2), weights.weight_uy, weights.bias_y)


def _memory(h: Tensor, u: Tensor, alphas: Tensor, lengths: Tensor | None) -> Tensor:
    """alpha^L u(0) + (1 - alpha) sum_s alpha^(L-s) h(s), L each sample's own length."""
    count, length = alphas.shape[0], h.shape[0]
    if lengths is None:
        lengths = torch.full((1,), length, device=h.device)  # one for all samples
    age = lengths.unsqueeze(-1) - torch.arange(1, length + 1, device=h.device)  # (N or 1, L)
    weight = (1 - alphas.unsqueeze(-1)) * alphas.unsqueeze(-1) ** age.clamp(min=0).unsqueeze(1)
    weight = torch.where(age.unsqueeze(1) >= 0, weight, 0.0)  # (N or 1, K, L)
    added = torch.matmul(weight, h.transpose(0, 1))  # (N, K, n_h)
    kept = alphas ** lengths.unsqueeze(-1)  # (N or 1, K)
    return (kept.unsqueeze(-1) * u.unflatten(1, (count, -1)) + added).flatten(1)


# The operator ----------------------------------------------------------------------------------


class SRUInputs(NamedTuple):
    """The inputs of the operator; u=None means zeros, and weight_uy=None no outputs."""

    x: Tensor  # (L, N, n_in)
    u: Tensor | None  # (N, K n_h)
    weight_ug: Tensor
    bias_g: Tensor | None
    weight_gh: Tensor
    weight_xh: Tensor
    bias_h: Tensor | None
    weight_uy: Tensor | None
    bias_y: Tensor | None
    alphas: Tensor  # (K,)
    lengths: Tensor | None
    nonlinearity: str

    def weights(self) -> Weights:
        return Weights(*self[2:9])  # type: ignore[arg-type]


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


def numba_scan(
    x: Tensor, u: Tensor | None, alphas: Tensor, weights: Weights, **options: Any
) -> tuple[Tensor | None, Tensor]:
    """As :func:`fast_scan`, on the CPU, in float32 or float64; u=None means zeros."""
    if x.shape[0] == 1 or x.shape[1] == 0 or alphas.requires_grad:
        u = x.new_zeros(x.shape[1], weights.weight_ug.shape[1]) if u is None else u
        return fast_scan(x, u, alphas, weights, **options)
    every_step, lengths = options["every_step"], options.get("lengths")
    outputs = weights[5:] if every_step else (None, None)
    inputs = (x, u, *weights[:5], *outputs, alphas, lengths, options["nonlinearity"])
    y, u, *_ = torch.ops.torchfru.sru_steps(*inputs)
    return y if every_step else None, u


@torch.library.impl(STEPS, "cpu")
def _steps(*inputs: Any) -> tuple[Tensor, ...]:
    from .cpu.sru import run_forward  # imports Numba

    return run_forward(SRUInputs(*inputs))


@torch.library.impl(STEPS_BACKWARD, "cpu")
def _steps_backward(
    d_y: Tensor | None, d_u: Tensor | None, h: Tensor, g: Tensor, needs_x: bool, *inputs: Any
) -> list[Tensor]:
    from .cpu.sru import run_backward

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
