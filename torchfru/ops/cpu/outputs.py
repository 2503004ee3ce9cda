"""What the loop reads and writes: x, weights, h, u, y and gradients, in the layouts of kernels.

h, and its gradient, are (L, rows, n_h, row): samples in rows, with zeros where n_h and the samples
are padded. ``p`` is the record of :mod:`.plan`, ``like`` an array of the dtype.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .gates import add_product, copy_transposed, transposed
from .simd import SEGMENT, array_at, kernel, lanes_of, load_row, store_row, zeros_tile

# Arrays of a chunk -----------------------------------------------------------------------------


@kernel
def hidden_of(p, like):
    at = p.h + p.begin * p.rows * p.h_row * p.row * like.itemsize
    return array_at(at, (p.length, p.rows, p.h_row, p.row), like, False)


@kernel
def new_hidden_of(p, like):
    at = p.h + p.begin * p.rows * p.h_row * p.row * like.itemsize
    return array_at(at, (p.length, p.rows, p.h_row, p.row), like, True)


@kernel
def checkpoints_of(p, like):
    at = p.checkpoints + p.begin // SEGMENT * p.rows * p.n_g_pad * p.row * like.itemsize
    shape = (p.segments - p.begin // SEGMENT, p.rows, p.n_g_pad, p.row)
    return array_at(at, shape, like, False)


@kernel
def new_checkpoints_of(p, like):
    at = p.checkpoints + p.begin // SEGMENT * p.rows * p.n_g_pad * p.row * like.itemsize
    shape = (p.segments - p.begin // SEGMENT, p.rows, p.n_g_pad, p.row)
    return array_at(at, shape, like, True)


@kernel
def matrices_of(p, like):
    """A(t), and E(t) behind it, (L, a_step)."""
    return array_at(p.a, (p.length, p.a_step), like, False)


@kernel
def lengths_of(p):
    """The length of each sample, if they are given: past it y is 0, and its gradient unused."""
    return array_at(p.lengths, (p.samples if p.lengths else 0,), np.empty(0, np.int64), False)


# Inputs ----------------------------------------------------------------------------------------


@kernel
def read_inputs(p, like, x, first, last):
    """x (L, n_in, lanes) of the chunk, for rows first..last-1, from a tensor with any strides."""
    samples, vector = min(last * p.row, p.samples), lanes_of(like)
    source, out = array_at(p.x, (1 << 60,), like, False), x.reshape(x.size)
    whole = p.n_in - p.n_in % vector if p.x_feature == 1 else 0
    for t in range(p.length if whole else 0):
        at, place = (p.begin + t) * p.x_step, t * p.n_in * x.shape[2]
        for n in range(first * p.row, samples, vector):
            count, begin = min(vector, samples - n), at + n * p.x_sample
            copy_transposed(
                source, begin, count, whole, p.x_sample, out, place + n, x.shape[2], like
            )
    for t in range(p.length):
        for i in range(p.n_in):
            at = (p.begin + t) * p.x_step + i * p.x_feature
            for n in range(first * p.row, samples if i >= whole else 0):
                x[t, i, n] = source[at + n * p.x_sample]
            for n in range(samples, last * p.row):
                x[t, i, n] = 0


@kernel
def read_stops(p, like):
    """After how many steps of the chunk each lane ends; (0,) where none does.

    A lane without a sample ends at once: it could overflow, and inf * 0 is NaN.
    """
    lanes, lengths = p.rows * p.row, lengths_of(p)
    stop = np.empty(lanes if lengths.size or lanes > p.samples else 0, like.dtype)
    for n in range(stop.size):
        stop[n] = 0 if n >= p.samples else lengths[n] - p.begin if lengths.size else np.inf
    return stop


@kernel
def read_starts(p, like, z, y_now, first, last):
    """z and y before the first step, for rows first..last-1 of samples."""
    end, lane = min(last * p.row, p.samples), first * p.row
    start = array_at(p.z_start, (p.samples, p.n_g), like, False)
    z[first:last] = 0
    for n in range(lane, end if p.z_start else lane):
        r, place, source = n // p.row, n % p.row, n if p.has_u else 0
        for i in range(p.n_g):
            z[r, i, place] = start[source, i]
    start = array_at(p.y_start, (p.samples, p.n_y), like, False)
    y_now[lane : last * p.row] = 0
    for n in range(lane, end if p.y_start else lane):
        source = n if p.has_u else 0
        for i in range(p.n_y):
            y_now[n, i] = start[source, i]


# u ---------------------------------------------------------------------------------------------


@njit(inline="always")
def _memory_at(p, k, n):
    """Where the memory (K, lanes of h) has the first entry of frequency k of u, for a lane."""
    place = (n // p.row * p.h_row + k % p.per_block * p.freq_dim) * p.row + n % p.row
    return k * p.rows * p.h_row * p.row + place


@kernel
def write_memory(p, like, memory, first, last):
    """u (N, n_u) after the last step, of rows first..last-1, from sum_t c(t) h(t)."""
    d, n_u, vector = p.freq_dim, p.count * p.freq_dim, lanes_of(like)
    flat, block = memory.reshape(memory.size), np.empty(n_u * vector, like.dtype)
    u = array_at(p.u, (p.samples * n_u,), like, True)
    before = array_at(p.u_start, (p.samples * n_u,), like, False)
    end, step = min(last * p.row, p.samples), 1 if p.row == 1 else vector
    for n in range(first * p.row, end, step):
        for k in range(p.count):
            at = _memory_at(p, k, n)
            for j in range(d):
                if step == 1:
                    u[n * n_u + k * d + j] = flat[at + j]
                else:
                    store_row(block, (k * d + j) * vector, load_row(flat, at + j * p.row, 1))
        if step > 1:
            lanes = min(vector, end - n)
            copy_transposed(block, 0, n_u, lanes, vector, u, n * n_u, n_u, like)
    for i in range(first * p.row * n_u, end * n_u if p.u_start else 0):
        u[i] += before[i]


@kernel
def read_memory_gradient(p, like, d_memory, first, last):
    """The inverse of :func:`write_memory`: d_memory, zeros so far, from the gradient of u."""
    d, n_u, vector = p.freq_dim, p.count * p.freq_dim, lanes_of(like)
    flat, block = d_memory.reshape(d_memory.size), np.zeros(n_u * vector, like.dtype)
    d_u = array_at(p.d_u, (p.samples * n_u,), like, False)
    end, step = min(last * p.row, p.samples), 1 if p.row == 1 else vector
    for n in range(first * p.row, end, step):
        if step > 1:
            lanes = min(vector, end - n)
            if lanes < vector:
                block[:] = 0
            copy_transposed(d_u, n * n_u, lanes, n_u, n_u, block, 0, vector, like)
        for k in range(p.count):
            at = _memory_at(p, k, n)
            for j in range(d):
                if step == 1:
                    flat[at + j] = d_u[n * n_u + k * d + j]
                else:
                    store_row(flat, at + j * p.row, load_row(block, (k * d + j) * vector, 1))


@kernel
def add_memory(p, like, c, memory, first, last):
    """Add c(t) h(t) of the chunk for rows first..last-1; after the last chunk, write u."""
    part = p.h_row * p.row
    h = hidden_of(p, like).reshape((p.length, p.rows * part))
    add_product(c, h, memory, 0, p.begin == 0, first * part, last * part)
    if p.begin + p.length == p.steps:
        write_memory(p, like, memory, first, last)


@kernel
def memory_backward(p, like, c, dc, d_memory, by_phase, d_h, first, last):
    """The gradient that reaches h from u, and the derivative of the memory by the phases."""
    if not p.d_u:
        d_h[:, first:last] = 0
        return
    part, is_last = p.h_row * p.row, p.begin + p.length == p.steps
    if is_last:
        read_memory_gradient(p, like, d_memory, first, last)
    shape = (p.length, p.rows * part)
    by_freq, flat = transposed(c, like), d_h.reshape(shape)
    add_product(by_freq, d_memory, flat, 0, True, first * part, last * part)
    if dc.size:
        h = hidden_of(p, like).reshape(shape)
        add_product(dc, h, by_phase, 0, is_last, first * part, last * part)


@kernel
def write_gradients(p, like, d_h, d_z, first, last):
    """Those of U x + b2, (L, N, n_h), and of z (N, n_g) before the first step, after the loop."""
    end, row = min(last * p.row, p.samples), p.row
    at = p.d_x + p.begin * p.samples * p.n_h * like.itemsize
    d_x = array_at(at, (p.length, p.samples, p.n_h), like, True)
    for t in range(p.length if p.d_x else 0):
        for n in range(first * row, end):
            r, place = n // row, n % row
            for j in range(p.n_h):
                d_x[t, n, j] = d_h[t, r, j, place]
    out = array_at(p.d_z, (p.samples, p.n_g), like, True)
    for n in range(first * row, end if p.begin == 0 else first * row):
        r, place = n // row, n % row
        for i in range(p.n_g):
            out[n, i] = d_z[r, i, place]


# y ---------------------------------------------------------------------------------------------
#
# y_now (lanes, y_width) is the running sum of all steps so far, d_y_now the gradient of all later
# ones; y and d_y (L, N, n_y) are not padded.


@njit(inline="always")
def outputs_of(p, like):
    return array_at(p.y, (p.steps * p.samples * p.n_y,), like, True)


@njit(inline="always")
def output_gradients_of(p, like):
    return array_at(p.d_y, (p.steps * p.samples * p.n_y,), like, False)


@njit(inline="always")
def clear(y, at, numbers):
    """Zeros from an offset on."""
    whole, zeros = numbers - numbers % lanes_of(y), zeros_tile(y, 1, 1)
    for i in range(at, at + whole, lanes_of(y)):
        store_row(y, i, zeros)
    for i in range(at + whole, at + numbers):
        y[i] = 0


@njit(inline="always")
def write_output(y, at, n_y, y_now, start, is_over):
    """y of a sample at a step, from y_now[start:]; 0 past its end."""
    vector = lanes_of(y)
    whole = n_y - n_y % vector
    if is_over:
        clear(y, at, n_y)
    else:
        for i in range(0, whole, vector):
            store_row(y, at + i, load_row(y_now, start + i, 1))
        for i in range(whole, n_y):
            y[at + i] = y_now[start + i]
