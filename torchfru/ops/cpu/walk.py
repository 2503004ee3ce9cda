"""The forward and the backward pass of the operator: arrays and threads around the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..weights import Inputs
from . import plan
from .batch import BLOCK, G_UNIT, ROWS_AT_ONCE, batch_chunk, batch_chunk_backward
from .gates import add_gradients, finish_gates, finish_outputs, prepare, split_sums
from .nonlinear import KINDS
from .outputs import UNIT, finish_chunk, reach_hidden, read_inputs, write_gradients
from .plan import LIKE, NAMES, RECORD, Layout, layout_of
from .runtime import pooled_array, pooled_empty, round_up, run, split_range, sum_over_threads
from .simd import SEGMENT
from .small import small_chunk, small_chunk_backward

Array = NDArray[Any]


def layout_for(inputs: Inputs) -> Layout:
    sizes = (inputs.x.shape[1], *inputs.weight_gh.shape[::-1])
    known = set(map(type, sizes)) == {int}  # or else torch traces, for any size
    return (layout_of if known else Layout)(sizes[0], sizes[1], sizes[2], inputs.x.dtype)


def new_outputs(inputs: Inputs) -> tuple[Tensor, ...]:
    """Empty y, u, h, z_checkpoints and A(t), which is kept where it takes no more than h does, or
    than one chunk."""
    x, layout = inputs.x, layout_for(inputs)
    steps, samples = x.shape[:2]
    y = x.new_empty(0 if inputs.weight_uy is None else (steps, samples, len(inputs.weight_uy)))
    u = x.new_empty(samples, inputs.weight_ug.shape[1])
    h = pooled_empty((steps, layout.rows, layout.h_row, layout.row), x)
    segments = (steps + SEGMENT - 1) // SEGMENT
    checkpoints = pooled_empty((segments, layout.rows, layout.n_g_pad, layout.row), x)
    kept = samples >= len(inputs.weight_ug) or steps <= plan.CHUNK
    return y, u, h, checkpoints, pooled_empty((steps, layout.numbers) if kept else (0,), x)


class Walk:
    """A pass over time, chunk by chunk; ``tensors`` are those that it reads and writes by name."""

    def __init__(
        self, inputs: Inputs, tensors: dict[str, Tensor | None], needs_phase: bool = False
    ) -> None:
        self.inputs, self.layout = inputs, layout_for(inputs)
        layout, like = self.layout, LIKE[inputs.x.dtype]
        self.like, self.kind = like, KINDS[inputs.nonlinearity]
        self.steps, self.samples = inputs.x.shape[:2]
        n_h, n_g = inputs.weight_gh.shape
        basis = inputs.freqs if inputs.rows is None else inputs.rows
        assert basis is not None
        self.count = basis.shape[-1]  # K
        freq_dim = inputs.weight_ug.shape[1] // self.count
        self.n_y = 0 if inputs.weight_uy is None else len(inputs.weight_uy)
        self.y_width = round_up(self.n_y, layout.vector)
        self.projects = layout.small or inputs.x.shape[2] > n_h
        x = self._project() if self.projects else inputs.x
        x_step, x_sample, x_feature = x.stride()
        self.tensors = self._addressed(tensors) | {"x": x}
        self.plan = np.array(
            [
                tuple(
                    (
                        NAMES
                        | {name: t.data_ptr() for name, t in self.tensors.items()}
                        | {
                            "steps": self.steps,
                            "samples": self.samples,
                            "n_in": x.shape[2],
                            "n_g": n_g,
                            "n_h": n_h,
                            "n_y": self.n_y,
                            "count": self.count,
                            "freq_dim": freq_dim,
                            "per_block": n_h // freq_dim,
                            "start": inputs.start,
                            "seq_len": inputs.seq_len,
                            "rows": layout.rows,
                            "row": layout.row,
                            "n_g_pad": layout.n_g_pad,
                            "n_h_pad": layout.n_h_pad,
                            "h_row": layout.h_row,
                            "numbers": layout.numbers,
                            "gate_layout": layout.gate[0],
                            "gate_step": layout.gate[1],
                            "sums_layout": layout.sums[0],
                            "sums_step": layout.sums[1],
                            "y_width": self.y_width,
                            "segments": -(-self.steps // SEGMENT),
                            "x_step": x_step,
                            "x_sample": x_sample,
                            "x_feature": x_feature,
                            "has_u": int(inputs.u is not None),
                        }
                    ).values()
                )
            ],
            RECORD,
        )
        self.chunk = chunk = min(self.steps, plan.CHUNK)
        self.e_numbers = round_up(n_h, UNIT) * self.y_width if self.n_y else 0
        self.gate = np.empty((self.count, layout.numbers), like.dtype)
        self.e_gate = np.empty((self.count, self.e_numbers), like.dtype)
        self.c = np.empty((chunk, self.count), like.dtype)
        self.dc = np.empty((chunk, self.count) if needs_phase else (0, 0), like.dtype)
        self.e = pooled_array((chunk, self.e_numbers), like)
        self.split = True  # the weights have yet to be split by frequency

    def _project(self) -> Tensor:
        """U x + b2 (L, N, n_h), without a copy of x, whichever of L and N comes first in memory."""
        x, weight, bias = self.inputs.x, self.inputs.weight_xh, self.inputs.bias_h
        if x.is_contiguous():
            return F.linear(x, weight, bias)
        x = F.linear(x.transpose(0, 1), weight, bias).transpose(0, 1)
        return x.contiguous() if self.layout.small else x

    def _addressed(self, tensors: dict[str, Tensor | None]) -> dict[str, Tensor]:
        """The tensors that kernels read and write, contiguous."""
        i = self.inputs
        u, z_start, y_start = i.u, i.bias_g, i.bias_y
        if u is not None:
            z_start = F.linear(u, i.weight_ug, i.bias_g)
            y_start = F.linear(u, i.weight_uy, i.bias_y) if i.weight_uy is not None else None
        given = {
            "u_start": u,
            "z_start": z_start,
            "y_start": y_start,
            "basis": i.rows,
            "freqs": i.freqs,
            "phase": i.phase,
            "lengths": i.lengths,
            "weight_ug": i.weight_ug,
            "weight_gh": i.weight_gh,
            "weight_xh": None if self.projects else i.weight_xh,
            "bias_h": None if self.projects else i.bias_h,
            "weight_uy": i.weight_uy,
        } | tensors
        return {
            name: tensor if tensor.is_contiguous() else tensor.contiguous()
            for name, tensor in given.items()
            if tensor is not None
        }

    def _prepare(self, begin: int, a: Tensor, has_gates: bool) -> tuple[Array, Array, Array]:
        """c(t), its derivative and E(t) for the chunk that begins there, and A(t) if not there."""
        length = min(self.steps - begin, self.chunk)
        record, layout = self.plan[0], self.layout
        record["begin"], record["length"] = begin, length
        record["a"] = a.data_ptr()
        c, dc, e = self.c[:length], self.dc[:length], self.e[:length]
        arrays = (self.plan, self.like, self.gate, self.e_gate, c, dc, e, layout.square)
        parts = split_range(length)
        if self.split and len(parts) > 1:
            prepare(*arrays, True, has_gates, 0, 0)
            self.split = False
        run(lambda _, part: prepare(*arrays, self.split, has_gates, part.start, part.stop), parts)
        self.split = False
        return c, dc, e

    def _gates(self, a: Tensor, begin: int) -> Tensor:
        """Memory for A(t) of a chunk: a part of ``a`` if that is kept."""
        if a.numel():
            return a[begin:]
        return pooled_empty((self.chunk, self.layout.numbers), a)

    def _loop_arrays(self) -> list[Array]:
        """Scratch for what the loop reads: x, W2, U, b2, where lanes end, and z."""
        layout, like = self.layout, self.like
        n_in, lanes = self.tensors["x"].shape[2], layout.rows * layout.row
        ends = 0 if self.inputs.lengths is None and lanes == self.samples else lanes
        z = np.empty((layout.rows, layout.n_g_pad, layout.row), like.dtype)
        if layout.small:
            w2 = np.zeros((layout.n_h_pad, layout.n_g_pad), like.dtype)
            x, u_in, b2 = np.empty((0, 0, 0), like.dtype), np.empty((0, 0), like.dtype), like
        else:
            w2 = np.zeros((layout.n_g_pad, layout.n_h_pad), like.dtype)
            x = pooled_array((self.chunk, n_in, lanes), like)
            u_in, b2 = (
                np.zeros((n_in, layout.n_h_pad), like.dtype),
                np.zeros(layout.n_h_pad, like.dtype),
            )
        return [x, w2, u_in, b2, np.empty(ends, like.dtype), z]

    def forward(self, a: Tensor) -> None:
        layout, like, record = self.layout, self.like, self.plan
        memory = pooled_array((self.count, layout.rows * layout.h_row * layout.row), like)
        y_now = np.empty((self.samples, self.y_width), like.dtype)
        arrays, shape = self._loop_arrays(), (self.kind, layout.tile, layout.width)
        loop = small_chunk if layout.small else batch_chunk
        gates = self._gates(a, 0)
        for begin in range(0, self.steps, self.chunk):
            gates = gates if begin == 0 or not a.numel() else a[begin:]
            c, _, e = self._prepare(begin, gates, has_gates=False)

            def work(_: int, part: range, c: Array = c, e: Array = e) -> None:
                read_inputs(record, like, *arrays, part.start, part.stop)
                loop(record, like, *arrays, *shape, part.start, part.stop)
                finish_chunk(record, like, c, e, memory, y_now, part.start, part.stop)

            run(work, split_range(layout.rows))


def forward(inputs: Inputs) -> tuple[Tensor, ...]:
    """y, u, and h, z_checkpoints and A(t) for the backward pass."""
    outputs = new_outputs(inputs)
    names = ("y", "u", "h", "checkpoints")
    Walk(inputs, dict(zip(names, outputs, strict=False))).forward(outputs[4])
    return outputs


def backward(
    inputs: Inputs,
    d_y: Tensor | None,
    d_u: Tensor | None,
    saved: tuple[Tensor, Tensor, Tensor],
    needs: tuple[bool, bool, bool],
) -> list[Tensor]:
    """The gradients of the tensors of the inputs, in their order."""
    return _Backward(inputs, d_y, d_u, saved, needs).run()


class _Backward:
    """Holds all gradients while the chunks are taken from last to first."""

    def __init__(
        self,
        inputs: Inputs,
        d_y: Tensor | None,
        d_u: Tensor | None,
        saved: tuple[Tensor, Tensor, Tensor],
        needs: tuple[bool, bool, bool],
    ) -> None:
        self.inputs, self.d_u, self.a = inputs, d_u, saved[2]
        self.needs_x, self.needs_rows, needs_phase = needs
        if d_y is None:
            inputs = inputs._replace(weight_uy=None, bias_y=None)
        x, layout = inputs.x, layout_for(inputs)
        samples, (n_h, n_g) = x.shape[1], inputs.weight_gh.shape
        projects = layout.small or x.shape[2] > n_h
        self.found: dict[str, Any] = {
            "d_x": x.new_empty(*x.shape[:2], n_h) if self.needs_x or projects else None,
            "d_z": x.new_empty(samples, n_g),
            "d_phase": x.new_empty(len(inputs.phase) if inputs.phase is not None else 0),
            "d_weight_ug": torch.empty_like(inputs.weight_ug, memory_format=CONTIGUOUS),
            "d_weight_gh": torch.empty_like(inputs.weight_gh, memory_format=CONTIGUOUS),
        }
        if not projects:
            self.found["d_weight_xh"] = x.new_empty(inputs.weight_xh.shape)
            self.found["d_bias_h"] = x.new_empty(n_h)
        if inputs.weight_uy is not None:
            self.found["d_y_start"] = x.new_empty(samples, len(inputs.weight_uy))
            self.found["d_weight_uy"] = x.new_empty(inputs.weight_uy.shape)
        tensors = {"h": saved[0], "checkpoints": saved[1], "d_y": d_y, "d_u": d_u}
        self.walk = Walk(inputs, tensors | self.found, needs_phase)
        self.d_rows = x.new_empty(x.shape[0], self.walk.count) if self.needs_rows else None

    def run(self) -> list[Tensor]:
        walk, layout, like = self.walk, self.walk.layout, self.walk.like
        count, record, shape = walk.count, walk.plan, (walk.kind, layout.tile, layout.width)
        none, phases = np.empty((0, 0), like.dtype), bool(walk.dc.size)
        columns = layout.rows * layout.h_row * layout.row
        d_memory = pooled_array((count, columns), like)
        d_memory[:] = 0
        by_phase = pooled_array((count, columns), like) if phases else none
        d_z = np.zeros((layout.rows, layout.n_g_pad, layout.row), like.dtype)
        d_y_now = np.zeros((walk.samples, walk.y_width), like.dtype)
        d_h = pooled_array((walk.chunk, layout.rows, layout.h_row, layout.row), like)
        parts = split_range(layout.rows)
        own = [self._own_arrays() for _ in parts]  # of each thread: d_a, d_w and scratch
        d_e = [pooled_array((walk.chunk, walk.e_numbers), like) for _ in parts]
        gates = [np.empty((count, own[0][0][0].size), like.dtype) for _ in range(1 + phases)]
        outs = [np.empty((count, walk.e_numbers), like.dtype) for _ in range(1 + phases)]
        x, w2, u_in, b2, stop, _ = walk._loop_arrays()
        no_z = np.empty((0, 0, 0), like.dtype)
        loop = small_chunk_backward if layout.small else batch_chunk_backward
        for begin in reversed(range(0, walk.steps, walk.chunk)):
            a = walk._gates(self.a, begin)
            c, dc, e = walk._prepare(begin, a, has_gates=bool(self.a.numel()))
            n = len(c)

            def work(index: int, part: range, c: Array = c, dc: Array = dc, e: Array = e) -> None:
                n, rows = len(c), (part.start, part.stop)
                gradients = (d_memory, by_phase, d_y_now, d_h[:n], d_e[index][:n])
                reach_hidden(record, like, c, dc, e, *gradients, *rows)
                read_inputs(record, like, x, w2, u_in, b2, stop, no_z, *rows)
                d_a, *rest = own[index]
                loop(record, like, x, w2, stop, d_h[:n], d_z, d_a[:n], *rest, *shape, *rows)
                write_gradients(record, like, d_h[:n], d_z, *rows)

            run(work, parts)
            d_a = sum_over_threads([one[0][:n] for one in own]).reshape(n, -1)
            self._products(c, dc, d_a, gates)
            whole_e = sum_over_threads([one[:n] for one in d_e])
            if walk.n_y:
                self._products(c, dc, whole_e, outs)
            if self.d_rows is not None:
                self._rows_backward(begin, d_a, whole_e, d_memory)
        d_w, square = sum_over_threads([one[1] for one in own]), layout.square
        phase_gates, phase_outs = (gates[1], outs[1]) if phases else (none, none)
        finish_gates(record, like, gates[0], phase_gates, d_memory, by_phase, d_w, square)
        if walk.n_y:
            finish_outputs(record, like, outs[0], phase_outs, walk.e_gate, d_y_now, square)
        return self._gradients()

    def _own_arrays(self) -> list[Array]:
        """d_a and d_w, and scratch of the loop for z, g and sums, for one thread."""
        walk, layout, like = self.walk, self.walk.layout, self.walk.like
        if layout.small:
            d_a = pooled_array((walk.chunk, layout.numbers, 1), like)
            d_w = np.zeros((layout.n_h_pad, layout.n_g_pad), like.dtype)
            z = np.empty((1, layout.n_g_pad, 1), like.dtype)
            g = np.empty((SEGMENT, 1, layout.n_g_pad, 1), like.dtype)
            return [d_a, d_w, z, g, np.empty((0, 0, 0), like.dtype)]
        factors = layout.n_g_pad + round_up(walk.tensors["x"].shape[2] + 1, G_UNIT)
        sums, rows = round_up(BLOCK, layout.vector), min(ROWS_AT_ONCE, layout.rows)
        d_a = pooled_array((walk.chunk, layout.blocks(layout.n_g_pad), sums), like)
        d_w = np.zeros((layout.blocks(factors), sums), like.dtype)
        z = np.empty((rows, layout.n_g_pad, layout.row), like.dtype)
        g = np.empty((SEGMENT, rows, factors, layout.row), like.dtype)
        return [d_a, d_w, z, g, np.empty((len(d_w), BLOCK, layout.vector), like.dtype)]

    def _products(self, c: Array, dc: Array, d: Array, found: list[Array]) -> None:
        plan_, vector = self.walk.plan, self.walk.layout.vector

        def work(_: int, part: range) -> None:
            add_gradients(plan_, c, dc, d, found[0], found[-1], part.start, part.stop)

        run(work, split_range(d.shape[1] // vector))

    def _rows_backward(self, begin: int, d_a: Array, d_e: Array, d_memory: Array) -> None:
        """The gradient of rows that were given."""
        walk, layout = self.walk, self.walk.layout
        sums = np.empty((walk.count, d_a.shape[1]), d_a.dtype)
        split_sums(walk.plan, walk.like, sums, layout.square)
        h = walk.tensors["h"][begin : begin + len(d_a)].flatten(1)
        assert self.d_rows is not None
        out = self.d_rows[begin : begin + len(d_a)]
        torch.mm(h, torch.from_numpy(d_memory).t(), out=out)
        out.addmm_(torch.from_numpy(d_a), torch.from_numpy(sums).t())
        if walk.n_y:
            out.addmm_(torch.from_numpy(d_e), torch.from_numpy(walk.e_gate).t())

    def _gradients(self) -> list[Tensor]:
        i, found, walk = self.inputs, self.found, self.walk
        d_z, d_y, d_drive = found["d_z"], found.get("d_y_start"), found["d_x"]
        d_ug, d_uy = found["d_weight_ug"], found.get("d_weight_uy")
        weight_uy: Any = i.weight_uy
        d_u = None
        if i.u is not None:
            d_u = d_z @ i.weight_ug if self.d_u is None else torch.addmm(self.d_u, d_z, i.weight_ug)
            d_ug.addmm_(d_z.t(), i.u)
            if d_y is not None and d_uy is not None:
                d_u.addmm_(d_y, weight_uy)
                d_uy.addmm_(d_y.t(), i.u)
        d_xh, d_bias_h = found.get("d_weight_xh"), found.get("d_bias_h")
        if walk.projects:
            flat = d_drive.flatten(0, 1)
            d_xh = flat.t() @ i.x.reshape(-1, i.x.shape[2])
            d_bias_h = flat.sum(0)
        d_x = d_drive @ i.weight_xh if self.needs_x else None
        grads = [
            *(d_x, d_u, self.d_rows, found["d_phase"], d_ug, d_z.sum(0)),
            *(found["d_weight_gh"], d_xh, d_bias_h),
            *(d_uy, None if d_y is None else d_y.sum(0)),
        ]
        found_all = []
        for place, (tensor, grad) in enumerate(zip(i[:11], grads, strict=True)):
            if tensor is None or (grad is None and place in (0, 2, 3)):
                grad = i.x.new_empty(0)
            found_all.append(torch.zeros_like(tensor) if grad is None else grad)  # type: ignore[arg-type]
        return found_all


CONTIGUOUS = torch.contiguous_format
