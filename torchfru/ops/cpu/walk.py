"""The forward and the backward pass of the operator: arrays and threads around the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..weights import Inputs, sequence_places
from . import plan
from .batch import batch_chunk, batch_chunk_backward
from .gates import add_gradients, finish, prepare, split_sums
from .nonlinear import KINDS
from .plan import CHUNK_PLACES, LIKE, RECORD, Layout, Tensors, layout_of, sizes_of
from .runtime import (
    pooled_arrays,
    pooled_empty,
    round_up,
    run,
    split_range,
    spread,
    sum_over_threads,
)
from .simd import BLOCK, G_UNIT, SEGMENT
from .small import small_chunk, small_chunk_backward

Array = NDArray[Any]
FEATURES = 32  # of x that the loop may read itself


def layout_for(inputs: Inputs) -> Layout:
    samples, (n_h, n_g) = inputs.x.shape[1], inputs.weight_gh.shape
    known = type(samples) is type(n_g) is type(n_h) is int  # or else torch traces, for any size
    return (layout_of if known else Layout)(samples, n_g, n_h, inputs.x.dtype)


def _e_numbers(layout: Layout, n_y: int) -> int:
    """Numbers of E(t)."""
    return layout.n_h_pad * round_up(n_y, layout.vector)


def new_outputs(inputs: Inputs, layout: Layout, a: Tensor | None = None) -> tuple[Tensor, ...]:
    """Empty y, u, h, z_checkpoints, and A(t) with E(t) unless they are there, which are kept where
    they take no more than h does, or than one chunk."""
    x, weight_uy = inputs.x, inputs.weight_uy
    steps, samples, _ = x.shape
    y = pooled_empty((0,) if weight_uy is None else (steps, samples, weight_uy.shape[0]), x)
    u = x.new_empty(samples, inputs.weight_ug.shape[1])
    h = pooled_empty((steps, layout.rows, layout.h_row, layout.row), x)
    segments = (steps + SEGMENT - 1) // SEGMENT
    checkpoints = pooled_empty((segments, layout.rows, layout.n_g_pad, layout.row), x)
    if a is not None:
        return y, u, h, checkpoints, a
    numbers = layout.numbers + _e_numbers(layout, 0 if weight_uy is None else weight_uy.shape[0])
    kept = samples * layout.h_row >= numbers or steps <= plan.CHUNK
    return y, u, h, checkpoints, pooled_empty((steps if kept else 0, numbers), x)


class Walk:
    """A pass over time, chunk by chunk: the plan that kernels read, and arrays that they share.

    ``a`` is A(t) with E(t), empty if they are made for each chunk.
    """

    def __init__(self, inputs: Inputs, layout: Layout, tensors: Tensors, a: Tensor) -> None:
        self.inputs, self.layout, self.tensors, self.a = inputs, layout, tensors, a
        self.keeps_a = a.shape[0] > 0
        self.like, self.shape = LIKE[a.dtype], (KINDS[inputs.nonlinearity], *layout.shape)
        basis: Any = inputs.freqs if inputs.rows is None else inputs.rows
        self.steps, self.samples, n_in = tensors.x.shape
        (n_h, n_g), self.count = inputs.weight_gh.shape, basis.shape[-1]
        self.n_y = 0 if inputs.weight_uy is None else inputs.weight_uy.shape[0]
        numbers = (self.steps, self.samples, n_in, n_g, n_h, self.n_y, self.count)
        places = (inputs.start, inputs.seq_len, *tensors.x.stride(), inputs.u is not None)
        addresses = [0 if t is None else t.data_ptr() for t in tensors]
        sizes = sizes_of(layout, *numbers, inputs.weight_ug.shape[1])
        record = [*sizes, a.shape[1], *places, 0, 0, 0, *addresses]
        self.numbers = np.array(record, np.int64)
        self.plan = self.numbers.view(RECORD)  # the same memory
        self.chunk, self.lanes = min(self.steps, plan.CHUNK), layout.rows * layout.row
        self.y_width = round_up(self.n_y, layout.vector)
        self.x_shape = (0 if layout.small else self.chunk, n_in, self.lanes)
        self.gates: list[Array] = []  # the weights by frequency, once A(t) is made from them

    def prepare(self, begin: int, rows: list[Array], has_gates: bool) -> int:
        """Rows of the basis for the chunk that begins here, and A(t) and E(t) if not there.

        ``rows`` are c(t), its derivative and the folded ones, see :mod:`.gates`, empty where they
        are not needed. Returns the length of the chunk.
        """
        length, splits = min(self.steps - begin, self.chunk), False
        if not has_gates and not self.gates:
            sizes, splits = (self.layout.numbers, _e_numbers(self.layout, self.n_y)), True
            self.gates = pooled_arrays(self.like, *((self.count, size) for size in sizes))
            if not self.keeps_a:
                self.chunk_a = pooled_empty((self.chunk, self.a.shape[1]), self.a)
        a, first = (self.a, begin) if self.keeps_a else (self.chunk_a, 0)
        address = a.data_ptr() + first * a.shape[1] * self.like.itemsize
        self.numbers[CHUNK_PLACES] = begin, length, address
        if has_gates and not any(one.size for one in rows):
            return length
        gates = self.gates or [self.like.reshape(0, 0)] * 2
        arrays = (self.plan, self.like, *gates, *rows)
        if splits and torch.get_num_threads() > 1:
            prepare(*arrays, True, False, 0, 0)
            splits = False
        spread(prepare, length, *arrays, splits, has_gates)
        return length

    def forward(self, known_c: Array | None) -> Array:
        """All chunks; c(t) of the last one, which may be ``known_c`` where it is the only one."""
        layout, like = self.layout, self.like
        shapes: Any = [(self.chunk if known_c is None else 0, self.count), self.x_shape]
        shapes += [layout.z_shape, (self.lanes, self.y_width)]
        c, x, z, y_now, memory = pooled_arrays(
            like, *shapes, (self.count, self.lanes * layout.h_row)
        )
        rows, loop = [c, *[like.reshape(0, 0)] * 2], small_chunk if layout.small else batch_chunk
        for begin in range(0, self.steps, self.chunk):
            length = self.prepare(begin, rows, has_gates=known_c is not None)
            now = c[:length] if known_c is None else known_c
            arrays = (self.plan, like, now, x, z, y_now, memory)
            spread(loop, layout.rows, *arrays, *self.shape)
        return now


Known = tuple[Tensor, Array]  # A(t) with E(t), and c(t), of all steps


def forward(inputs: Inputs) -> tuple[Tensor, ...]:
    """y, u, and h, z_checkpoints and A(t) for the backward pass."""
    return _forward(inputs, layout_for(inputs))[0]


def _forward(
    inputs: Inputs, layout: Layout, known: Known | None = None
) -> tuple[tuple[Tensor, ...], Array]:
    a, c = (None, None) if known is None else known
    y, u, h, checkpoints, a = new_outputs(inputs, layout, a)
    tensors = _tensors(inputs, layout)._replace(y=y, u=u, h=h, checkpoints=checkpoints)
    c = Walk(inputs, layout, tensors, a).forward(c)
    return (y, u, h, checkpoints, a), c


# A(t) and E(t) of the last calls without gradients for few samples, who share them with nobody but
# the next call. Each has copies of the tensors that it was made from, and is used only where these
# have the same values: no writer, however it writes, can make it stale.
KEPT, KEPT_BYTES = 4, 2**23
_kept: dict[tuple[Any, ...], tuple[list[Tensor], Known]] = {}


def forward_only(inputs: Inputs) -> tuple[Tensor, ...]:
    """As :func:`forward`, for calls that no backward pass follows."""
    i, layout = inputs, layout_for(inputs)
    if not layout.small:
        return forward(i)
    made_from = [t for t in (i.rows, i.freqs, i.phase, i.weight_ug, i.weight_uy) if t is not None]
    places = (t.data_ptr() for t in made_from)  # only to find it: the values decide
    key = (layout, i.x.shape[0], i.start, i.seq_len, i.weight_uy is None, *places)
    copies, known = _kept.get(key, ([], None))
    if known is not None and all(map(torch.equal, copies, made_from)):
        return _forward(i, layout, known)[0]
    outputs, c = _forward(i, layout)
    if 0 < outputs[4].nbytes <= KEPT_BYTES:
        for oldest in list(_kept)[: -KEPT + 1]:
            _kept.pop(oldest, None)
        _kept[key] = [t.clone() for t in made_from], (outputs[4], c)
    return outputs


def _projects(inputs: Inputs, layout: Layout) -> bool:
    """Whether the loop reads U x + b2 instead of x: many features would push z out of the cache."""
    return layout.small or inputs.x.shape[2] > max(FEATURES, inputs.weight_gh.shape[0])


def _project(i: Inputs, layout: Layout) -> Tensor:
    """U x + b2 (L, N, n_h) for the loop for few samples, and U x with any strides for the other."""
    if layout.small:
        return F.linear(i.x.contiguous(), i.weight_xh, i.bias_h)
    # Without a copy of x, whichever of L and N comes first in memory. Features come first in the
    # product: it is made in half the time, and read by whole vectors.
    in_time = i.x.stride(0) >= i.x.stride(1)
    x = i.x if in_time else i.x.transpose(0, 1)
    product = torch.mm(i.weight_xh, x.reshape(-1, x.shape[2]).t()).view(-1, *x.shape[:2])
    return product.permute(1, 2, 0) if in_time else product.permute(2, 1, 0)


def _tensors(i: Inputs, layout: Layout, forward: bool = True) -> Tensors:
    """The inputs, as kernels read them; U x + b2 only in the forward pass."""
    x, u, z_start, y_start = i.x, i.u, i.bias_g, i.bias_y
    if u is not None:
        z_start = F.linear(u, i.weight_ug, i.bias_g)
        y_start = None if i.weight_uy is None else F.linear(u, i.weight_uy, i.bias_y)
    projects = _projects(i, layout)
    if projects:
        x = _project(i, layout) if forward else x[:, :, :0]
    from_x = (None if projects else i.weight_xh, None if layout.small else i.bias_h)
    given = (u, z_start, y_start, i.rows, i.freqs, i.phase, i.lengths, i.weight_ug, i.weight_gh)
    return Tensors(x, *map(_contiguous, (*given, *from_x, i.weight_uy)))  # type: ignore[arg-type]


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    """To ask takes less time than ``contiguous()`` does where there is nothing to do."""
    return tensor if tensor is None or tensor.is_contiguous() else tensor.contiguous()


def backward(
    inputs: Inputs,
    d_y: Tensor | None,
    d_u: Tensor | None,
    saved: tuple[Tensor, Tensor, Tensor],
    needs: tuple[bool, bool, bool],
) -> list[Tensor]:
    """The gradients of the tensors of the inputs, in their order; (0,) where there is none."""
    i = inputs if d_y is not None else inputs._replace(weight_uy=None, bias_y=None)
    layout, (needs_x, needs_rows, needs_phase) = layout_for(i), needs
    outputs: Any = {"h": saved[0], "checkpoints": saved[1]}
    outputs |= {"d_y": _contiguous(d_y), "d_u": _contiguous(d_u)}
    tensors = _tensors(i, layout, forward=False)._replace(
        **outputs, **_new_gradients(i, layout, needs_x)
    )
    walk = Backward(i, layout, tensors, saved[2])
    d_rows = walk.backward(needs_rows, needs_phase)
    return _gradients(inputs, tensors, d_rows, needs_x)


class Backward(Walk):
    """The chunks from last to first, and the gradients of the weights by frequency."""

    def backward(self, needs_rows: bool, phases: bool) -> Tensor | None:
        layout, like, chunk, count = self.layout, self.like, self.chunk, self.count
        has_u, has_gates = self.tensors.d_u is not None, self.keeps_a
        needs_c = has_u or not phases or not has_gates
        columns = self.lanes * layout.h_row * has_u
        shapes: Any = [(chunk * needs_c, count), (chunk * (has_u and phases), count)]
        shapes += [(round_up(chunk, 2) * phases, count), self.x_shape]
        shapes += [(chunk, layout.rows, layout.h_row, layout.row), layout.z_shape]
        shapes += [(self.lanes, self.y_width), (count, columns), (count, columns * phases)]
        *rows, x, d_h, d_z, d_y_now, d_memory, by_phase = pooled_arrays(like, *shapes)
        for sums in (d_z, d_y_now, d_memory):
            sums.fill(0)
        parts = split_range(layout.rows)
        own = [self._own_arrays() for _ in parts]  # of each thread
        found = [pooled_arrays(like, *((count, d.shape[1]) for d in own[0][:2])) for _ in "cd"]
        d_rows = self.inputs.x.new_empty(self.steps, count) if needs_rows else None
        loop = small_chunk_backward if layout.small else batch_chunk_backward
        for begin in reversed(range(0, self.steps, chunk)):
            n = self.prepare(begin, rows, has_gates)
            c, dc, folded = rows[0][:n], rows[1][:n], rows[2]
            read = (self.plan, like, c, dc, x, d_h[:n], d_z, d_y_now, d_memory, by_phase)

            def work(index: int, part: range, read: Any = read, n: int = n) -> None:
                d_a, d_e, d_w = own[index]
                loop(*read, d_a[:n], d_e[:n], d_w, *self.shape, part.start, part.stop)

            run(work, parts)
            d = [sum_over_threads([one[place][:n] for one in own]) for place in (0, 1)]
            for by_time, *totals in zip(d[: 1 + bool(self.n_y)], *found, strict=False):
                units = by_time.shape[1] // layout.vector
                spread(add_gradients, units, self.plan, like, c, folded, by_time, *totals)
            if d_rows is not None:
                self._rows_backward(d_rows[begin : begin + n], begin, d, d_memory)
        d_w = sum_over_threads([one[2] for one in own])
        totals = (*found[0], *found[1])
        finish(self.plan, like, *totals, phases, d_memory, by_phase, d_w, d_y_now)
        return d_rows

    def _own_arrays(self) -> list[Array]:
        """The gradients of A(t), E(t) and W2, with those of U and b2, for one thread."""
        layout, d_e = self.layout, (self.chunk, _e_numbers(self.layout, self.n_y))
        d_a, d_w = (self.chunk, layout.numbers), (layout.n_h_pad, layout.n_g_pad)
        if not layout.small:
            factors = layout.n_g_pad + round_up(self.x_shape[1] + 1, G_UNIT)
            sums = round_up(BLOCK, layout.vector)
            d_a = (self.chunk, layout.blocks(layout.n_g_pad) * sums)
            d_w = (layout.blocks(factors), sums)
        return [*pooled_arrays(self.like, d_a, d_e), np.zeros(d_w, self.like.dtype)]

    def _rows_backward(
        self, out: Tensor, begin: int, by_time: list[Array], d_memory: Array
    ) -> None:
        """The gradient of rows that were given, from those of A(t) and E(t)."""
        gates = [np.empty((self.count, d.shape[1]), d.dtype) for d in by_time]
        split_sums(self.plan, self.like, *gates)
        out.zero_()
        if self.tensors.d_u is not None:
            h: Any = self.tensors.h
            out.addmm_(h[begin : begin + len(out)].flatten(1), torch.from_numpy(d_memory).t())
        for d, gate in zip(by_time, gates, strict=True):
            out.addmm_(torch.from_numpy(d), torch.from_numpy(gate).t())


def _new_gradients(i: Inputs, layout: Layout, needs_x: bool) -> dict[str, Tensor]:
    """Empty gradients that kernels write, by their names in the plan."""
    x, (n_h, n_g), projects = i.x, i.weight_gh.shape, _projects(i, layout)
    found = {"d_z": x.new_empty(x.shape[1], n_g), "d_weight_gh": x.new_empty(n_h, n_g)}
    found["d_weight_ug"] = x.new_empty(i.weight_ug.shape)
    if i.phase is not None:
        found["d_phase"] = x.new_empty(i.phase.shape)
    if needs_x or projects:
        found["d_x"] = x.new_empty(*x.shape[:2], n_h)
    if not projects:
        found["d_weight_xh"], found["d_bias_h"] = x.new_empty(i.weight_xh.shape), x.new_empty(n_h)
    if i.weight_uy is not None:
        found["d_weight_uy"] = x.new_empty(i.weight_uy.shape)
        found["d_y_start"] = x.new_empty(x.shape[1], i.weight_uy.shape[0])
    return found


def _gradients(i: Inputs, found: Tensors, d_rows: Tensor | None, needs_x: bool) -> list[Tensor]:
    """The gradients of all inputs, from those that kernels wrote."""
    d_z: Any = found.d_z
    d_y, d_ug, d_uy = found.d_y_start, found.d_weight_ug, found.d_weight_uy
    d_xh, d_bias_h, d_drive, weight_uy = found.d_weight_xh, found.d_bias_h, found.d_x, i.weight_uy
    d_u, x = None, i.x
    if i.u is not None:
        d_u = d_z @ i.weight_ug if found.d_u is None else torch.addmm(found.d_u, d_z, i.weight_ug)
        d_ug.addmm_(d_z.t(), i.u)  # type: ignore[union-attr]
        if d_y is not None and d_uy is not None and weight_uy is not None:
            d_u.addmm_(d_y, weight_uy)
            d_uy.addmm_(d_y.t(), i.u)
    if d_xh is None and d_drive is not None:
        flat, flat_x = d_drive.flatten(0, 1), x.reshape(-1, x.shape[2])
        if i.lengths is not None:  # the padding may hold NaN
            inside = sequence_places(x, i.lengths)
            flat, flat_x = flat.index_select(0, inside), flat_x.index_select(0, inside)
        d_xh, d_bias_h = flat.t() @ flat_x, flat.sum(0)
    d_x = d_drive @ i.weight_xh if needs_x and d_drive is not None else None
    d_bias_g = None if i.bias_g is None else d_z.sum(0)
    d_bias_y = None if i.bias_y is None or d_y is None else d_y.sum(0)
    grads = (d_x, d_u, d_rows, found.d_phase, d_ug, d_bias_g, found.d_weight_gh, d_xh, d_bias_h)
    optional = (0, 2, 3)  # the others are zeros where nothing was computed
    return [
        (x.new_empty(0) if tensor is None or place in optional else torch.zeros_like(tensor))
        if grad is None or tensor is None
        else grad
        for place, (tensor, grad) in enumerate(zip(i[:11], (*grads, d_uy, d_bias_y), strict=True))
    ]
