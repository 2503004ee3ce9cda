"""The loop with vectors of samples.

A vector holds one number of each of 8 or 16 samples. A row of one or two such vectors keeps its z
in the first cache for a segment of steps; then comes the next row, while A(t) of the segment is
still in the second.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .gates import copy_transposed
from .nonlinear import apply, apply_backward, keep_before
from .outputs import (
    add_memory,
    checkpoints_of,
    clear,
    hidden_of,
    lengths_of,
    matrices_of,
    memory_backward,
    new_checkpoints_of,
    new_hidden_of,
    output_gradients_of,
    outputs_of,
    read_inputs,
    read_starts,
    read_stops,
    write_gradients,
    write_output,
)
from .simd import (
    BLOCK,
    G_UNIT,
    H_UNIT,
    SEGMENT,
    WIDE,
    add,
    add_dots,
    add_outer,
    add_scaled,
    add_store_sums,
    array_at,
    kernel,
    lane_sums,
    lanes_of,
    load_row,
    load_tile,
    splat_tile,
    store_row,
    store_tile,
    zeros_tile,
)

# Rows of samples that share one sum over samples; more would leave the cache.
ROWS_AT_ONCE = 4 if WIDE else 8

# x (L, n_in, N), a (L, n_g n_h and more), w2 (n_g, n_h), u_in (n_in, n_h), b2 (n_h,), h and d_h
# (L, rows, n_h, row), z and d_z (rows, n_g, row), z_checkpoints (segments, rows, n_g, row). stop
# (N,) says after how many steps a sample ends, and is (0,) where none does. The part of h that
# belongs to a row of samples and a step is one block: parts at distances of some power of two
# would push each other out of the cache. A kernel works on the rows of samples first..last-1.
# ``tile`` is a tuple as long as the part of h that is held in registers, ``width`` one as long as
# a row has vectors.


@njit(inline="always")
def _is_over(stop, r, row, t):
    """Whether all samples of a row have ended before step t."""
    return stop.size > 0 and stop[r * row : (r + 1) * row].max() <= t


@kernel
def batch_forward(x, a, w2, u_in, b2, stop, z, z_checkpoints, h, kind, tile, width, first, last):
    """Write h and z_checkpoints, and carry z through all steps."""
    steps, (n_g, n_h), a_step = a.shape[0], w2.shape, a.shape[1]
    n_in, samples, rows, row = x.shape[1], x.shape[2], h.shape[1], z.shape[2]
    for begin in range(0, steps, SEGMENT):
        end = min(begin + SEGMENT, steps)
        for r in range(first, last):
            z_at, lane = r * n_g * row, r * row
            z_checkpoints[begin // SEGMENT, r] = z[r]
            if _is_over(stop, r, row, begin):
                h[begin:end, r] = 0
                continue
            for t in range(begin, end):
                for j in range(0, n_h, len(tile)):
                    sums = splat_tile(b2, j, tile, width)
                    for i in range(n_in):
                        x_row = load_row(x, (t * n_in + i) * samples + lane, width)
                        sums = add_scaled(sums, u_in, i * n_h + j, x_row)
                    for i in range(n_g):
                        g_row = apply(kind, load_row(z, z_at + i * row, width))
                        sums = add_scaled(sums, w2, i * n_h + j, g_row)
                    sums = apply(kind, sums)
                    if stop.size:
                        sums = keep_before(sums, load_row(stop, lane, width), t)
                    store_tile(h, ((t * rows + r) * n_h + j) * row, row, sums, width)
                for j in range(0, n_h, len(tile)):
                    h_tile = load_tile(h, ((t * rows + r) * n_h + j) * row, row, tile, width)
                    for i in range(0, n_g, G_UNIT):
                        z_tile = load_tile(z, z_at + i * row, row, G_UNIT, width)
                        z_tile = add_dots(z_tile, a, t * a_step + i * n_h + j, n_h, h_tile, width)
                        store_tile(z, z_at + i * row, row, z_tile, width)


@kernel
def _replay(a, x, h, stop, z, g, kind, tile, width, begin, end, first, last):
    """g, and x behind it, for the steps of one segment, from z before it and its h."""
    n_g, n_h, a_step = z.shape[1], h.shape[2], a.shape[1]
    n_in, samples, rows, row = x.shape[1], x.shape[2], h.shape[1], z.shape[2]
    for r in range(last - first):
        for t in range(begin, end):
            g_at = ((t - begin) * g.shape[1] + r) * g.shape[2] * row
            for i in range(n_in):
                x_row = load_row(x, (t * n_in + i) * samples + (first + r) * row, width)
                if stop.size:  # the padding may hold NaN
                    x_row = keep_before(x_row, load_row(stop, (first + r) * row, width), t)
                store_row(g, g_at + (n_g + i) * row, x_row)
            for j in range(0, n_h, len(tile)):
                at = ((t * rows + first + r) * n_h + j) * row
                h_tile = load_tile(h, at, row, tile, width)
                for i in range(0, n_g, G_UNIT):
                    z_at = (r * n_g + i) * row
                    z_tile = load_tile(z, z_at, row, G_UNIT, width)
                    if j == 0:  # z is not changed yet
                        store_tile(g, g_at + i * row, row, apply(kind, z_tile), width)
                    z_tile = add_dots(z_tile, a, t * a_step + i * n_h + j, n_h, h_tile, width)
                    store_tile(z, z_at, row, z_tile, width)


@kernel
def _hidden_backward(a, h, stop, d_h, d_z, kind, tile, width, t, first, last):
    """d_h at step t: what comes from outside the loop and through z, and then through phi."""
    n_g, n_h, a_step = d_z.shape[1], h.shape[2], a.shape[1]
    rows, row = h.shape[1], d_z.shape[2]
    for r in range(first, last):
        for j in range(0, n_h, len(tile)):
            at = ((t * rows + r) * n_h + j) * row
            sums = load_tile(d_h, at, row, tile, width)
            for i in range(n_g):
                z_row = load_row(d_z, (r * n_g + i) * row, width)
                sums = add_scaled(sums, a, t * a_step + i * n_h + j, z_row)
            sums = apply_backward(kind, sums, load_tile(h, at, row, tile, width))
            if stop.size:
                sums = keep_before(sums, load_row(stop, r * row, width), t)
            store_tile(d_h, at, row, sums, width)


@kernel
def _gate_backward(w2, d_h, g, d_z, kind, tile, width, t, g_at, first, last):
    """d_z before step t, from that after it."""
    n_g, n_h = w2.shape
    rows, row = d_h.shape[1], d_z.shape[2]
    for r in range(first, last):
        for j in range(0, n_h, len(tile)):
            d_tile = load_tile(d_h, ((t * rows + r) * n_h + j) * row, row, tile, width)
            for i in range(0, n_g, G_UNIT):
                change = zeros_tile(d_z, G_UNIT, width)
                change = add_dots(change, w2, i * n_h + j, n_h, d_tile, width)
                at = g_at + ((r - first) * g.shape[2] + i) * row  # read now: registers are few
                change = apply_backward(kind, change, load_tile(g, at, row, G_UNIT, width))
                z_at = (r * n_g + i) * row
                z_tile = load_tile(d_z, z_at, row, G_UNIT, width)
                # Always a sum: to choose where to add would make LLVM mask the store, which
                # processors of AMD need many cycles for.
                store_tile(d_z, z_at, row, add(z_tile, change), width)


@kernel
def _matrix_backward(h, d_z, d_a, width, t, first, last, overwrite):
    """d_a at step t: sums over samples of d_z h, block by block."""
    n_g, row = d_z.shape[1], d_z.shape[2]
    rows, n_h = h.shape[1], h.shape[2]
    vector, place = row // len(width), t * d_a.shape[1]
    for i in range(0, n_g, G_UNIT):
        for j in range(0, n_h, H_UNIT):
            sums = zeros_tile(d_a, BLOCK, 1)
            for r in range(first, last):
                for v in range(len(width)):
                    z_at = (r * n_g + i) * row + v * vector
                    h_at = ((t * rows + r) * n_h + j) * row + v * vector
                    z_tile = load_tile(d_z, z_at, row, G_UNIT, 1)
                    sums = add_outer(sums, z_tile, load_tile(h, h_at, row, H_UNIT, 1))
            if overwrite:
                store_row(d_a, place, lane_sums(sums))
            else:
                add_store_sums(d_a, place, sums)
            place += (BLOCK + vector - 1) // vector * vector


@kernel
def _weight_backward(d_h, g, w_sums, width, begin, end, first, last):
    """Add the steps of a segment to d_w: products g d_h, block by block, still vectors.

    Row by row: a row's d_h stays in the first cache while all its blocks are made.
    """
    n_g, row = g.shape[2], g.shape[3]
    rows, n_h = d_h.shape[1], d_h.shape[2]
    vector = row // len(width)
    for r in range(last - first):
        place = 0
        for i in range(0, n_g, G_UNIT):
            for j in range(0, n_h, H_UNIT):
                sums = load_tile(w_sums, place, vector, BLOCK, 1)
                for t in range(begin, end):
                    for v in range(len(width)):
                        g_at = (((t - begin) * g.shape[1] + r) * n_g + i) * row + v * vector
                        d_at = ((t * rows + first + r) * n_h + j) * row + v * vector
                        g_tile = load_tile(g, g_at, row, G_UNIT, 1)
                        sums = add_outer(sums, g_tile, load_tile(d_h, d_at, row, H_UNIT, 1))
                store_tile(w_sums, place, vector, sums, 1)
                place += BLOCK * vector


@kernel
def batch_backward(
    a,
    w2,
    x,
    stop,
    z_checkpoints,
    h,
    d_h,
    d_z,
    d_a,
    d_w,
    z,
    g,
    w_sums,
    kind,
    tile,
    width,
    first,
    last,
    overwrite,
):
    """All steps backwards: d_h becomes d(U x + b2), d_z is carried to before the first step.

    d_a (L, blocks times sums) is added to, or written if ``overwrite``, d_w (blocks, sums) is added
    to; sums is BLOCK, and zeros up to whole vectors. W2, U and b2 are all weights of h, and get
    their gradients in one go: d_w is that of g, then x, then 1.

    z (rows, n_g, row), g (SEGMENT, rows, n_g + n_in + 1 and more, row) and w_sums (blocks, BLOCK,
    vector) are scratch for the rows that the kernel works on.
    """
    w_sums[:] = 0
    one = w2.shape[0] + x.shape[1]
    g[:, :, one] = 1
    g[:, :, one + 1 :] = 0
    steps = a.shape[0]
    for segment in range((steps - 1) // SEGMENT, -1, -1):
        begin, end = segment * SEGMENT, min((segment + 1) * SEGMENT, steps)
        lo, hi = first, last  # without rows that are over, at either end
        while lo < hi and _is_over(stop, lo, d_z.shape[2], begin):
            lo += 1
        while lo < hi and _is_over(stop, hi - 1, d_z.shape[2], begin):
            hi -= 1
        d_h[begin:end, first:lo] = 0
        d_h[begin:end, hi:last] = 0
        z[: hi - lo] = z_checkpoints[segment, lo:hi]
        _replay(a, x, h, stop, z, g, kind, tile, width, begin, end, lo, hi)
        for t in range(end - 1, begin - 1, -1):
            g_at = (t - begin) * g.shape[1] * g.shape[2] * g.shape[3]
            _hidden_backward(a, h, stop, d_h, d_z, kind, tile, width, t, lo, hi)
            _matrix_backward(h, d_z, d_a, width, t, lo, hi, overwrite)
            _gate_backward(w2, d_h, g, d_z, kind, tile, width, t, g_at, lo, hi)
        _weight_backward(d_h, g, w_sums, width, begin, end, lo, hi)
    vector = w_sums.shape[2]
    for block in range(d_w.shape[0]):
        w_block = load_tile(w_sums, block * BLOCK * vector, vector, BLOCK, 1)
        add_store_sums(d_w, block * d_w.shape[1], w_block)


# y at every step -------------------------------------------------------------------------------

AT_ONCE = (0,) * 8  # samples whose y is summed up in registers


@kernel
def _outputs(p, like, y_now, first, last):
    """y(t) = y(t-1) + E(t) h(t), for rows first..last-1 of samples."""
    a, h, lengths, y = matrices_of(p, like), hidden_of(p, like), lengths_of(p), outputs_of(p, like)
    row, samples, n_h, n_y, width = p.row, p.samples, p.n_h, p.n_y, p.y_width
    now, stops = y_now.reshape(y_now.size), _stops(lengths, p.rows * row)
    for t in range(p.length):
        e_at, step = t * p.a_step + p.numbers, p.begin + t
        for n in range(first * row, min(last * row, samples), len(AT_ONCE)):
            n_end = min(n + len(AT_ONCE), samples)
            if stops.size and stops[n // len(AT_ONCE)] <= step:
                clear(y, (step * samples + n) * n_y, (n_end - n) * n_y)
                continue
            h_at = (t * p.rows + n // row) * p.h_row * row + n % row
            for i in range(0, width, lanes_of(like)):
                sums = load_tile(now, n * width + i, width, AT_ONCE, 1)
                for j in range(n_h):
                    e_row = load_row(a, e_at + j * width + i, 1)
                    sums = add_scaled(sums, h, h_at + j * row, e_row)
                store_tile(now, n * width + i, width, sums, 1)
            for sample in range(n, n_end):
                is_over = lengths.size > 0 and step >= lengths[sample]
                write_output(y, (step * samples + sample) * n_y, n_y, now, sample * width, is_over)


@kernel
def _stops(lengths, lanes):
    """The step where the longest of each AT_ONCE samples ends; (0,) without lengths."""
    stops = np.zeros(lanes // len(AT_ONCE) if lengths.size else 0, np.int64)
    for n in range(lengths.size):
        group = n // len(AT_ONCE)
        stops[group] = max(stops[group], lengths[n])
    return stops


@kernel
def _outputs_backward(p, like, d_y_now, d_h, d_e, tile, width, first, last):
    """The steps backwards: d_h is added to, d_e (L, n_h y_width) written."""
    h, lengths, row, vector = hidden_of(p, like), lengths_of(p), p.row, lanes_of(like)
    a, by_unit = matrices_of(p, like), np.empty(p.y_width * row, like.dtype)  # d_y_now transposed
    now, d_y, units = d_y_now.reshape(d_y_now.size), output_gradients_of(p, like), p.y_width
    n_y, samples = p.n_y, p.samples
    for t in range(p.length - 1, -1, -1):
        step = p.begin + t
        for r in range(first, last):
            end = min((r + 1) * row, samples)
            if r > first and lengths.size and lengths[r * row : end].max() <= step:
                continue  # h is 0 there
            for n in range(r * row, end):
                if not (lengths.size and step >= lengths[n]):
                    for i in range(n_y):
                        now[n * units + i] += d_y[(step * samples + n) * n_y + i]
            at, h_at = r * row * units, (t * p.rows + r) * p.h_row * row
            copy_transposed(now, at, row, units, units, by_unit, 0, row, like)
            for j in range(0, p.n_h_pad, len(tile)):
                e_at = t * p.a_step + p.numbers + j * units
                sums = load_tile(d_h, h_at + j * row, row, tile, width)
                for i in range(n_y):
                    unit = load_row(by_unit, i * row, width)
                    sums = add_dots(sums, a, e_at + i, units, unit, width)
                store_tile(d_h, h_at + j * row, row, sums, width)
                for i in range(0, units, vector):
                    place = t * d_e.shape[1] + j * units + i
                    sums = zeros_tile(d_e, tile, 1)
                    if r > first:
                        sums = load_tile(d_e, place, units, tile, 1)
                    for lane in range(row):
                        d_row = load_row(now, at + lane * units + i, 1)
                        sums = add_dots(sums, h, h_at + j * row + lane, row, d_row, 1)
                    store_tile(d_e, place, units, sums, 1)


# A chunk of steps ------------------------------------------------------------------------------


@kernel
def _read_weights(p, like):
    """W2 (n_g, n_h), U (n_in, n_h) and b2, padded; x may be U x + b2."""
    w2, u_in = (
        np.zeros((p.n_g_pad, p.n_h_pad), like.dtype),
        np.zeros((p.n_in, p.n_h_pad), like.dtype),
    )
    weight, b2 = array_at(p.weight_gh, (p.n_h, p.n_g), like, False), np.zeros(p.n_h_pad, like.dtype)
    for j in range(p.n_h):
        for i in range(p.n_g):
            w2[i, j] = weight[j, i]
    weight = array_at(p.weight_xh, (p.n_h, p.n_in), like, False)
    bias = array_at(p.bias_h, (p.n_h,), like, False)
    for j in range(p.n_h):
        b2[j] = bias[j] if p.bias_h else 0
        for i in range(p.n_in):
            u_in[i, j] = weight[j, i] if p.weight_xh else i == j
    return w2, u_in, b2


@kernel
def batch_chunk(plan, like, c, x, z, y_now, memory, kind, tile, width, first, last):
    """All steps of a chunk for rows first..last-1 of samples: h, z_checkpoints, y and u."""
    p = plan[0]
    read_inputs(p, like, x, first, last)
    if p.begin == 0:
        read_starts(p, like, z, y_now, first, last)
    a, stop, kept = matrices_of(p, like), read_stops(p, like), new_checkpoints_of(p, like)
    h, (w2, u_in, b2) = new_hidden_of(p, like), _read_weights(p, like)
    batch_forward(x, a, w2, u_in, b2, stop, z, kept, h, kind, tile, width, first, last)
    if p.n_y:
        _outputs(p, like, y_now, first, last)
    add_memory(p, like, c, memory, first, last)


@kernel
def batch_chunk_backward(
    plan, like, c, dc, x, d_h, d_z, d_y_now, d_memory, by_phase, d_a, d_e, d_w, kind, tile, width,
    first, last,
):  # fmt: skip
    """The steps of a chunk backwards for rows first..last-1 of samples, see ``batch_backward``."""
    p, vector, many = plan[0], lanes_of(like), min(ROWS_AT_ONCE, last - first)
    memory_backward(p, like, c, dc, d_memory, by_phase, d_h, first, last)
    if p.d_y:
        _outputs_backward(p, like, d_y_now, d_h, d_e, tile, width, first, last)
    read_inputs(p, like, x, first, last)
    a, h, kept, stop = (
        matrices_of(p, like),
        hidden_of(p, like),
        checkpoints_of(p, like),
        read_stops(p, like),
    )
    z = np.empty((many, p.n_g_pad, p.row), like.dtype)
    factors = d_w.shape[0] // (p.n_h_pad // H_UNIT) * G_UNIT
    g = np.empty((SEGMENT, many, factors, p.row), like.dtype)
    w2, w_sums = _read_weights(p, like)[0], np.empty((d_w.shape[0], BLOCK, vector), like.dtype)
    for begin in range(first, last, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, last)
        batch_backward(
            a, w2, x, stop, kept, h, d_h, d_z, d_a, d_w, z, g, w_sums, kind, tile, width,
            begin, end, begin == first,
        )  # fmt: skip
    write_gradients(p, like, d_h, d_z, first, last)
