"""The loop for few samples, with vectors along z."""

from __future__ import annotations

import numpy as np

from .nonlinear import apply, apply_backward
from .outputs import (
    add_memory,
    checkpoints_of,
    hidden_of,
    lengths_of,
    matrices_of,
    memory_backward,
    new_checkpoints_of,
    new_hidden_of,
    output_gradients_of,
    outputs_of,
    read_starts,
    read_stops,
    write_gradients,
    write_output,
)
from .simd import (
    SEGMENT,
    add,
    add_dot,
    add_outer,
    add_scaled,
    add_store_sums,
    array_at,
    kernel,
    lanes_of,
    load_row,
    load_tile,
    store_row,
    store_tile,
    zeros_tile,
)

# a (L, n_h n_g and more), w2 (n_h, n_g), h and d_h (L, N, n_h and more), z and d_z (N, n_g),
# z_checkpoints (segments, N, n_g), stop (N,) or (0,). n_g is a multiple of the lanes of a vector,
# n_h one of the length of ``tile``, a tuple. A row of h has whole vectors from each tile on.


@kernel
def _add_transposed(sizes, matrix, m_at, numbers, at, out, out_at, tile):
    """out += matrix^T numbers, the matrix being (n_h, n_g), its sizes, at offset m_at."""
    n_h, n_g = sizes
    for i in range(0, n_g, lanes_of(out)):
        total = load_row(out, out_at + i, 1)
        for j in range(0, n_h, len(tile)):
            columns = load_tile(matrix, m_at + j * n_g + i, n_g, tile, 1)
            total = add_dot(total, numbers, at + j, columns)
        store_row(out, out_at + i, total)


@kernel
def _add_product(sizes, matrix, m_at, values, v_at, out, out_at, tile):
    """out += matrix values: sums along the vectors."""
    n_h, n_g = sizes
    for j in range(0, n_h, len(tile)):
        sums = zeros_tile(out, tile, 1)
        for i in range(0, n_g, lanes_of(out)):
            row = load_row(values, v_at + i, 1)
            sums = add_outer(sums, load_tile(matrix, m_at + j * n_g + i, n_g, tile, 1), row)
        add_store_sums(out, out_at + j, sums)


@kernel
def _add_outer_product(sizes, numbers, at, values, v_at, out, out_at, tile, overwrite):
    """out[j] += numbers[j] values, or = with ``overwrite``, row by row, from out_at on."""
    n_h, n_g = sizes
    for i in range(0, n_g, lanes_of(out)):
        row = load_row(values, v_at + i, 1)
        for j in range(0, n_h, len(tile)):
            place = out_at + j * n_g + i
            rows = zeros_tile(out, tile, 1) if overwrite else load_tile(out, place, n_g, tile, 1)
            store_tile(out, place, n_g, add_scaled(rows, numbers, at + j, row), 1)


@kernel
def small_forward(a, w2, stop, z, z_checkpoints, h, g, kind, tile, first, last):
    """Write z_checkpoints, carry z through all steps, and replace U x + b2 in h by h.

    g (n_g,) is scratch.
    """
    steps, a_step, n_g = a.shape[0], a.shape[1], w2.shape[1]
    samples, h_row, vector = z.shape[0], h.shape[2], lanes_of(z)
    for t in range(steps):
        for n in range(first, last):
            if t % SEGMENT == 0:
                z_checkpoints[t // SEGMENT, n] = z[n]
            if stop.size and t >= stop[n]:
                h[t, n] = 0
                continue
            for i in range(0, n_g, vector):
                store_row(g, i, apply(kind, load_row(z, n * n_g + i, 1)))
            at = (t * samples + n) * h_row
            _add_product(w2.shape, w2, 0, g, 0, h, at, tile)
            for j in range(0, h_row, vector):
                store_row(h, at + j, apply(kind, load_row(h, at + j, 1)))
            _add_transposed(w2.shape, a, t * a_step, h, at, z, n * n_g, tile)


@kernel
def _replay(sizes, a, h, z_checkpoints, z, g, kind, tile, segment, begin, end, n):
    """g for the steps of one segment of a sample."""
    n_g, a_step = sizes[1], a.shape[1]
    samples, h_row = h.shape[1], h.shape[2]
    z[:] = z_checkpoints[segment, n]
    for t in range(begin, end):
        for i in range(0, n_g, lanes_of(z)):
            store_row(g, (t - begin) * n_g + i, apply(kind, load_row(z, i, 1)))
        _add_transposed(sizes, a, t * a_step, h, (t * samples + n) * h_row, z, 0, tile)


@kernel
def _hidden_backward(sizes, a, h, d_h, d_z, kind, tile, t, n):
    """d_h at step t: what comes from outside the loop and through z, and then through phi."""
    h_row = h.shape[2]
    at = (t * h.shape[1] + n) * h_row
    _add_product(sizes, a, t * a.shape[1], d_z, n * sizes[1], d_h, at, tile)
    for j in range(0, h_row, lanes_of(h)):
        d_row = apply_backward(kind, load_row(d_h, at + j, 1), load_row(h, at + j, 1))
        store_row(d_h, at + j, d_row)


@kernel
def _gate_backward(w2, d_h, at, g, g_at, d_z, z_at, kind, tile):
    """d_z before a step, from that after it."""
    n_h, n_g = w2.shape
    for i in range(0, n_g, lanes_of(d_z)):
        change = zeros_tile(w2, 1, 1)
        for j in range(0, n_h, len(tile)):
            columns = load_tile(w2, j * n_g + i, n_g, tile, 1)
            change = add_dot(change, d_h, at + j, columns)
        change = apply_backward(kind, change, load_row(g, g_at + i, 1))
        store_row(d_z, z_at + i, add(load_row(d_z, z_at + i, 1), change))


@kernel
def small_backward(
    a, w2, stop, z_checkpoints, h, d_h, d_z, d_a, d_w2, z, g, kind, tile, first, last
):
    """As ``batch_backward``; d_a (L, n_h n_g) is written, d_w2 (n_h, n_g) is added to.

    z (n_g,) and g (SEGMENT, n_g) are scratch.
    """
    steps, (n_h, n_g) = a.shape[0], w2.shape
    samples, h_row = h.shape[1], h.shape[2]
    for segment in range((steps - 1) // SEGMENT, -1, -1):
        begin, end = segment * SEGMENT, min((segment + 1) * SEGMENT, steps)
        for n in range(first, last):
            _replay(w2.shape, a, h, z_checkpoints, z, g, kind, tile, segment, begin, end, n)
            for t in range(end - 1, begin - 1, -1):
                if stop.size and t >= stop[n]:
                    d_h[t, n] = 0
                    if n == first:
                        d_a[t] = 0
                    continue
                at, z_at, g_at = (t * samples + n) * h_row, n * n_g, (t - begin) * n_g
                _hidden_backward(w2.shape, a, h, d_h, d_z, kind, tile, t, n)
                place, sizes = t * n_h * n_g, w2.shape
                _add_outer_product(sizes, h, at, d_z, z_at, d_a, place, tile, n == first)
                _add_outer_product(sizes, d_h, at, g, g_at, d_w2, 0, tile, False)
                _gate_backward(w2, d_h, at, g, g_at, d_z, z_at, kind, tile)


# y at every step -------------------------------------------------------------------------------


@kernel
def _outputs(p, like, h, y_now, tile, first, last):
    """y(t) = y(t-1) + E(t) h(t), for samples first..last-1."""
    a, lengths, sizes = matrices_of(p, like), lengths_of(p), (p.n_h_pad, p.y_width)
    y, now, n_y = outputs_of(p, like), y_now.reshape(y_now.size), p.n_y
    for t in range(p.length):
        e_at, step = t * p.a_step + p.numbers, p.begin + t
        for n in range(first, last):
            h_at, at = (t * p.samples + n) * p.h_row, n * p.y_width
            _add_transposed(sizes, a, e_at, h, h_at, now, at, tile)
            is_over = lengths.size > 0 and step >= lengths[n]
            write_output(y, (step * p.samples + n) * n_y, n_y, now, at, is_over)


@kernel
def _outputs_backward(p, like, h, d_y_now, d_h, d_e, tile, first, last):
    """The steps backwards: d_h is added to, d_e (L, n_h y_width) written."""
    a, lengths, sizes = matrices_of(p, like), lengths_of(p), (p.n_h_pad, p.y_width)
    d_y, now, n_y = output_gradients_of(p, like), d_y_now.reshape(d_y_now.size), p.n_y
    for t in range(p.length - 1, -1, -1):
        e_at, place, step = t * p.a_step + p.numbers, t * d_e.shape[1], p.begin + t
        for n in range(first, last):
            at, sample = (t * p.samples + n) * p.h_row, n * p.y_width
            if not (lengths.size and step >= lengths[n]):
                for i in range(n_y):
                    now[sample + i] += d_y[(step * p.samples + n) * n_y + i]
            _add_product(sizes, a, e_at, now, sample, d_h, at, tile)
            _add_outer_product(sizes, h, at, now, sample, d_e, place, tile, n == first)


# A chunk of steps ------------------------------------------------------------------------------


@kernel
def _read_weight(p, like):
    """W2 (n_h, n_g), padded."""
    w2 = np.zeros((p.n_h_pad, p.n_g_pad), like.dtype)
    w2[: p.n_h, : p.n_g] = array_at(p.weight_gh, (p.n_h, p.n_g), like, False)
    return w2


@kernel
def small_chunk(plan, like, c, x, z, y_now, memory, kind, tile, width, first, last):
    """As ``batch_chunk``; the x of the plan is U x + b2, from a contiguous tensor."""
    p = plan[0]
    h = new_hidden_of(p, like).reshape((p.length, p.samples, p.h_row))
    source = array_at(p.x, (p.steps, p.samples, p.n_h), like, False)
    h[:, first:last, p.n_h :] = 0
    h[:, first:last, : p.n_h] = source[p.begin : p.begin + p.length, first:last]
    if p.begin == 0:
        read_starts(p, like, z, y_now, first, last)
    a, g, stop, w2 = (
        matrices_of(p, like),
        np.empty(p.n_g_pad, like.dtype),
        read_stops(p, like),
        _read_weight(p, like),
    )
    kept = new_checkpoints_of(p, like)
    kept, z = kept.reshape(kept.shape[:3]), z.reshape((p.samples, p.n_g_pad))
    small_forward(a, w2, stop, z, kept, h, g, kind, tile, first, last)
    if p.n_y:
        _outputs(p, like, h, y_now, tile, first, last)
    add_memory(p, like, c, memory, first, last)


@kernel
def small_chunk_backward(
    plan, like, c, dc, x, d_h, d_z, d_y_now, d_memory, by_phase, d_a, d_e, d_w, kind, tile, width,
    first, last,
):  # fmt: skip
    """As ``batch_chunk_backward``; d_w is the gradient of W2."""
    p = plan[0]
    memory_backward(p, like, c, dc, d_memory, by_phase, d_h, first, last)
    shape = (p.length, p.samples, p.h_row)
    h, d_h_all, d_z_all = hidden_of(p, like).reshape(shape), d_h, d_z
    d_h, d_z = d_h.reshape(shape), d_z.reshape((p.samples, p.n_g_pad))
    if p.d_y:
        _outputs_backward(p, like, h, d_y_now, d_h, d_e, tile, first, last)
    a, kept, w2, stop = (
        matrices_of(p, like),
        checkpoints_of(p, like),
        _read_weight(p, like),
        read_stops(p, like),
    )
    z, g = np.empty(p.n_g_pad, like.dtype), np.empty((SEGMENT, p.n_g_pad), like.dtype)
    kept = kept.reshape(kept.shape[:3])
    small_backward(a, w2, stop, kept, h, d_h, d_z, d_a, d_w, z, g, kind, tile, first, last)
    write_gradients(p, like, d_h_all, d_z_all, first, last)
