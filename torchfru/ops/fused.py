"""The backend ``numba``: the collapsed form around a fused loop, as an operator of torch.

Everything but the loop is matrix algebra. It is done here in chunks over time, so that of all
that grows with the number of steps only h is held, and z at every few steps. Numba is imported
where the operator runs: importing this file needs torch only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import collapsed
from .collapsed import block_sizes
from .weights import Weights

if TYPE_CHECKING:
    from .numba_loop import BatchLoop, SmallLoop

CHUNK = 256  # steps whose A(t) is held at once; a multiple of the kernels' SEGMENT

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


@torch.library.custom_op(
    "torchfru::fru_scan",
    mutates_args=(),
    device_types="cpu",
    schema=f"({_INPUTS}) -> (Tensor y, Tensor u, Tensor h, Tensor kept)",
)
def _fru_scan(
    x: Tensor, u: Tensor, rows: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y (L, N, n_y), or (0,) without weight_uy; the last u; h and kept for the backward pass."""
    *parameters, lengths, nonlinearity = rest
    weights = Weights(*parameters)
    loop = _loop(x, weights, nonlinearity)
    memory = Memory(rows, u.shape[1], weights.weight_gh.shape[0])
    gate = Collapsed(weights.weight_ug, memory)
    h, kept = loop.new_hidden(x.shape[0]), loop.new_kept(x.shape[0])
    z = loop.pack_z(F.linear(u, weights.weight_ug, weights.bias_g))
    total = memory.empty(loop.lanes).zero_()
    y, y_last = _new_outputs(x, weights.weight_uy), None
    if weights.weight_uy is not None:
        output = Collapsed(weights.weight_uy, memory)
        y_last = F.linear(u, weights.weight_uy, weights.bias_y)
    for part, segments in _chunks(x.shape[0]):
        c = rows[part]
        loop.forward(x[part], gate(c), _stop(lengths, part), z, kept[segments], h[part])
        hidden = loop.hidden(h[part])  # (L, n_h, lanes)
        memory.add_products(c, hidden, total)
        if y_last is not None:
            y_last = _outputs(output(c), hidden[:, :, : x.shape[1]], y_last, out=y[part])
    return y, u + memory.gather(total, x.shape[1]), h, kept


@_fru_scan.register_fake
def _(x: Tensor, u: Tensor, rows: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *parameters, _, nonlinearity = rest
    weights = Weights(*parameters)
    loop = _loop(x, weights, nonlinearity)
    steps = x.shape[0]
    y = _new_outputs(x, weights.weight_uy)
    return y, torch.empty_like(u), loop.new_hidden(steps), loop.new_kept(steps)


@torch.library.custom_op(
    "torchfru::fru_scan_backward",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor? d_y, Tensor? d_u, {_INPUTS}, Tensor h, Tensor kept, bool needs_x)"
    " -> Tensor[]",
)
def _fru_scan_backward(d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
    """The gradients of x, u, rows and the weights, in that order; (0,) where there is none."""
    *inputs, lengths, nonlinearity, h, kept, needs_x = rest
    x, u, rows, weights = *inputs[:3], Weights(*inputs[3:])
    loop = _loop(x, weights, nonlinearity)
    memory = Memory(rows, u.shape[1], weights.weight_gh.shape[0])
    gate = Collapsed(weights.weight_ug, memory)
    d_u = torch.zeros_like(u) if d_u is None else d_u
    d_total = memory.scatter(d_u, loop.lanes)
    d_z = loop.pack_z(x.new_zeros(x.shape[1], weights.weight_ug.shape[0]))
    if d_y is not None:
        output, d_y_last = Collapsed(weights.weight_uy, memory), torch.zeros_like(d_y[0])
    d_x, d_rows = torch.empty_like(x) if needs_x else x.new_empty(0), torch.empty_like(rows)
    grads = {name: torch.zeros_like(w) for name, w in weights._asdict().items() if w is not None}
    for part, segments in reversed(_chunks(x.shape[0])):
        c, hidden = rows[part], loop.hidden(h[part])
        d_h = memory.products_backward(c, d_total)
        memory.rows_backward(hidden, d_total, out=d_rows[part])
        if d_y is not None:
            y_parts = _outputs_backward(output(c), hidden[:, :, : len(u)], d_y[part], d_y_last)
            d_y_last, d_e, d_hidden = y_parts
            d_h[:, :, : len(u)] += d_hidden
            output.backward(d_e, c, d_rows[part])
        stop = _stop(lengths, part)
        d_drive, d_a, d_w2 = loop.backward(gate(c), stop, kept[segments], h[part], d_h, d_z)
        gate.backward(d_a, c, d_rows[part])
        grads["weight_gh"] += d_w2
        _drive_backward(d_drive, x[part], grads)
        if needs_x:
            d_x[part] = d_drive.transpose(1, 2) @ weights.weight_xh
    grads["weight_ug"] = gate.gradient()
    d_u = d_u + _start_backward(loop.unpack_z(d_z), u, weights.weight_ug, "g", grads)
    if d_y is not None:
        grads["weight_uy"] = output.gradient()
        d_u = d_u + _start_backward(d_y_last, u, weights.weight_uy, "y", grads)
    return [d_x, d_u, d_rows, *(grads.get(name, x.new_empty(0)) for name in Weights._fields)]


@_fru_scan_backward.register_fake
def _(d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
    x, *others = rest[: 3 + len(Weights._fields)]
    d_x = torch.empty_like(x) if rest[-1] else x.new_empty(0)
    return [d_x, *(x.new_empty(0) if one is None else torch.empty_like(one) for one in others)]


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
        d_y, d_u, *tensors, ctx.nonlinearity, h, kept, ctx.needs_input_grad[0]
    )
    wanted = zip(grads, ctx.needs_input_grad, strict=False)
    return (*(grad if needed else None for grad, needed in wanted), None, None)


def _refuse(ctx: Any, *_: Any) -> None:
    raise RuntimeError(
        "FRU: the backend 'numba' has no second derivatives; compute them inside "
        "`with torchfru.use_backend('collapsed'):`"
    )


_fru_scan.register_autograd(_backward, setup_context=_save)
_fru_scan_backward.register_autograd(_refuse)


# The parts ---------------------------------------------------------------------------------


def _loop(x: Tensor, weights: Weights, nonlinearity: str) -> BatchLoop | SmallLoop:
    from .numba_loop import choose_loop

    kind = choose_loop(x.shape[1])
    w = weights
    return kind(w.weight_gh, w.weight_xh, w.bias_h, x.shape[1], nonlinearity)


def _chunks(steps: int) -> list[tuple[slice, slice]]:
    """The chunks of the steps, and of the segments that z is kept for."""
    from .numba_cpu import SEGMENT

    starts = range(0, steps, CHUNK)
    return [
        (slice(s, min(s + CHUNK, steps)), slice(s // SEGMENT, -(-min(s + CHUNK, steps) // SEGMENT)))
        for s in starts
    ]


def _stop(lengths: Tensor | None, part: slice) -> Tensor | None:
    return None if lengths is None else lengths - part.start


def _new_outputs(x: Tensor, weight_uy: Tensor | None) -> Tensor:
    if weight_uy is None:
        return x.new_empty(0)
    return x.new_empty(x.shape[0], x.shape[1], weight_uy.shape[0])


class Memory:
    """sum_t C(t) h(t) and its gradients, slice by slice of h: each slice is a matrix product.

    Held as (m, M, d * lanes): slice, block, and the d entries of every sample.
    """

    def __init__(self, rows: Tensor, n_u: int, n_h: int) -> None:
        self.rows, self.n_h = rows, n_h
        self.blocks, self.per_block, self.freq_dim = block_sizes(rows, n_u, n_h)

    def empty(self, lanes: int) -> Tensor:
        return self.rows.new_empty(self.per_block, self.blocks, self.freq_dim * lanes)

    def _slices(self, rows: Tensor, hidden: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The columns of rows (L, M), and the part of h (L, d * lanes), that belong together."""
        for i, part in enumerate(hidden.split(self.freq_dim, 1)):
            yield rows[:, i :: self.per_block], part.flatten(1)

    def add_products(self, rows: Tensor, hidden: Tensor, total: Tensor) -> None:
        """total += sum_t C(t) h(t), for h (L, n_h, lanes)."""
        for (c, h), out in zip(self._slices(rows, hidden), total, strict=True):
            out.addmm_(c.t(), h)

    def products_backward(self, rows: Tensor, d_total: Tensor) -> Tensor:
        """The gradient of h (L, n_h, lanes)."""
        parts = [rows[:, i :: self.per_block] @ d_total[i] for i in range(self.per_block)]
        parts = [part.unflatten(1, (self.freq_dim, -1)) for part in parts]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def rows_backward(self, hidden: Tensor, d_total: Tensor, out: Tensor) -> None:
        """The gradient of rows (L, K), written to ``out``."""
        for (d_c, h), d in zip(self._slices(out, hidden), d_total, strict=True):
            d_c.copy_(h @ d.t())

    def gather(self, total: Tensor, samples: int) -> Tensor:
        """As u is: (N, n_u)."""
        parts = total.unflatten(2, (self.freq_dim, -1))[..., :samples]  # (m, M, d, N)
        return parts.permute(3, 1, 0, 2).flatten(1)

    def scatter(self, u: Tensor, lanes: int) -> Tensor:
        """From (N, n_u), with zeros in the lanes that hold no sample."""
        total = self.empty(lanes).zero_()
        parts = u.unflatten(1, (self.blocks, self.per_block, self.freq_dim))
        held = total.unflatten(2, (self.freq_dim, -1))
        held[..., : u.shape[0]] = parts.permute(2, 1, 3, 0)
        return total


class Collapsed:
    """A(t) = sum_k c_k(t) W_k of one weight W (n, n_u), and the gradients of W and of c."""

    def __init__(self, weight: Tensor, memory: Memory) -> None:
        self.memory = memory
        blocks = weight.unflatten(1, (memory.blocks, memory.per_block, memory.freq_dim))
        self.slices = blocks.permute(2, 1, 0, 3).flatten(2)  # (m, M, n * d)
        self.gradients = torch.zeros_like(self.slices)

    def __call__(self, rows: Tensor) -> Tensor:
        """A(t) for these rows: (L, n, n_h)."""
        parts = [rows[:, i :: len(self.slices)] @ w for i, w in enumerate(self.slices)]
        parts = [part.unflatten(1, (-1, self.memory.freq_dim)) for part in parts]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 2)

    def backward(self, d_a: Tensor, rows: Tensor, d_rows: Tensor) -> None:
        """Add what d_a (L, n, n_h) says of W, and of the rows."""
        step = len(self.slices)
        for i, part in enumerate(d_a.split(self.memory.freq_dim, 2)):
            d = part.flatten(1)
            d_rows[:, i::step] += d @ self.slices[i].t()
            self.gradients[i].addmm_(rows[:, i::step].t(), d)

    def gradient(self) -> Tensor:
        """Of the weight, as it came: (n, n_u)."""
        parts = self.gradients.unflatten(2, (-1, self.memory.freq_dim))  # (m, M, n, d)
        return parts.permute(2, 1, 0, 3).flatten(1)


def _outputs(e: Tensor, hidden: Tensor, y_last: Tensor, out: Tensor) -> Tensor:
    """y at these steps, from E(t) (L, n_y, n_h), h (L, n_h, N) and the y before (N, n_y)."""
    from .numba_loop import add_up

    torch.bmm(hidden.transpose(1, 2), e.transpose(1, 2), out=out)
    out[0] += y_last
    add_up(out)
    return out[-1]


def _outputs_backward(
    e: Tensor, hidden: Tensor, d_y: Tensor, d_y_last: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the y before, of E(t) and of h: each y goes into all that follow it."""
    from .numba_loop import add_up

    totals = d_y.clone(memory_format=torch.contiguous_format)
    totals[-1] += d_y_last
    add_up(totals, backwards=True)  # (L, N, n_y)
    d_hidden = torch.bmm(e.transpose(1, 2), totals.transpose(1, 2))  # (L, n_h, N)
    d_e = torch.bmm(totals.transpose(1, 2), hidden.transpose(1, 2))  # (L, n_y, n_h)
    return totals[0], d_e, d_hidden


def _drive_backward(d_drive: Tensor, x: Tensor, grads: dict[str, Tensor]) -> None:
    """From the gradient of U x + b2 (L, n_h, N): those of U and b2 are added."""
    grads["weight_xh"] += torch.bmm(d_drive, x).sum(0)
    if "bias_h" in grads:
        grads["bias_h"] += d_drive.sum((0, 2))


def _start_backward(
    d: Tensor, u: Tensor, weight: Tensor, name: str, grads: dict[str, Tensor]
) -> Tensor:
    """Through ``W u(0) + b`` (N, n): the gradient of u(0); those of W and b are added."""
    grads[f"weight_u{name}"] += d.t() @ u
    if f"bias_{name}" in grads:
        grads[f"bias_{name}"] += d.sum(0)
    return d @ weight
