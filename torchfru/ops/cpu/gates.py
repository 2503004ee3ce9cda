"""A(t) and E(t) from the weights, the gradients of the weights from theirs, and products over time.

A weight W (n, n_u) makes a matrix (n, n_h) for each frequency, whose columns are where its slice of
h is, with zeros elsewhere. All of them together lie in an array (K, numbers), entry (i, j) of each

    ROWS      at i * step + j     for A(t) of the loop with vectors of samples
    COLUMNS   at i + j * step     for E(t), and for A(t) of the loop for few samples
    BLOCKS    G_UNIT times H_UNIT entries side by side, ``step`` for those of G_UNIT rows: for the
              gradient of A(t) of the former loop

A(t), E(t), u and their gradients are all of one form: numbers times vectors, summed over time or
over frequencies. The products here use the widest vectors of the processor, which the library
behind ``torch.mm`` does not do on every processor.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .simd import (
    BLOCK,
    G_UNIT,
    H_UNIT,
    MAX_TILE,
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
    transpose_tile,
    zeros_tile,
)

ROWS, COLUMNS, BLOCKS = 0, 1, 2
DEPTH = 64  # terms that are summed in registers between two visits to memory

# Products --------------------------------------------------------------------------------------


@kernel
def add_product(numbers, vectors, out, out_first, overwrite, first, last):
    """out[j, out_first + n] += sum_r numbers[r, j] vectors[r, n], or = with ``overwrite``.

    n runs from first to last-1, whole vectors. ``out`` may have fewer rows than numbers has
    columns.
    """
    add_folded_product(numbers, vectors, 0, out, out_first, overwrite, first, last)


@kernel
def add_folded_product(numbers, vectors, sign, out, out_first, overwrite, first, last):
    """As :func:`add_product`, with vectors[r] + sign vectors[-1 - r] for vectors[r]."""
    vector = lanes_of(out)
    copy = np.empty(2 * vector * DEPTH, out.dtype)
    signs, whole = np.full(1, sign, out.dtype), last - (last - first) % (2 * vector)
    for at in range(first, whole, 2 * vector):
        _add_columns(numbers, vectors, at, signs, out, out_first + at, overwrite, copy, (0, 0))
    if whole < last:
        place = out_first + whole
        _add_columns(numbers, vectors, whole, signs, out, place, overwrite, copy, (0,))


@kernel
def _add_columns(numbers, vectors, at, signs, out, out_at, overwrite, copy, width):
    """One column of vectors: a copy of it lies together, and stays in the first cache."""
    terms, across, columns = numbers.shape[0], numbers.shape[1], out.shape[1]
    row, whole = len(width) * lanes_of(out), out.shape[0] - out.shape[0] % MAX_TILE
    for begin in range(0, terms, DEPTH):
        depth, first = min(DEPTH, terms - begin), overwrite and begin == 0
        for r in range(depth):
            vectors_r = load_row(vectors, (begin + r) * vectors.shape[1] + at, width)
            if signs[0]:
                opposite = (vectors.shape[0] - 1 - begin - r) * vectors.shape[1] + at
                vectors_r = add_scaled(vectors_r, signs, 0, load_row(vectors, opposite, width))
            store_row(copy, r * row, vectors_r)
        for j in range(0, whole, MAX_TILE):
            place = j * columns + out_at
            sums = zeros_tile(out, MAX_TILE, width)
            if not first:
                sums = load_tile(out, place, columns, MAX_TILE, width)
            for r in range(depth):
                vectors_r = load_row(copy, r * row, width)
                sums = add_scaled(sums, numbers, (begin + r) * across + j, vectors_r)
            store_tile(out, place, columns, sums, width)
        for j in range(whole, out.shape[0]):
            place = j * columns + out_at
            total = zeros_tile(out, 1, width) if first else load_row(out, place, width)
            for r in range(depth):
                vectors_r = load_row(copy, r * row, width)
                total = add_scaled(total, numbers, (begin + r) * across + j, vectors_r)
            store_row(out, place, total)


@kernel
def dot(a, b):
    """sum_i a[i] b[i] of two arrays of whole vectors."""
    step, total = lanes_of(a), zeros_tile(a, 1, 1)
    for i in range(0, a.size, step):
        total = add_outer(total, load_row(a, i, 1), load_row(b, i, 1))
    sums = np.zeros(step, a.dtype)
    add_store_sums(sums, 0, total)
    return sums[0]


@kernel
def transposed(a, like):
    out = np.empty((a.shape[1], a.shape[0]), a.dtype)
    flat, columns = a.reshape(a.size), out.reshape(a.size)
    copy_transposed(flat, 0, a.shape[0], a.shape[1], a.shape[1], columns, 0, a.shape[0], like)
    return out


@kernel
def copy_transposed(source, at, rows, columns, row_step, out, out_at, out_step, like):
    """out[out_at + j * out_step + i] = source[at + i * row_step + j].

    Squares of as many rows and columns as a vector has lanes are transposed in registers.
    """
    lanes = lanes_of(like)
    for i in range(0, rows, lanes):
        for j in range(0, columns, lanes):
            begin, place = at + i * row_step + j, out_at + j * out_step + i
            if i + lanes <= rows and j + lanes <= columns:
                tile = load_tile(source, begin, row_step, like, 1)
                store_tile(out, place, out_step, transpose_tile(tile), 1)
            else:
                for a in range(min(lanes, rows - i)):
                    for b in range(min(lanes, columns - j)):
                        out[place + b * out_step + a] = source[begin + a * row_step + b]


# The basis -------------------------------------------------------------------------------------

_SIN = tuple((-1) ** i / math.factorial(2 * i + 1) for i in range(11))  # to a quarter of a turn


@njit(inline="always")
def _cosine(turns):
    """cos(2 pi turns), in float64: the sine of what is left to a quarter of a turn."""
    angle = (0.25 - abs(turns - np.floor(turns + 0.5))) * (2 * math.pi)
    square = angle * angle
    total = _SIN[10]
    for i in range(9, -1, -1):
        total = total * square + _SIN[i]
    return total * angle


@kernel
def _rates(p, like):
    """Turns a step and turns at step 0 of each wave, in float64."""
    freqs = array_at(p.freqs, (p.count,), like, False)
    phase = array_at(p.phase, (p.count if p.phase else 0,), like, False)
    return turns_of(freqs, phase, p.seq_len)


@kernel
def turns_of(freqs, phase, seq_len):
    rate, shift = np.empty(freqs.size), np.zeros(freqs.size)
    for k in range(freqs.size):
        rate[k] = np.float64(freqs[k]) / seq_len
    for k in range(phase.size):
        shift[k] = np.float64(phase[k]) / (2 * math.pi)
    return rate, shift


@kernel
def fourier_rows(rate, shift, taken, seq_len, c, dc, first, last):
    """cos(2 pi f t / T + theta) / T for t = taken + 1, ..., and its derivative by theta.

    Whole turns are dropped in float64. Either may be empty.
    """
    for t in range(first, last):
        step = np.float64(min(taken + t + 1, seq_len))  # padding may exceed seq_len
        for k in range(rate.size if c.size else 0):
            turns = step * rate[k]
            c[t, k] = _cosine(turns - np.floor(turns) + shift[k]) / seq_len
        for k in range(rate.size if dc.size else 0):
            turns = step * rate[k]
            dc[t, k] = _cosine(turns - np.floor(turns) + shift[k] + 0.25) / seq_len


@kernel
def _folded_rows(rate, length, out, first, last):
    """cos and sin of 2 pi f s / T, s steps before the middle of a chunk, the one below the other.

    s is 0 in the middle of an odd number of steps, which :func:`add_gradients` takes twice.
    """
    half = (length + 1) // 2
    for t in range(first, min(last, 2 * half)):
        s, quarter = (length - 1) / 2 - t % half, 0.25 if t >= half else 0.0
        size = 0.5 if s == 0 else 1.0
        for k in range(rate.size):
            turns = s * rate[k]
            out[t, k] = _cosine(turns - np.floor(turns) - quarter) * size


# Weights by frequency ---------------------------------------------------------------------------


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
def split(p, like, address, n, layout, step, out):
    """The matrices of a weight by frequency, (K, numbers)."""
    n_u, vector = p.count * p.freq_dim, lanes_of(like)
    weight, flat = array_at(address, (n * n_u,), like, False), out.reshape(out.size)
    d, numbers, whole = p.freq_dim, out.shape[1], p.per_block == 1
    row_at, column_at = _places(layout, step, vector, n, p.n_h)
    if whole and layout == COLUMNS and numbers == d * step:
        flat.reshape((n_u, step))[:, n:] = 0
        copy_transposed(weight, 0, n, n_u, n_u, flat, 0, step, like)
        return
    if whole and layout == ROWS and step == d:
        out[:, n * d :] = 0
        too_many = (d + vector - 1) // vector * vector  # numbers, copied by whole vectors
        for k in range(p.count):
            for i in range(n):
                at, place, exactly = i * n_u + k * d, k * numbers + i * d, i * d + too_many > n * d
                _copy_row(weight, at, flat, place, d, exactly)
        return
    out[:] = 0
    if whole and layout != COLUMNS and d % H_UNIT == 0:
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


@njit(inline="always")
def _copy_row(source, at, out, place, numbers, exactly):
    """Copy numbers by whole vectors: too many, unless ``exactly``, for later ones to replace."""
    if exactly:
        for j in range(numbers):
            out[place + j] = source[at + j]
    else:
        for j in range(0, numbers, lanes_of(out)):
            store_row(out, place + j, load_row(source, at + j, 1))


@kernel
def join(p, like, found, n, layout, step, d_weight):
    """Write the gradient of a weight (n n_u,) from those of its matrices."""
    n_u, vector, flat = p.count * p.freq_dim, lanes_of(like), found.reshape(found.size)
    d, numbers, whole = p.freq_dim, found.shape[1], p.per_block == 1
    row_at, column_at = _places(layout, step, vector, n, p.n_h)
    if whole and layout == COLUMNS and numbers == d * step:
        copy_transposed(flat, 0, n_u, n, step, d_weight, 0, n_u, like)
    elif whole and layout == BLOCKS and d % H_UNIT == 0:
        for k in range(p.count):
            for i in range(n):
                for j in range(0, d, H_UNIT):
                    at, place = i * n_u + k * d + j, k * numbers + row_at[i] + column_at[j]
                    _copy_row(flat, place, d_weight, at, H_UNIT, k * d + j + vector > n_u)
    else:
        for i in range(n):
            for k in range(p.count):
                for j in range(d):
                    place = row_at[i] + column_at[k % p.per_block * d + j]
                    d_weight[i * n_u + k * d + j] = found[k, place]


@kernel
def _add_phase_gradient(p, like, by_phase, n, layout, step, address):
    """Add that of the phases, from the derivatives of a weight's matrices by them."""
    n_u = p.count * p.freq_dim
    weight, by_weight = array_at(address, (n * n_u,), like, False), np.empty(n * n_u, like.dtype)
    join(p, like, by_phase, n, layout, step, by_weight)
    products, d_phase = np.zeros(n_u, like.dtype), array_at(p.d_phase, (p.count,), like, True)
    for i in range(n):
        for q in range(n_u):
            products[q] += weight[i * n_u + q] * by_weight[i * n_u + q]
    for k in range(p.count):
        d_phase[k] += products[k * p.freq_dim : (k + 1) * p.freq_dim].sum()


# A chunk of steps ------------------------------------------------------------------------------


@kernel
def prepare(plan, like, gate, e_gate, c, dc, folded, begins, has_gates, first, last):
    """Rows of the basis for steps first..last-1 of a chunk, those that are not empty; A(t) and
    E(t), side by side, unless they are there."""
    p = plan[0]
    if p.basis:
        rows = array_at(p.basis, (p.steps, p.count), like, False)
        c[first:last] = rows[p.begin + first : p.begin + last]
    else:
        rate, shift = _rates(p, like)
        fourier_rows(rate, shift, p.start + p.begin, p.seq_len, c, dc, first, last)
        if folded.size:
            end = last + p.length % 2 if last == p.length else last
            _folded_rows(rate, p.length, folded, first, end)
    if has_gates:
        return
    if begins:
        split(p, like, p.weight_ug, p.n_g, p.gate_layout, p.gate_step, gate)
        if p.n_y:
            split(p, like, p.weight_uy, p.n_y, COLUMNS, p.y_width, e_gate)
    a = array_at(p.a, (p.length, p.a_step), like, True)[first:last]
    by_freq = transposed(c[first:last], like)
    add_product(by_freq, gate, a, 0, True, 0, p.numbers)
    if p.n_y:
        add_product(by_freq, e_gate, a, p.numbers, True, 0, e_gate.shape[1])


@kernel
def add_gradients(plan, like, c, folded, d, found, by_phase, first, last):
    """From d (L, n), the gradient of A(t) or E(t), that of the weights by frequency.

    ``found`` and its derivative by the phases are (K, n); only the vectors first..last-1 of each
    row are computed. Both sum d(t) over t, with cos(w t + theta) and with -sin(w t + theta). From
    the middle of the chunk, where w t + theta is psi, both follow from half as many products:

        sum_s cos(w s) (d(-s) + d(s))   and   sum_s sin(w s) (d(-s) - d(s))

    which are turned by psi.
    """
    p, vector = plan[0], lanes_of(like)
    overwrite, begin, end = p.begin + p.length == p.steps, first * vector, last * vector
    if not folded.size:
        add_product(c, d, found, 0, overwrite, begin, end)
        return
    even, odd, half = np.empty_like(found), np.empty_like(found), (p.length + 1) // 2
    add_folded_product(folded[:half], d, 1, even, 0, True, begin, end)
    add_folded_product(folded[half : 2 * half], d, -1, odd, 0, True, begin, end)
    middle, (rate, shift) = p.start + p.begin + (p.length + 1) / 2, _rates(p, like)
    psi = np.empty(3, like.dtype)
    for k in range(p.count):
        turns = middle * rate[k]
        turns += shift[k] - np.floor(turns)
        psi[0], psi[1] = _cosine(turns) / p.seq_len, _cosine(turns - 0.25) / p.seq_len
        psi[2] = -psi[1]
        for at in range(k * d.shape[1] + begin, k * d.shape[1] + end, vector):
            even_row, odd_row = load_row(even, at, 1), load_row(odd, at, 1)
            total = zeros_tile(found, 1, 1) if overwrite else load_row(found, at, 1)
            store_row(found, at, add_scaled(add_scaled(total, psi, 0, even_row), psi, 1, odd_row))
            total = zeros_tile(found, 1, 1) if overwrite else load_row(by_phase, at, 1)
            by_row = add_scaled(add_scaled(total, psi, 0, odd_row), psi, 2, even_row)
            store_row(by_phase, at, by_row)


@kernel
def split_sums(plan, like, gate, e_gate):
    """The weights that make A(t) and E(t), laid out as their gradients are."""
    p = plan[0]
    split(p, like, p.weight_ug, p.n_g, p.sums_layout, p.sums_step, gate)
    if p.n_y:
        split(p, like, p.weight_uy, p.n_y, COLUMNS, p.y_width, e_gate)


@kernel
def finish(
    plan, like, found, e_found, by_phase, e_by_phase, phases, d_memory, memory_by_phase, d_w,
    d_y_now,
):  # fmt: skip
    """Write the gradients of all weights, from those of A(t) and E(t)."""
    p = plan[0]
    _finish_gates(p, like, found, by_phase, phases, d_memory, memory_by_phase, d_w)
    if p.n_y:
        _finish_outputs(p, like, e_found, e_by_phase, phases, d_y_now)


@kernel
def _finish_gates(p, like, found, by_phase, phases, d_memory, memory_by_phase, d_w):
    """Write the gradients of the weights of the loop, and of the phases; d_w is as in the loop."""
    vector = lanes_of(like)
    layout, step = p.sums_layout, p.sums_step
    d_ug = array_at(p.d_weight_ug, (p.n_g * p.count * p.freq_dim,), like, True)
    join(p, like, found, p.n_g, layout, step, d_ug)
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
    if phases:
        d_phase = array_at(p.d_phase, (p.count,), like, True)
        for k in range(p.count):
            d_phase[k] = dot(memory_by_phase[k], d_memory[k]) if p.d_u else 0
        _add_phase_gradient(p, like, by_phase, p.n_g, layout, step, p.weight_ug)


@kernel
def _finish_outputs(p, like, found, by_phase, phases, d_y_now):
    """Write the gradients of the output's weight and of the y before the first step."""
    d_uy = array_at(p.d_weight_uy, (p.n_y * p.count * p.freq_dim,), like, True)
    join(p, like, found, p.n_y, COLUMNS, p.y_width, d_uy)
    if phases:
        _add_phase_gradient(p, like, by_phase, p.n_y, COLUMNS, p.y_width, p.weight_uy)
    d_start = array_at(p.d_y_start, (p.samples, p.n_y), like, True)
    d_start[:] = d_y_now[: p.samples, : p.n_y]
