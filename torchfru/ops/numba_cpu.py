"""The collapsed loop as fused CPU kernels: arrays in, arrays out, no torch.

Two forms of one loop. Where the batch is large, a vector holds one number of each of 8 or 16
samples, and a row of one or two such vectors keeps its z in cache for all steps (``forward``,
``backward``). Where it is small, a vector holds entries of one sample's z (``forward_small``,
``backward_small``).

The backward pass needs g = phi(z) at every step, but only z at every SEGMENT-th is kept: a
segment is run again from there, with the h that are known, just before it is run backwards.

Symbols as in :mod:`torchfru.ops.collapsed`; ``d_`` before a name means its gradient. The
gradient of h comes in as ``d_h``, and that of U x + b2 goes out in its place. ``kind`` is one
of the nonlinearities of :mod:`torchfru.ops.simd`. Arrays are contiguous, and sizes are padded
with zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .simd import (
    add,
    add_dot,
    add_dots,
    add_outer,
    add_scaled,
    add_store_sums,
    apply,
    apply_backward,
    keep_before,
    load_row,
    load_tile,
    splat_tile,
    store_row,
    store_tile,
    zeros_like,
    zeros_tile,
)

SEGMENT = 16  # steps between two that z is kept for

# Sums over samples are made in blocks: 3 entries of g times 5 of h are 15 sums, which fit the
# registers and nearly fill a vector. Widths are padded accordingly.
G_UNIT, H_UNIT = 3, 5
BLOCK = G_UNIT * H_UNIT
SUMS = 16  # a block of sums in memory


def _kernel(function: Callable[..., None]) -> Any:
    """Compiled on the first call for its types, and kept on disk where that is possible."""
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(nogil=True, error_model="numpy")(function)


# A vector of samples -----------------------------------------------------------------------
#
# x (L, n_in, N), a (L, n_g, n_h), w2 (n_g, n_h), u_in (n_in, n_h), b2 (n_h,), h and d_h
# (L, n_h, N), z and d_z (rows, n_g, row), kept (segments, rows, n_g, row); stop (N,) says after
# how many steps a sample ends, and is (0,) where none does. A kernel works on the rows of
# samples first..last-1. ``tile`` is a tuple as long as the part of h that is held in registers,
# ``width`` one as long as a row has vectors.


@_kernel
def forward(x, a, w2, u_in, b2, stop, z, kept, h, kind, tile, width, first, last):
    """Fill h and kept, and carry z through all steps."""
    steps, n_g, n_h = a.shape
    n_in, samples, row = x.shape[1], x.shape[2], z.shape[2]
    for r in range(first, last):
        z_at, lane = r * n_g * row, r * row
        for t in range(steps):
            if t % SEGMENT == 0:
                kept[t // SEGMENT, r] = z[r]
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
                store_tile(h, (t * n_h + j) * samples + lane, samples, sums, width)
            for j in range(0, n_h, len(tile)):
                h_tile = load_tile(h, (t * n_h + j) * samples + lane, samples, tile, width)
                for i in range(0, n_g, G_UNIT):
                    z_tile = load_tile(z, z_at + i * row, row, G_UNIT, width)
                    z_tile = add_dots(z_tile, a, (t * n_g + i) * n_h + j, n_h, h_tile, width)
                    store_tile(z, z_at + i * row, row, z_tile, width)


@_kernel
def _replay(a, x, h, z, g, kind, tile, width, begin, end, first, last):
    """g, and x behind it, for the steps of one segment, from z before it and its h."""
    _, n_g, n_h = a.shape
    n_in, samples, row = x.shape[1], h.shape[2], z.shape[2]
    for r in range(last - first):
        for t in range(begin, end):
            g_at = ((t - begin) * g.shape[1] + r) * g.shape[2] * row
            for i in range(n_in):
                x_row = load_row(x, (t * n_in + i) * samples + (first + r) * row, width)
                store_row(g, g_at + (n_g + i) * row, x_row)
            for j in range(0, n_h, len(tile)):
                at = (t * n_h + j) * samples + (first + r) * row
                h_tile = load_tile(h, at, samples, tile, width)
                for i in range(0, n_g, G_UNIT):
                    z_at = (r * n_g + i) * row
                    z_tile = load_tile(z, z_at, row, G_UNIT, width)
                    if j == 0:  # z is not changed yet
                        store_tile(g, g_at + i * row, row, apply(kind, z_tile), width)
                    z_tile = add_dots(z_tile, a, (t * n_g + i) * n_h + j, n_h, h_tile, width)
                    store_tile(z, z_at, row, z_tile, width)


@_kernel
def _hidden_backward(a, h, stop, d_h, d_z, kind, tile, width, t, first, last):
    """d_h at step t: what comes from outside the loop and through z, and then through phi."""
    _, n_g, n_h = a.shape
    samples, row = h.shape[2], d_z.shape[2]
    for r in range(first, last):
        for j in range(0, n_h, len(tile)):
            at = (t * n_h + j) * samples + r * row
            sums = load_tile(d_h, at, samples, tile, width)
            for i in range(n_g):
                z_row = load_row(d_z, (r * n_g + i) * row, width)
                sums = add_scaled(sums, a, (t * n_g + i) * n_h + j, z_row)
            sums = apply_backward(kind, sums, load_tile(h, at, samples, tile, width))
            if stop.size:
                sums = keep_before(sums, load_row(stop, r * row, width), t)
            store_tile(d_h, at, samples, sums, width)


@_kernel
def _gate_backward(w2, d_h, g, d_z, kind, tile, width, t, g_at, first, last):
    """d_z before step t, from that after it."""
    n_g, n_h = w2.shape
    samples, row = d_h.shape[2], d_z.shape[2]
    for r in range(first, last):
        for j in range(0, n_h, len(tile)):
            d_tile = load_tile(d_h, (t * n_h + j) * samples + r * row, samples, tile, width)
            for i in range(0, n_g, G_UNIT):
                at = g_at + ((r - first) * g.shape[2] + i) * row
                g_tile = load_tile(g, at, row, G_UNIT, width)
                change = zeros_like(g_tile)
                change = add_dots(change, w2, i * n_h + j, n_h, d_tile, width)
                change = apply_backward(kind, change, g_tile)
                z_at = (r * n_g + i) * row
                z_tile = load_tile(d_z, z_at, row, G_UNIT, width)
                store_tile(d_z, z_at, row, add(z_tile, change), width)


@_kernel
def _matrix_backward(h, d_z, d_a, width, t, first, last):
    """d_a at step t: sums over samples of d_z h, block by block."""
    n_g, row = d_z.shape[1], d_z.shape[2]
    n_h, samples = h.shape[1], h.shape[2]
    vector, place = row // len(width), t * d_a.shape[1] * SUMS
    for i in range(0, n_g, G_UNIT):
        for j in range(0, n_h, H_UNIT):
            sums = zeros_tile(d_a, BLOCK)
            for r in range(first, last):
                for v in range(len(width)):
                    z_at = (r * n_g + i) * row + v * vector
                    h_at = (t * n_h + j) * samples + r * row + v * vector
                    z_tile = load_tile(d_z, z_at, row, G_UNIT, 1)
                    sums = add_outer(sums, z_tile, load_tile(h, h_at, samples, H_UNIT, 1))
            add_store_sums(d_a, place, sums)
            place += SUMS


@_kernel
def _weight_backward(d_h, g, w_sums, width, begin, end, first, last):
    """What the steps of a segment add to d_w: products g d_h, block by block, still vectors.

    Row by row: a row's d_h stays in the first cache while all its blocks are made.
    """
    n_g, row = g.shape[2], g.shape[3]
    n_h, samples = d_h.shape[1], d_h.shape[2]
    vector = row // len(width)
    for r in range(last - first):
        place = 0
        for i in range(0, n_g, G_UNIT):
            for j in range(0, n_h, H_UNIT):
                sums = load_tile(w_sums, place, vector, BLOCK, 1)
                for t in range(begin, end):
                    for v in range(len(width)):
                        g_at = (((t - begin) * g.shape[1] + r) * n_g + i) * row + v * vector
                        d_at = (t * n_h + j) * samples + (first + r) * row + v * vector
                        g_tile = load_tile(g, g_at, row, G_UNIT, 1)
                        sums = add_outer(sums, g_tile, load_tile(d_h, d_at, samples, H_UNIT, 1))
                store_tile(w_sums, place, vector, sums, 1)
                place += SUMS * vector


@_kernel
def backward(
    a, w2, x, stop, kept, h, d_h, d_z, d_a, d_w, z, g, w_sums, kind, tile, width, first, last, fresh
):
    """All steps backwards: d_h becomes d(U x + b2), d_z is carried to before the first step.

    d_a (L, blocks, SUMS) and d_w (blocks, SUMS) are added to, or written if ``fresh``. W2, U and
    b2 are all weights of h, and get their gradients in one go: d_w is that of g, then x, then 1.

    z (rows, n_g, row), g (SEGMENT, rows, n_g + n_in + 1 and more, row) and w_sums (blocks, SUMS,
    vector) are room for the rows that the kernel works on.
    """
    if fresh:
        d_a[:] = 0
        d_w[:] = 0
    w_sums[:] = 0
    one = w2.shape[0] + x.shape[1]
    g[:, :, one] = 1
    g[:, :, one + 1 :] = 0
    steps = a.shape[0]
    for segment in range((steps - 1) // SEGMENT, -1, -1):
        begin, end = segment * SEGMENT, min((segment + 1) * SEGMENT, steps)
        z[: last - first] = kept[segment, first:last]
        _replay(a, x, h, z, g, kind, tile, width, begin, end, first, last)
        for t in range(end - 1, begin - 1, -1):
            g_at = (t - begin) * g.shape[1] * g.shape[2] * g.shape[3]
            _hidden_backward(a, h, stop, d_h, d_z, kind, tile, width, t, first, last)
            _matrix_backward(h, d_z, d_a, width, t, first, last)
            _gate_backward(w2, d_h, g, d_z, kind, tile, width, t, g_at, first, last)
        _weight_backward(d_h, g, w_sums, width, begin, end, first, last)
    vector = w_sums.shape[2]
    for block in range(d_w.shape[0]):
        w_block = load_tile(w_sums, block * SUMS * vector, vector, BLOCK, 1)
        add_store_sums(d_w, block * SUMS, w_block)


# A vector of entries of z ------------------------------------------------------------------
#
# a (L, n_h, n_g), w2 (n_h, n_g), h and d_h (L, N, n_h), z and d_z (N, n_g), kept
# (segments, N, n_g), stop (N,) or (0,). n_g and n_h are multiples of the
# lanes of a vector; ``tile`` is a tuple of that length.


@_kernel
def _add_transposed(matrix, m_at, numbers, at, out, out_at, tile):
    """out += matrix^T numbers, the matrix being (n_h, n_g) at offset m_at."""
    n_h, n_g, vector = matrix.shape[-2], matrix.shape[-1], len(tile)
    for i in range(0, n_g, vector):
        total = load_row(out, out_at + i, 1)
        for j in range(0, n_h, vector):
            columns = load_tile(matrix, m_at + j * n_g + i, n_g, tile, 1)
            total = add_dot(total, numbers, at + j, columns)
        store_row(out, out_at + i, total)


@_kernel
def _add_product(matrix, m_at, values, v_at, out, out_at, tile):
    """out += matrix values: sums along the vectors."""
    n_h, n_g, vector = matrix.shape[-2], matrix.shape[-1], len(tile)
    for j in range(0, n_h, vector):
        sums = zeros_tile(out, tile)
        for i in range(0, n_g, vector):
            row = load_row(values, v_at + i, 1)
            sums = add_outer(sums, load_tile(matrix, m_at + j * n_g + i, n_g, tile, 1), row)
        add_store_sums(out, out_at + j, sums)


@_kernel
def _add_outer_product(numbers, at, values, v_at, out, out_at, tile):
    """out[j] += numbers[j] values, for each row j of out (n_h, n_g) at offset out_at."""
    n_h, n_g, vector = out.shape[-2], out.shape[-1], len(tile)
    for i in range(0, n_g, vector):
        row = load_row(values, v_at + i, 1)
        for j in range(0, n_h, vector):
            place = out_at + j * n_g + i
            rows = add_scaled(load_tile(out, place, n_g, tile, 1), numbers, at + j, row)
            store_tile(out, place, n_g, rows, 1)


@_kernel
def forward_small(a, w2, stop, z, kept, h, g, kind, tile, first, last):
    """Fill kept, carry z through all steps, and turn U x + b2, which h holds, into h.

    g (n_g,) is room to work in.
    """
    steps, n_h, n_g = a.shape
    samples, vector = z.shape[0], len(tile)
    for t in range(steps):
        for n in range(first, last):
            if t % SEGMENT == 0:
                kept[t // SEGMENT, n] = z[n]
            if stop.size and t >= stop[n]:
                h[t, n] = 0
                continue
            for i in range(0, n_g, vector):
                store_row(g, i, apply(kind, load_row(z, n * n_g + i, 1)))
            at = (t * samples + n) * n_h
            _add_product(w2, 0, g, 0, h, at, tile)
            for j in range(0, n_h, vector):
                store_row(h, at + j, apply(kind, load_row(h, at + j, 1)))
            _add_transposed(a, t * n_h * n_g, h, at, z, n * n_g, tile)


@_kernel
def backward_small(a, w2, stop, kept, h, d_h, d_z, d_a, d_w2, z, g, kind, tile, first, last):
    """As ``backward``; d_a (L, n_h, n_g) and d_w2 (n_h, n_g) are added to.

    z (n_g,) and g (SEGMENT, n_g) are room to work in.
    """
    steps, n_h, n_g = a.shape
    samples, vector = d_z.shape[0], len(tile)
    for segment in range((steps - 1) // SEGMENT, -1, -1):
        begin, end = segment * SEGMENT, min((segment + 1) * SEGMENT, steps)
        for n in range(first, last):
            z[:] = kept[segment, n]
            for t in range(begin, end):
                for i in range(0, n_g, vector):
                    store_row(g, (t - begin) * n_g + i, apply(kind, load_row(z, i, 1)))
                _add_transposed(a, t * n_h * n_g, h, (t * samples + n) * n_h, z, 0, tile)
            for t in range(end - 1, begin - 1, -1):
                if stop.size and t >= stop[n]:
                    d_h[t, n] = 0
                    continue
                at, z_at, m_at = (t * samples + n) * n_h, n * n_g, t * n_h * n_g
                _add_product(a, m_at, d_z, z_at, d_h, at, tile)
                for j in range(0, n_h, vector):
                    d_row = load_row(d_h, at + j, 1)
                    d_row = apply_backward(kind, d_row, load_row(h, at + j, 1))
                    store_row(d_h, at + j, d_row)
                g_at = (t - begin) * n_g
                _add_outer_product(h, at, d_z, z_at, d_a, m_at, tile)
                _add_outer_product(d_h, at, g, g_at, d_w2, 0, tile)
                for i in range(0, n_g, vector):
                    change = zeros_tile(w2, 1)
                    for j in range(0, n_h, vector):
                        columns = load_tile(w2, j * n_g + i, n_g, tile, 1)
                        change = add_dot(change, d_h, at + j, columns)
                    change = apply_backward(kind, change, load_row(g, g_at + i, 1))
                    store_row(d_z, z_at + i, add(load_row(d_z, z_at + i, 1), change))


# The outputs of every step -------------------------------------------------------------------
#
# e (L, n_h, n_y) is E(t) transposed, h (L, N, n_h), and total (N, n_y) the running sum, with n_y
# padded to whole vectors; y and d_y (L, N, n_y) are not padded. ``tile`` is as long as n_h.


@_kernel
def outputs(e, h, total, y, tile, first, last):
    """y(t) = y(t-1) + E(t) h(t); ``total`` starts as the y before the first step."""
    steps, n_h, padded = e.shape
    samples, n_y = y.shape[1], y.shape[2]
    for t in range(steps):
        for n in range(first, last):
            at, numbers = n * padded, (t * samples + n) * n_h
            for i in range(0, padded, total.shape[2]):
                columns = load_tile(e, t * n_h * padded + i, padded, tile, 1)
                store_row(total, at + i, add_dot(load_row(total, at + i, 1), h, numbers, columns))
            y[t, n] = total[n].ravel()[:n_y]


@_kernel
def outputs_backward(e, h, total, d_y, d_h, d_e, tile, first, last):
    """The steps backwards: d_h (L, N, n_h) is written, d_e (L, n_h, n_y) added to.

    ``total`` (N, n_y), the gradient of all later y, is read and written.
    """
    steps, n_h, padded = e.shape
    samples, n_y, vector = d_y.shape[1], d_y.shape[2], total.shape[2]
    sums = np.zeros(-(-n_h // vector) * vector, e.dtype)
    for t in range(steps - 1, -1, -1):
        for n in range(first, last):
            total_n = total[n].ravel()
            for i in range(n_y):
                total_n[i] += d_y[t, n, i]
            products, numbers = zeros_tile(e, tile), (t * samples + n) * n_h
            for i in range(0, padded, vector):
                row, place = load_row(total, n * padded + i, 1), t * n_h * padded + i
                products = add_outer(products, load_tile(e, place, padded, tile, 1), row)
                rows = add_scaled(load_tile(d_e, place, padded, tile, 1), h, numbers, row)
                store_tile(d_e, place, padded, rows, 1)
            sums[:] = 0
            add_store_sums(sums, 0, products)
            d_h[t, n] = sums[:n_h]
