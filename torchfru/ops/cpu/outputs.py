"""u and y from h, y at every step, and their gradients, for both forms of the loop.

h, and its gradient, are (L, rows, n_h, row): samples in rows, with zeros where n_h and the samples
are padded. ``p`` is the record of :mod:`.plan`, ``like`` an array of the dtype.
"""

from __future__ import annotations

import numpy as np

from .products import add_product, transposed
from .simd import (
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

UNIT = 5  # rows of E(t) at once; n_h is padded to it


@kernel
def hidden_of(p, like):
    """h of a chunk."""
    at = p.h + p.begin * p.rows * p.h_row * p.row * like.itemsize
    return array_at(at, (p.length, p.rows, p.h_row, p.row), like, False)


@kernel
def new_hidden_of(p, like):
    """h of a chunk, to be written."""
    at = p.h + p.begin * p.rows * p.h_row * p.row * like.itemsize
    return array_at(at, (p.length, p.rows, p.h_row, p.row), like, True)


# Inputs ----------------------------------------------------------------------------------------


@kernel
def read_inputs(plan, like, x, w2, u_in, b2, stop, z, first, last):
    """Lay out what the loop reads, for rows first..last-1 of samples.

    x (L, n_in, lanes) is that of the chunk, from a tensor with any strides; where it is U x + b2
    already and vectors lie along z, it goes to h. stop has the steps of the chunk after which each
    lane ends; a lane without a sample ends at once: it could overflow, and inf * 0 is NaN. z is
    written before the first step; it is empty in the backward pass.
    """
    p = plan[0]
    samples = min(last * p.row, p.samples)
    source = array_at(p.x, (1 << 60,), like, False)
    if p.row == 1:
        h = new_hidden_of(p, like)
        for t in range(p.length if z.size else 0):  # not in the backward pass
            for n in range(first, last):
                at = (p.begin + t) * p.x_step + n * p.x_sample
                for j in range(p.h_row):
                    h[t, n, j, 0] = source[at + j] if j < p.n_h else 0
    else:
        for t in range(p.length):
            for i in range(p.n_in):
                at = (p.begin + t) * p.x_step + i * p.x_feature
                for n in range(first * p.row, samples):
                    x[t, i, n] = source[at + n * p.x_sample]
                for n in range(samples, last * p.row):
                    x[t, i, n] = 0
    _read_weights(p, like, w2, u_in, b2)
    lengths = array_at(p.lengths, (p.samples,), np.empty(0, np.int64), False)
    for n in range(stop.size):
        stop[n] = 0 if n >= p.samples else lengths[n] - p.begin if p.lengths else np.inf
    if z.size and p.begin == 0:
        start = array_at(p.z_start, (p.samples, p.n_g), like, False)
        z[first:last] = 0
        for n in range(first * p.row, samples if p.z_start else first * p.row):
            for i in range(p.n_g):
                z[n // p.row, i, n % p.row] = start[n if p.has_u else 0, i]


@kernel
def _read_weights(p, like, w2, u_in, b2):
    """W2 (n_g, n_h), or transposed where vectors lie along z, U (n_in, n_h) and b2, padded.

    All threads write the same.
    """
    weight = array_at(p.weight_gh, (p.n_h, p.n_g), like, False)
    for j in range(p.n_h):
        for i in range(p.n_g):
            if p.row == 1:
                w2[j, i] = weight[j, i]
            else:
                w2[i, j] = weight[j, i]
    weight = array_at(p.weight_xh, (p.n_h, p.n_in), like, False)
    bias = array_at(p.bias_h, (p.n_h,), like, False)
    for j in range(p.n_h if b2.size else 0):
        b2[j] = bias[j] if p.bias_h else 0
        for i in range(p.n_in):  # x may be U x + b2
            u_in[i, j] = weight[j, i] if p.weight_xh else i == j


# u ---------------------------------------------------------------------------------------------


@kernel
def finish_chunk(plan, like, c, e, memory, y_now, first, last):
    """y and u from h, for rows first..last-1 of samples; memory (K, lanes of h) sums c(t) h(t)."""
    p, part = plan[0], plan[0].h_row * plan[0].row
    h = hidden_of(p, like).reshape((p.length, p.rows * part))
    add_product(c, h, memory, p.begin == 0, first * part, last * part)
    end = min(last * p.row, p.samples)
    if p.n_y:
        outputs(p, like, e, y_now, first * p.row, end)
    if p.begin + p.length == p.steps:
        write_memory(p, like, memory, first * p.row, end)


@kernel
def reach_hidden(plan, like, c, dc, e, d_memory, by_phase, d_y_now, d_h, d_e, first, last):
    """The gradient that reaches h from u and y; and the derivative of the memory by the phases."""
    p, part = plan[0], plan[0].h_row * plan[0].row
    columns, end, is_last = (
        p.rows * part,
        min(last * p.row, p.samples),
        p.begin + p.length == p.steps,
    )
    if is_last:
        read_memory_gradient(p, like, d_memory, first * p.row, end)
    flat = d_h.reshape((p.length, columns))
    add_product(transposed(c), d_memory, flat, True, first * part, last * part)
    if dc.size:
        h = hidden_of(p, like).reshape((p.length, columns))
        add_product(dc, h, by_phase, is_last, first * part, last * part)
    if p.d_y:
        outputs_backward(p, like, e, hidden_of(p, like), d_y_now, d_h, d_e, first * p.row, end)


@kernel
def write_memory(p, like, memory, first, last):
    """u (N, n_u) after the last step, of samples first..last-1."""
    n_u = p.count * p.freq_dim
    u = array_at(p.u, (p.samples, n_u), like, True)
    before = array_at(p.u_start, (p.samples, n_u), like, False)
    for n in range(first, last):
        for k in range(p.count):
            place = (n // p.row * p.h_row + k % p.per_block * p.freq_dim) * p.row + n % p.row
            for j in range(p.freq_dim):
                at = k * p.freq_dim + j
                u[n, at] = memory[k, place + j * p.row] + (before[n, at] if p.u_start else 0)


@kernel
def read_memory_gradient(p, like, d_memory, first, last):
    """The inverse of :func:`write_memory`: d_memory, zeros so far, from the gradient of u."""
    d_u = array_at(p.d_u, (p.samples, p.count * p.freq_dim), like, False)
    for n in range(first, last if p.d_u else first):
        for k in range(p.count):
            place = (n // p.row * p.h_row + k % p.per_block * p.freq_dim) * p.row + n % p.row
            for j in range(p.freq_dim):
                d_memory[k, place + j * p.row] = d_u[n, k * p.freq_dim + j]


@kernel
def write_gradients(plan, like, d_h, d_z, first, last):
    """Those of U x + b2, (L, N, n_h), and of z (N, n_g) before the first step, after the loop."""
    p = plan[0]
    end, row = min(last * p.row, p.samples), p.row
    at = p.d_x + p.begin * p.samples * p.n_h * like.itemsize
    d_x = array_at(at, (p.length, p.samples, p.n_h), like, True)
    for t in range(p.length if p.d_x else 0):
        for n in range(first * row, end):
            for j in range(p.n_h):
                d_x[t, n, j] = d_h[t, n // row, j, n % row]
    out = array_at(p.d_z, (p.samples, p.n_g), like, True)
    for n in range(first * row, end if p.begin == 0 else first * row):
        for i in range(p.n_g):
            out[n, i] = d_z[n // row, i, n % row]


# y at every step -------------------------------------------------------------------------------
#
# e (L, n_h n_y) is E(t) transposed, y_now (N, n_y) the running sum, with n_h padded to UNIT and n_y
# to whole vectors; y and d_y (L, N, n_y) are not padded.


@kernel
def _numbers_of(h, t, n, numbers):
    """h of one sample at one step."""
    row = h.shape[3]
    for j in range(min(numbers.size, h.shape[2])):
        numbers[j] = h[t, n // row, j, n % row]


@kernel
def outputs(p, like, e, y_now, first, last):
    """y(t) = y(t-1) + E(t) h(t), for samples first..last-1."""
    h, width = hidden_of(p, like), y_now.shape[1]
    at = p.y + p.begin * p.samples * p.n_y * like.itemsize
    y = array_at(at, (p.length, p.samples, p.n_y), like, True)
    numbers = np.zeros(e.shape[1] // width, like.dtype)
    if p.begin == 0:
        start = array_at(p.y_start, (p.samples, p.n_y), like, False)
        for n in range(first, last):
            for i in range(width):
                known = p.y_start and i < p.n_y
                y_now[n, i] = start[n if p.has_u else 0, i] if known else 0
    for t in range(p.length):
        for n in range(first, last):
            _numbers_of(h, t, n, numbers)
            for i in range(0, width, lanes_of(like)):
                total = load_row(y_now, n * width + i, 1)
                for j in range(0, numbers.size, UNIT):
                    columns = load_tile(e, t * e.shape[1] + j * width + i, width, UNIT, 1)
                    total = add_dot(total, numbers, j, columns)
                store_row(y_now, n * width + i, total)
            for i in range(p.n_y):
                y[t, n, i] = y_now[n, i]


@kernel
def outputs_backward(p, like, e, h, d_y_now, d_h, d_e, first, last):
    """The steps backwards: d_h is added to, d_e (L, n_h n_y) written.

    ``d_y_now`` (N, n_y), the gradient of all later y, is read and written.
    """
    width, vector, row = d_y_now.shape[1], lanes_of(like), h.shape[3]
    at = p.d_y + p.begin * p.samples * p.n_y * like.itemsize
    d_y = array_at(at, (p.length, p.samples, p.n_y), like, False)
    numbers = np.zeros(e.shape[1] // width, like.dtype)
    sums = np.zeros(numbers.size + vector, like.dtype)
    d_e[:] = 0
    for t in range(p.length - 1, -1, -1):
        for n in range(first, last):
            for i in range(p.n_y):
                d_y_now[n, i] += d_y[t, n, i]
            _numbers_of(h, t, n, numbers)
            sums[:] = 0
            for j in range(0, numbers.size, UNIT):
                products = zeros_tile(e, UNIT, 1)
                for i in range(0, width, vector):
                    gradient = load_row(d_y_now, n * width + i, 1)
                    place = t * e.shape[1] + j * width + i
                    columns = load_tile(e, place, width, UNIT, 1)
                    products = add_outer(products, columns, gradient)
                    d_columns = load_tile(d_e, place, width, UNIT, 1)
                    store_tile(d_e, place, width, add_scaled(d_columns, numbers, j, gradient), 1)
                add_store_sums(sums, j, products)
            for j in range(p.n_h):
                d_h[t, n // row, j, n % row] += sums[j]
