"""One step of the definition, for cells and streams: from x and u to y and u."""

from __future__ import annotations

import math

import numpy as np

from .gates import fourier_rows, turns_of
from .nonlinear import RELU, TANH
from .simd import (
    MAX_TILE,
    add_outer,
    add_store_sums,
    array_at,
    kernel,
    lanes_of,
    load_row,
    load_tile,
    zeros_tile,
)


@kernel
def _multiply(weight, vector, bias, out, sums):
    """out = W v + b, with W (n, m) and v (m,); b may be empty, sums is scratch."""
    rows, columns = weight.shape
    lanes = lanes_of(weight)
    whole = columns - columns % lanes
    for begin in range(0, rows, MAX_TILE):
        first = max(min(begin, rows - MAX_TILE), 0)  # the last tile begins earlier, and is whole
        if rows >= MAX_TILE:
            totals = zeros_tile(weight, MAX_TILE, 1)
            for j in range(0, whole, lanes):
                tile = load_tile(weight, first * columns + j, columns, MAX_TILE, 1)
                totals = add_outer(totals, tile, load_row(vector, j, 1))
            sums[:] = 0
            add_store_sums(sums, 0, totals)
        else:
            sums[:] = 0
        for i in range(min(MAX_TILE, rows)):
            total = sums[i] + (bias[first + i] if bias.size else 0)
            for j in range(whole if rows >= MAX_TILE else 0, columns):
                total += weight[first + i, j] * vector[j]
            out[first + i] = total


@kernel
def _phi(kind, values):
    if len(kind) == len(RELU):
        for i in range(values.size):
            values[i] = values[i] if not values[i] < 0 else 0  # NaN stays NaN
    elif len(kind) == len(TANH):
        for i in range(values.size):
            values[i] = math.tanh(values[i])


@kernel
def _bias(address, size, like):
    return array_at(address, (size if address else 0,), like, False)


@kernel
def step(
    like, x, u, times, freqs, phase, weight_ug, bias_g, weight_gh, weight_xh, bias_h, weight_uy,
    bias_y, u_after, y, samples, n_in, n_u, n_g, n_h, n_y, count, taken, seq_len, kind,
):  # fmt: skip
    """u(t) and y(t) from x(t) (N, n_in) and u(t-1) (N, n_u), which may be the same as u(t).

    Arguments up to y are addresses, 0 for zeros, or no bias. ``times`` (N,) are the steps that each
    sample has taken; with 0, all have taken ``taken``. Returns the first number of steps that is
    outside 0..seq_len-1, and has written nothing then; or else -1.
    """
    when = array_at(times, (samples if times else 0,), np.empty(0, np.int64), False)
    for n in range(samples):
        t = when[n] if times else taken
        if not 0 <= t < seq_len:
            return t
    freq_dim = n_u // count
    w1 = array_at(weight_ug, (n_g, n_u), like, False)
    w2 = array_at(weight_gh, (n_h, n_g), like, False)
    w_x = array_at(weight_xh, (n_h, n_in), like, False)
    w_y = array_at(weight_uy, (n_y, n_u), like, False)
    rate, shift = turns_of(_bias(freqs, count, like), _bias(phase, count, like), seq_len)
    b1, b2 = _bias(bias_g, n_g, like), _bias(bias_h, n_h, like)
    b_y, none = _bias(bias_y, n_y, like), _bias(0, 0, like)
    g, h, from_x = np.empty(n_g, like.dtype), np.empty(n_h, like.dtype), np.empty(n_h, like.dtype)
    sums = np.empty(MAX_TILE + lanes_of(like), like.dtype)
    c, no_dc = np.empty((1, count), like.dtype), np.empty((0, 0), like.dtype)
    for n in range(samples):
        after = array_at(u_after + n * n_u * like.itemsize, (n_u,), like, True)
        if u:
            before = array_at(u + n * n_u * like.itemsize, (n_u,), like, False)
            for i in range(n_u):
                after[i] = before[i]
        else:
            after[:] = 0
        _multiply(w1, after, b1, g, sums)
        _phi(kind, g)
        x_n = array_at(x + n * n_in * like.itemsize, (n_in,), like, False)
        _multiply(w_x, x_n, b2, from_x, sums)
        _multiply(w2, g, none, h, sums)
        for i in range(n_h):
            h[i] += from_x[i]
        _phi(kind, h)
        if n == 0 or times:
            t = when[n] if times else taken
            fourier_rows(rate, shift, t, seq_len, c, no_dc, 0, 1)
        for k in range(count):
            place = k * freq_dim % n_h  # the slice of h that frequency k sees
            for j in range(freq_dim):
                after[k * freq_dim + j] += c[0, k] * h[place + j]
        y_n = array_at(y + n * n_y * like.itemsize, (n_y,), like, True)
        _multiply(w_y, after, b_y, y_n, sums)
    return -1


@kernel
def stream_step(plan, like, x, y, kind):
    """As :func:`step`, in place, for all layers of a stream, with a row of ``plan`` for each.

    A row holds the addresses of u, of the basis and of the weights, then sizes, as ``step`` has
    them, and the address of the layer's own y, which the next one reads. x and y are addresses.
    """
    last = plan.shape[0] - 1
    for i in range(last + 1):
        p = plan[i]
        out = y if i == last else p[19]
        past = step(
            like, x, p[0], 0, p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[0], out,
            p[10], p[11], p[12], p[13], p[14], p[15], p[16], p[17], p[18], kind,
        )  # fmt: skip
        if past >= 0:
            return past
        p[17] += 1
        x = out
    return -1
