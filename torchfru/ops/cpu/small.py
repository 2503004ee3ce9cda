"""The loop for few samples, with vectors along z."""

from __future__ import annotations

import numpy as np

from .nonlinear import apply, apply_backward
from .outputs import hidden_of, new_hidden_of
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

# a (L, n_h, n_g), w2 (n_h, n_g), h and d_h (L, N, n_h and more), z and d_z (N, n_g), z_checkpoints
# (segments, N, n_g), stop (N,) or (0,). n_g is a multiple of the lanes of a vector, n_h one of
# the length of ``tile``, a tuple. A row of h has whole vectors from each tile on.


@kernel
def _add_transposed(matrix, m_at, numbers, at, out, out_at, tile):
    """out += matrix^T numbers, the matrix being (n_h, n_g) at offset m_at."""
    n_h, n_g = matrix.shape[-2], matrix.shape[-1]
    for i in range(0, n_g, lanes_of(out)):
        total = load_row(out, out_at + i, 1)
        for j in range(0, n_h, len(tile)):
            columns = load_tile(matrix, m_at + j * n_g + i, n_g, tile, 1)
            total = add_dot(total, numbers, at + j, columns)
        store_row(out, out_at + i, total)


@kernel
def _add_product(matrix, m_at, values, v_at, out, out_at, tile):
    """out += matrix values: sums along the vectors."""
    n_h, n_g = matrix.shape[-2], matrix.shape[-1]
    for j in range(0, n_h, len(tile)):
        sums = zeros_tile(out, tile, 1)
        for i in range(0, n_g, lanes_of(out)):
            row = load_row(values, v_at + i, 1)
            sums = add_outer(sums, load_tile(matrix, m_at + j * n_g + i, n_g, tile, 1), row)
        add_store_sums(out, out_at + j, sums)


@kernel
def _add_outer_product(numbers, at, values, v_at, out, out_at, tile, overwrite):
    """out[j] += numbers[j] values, or = with ``overwrite``, row by row, from out_at on."""
    n_h, n_g = out.shape[-2], out.shape[-1]
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
    steps, n_h, n_g = a.shape
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
            _add_product(w2, 0, g, 0, h, at, tile)
            for j in range(0, h_row, vector):
                store_row(h, at + j, apply(kind, load_row(h, at + j, 1)))
            _add_transposed(a, t * n_h * n_g, h, at, z, n * n_g, tile)


@kernel
def _replay(a, h, z_checkpoints, z, g, kind, tile, segment, begin, end, n):
    """g for the steps of one segment of a sample."""
    _, n_h, n_g = a.shape
    samples, h_row = h.shape[1], h.shape[2]
    z[:] = z_checkpoints[segment, n]
    for t in range(begin, end):
        for i in range(0, n_g, lanes_of(z)):
            store_row(g, (t - begin) * n_g + i, apply(kind, load_row(z, i, 1)))
        _add_transposed(a, t * n_h * n_g, h, (t * samples + n) * h_row, z, 0, tile)


@kernel
def _hidden_backward(a, h, d_h, d_z, kind, tile, t, n):
    """d_h at step t: what comes from outside the loop and through z, and then through phi."""
    _, n_h, n_g = a.shape
    h_row = h.shape[2]
    at = (t * h.shape[1] + n) * h_row
    _add_product(a, t * n_h * n_g, d_z, n * n_g, d_h, at, tile)
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
    """As ``batch_backward``; d_a (L, n_h, n_g) is written, d_w2 (n_h, n_g) is added to.

    z (n_g,) and g (SEGMENT, n_g) are scratch.
    """
    steps, n_h, n_g = a.shape
    samples, h_row = h.shape[1], h.shape[2]
    for segment in range((steps - 1) // SEGMENT, -1, -1):
        begin, end = segment * SEGMENT, min((segment + 1) * SEGMENT, steps)
        for n in range(first, last):
            _replay(a, h, z_checkpoints, z, g, kind, tile, segment, begin, end, n)
            for t in range(end - 1, begin - 1, -1):
                if stop.size and t >= stop[n]:
                    d_h[t, n] = 0
                    if n == first:
                        d_a[t] = 0
                    continue
                at, z_at, g_at = (t * samples + n) * h_row, n * n_g, (t - begin) * n_g
                _hidden_backward(a, h, d_h, d_z, kind, tile, t, n)
                _add_outer_product(h, at, d_z, z_at, d_a, t * n_h * n_g, tile, n == first)
                _add_outer_product(d_h, at, g, g_at, d_w2, 0, tile, False)
                _gate_backward(w2, d_h, at, g, g_at, d_z, z_at, kind, tile)


# A chunk of steps ------------------------------------------------------------------------------


@kernel
def small_chunk(plan, like, x, w2, u_in, b2, stop, z, kind, tile, width, first, last):
    """As ``batch_chunk``; x, u_in and b2 are not used, as h holds U x + b2 already."""
    p = plan[0]
    a = array_at(p.a, (p.length, p.n_h_pad, p.n_g_pad), like, False)
    at = p.checkpoints + p.begin // SEGMENT * p.samples * p.n_g_pad * like.itemsize
    shape = (p.segments - p.begin // SEGMENT, p.samples, p.n_g_pad)
    z_checkpoints, g = array_at(at, shape, like, True), np.empty(p.n_g_pad, like.dtype)
    h = new_hidden_of(p, like).reshape((p.length, p.samples, p.h_row))
    z = z.reshape((p.samples, p.n_g_pad))
    small_forward(a, w2, stop, z, z_checkpoints, h, g, kind, tile, first, last)


@kernel
def small_chunk_backward(
    plan, like, x, w2, stop, d_h, d_z, d_a, d_w, z, g, w_sums, kind, tile, width, first, last
):
    """As ``batch_chunk_backward``; d_w is the gradient of W2."""
    p = plan[0]
    a = array_at(p.a, (p.length, p.n_h_pad, p.n_g_pad), like, False)
    at = p.checkpoints + p.begin // SEGMENT * p.samples * p.n_g_pad * like.itemsize
    kept = array_at(at, (p.segments - p.begin // SEGMENT, p.samples, p.n_g_pad), like, False)
    shape, h = (p.length, p.samples, p.h_row), hidden_of(p, like)
    d_z, d_a = d_z.reshape((p.samples, p.n_g_pad)), d_a.reshape(a.shape)
    h, d_h = h.reshape(shape), d_h.reshape(shape)
    z, g = z.reshape(p.n_g_pad), g.reshape((SEGMENT, p.n_g_pad))
    small_backward(a, w2, stop, kept, h, d_h, d_z, d_a, d_w, z, g, kind, tile, first, last)
