"""The Statistical Recurrent Unit, twice: by its definition, and with as little work as it allows.

For t = 1..T and each decay alpha_k:

    g(t)   = phi(W1 u(t-1) + b1)
    h(t)   = phi(W2 g(t) + U x(t) + b2)
    u_k(t) = alpha_k u_k(t-1) + (1 - alpha_k) h(t)
    y(t)   = Y u(t) + b_y

The weight of a step depends on how long ago it was, not on when it was: no A(t) exists that folds
the K decays into one matrix, as in :mod:`torchfru.ops.collapsed`. The fast scan carries each W1_k
u_k (n_g numbers) instead of u_k (n_h numbers). Its two loops over time exist as plain functions,
which torch's compiler, torch.func, forward mode and second derivatives take, and as autograd
functions written by hand: they write into memory that is there already, save h and g only, and
leave the gradients of the weights to one product over many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .weights import NONLINEARITIES, Weights, each_step, transforms_active

STEPS_AT_ONCE = 64  # that wait for one product with the gradient of the weights
_aten = torch.ops.aten


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
    alpha = alphas.unsqueeze(-1)  # (K, 1)
    u = u.unflatten(-1, (alphas.shape[0], -1))  # (N, K, n_h)
    return (alpha * u + (1 - alpha) * h.unsqueeze(-2)).flatten(-2)


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
    """As :func:`reference_scan`, with u formed after the loop instead of inside it."""
    h = _hidden(x, u, alphas, weights, nonlinearity)  # (L, N, n_h)
    y = _outputs(h, u, alphas, weights) if every_step else None
    return y, _memory(h, u, alphas, lengths)


def _hidden(x: Tensor, u: Tensor, alphas: Tensor, weights: Weights, nonlinearity: str) -> Tensor:
    """h at every step, carrying W1_k u_k for each decay."""
    count, n_g = len(alphas), len(weights.weight_ug)
    from_x = F.linear(x, weights.weight_xh, weights.bias_h)  # (L, N, n_h)
    w = weights.weight_ug.unflatten(1, (count, -1))  # (n_g, K, n_h)
    to_z = w.permute(2, 1, 0).flatten(1)  # (n_h, K n_g)
    bias = x.new_zeros(n_g) if weights.bias_g is None else weights.bias_g
    bias = (bias / count).repeat(count)  # (K n_g,): the sum over k has b1 in it
    z = torch.einsum("nkh,gkh->nkg", u.unflatten(1, (count, -1)), w).flatten(1) + bias
    inputs = (from_x, z, weights.weight_gh.t(), to_z, bias, alphas)
    return _run(Hidden, plain_hidden, inputs, nonlinearity)


def _outputs(h: Tensor, u: Tensor, alphas: Tensor, weights: Weights) -> Tensor:
    """y at every step (L, N, n_y): the memories by one recurrence, Y by one product."""
    inputs = (h, u.unflatten(1, (len(alphas), -1)), alphas)
    memories = _run(Memories, plain_memories, inputs)  # (L, N, K, n_h)
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


def _run(by_hand: Any, plain: Callable[..., Tensor], inputs: Any, *options: Any) -> Tensor:
    constant = not inputs[-1].requires_grad  # by hand, alphas get no gradient
    if torch.compiler.is_compiling() or transforms_active() or not constant:
        return plain(*inputs, *options)
    result: Tensor = by_hand.apply(*inputs, *options)[0]
    return result


# The loops as functions that autograd can follow ---------------------------------------------


def plain_hidden(
    from_x: Tensor, z: Tensor, to_h: Tensor, to_z: Tensor, bias: Tensor, alphas: Tensor, kind: str
) -> Tensor:
    """h (L, N, n_h) at every step, from U x + b2 (L, N, n_h), and from z (N, K n_g), carried.

    z_k = W1_k u_k + b1 / K; their sum is the argument of g. to_h is W2 (n_g, n_h), to_z is W1
    (n_h, K n_g), both transposed; bias (K n_g,) is b1 / K, for each k.
    """
    phi, n_g = NONLINEARITIES[kind], to_h.shape[0]
    alpha = alphas.repeat_interleave(n_g)  # (K n_g,)

    def step(z: Tensor, from_x_t: Tensor) -> tuple[Tensor, Tensor]:
        # Not z.unflatten(1, (K, n_g)).sum(1): torch cannot derive an exported loop that holds it.
        h = phi(torch.addmm(from_x_t, phi(sum(z.split(n_g, 1))), to_h))
        return torch.lerp(torch.addmm(bias, h, to_z), z, alpha), h

    return each_step(step, z, from_x)[1]


def plain_memories(h: Tensor, u: Tensor, alphas: Tensor) -> Tensor:
    """u (L, N, K, n_h) after every step, from h (L, N, n_h) and u (N, K, n_h) before the first."""

    def step(u: Tensor, h_t: Tensor) -> tuple[Tensor, Tensor]:
        u = torch.lerp(h_t.unsqueeze(1), u, alphas.unsqueeze(-1))
        return u, u

    return each_step(step, u, h)[1]


def _plain_backward(
    plain: Callable[..., Tensor], inputs: list[Tensor], options: tuple[Any, ...], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs by autograd: where a graph of them is wanted, or vmap is active.

    Inputs may have been computed from one another (z from bias): views of them end each path at
    its own input, so that no gradient is counted twice.
    """
    with torch.enable_grad():
        own = [tensor.view_as(tensor) for tensor in inputs]
        result = plain(*own, *options)
    wanted = [tensor for tensor in own if tensor.requires_grad]
    graph = torch.is_grad_enabled()
    found = torch.autograd.grad(
        result, wanted, gradient, create_graph=graph, materialize_grads=True
    )
    rest = iter(found)
    return tuple(next(rest) if tensor.requires_grad else None for tensor in own)


# The loops by hand ---------------------------------------------------------------------------


class Hidden(torch.autograd.Function):
    """:func:`plain_hidden`, and g beside it."""

    @staticmethod
    def forward(
        from_x: Tensor,
        z: Tensor,
        to_h: Tensor,
        to_z: Tensor,
        bias: Tensor,
        alphas: Tensor,
        kind: str,
    ) -> tuple[Tensor, Tensor]:
        alpha, count = alphas.unsqueeze(-1), len(alphas)
        h = from_x.clone(memory_format=torch.contiguous_format)
        g = h.new_empty(*h.shape[:2], to_h.shape[0])
        z = z.unflatten(1, (count, -1)).clone()  # (N, K, n_g)
        product = torch.empty_like(z)
        flat = product.flatten(1)  # (N, K n_g), the same memory
        for g_t, h_t in zip(g, h, strict=True):
            _apply(kind, torch.sum(z, 1, out=g_t))
            _apply(kind, h_t.addmm_(g_t, to_h))
            torch.addmm(bias, h_t, to_z, out=flat)
            torch.lerp(product, z, alpha, out=z)
        return h, g

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.kind = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, d_h: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, h, g = ctx.saved_tensors
        if torch.is_grad_enabled() or transforms_active(d_h):
            return (*_plain_backward(plain_hidden, inputs, (ctx.kind,), d_h), None)
        _, _, to_h, to_z, bias, alphas = inputs
        alpha, rest = alphas.unsqueeze(-1), 1 - alphas.unsqueeze(-1)
        from_h, from_z = to_h.t(), to_z.t()
        d_x, d_g = d_h.clone(memory_format=torch.contiguous_format), torch.empty_like(g[0])
        d_z = h.new_zeros(h.shape[1], len(alphas), to_h.shape[0])  # (N, K, n_g)
        d_weights = torch.zeros_like(to_h), torch.zeros_like(to_z), torch.zeros_like(bias)
        for first in reversed(range(0, len(h), STEPS_AT_ONCE)):
            part = slice(first, first + STEPS_AT_ONCE)
            d_product = h.new_empty(len(h[part]), *d_z.shape)
            flat = d_product.flatten(2)  # (L, N, K n_g), the same memory
            steps = list(zip(d_product, flat, d_x[part], h[part], g[part], strict=True))
            for d_product_t, flat_t, d_x_t, h_t, g_t in reversed(steps):
                torch.mul(d_z, rest, out=d_product_t)
                _apply_backward(ctx.kind, d_x_t.addmm_(flat_t, from_z), h_t)
                _apply_backward(ctx.kind, torch.mm(d_x_t, from_h, out=d_g), g_t)
                d_z.mul_(alpha).add_(d_g.unsqueeze(1))
            _add_weights(d_weights, g[part], h[part], d_x[part], flat)
        return d_x, d_z.flatten(1), *d_weights, None, None


def _add_weights(
    d_weights: tuple[Tensor, Tensor, Tensor], g: Tensor, h: Tensor, d_x: Tensor, d_product: Tensor
) -> None:
    """Add to the gradients of to_h, to_z and bias what some steps contribute."""
    d_product = d_product.flatten(0, 1)  # (L N, K n_g)
    d_weights[0].addmm_(g.flatten(0, 1).t(), d_x.flatten(0, 1))
    d_weights[1].addmm_(h.flatten(0, 1).t(), d_product)
    d_weights[2].add_(d_product.sum(0))


class Memories(torch.autograd.Function):
    """:func:`plain_memories`, in a tuple."""

    @staticmethod
    def forward(h: Tensor, u: Tensor, alphas: Tensor) -> tuple[Tensor]:
        found = h.new_empty(len(h), *u.shape)
        alpha = alphas.unsqueeze(-1)
        for h_t, after in zip(h.unsqueeze(2), found, strict=True):
            u = torch.lerp(h_t, u, alpha, out=after)
        return (found,)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor]) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, d_found: Tensor) -> tuple[Tensor | None, ...]:
        h, u, alphas = ctx.saved_tensors
        if torch.is_grad_enabled() or transforms_active(d_found):
            return _plain_backward(plain_memories, [h, u, alphas], (), d_found)
        alpha, rest = alphas.unsqueeze(-1), 1 - alphas.unsqueeze(-1)
        d_h, d_u, scaled = torch.empty_like(h), torch.zeros_like(u), torch.empty_like(u)
        for d_h_t, d_found_t in reversed(list(zip(d_h, d_found, strict=True))):
            d_u.add_(d_found_t)
            torch.sum(torch.mul(d_u, rest, out=scaled), 1, out=d_h_t)
            d_u.mul_(alpha)
        return d_h, d_u, None


def _apply(kind: str, tensor: Tensor) -> None:
    """phi, in place."""
    if kind == "relu":
        tensor.relu_()
    elif kind == "tanh":
        tensor.tanh_()


def _apply_backward(kind: str, gradient: Tensor, value: Tensor) -> None:
    """The gradient times the slope of phi where it took this value, in place."""
    if kind == "relu":
        _aten.threshold_backward.grad_input(gradient, value, 0, grad_input=gradient)
    elif kind == "tanh":
        _aten.tanh_backward.grad_input(gradient, value, grad_input=gradient)
