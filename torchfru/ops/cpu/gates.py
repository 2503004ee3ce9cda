"""A(t) and E(t) from the weights, and the gradients of the weights from theirs.

A weight W (n, n_u) makes a matrix (n, n_h) for each frequency, whose columns are where its slice of
h is, with zeros elsewhere. All of them together lie in an array (K, numbers), entry (i, j) of each

    ROWS      at i * step + j     for A(t) of the loop with vectors of samples
    COLUMNS   at i + j * step     for E(t), and for A(t) of the loop for few samples
    BLOCKS    G_UNIT times H_UNIT entries side by side, ``step`` for those of G_UNIT rows: for the
              gradient of A(t) of the former loop
"""

from __future__ import annotations

import numpy as np

from .batch import BLOCK, G_UNIT, H_UNIT
from .products import add_product, copy_transposed, dot, transposed, write_rows
from .simd import array_at, kernel, lanes_of

ROWS, COLUMNS, BLOCKS = 0, 1, 2


@kernel
def _places(layout, step, vector, rows, columns):
    """Where rows and columns begin: entry (i, j) lies at the sum of the two."""
    row_at, column_at = np.arange(rows) * step, np.arange(columns)
    if layout == COLUMNS:
        return np.arange(rows), np.arange(columns) * step
    if layout == BLOCKS:
        sums = (BLOCK + vector - 1) // vector * vector
        for i in range(rows):
            row_at[i] = i // G_UNIT * step + i % G_UNIT * H_UNIT
        for j in range(columns):
            column_at[j] = j // H_UNIT * sums + j % H_UNIT
    return row_at, column_at


@kernel
def split(p, like, address, n, layout, step, out, square):
    """The matrices of a weight by frequency, (K, numbers)."""
    n_u, vector = p.count * p.freq_dim, lanes_of(like)
    weight, flat = array_at(address, (n * n_u,), like, False), out.reshape(out.size)
    d, numbers, whole = p.freq_dim, out.shape[1], p.per_block == 1
    row_at, column_at = _places(layout, step, vector, n, p.n_h)
    out[:] = 0
    if whole and layout == COLUMNS and numbers == d * step:
        copy_transposed(weight, n, n_u, n_u, flat, step, square)
    elif whole and layout != COLUMNS and d % H_UNIT == 0:
        for k in range(p.count):
            for i in range(n):
                for j in range(0, d, H_UNIT):
                    at, place = i * n_u + k * d + j, k * numbers + row_at[i] + column_at[j]
                    for near in range(H_UNIT):
                        flat[place + near] = weight[at + near]
    else:
        for k in range(p.count):
            for i in range(n):
                for j in range(d):
                    place = row_at[i] + column_at[k % p.per_block * d + j]
                    out[k, place] = weight[i * n_u + k * d + j]


@kernel
def join(p, like, found, n, layout, step, address, square):
    """Write the gradient of a weight from those of its matrices."""
    n_u, vector = p.count * p.freq_dim, lanes_of(like)
    d_weight, flat = array_at(address, (n * n_u,), like, True), found.reshape(found.size)
    d, numbers, whole = p.freq_dim, found.shape[1], p.per_block == 1
    row_at, column_at = _places(layout, step, vector, n, p.n_h)
    if whole and layout == COLUMNS and numbers == d * step:
        copy_transposed(flat, n_u, n, step, d_weight, n_u, square)
    elif whole and layout == BLOCKS and d % H_UNIT == 0:
        for i in range(n):
            for k in range(p.count):
                for j in range(0, d, H_UNIT):
                    at, place = i * n_u + k * d + j, k * numbers + row_at[i] + column_at[j]
                    for near in range(H_UNIT):
                        d_weight[at + near] = flat[place + near]
    else:
        for i in range(n):
            for k in range(p.count):
                for j in range(d):
                    place = row_at[i] + column_at[k % p.per_block * d + j]
                    d_weight[i * n_u + k * d + j] = found[k, place]


# A chunk of steps ------------------------------------------------------------------------------


@kernel
def prepare(plan, like, gate, e_gate, c, dc, e, square, begins, has_gates, first, last):
    """c(t), A(t) unless it is there, and E(t), for steps first..last-1 of a chunk."""
    p = plan[0]
    if begins and not has_gates:
        split(p, like, p.weight_ug, p.n_g, p.gate_layout, p.gate_step, gate, square)
    if begins and p.n_y:
        split(p, like, p.weight_uy, p.n_y, COLUMNS, p.y_width, e_gate, square)
    write_rows(p, like, c, dc, first, last)
    by_freq = transposed(c[first:last])
    if not has_gates:
        a = array_at(p.a, (p.length, p.numbers), like, True)
        add_product(by_freq, gate, a[first:last], True, 0, p.numbers)
    if p.n_y:
        add_product(by_freq, e_gate, e[first:last], True, 0, e.shape[1])


@kernel
def add_gradients(plan, c, dc, d, found, by_phase, first, last):
    """From d (L, n), the gradient of A(t) or E(t), that of the weights by frequency.

    ``found`` and ``by_phase`` are (K, n); only the vectors first..last-1 of each row are computed.
    """
    p = plan[0]
    overwrite, vector = p.begin + p.length == p.steps, lanes_of(c)
    add_product(c, d, found, overwrite, first * vector, last * vector)
    if dc.size:
        add_product(dc, d, by_phase, overwrite, first * vector, last * vector)


@kernel
def split_sums(plan, like, out, square):
    """The weights that make A(t), laid out as its gradient is."""
    p = plan[0]
    split(p, like, p.weight_ug, p.n_g, p.sums_layout, p.sums_step, out, square)


@kernel
def finish_gates(plan, like, found, by_phase, d_memory, memory_by_phase, d_w, square):
    """Write the gradients of the weights of the loop, and of the phases; d_w is as in the loop."""
    p, vector = plan[0], lanes_of(like)
    layout, step = p.sums_layout, p.sums_step
    join(p, like, found, p.n_g, layout, step, p.d_weight_ug, square)
    flat, rows = d_w.reshape(d_w.size), p.n_g_pad + p.n_in + 1
    row_at, column_at = _places(layout, step, vector, rows, p.n_h)
    d_gh = array_at(p.d_weight_gh, (p.n_h, p.n_g), like, True)
    for j in range(p.n_h):
        for i in range(p.n_g):
            d_gh[j, i] = flat[row_at[i] + column_at[j]]
    if p.d_weight_xh:
        d_xh = array_at(p.d_weight_xh, (p.n_h, p.n_in), like, True)
        d_bias = array_at(p.d_bias_h, (p.n_h,), like, True)
        for j in range(p.n_h):
            for i in range(p.n_in):
                d_xh[j, i] = flat[row_at[p.n_g_pad + i] + column_at[j]]
            d_bias[j] = flat[row_at[p.n_g_pad + p.n_in] + column_at[j]]
    if by_phase.size:
        split(p, like, p.weight_ug, p.n_g, layout, step, found, square)
        d_phase = array_at(p.d_phase, (p.count,), like, True)
        for k in range(p.count):
            d_phase[k] = dot(memory_by_phase[k], d_memory[k]) + dot(by_phase[k], found[k])


@kernel
def finish_outputs(plan, like, found, by_phase, e_gate, d_y_now, square):
    """Write the gradients of the output's weight and of the y before the first step."""
    p = plan[0]
    join(p, like, found, p.n_y, COLUMNS, p.y_width, p.d_weight_uy, square)
    d_phase = array_at(p.d_phase, (p.count,), like, True)
    for k in range(p.count if by_phase.size else 0):
        d_phase[k] += dot(by_phase[k], e_gate[k])
    d_start = array_at(p.d_y_start, (p.samples, p.n_y), like, True)
    d_start[:] = d_y_now[:, : p.n_y]
