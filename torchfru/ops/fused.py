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
# torch keeps compiled programs on disk by the names of their operators: an operator whose schema
# changes needs a new name.


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
    from .numba_loop import Outputs

    *parameters, lengths, nonlinearity = rest
    weights = Weights(*parameters)
    loop = _loop(x, weights, nonlinearity)
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
        loop.forward(x[part], c @ gate, _stop(lengths, part), z, kept[segments], h[part])
        hidden = loop.hidden(h[part])  # (L, n_h, lanes)
        memory.add_products(c, hidden, total)
        if outputs is not None:
            outputs.forward(c, hidden[:, :, : x.shape[1]], y[part])
    return y, (u + memory.gather(total, x.shape[1])).contiguous(), h, kept


@_fru_scan.register_fake
def _(x: Tensor, u: Tensor, rows: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *parameters, _, nonlinearity = rest
    weights = Weights(*parameters)
    loop = _loop(x, weights, nonlinearity)
    steps = x.shape[0]
    y = _new_outputs(x, weights.weight_uy)
    return y, u.new_empty(u.shape), loop.new_hidden(steps), loop.new_kept(steps)


@torch.library.custom_op(
    "torchfru::fru_scan_backward",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor? d_y, Tensor? d_u, {_INPUTS}, Tensor h, Tensor kept, bool needs_x, "
    "bool needs_rows) -> Tensor[]",
)
def _fru_scan_backward(d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
    """The gradients of x, u, rows and the weights, in that order; (0,) where there is none.

    Those of x and of rows cost time, and are left out where they are not needed.
    """
    from .numba_loop import Outputs, product_backward

    *inputs, lengths, nonlinearity, h, kept, needs_x, needs_rows = rest
    x, u, rows, weights = *inputs[:3], Weights(*inputs[3:])
    loop = _loop(x, weights, nonlinearity)
    memory = Memory(rows, u.shape[1], weights.weight_gh.shape[0])
    placed = memory.place(weights.weight_ug)
    gate, gate_sums = loop.lay_out(placed), loop.lay_out_sums(placed)
    d_gate, d_rows = torch.zeros_like(gate_sums), rows.new_zeros(rows.shape if needs_rows else 0)
    d_u = torch.zeros_like(u) if d_u is None else d_u
    d_total = memory.scatter(d_u, loop.lanes)
    d_z = loop.pack_z(x.new_zeros(x.shape[1], weights.weight_ug.shape[0]))
    d_x = x.new_empty(x.shape if needs_x else 0)
    grads = {name: w.new_zeros(w.shape) for name, w in weights._asdict().items() if w is not None}
    if d_y is not None:
        outputs = Outputs(memory.place(weights.weight_uy), torch.zeros_like(d_y[0]))
    for part, segments in reversed(loop.chunks(x.shape[0])):
        c, hidden = rows[part], loop.hidden(h[part])
        d_h = memory.products_backward(c, d_total)  # (L, n_h, lanes)
        if needs_rows:
            memory.rows_backward(hidden, d_total, out=d_rows[part])
        if d_y is not None:
            hidden = hidden[:, :, : len(u)]
            outputs.backward(c, hidden, d_y[part], d_h[:, :, : len(u)], d_rows[part])
        stop = _stop(lengths, part)
        d_drive, d_a, d_w2 = loop.backward(c @ gate, stop, kept[segments], h[part], d_h, d_z)
        product_backward(d_a, c, gate_sums, d_gate, d_rows[part])
        grads["weight_gh"] += d_w2
        _drive_backward(d_drive, x[part], grads)
        if needs_x:
            d_x[part] = d_drive.transpose(1, 2) @ weights.weight_xh
    grads["weight_ug"] = memory.take(loop.pick_up_sums(d_gate))
    d_u = d_u + _start_backward(loop.unpack_z(d_z), u, weights.weight_ug, "g", grads)
    if d_y is not None:
        grads["weight_uy"] = memory.take(outputs.weight_gradient())
        d_u = d_u + _start_backward(outputs.sum(), u, weights.weight_uy, "y", grads)
    d_weights = [grads.get(name, x.new_empty(0)) for name in Weights._fields]
    return [grad.contiguous() for grad in (d_x, d_u, d_rows, *d_weights)]


@_fru_scan_backward.register_fake
def _(d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
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


_fru_scan.register_autograd(_backward, setup_context=_save)
_fru_scan_backward.register_autograd(_refuse)


# The parts ---------------------------------------------------------------------------------


def _loop(x: Tensor, weights: Weights, nonlinearity: str) -> BatchLoop | SmallLoop:
    from .numba_loop import choose_loop

    kind = choose_loop(x.shape[1])
    w = weights
    return kind(w.weight_gh, w.weight_xh, w.bias_h, x.shape[1], nonlinearity)


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

    def place(self, weight: Tensor) -> Tensor:
        """W (n, n_u) as (K, n, n_h): the columns of frequency k where its slice of h is."""
        blocks, per_block, freq_dim = self.blocks, self.per_block, self.freq_dim
        parts = weight.unflatten(1, (blocks, per_block, freq_dim))  # (n, M, m, d)
        full = weight.new_zeros(blocks, per_block, len(weight), per_block, freq_dim)
        full.diagonal(dim1=1, dim2=3).copy_(parts.permute(1, 0, 3, 2))
        return full.flatten(3).flatten(0, 1)

    def take(self, full: Tensor) -> Tensor:
        """What :meth:`place` put there: (n, n_u)."""
        full = full.unflatten(2, (self.per_block, -1)).unflatten(0, (self.blocks, -1))
        return full.diagonal(dim1=1, dim2=3).permute(1, 0, 3, 2).flatten(1)  # (n, M, m, d)

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


def _drive_backward(d_drive: Tensor, x: Tensor, grads: dict[str, Tensor]) -> None:
    """From the gradient of U x + b2 (L, n_h, N): those of U and b2 are added."""
    grads["weight_xh"] += torch.bmm(d_drive, x).sum(0)
    if "bias_h" in grads:
        grads["bias_h"] += torch.matmul(d_drive, x.new_ones(x.shape[1])).sum(0)


def _start_backward(
    d: Tensor, u: Tensor, weight: Tensor, name: str, grads: dict[str, Tensor]
) -> Tensor:
    """Through ``W u(0) + b`` (N, n): the gradient of u(0); those of W and b are added."""
    grads[f"weight_u{name}"] += d.t() @ u
    if f"bias_{name}" in grads:
        grads[f"bias_{name}"] += d.sum(0)
    return d @ weight
