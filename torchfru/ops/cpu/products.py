"""Matrix products over time, and the rows of the basis that they begin with.

A(t), E(t), u and their gradients are all of one form: numbers times vectors, summed over time or
over frequencies. The products here use the widest vectors of the processor, which the library
behind ``torch.mm`` does not do on every processor.
"""

from __future__ import annotations

import math

import numpy as np

from .simd import (
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

DEPTH = 64  # terms that are summed in registers between two visits to memory


@kernel
def add_product(numbers, vectors, out, overwrite, first, last):
    """out[j, n] += sum_r numbers[r, j] vectors[r, n], or = with ``overwrite``.

    n runs from first to last-1, whole vectors. ``out`` may have fewer rows than numbers has
    columns.
    """
    vector = lanes_of(out)
    copy = np.empty(2 * vector * DEPTH, out.dtype)
    whole = last - (last - first) % (2 * vector)
    for at in range(first, whole, 2 * vector):
        _add_columns(numbers, vectors, out, overwrite, at, copy, (0, 0))
    if whole < last:
        _add_columns(numbers, vectors, out, overwrite, whole, copy, (0,))


@kernel
def _add_columns(numbers, vectors, out, overwrite, at, copy, width):
    """One column of vectors: a copy of it lies together, and stays in the first cache."""
    terms, across, columns = numbers.shape[0], numbers.shape[1], out.shape[1]
    row, whole = len(width) * lanes_of(out), out.shape[0] - out.shape[0] % MAX_TILE
    for begin in range(0, terms, DEPTH):
        depth, first = min(DEPTH, terms - begin), overwrite and begin == 0
        for r in range(depth):
            store_row(copy, r * row, load_row(vectors, (begin + r) * columns + at, width))
        for j in range(0, whole, MAX_TILE):
            place = j * columns + at
            sums = zeros_tile(out, MAX_TILE, width)
            if not first:
                sums = load_tile(out, place, columns, MAX_TILE, width)
            for r in range(depth):
                vectors_r = load_row(copy, r * row, width)
                sums = add_scaled(sums, numbers, (begin + r) * across + j, vectors_r)
            store_tile(out, place, columns, sums, width)
        for j in range(whole, out.shape[0]):
            place = j * columns + at
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
def transposed(a):
    out = np.empty((a.shape[1], a.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[i, j]
    return out


# Copies ----------------------------------------------------------------------------------------


@kernel
def copy_transposed(source, rows, columns, row_step, out, out_step, square):
    """out[j * out_step + i] = source[i * row_step + j]; ``square`` has as many entries as lanes."""
    lanes = len(square)
    for i in range(0, rows, lanes):
        for j in range(0, columns, lanes):
            if i + lanes <= rows and j + lanes <= columns:
                tile = load_tile(source, i * row_step + j, row_step, square, 1)
                store_tile(out, j * out_step + i, out_step, transpose_tile(tile), 1)
            else:
                for a in range(i, min(i + lanes, rows)):
                    for b in range(j, min(j + lanes, columns)):
                        out[b * out_step + a] = source[a * row_step + b]


# The basis -------------------------------------------------------------------------------------

# Of sin and cos around 0, enough for a quarter of a turn in float64.
_SIN = tuple((-1) ** i / math.factorial(2 * i + 1) for i in range(8))
_COS = tuple((-1) ** i / math.factorial(2 * i) for i in range(9))


@kernel
def write_rows(p, like, c, dc, first, last):
    """c(t) for steps first..last-1 of a chunk, (L, K), and dc, its derivative by the phases."""
    if p.basis:
        rows = array_at(p.basis, (p.steps, p.count), like, False)
        c[first:last] = rows[p.begin + first : p.begin + last]
        return
    freqs = array_at(p.freqs, (p.count,), like, False)
    phase = array_at(p.phase, (p.count if p.phase else 0,), like, False)
    fourier_rows(freqs, phase, p.start + p.begin, p.seq_len, c, dc, first, last)


@kernel
def fourier_rows(freqs, phase, taken, seq_len, c, dc, first, last):
    """cos(2 pi f t / T + theta) / T for t = taken + 1, ..., and its derivative by theta.

    Whole turns are dropped in float64. dc and phase may be empty.
    """
    count = freqs.size
    rate, shift = np.empty(count), np.zeros(count)  # turns a step, and turns at step 0
    for k in range(count):
        rate[k] = np.float64(freqs[k]) / seq_len
    for k in range(phase.size):
        shift[k] = np.float64(phase[k]) / (2 * math.pi)
    cosine, sine = np.empty(count), np.empty(count)
    for t in range(first, last):
        step = np.float64(min(taken + t + 1, seq_len))  # padding may exceed seq_len
        for k in range(count):
            turns = step * rate[k]
            turns = turns - np.floor(turns) + shift[k]
            quarter = np.floor(4 * turns + 0.5)
            angle = (turns - quarter / 4) * (2 * math.pi)  # within an eighth of a turn
            square = angle * angle
            sin, cos = _SIN[7], _COS[8]
            for i in range(6, -1, -1):
                sin = sin * square + _SIN[i]
            for i in range(7, -1, -1):
                cos = cos * square + _COS[i]
            sin *= angle
            quarter -= 4 * np.floor(quarter / 4)
            odd = quarter == 1 or quarter == 3
            a, b = (sin, cos) if odd else (cos, sin)
            cosine[k] = -a if quarter == 1 or quarter == 2 else a
            sine[k] = -b if quarter >= 2 else b
        for k in range(count):
            c[t, k] = cosine[k] / seq_len
        for k in range(count if dc.size else 0):
            dc[t, k] = -sine[k] / seq_len
