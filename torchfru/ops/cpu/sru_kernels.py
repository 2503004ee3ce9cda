"""The kernels of the Statistical Recurrent Unit, forward and backward.

The memory is read by one matrix: r(t) = M u(t), where M is W1, and Y below it where every output is
wanted. Chunks of CHUNK steps save products. In the chunk that begins with u(c),

    r(c+j) = sum_k alpha_k^j M_k u_k(c) + sum_{i<j} A(j-1-i) h(c+i+1)
    A(l)   = sum_k (1 - alpha_k) alpha_k^l M_k

which makes K + 3 products for three steps instead of 3 K. The gradient of M is found likewise: for
each k and chunk, what all later readings send back times what the chunk adds to u_k; and for each
lag l, the gradient of A(l).

Samples are rows, and units lie side by side in vectors. A product runs over tiles of a few samples
and a panel of units, whose sums stay in registers. Arrays in which a kernel computes have rows up
to whole tiles and units up to whole panels, with zeros behind; those of the operator have neither.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from .nonlinear import IDENTITY, RELU, TANH, apply, apply_backward
from .simd import WIDE, add_dots, kernel, lanes_of, load_row, load_tile, store_row, store_tile

CHUNK = 3  # K / CHUNK + (CHUNK - 1) / 2 products a step: the fewest for K from 3 to 6
SUMS, PAIR = (0,) * (8 if WIDE else 4), (0, 0)  # the tile that fills the registers with sums


class Shape(NamedTuple):
    """How a kernel computes, and for which samples."""

    kind: int  # of phi
    tile: tuple[int, ...]  # as long as a tile has rows: known when a kernel is compiled
    width: tuple[int, ...]  # as long as a panel has vectors
    n_g: int  # padded
    first: int = 0
    last: int = 0


# Products and sums -----------------------------------------------------------------------------


@kernel
def _multiply(a, b, out, first, last, tile, width):
    """Add a (rows, depth) times the panels first..last of b, each (depth, panel), to out."""
    _, depth, panel = b.shape
    rows, a_row, out_row = out.shape[0], a.shape[1], out.shape[1]
    for p in range(first, last):
        for r in range(0, rows, len(tile)):
            at = r * out_row + p * panel
            sums = load_tile(out, at, out_row, tile, width)
            for k in range(depth):
                row = load_row(b, (p * depth + k) * panel, width)
                sums = add_dots(sums, a, r * a_row + k, a_row, row, width)
            store_tile(out, at, out_row, sums, width)


@kernel
def _multiply_transposed(a, b, b_first, out, depth, times, jump):
    """Add a^T b to out: ``depth`` rows of both, those of b from b_first, again at each jump."""
    a_row, b_row, panel = a.shape[-1], b.shape[-1], lanes_of(b) * len(PAIR)
    for p in range(0, b_row, panel):
        for r in range(0, out.shape[0], len(SUMS)):
            sums = load_tile(out, r * b_row + p, b_row, SUMS, PAIR)
            for start in range(0, times * jump, jump):
                for d in range(start, start + depth):
                    row = load_row(b, (b_first + d) * b_row + p, PAIR)
                    sums = add_dots(sums, a, d * a_row + r, 1, row, PAIR)
            store_tile(out, r * b_row + p, b_row, sums, PAIR)


@njit(inline="always")
def _map(kind, source, value, target, numbers):
    """phi of ``source``; or, with a value, ``source`` times the slope of phi where it took that."""
    for n in range(source.shape[0]):
        for i in range(0, numbers, lanes_of(source)):
            row = load_row(source, n * source.shape[1] + i, 1)
            if value is None:
                row = apply(kind, row)
            else:
                row = apply_backward(kind, row, load_row(value, n * value.shape[1] + i, 1))
            store_row(target, n * target.shape[1] + i, row)


@kernel
def _apply(kind, source, value, target, numbers):
    """:func:`_map` on the first numbers of each row, where all three phi are compiled at once."""
    if kind == len(RELU):
        _map(RELU, source, value, target, numbers)
    elif kind == len(TANH):
        _map(TANH, source, value, target, numbers)
    else:
        _map(IDENTITY, source, value, target, numbers)


@njit(inline="always")
def _copy(target, at, source, numbers):
    """Numba compiles this much faster than an assignment to a slice."""
    for i in range(numbers):
        target[at + i] = source[i]


@njit(inline="always")
def _add_scaled(target, factor, source):
    for i in range(target.size):
        target[i] += factor * source[i]


@njit(inline="always")
def _combine(target, decay, factors, sources, n):
    """target = decay target + sum_j factors[j] sources[j, n], in one pass."""
    for i in range(target.size):
        total = decay * target[i]
        for j in range(CHUNK):
            total += factors[j] * sources[j, n, i]
        target[i] = total


@njit(inline="always")
def _steps_taken(stop, begin):
    """Steps of the chunk that begins here, of a sample that ends at ``stop``."""
    return max(0, min(CHUNK, stop - begin))


# Forward ---------------------------------------------------------------------------------------


class Forward(NamedTuple):
    """The arrays of the forward pass: read, written, and scratch for a block of samples."""

    x: Any  # (L, N, n_in)
    start: Any  # the memory before the first step, (N, K, n_h); empty means zeros
    stop: Any  # the steps of each sample, (N,)
    powers: Any  # alpha_k^e (K, CHUNK + 1)
    gains: Any  # of step j in what a chunk adds to u_k, by the steps taken, (CHUNK + 1, K, CHUNK)
    m: Any  # (K, panels, n_h, panel)
    a: Any  # (CHUNK - 1, panels, n_h, panel)
    bias: Any  # of the readings (n_r,)
    w: Any  # W2, U and b2 (panels, n_f, panel)
    h: Any  # (L, N, n_h)
    g: Any  # (L, N, n_g)
    y: Any  # (L, N, n_y), or empty
    u: Any  # (N, K, n_h)
    memory: Any  # (K, rows, n_h)
    readings: Any  # (CHUNK, rows, n_r)
    value: Any  # (rows, n_r)
    hidden: Any  # (CHUNK, rows, n_h)
    features: Any  # g, x and 1 (rows, n_f)


@kernel
def _read_memory(f, first, shape):
    """Add sum_k alpha_k^j M_k u_k to readings[j], in the panels from ``first`` on."""
    for k in range(f.m.shape[0]):
        f.value[:] = 0
        _multiply(f.memory[k], f.m[k], f.value, first, f.m.shape[1], shape.tile, shape.width)
        for j in range(CHUNK):
            for n in range(f.value.shape[0]):
                _add_scaled(f.readings[j, n], f.powers[k, j], f.value[n])


@kernel
def _step(f, t, j, shape):
    """Step t, the j-th of its chunk: g and h."""
    first, n_g, n_in, hidden = shape.first, shape.n_g, f.x.shape[2], f.hidden[j]
    _apply(shape.kind, f.readings[j], None, f.features, n_g)
    for n in range(shape.last - first):
        _copy(f.features[n], n_g, f.x[t, first + n], n_in)
    hidden[:] = 0
    _multiply(f.features, f.w, hidden, 0, f.w.shape[0], shape.tile, shape.width)
    _apply(shape.kind, hidden, None, hidden, hidden.shape[1])
    for n in range(shape.last - first):
        _copy(f.h[t, first + n], 0, hidden[n], f.h.shape[2])
        _copy(f.g[t, first + n], 0, f.features[n], f.g.shape[2])


@kernel
def forward(f, shape):
    """All steps of a block of samples."""
    tile, width, n_g, first = shape.tile, shape.width, shape.n_g, shape.first
    steps, samples, n_h, panels = f.x.shape[0], shape.last - first, f.h.shape[2], f.m.shape[1]
    gate, readings = n_g // f.m.shape[3], steps + 1 if f.y.size else steps  # the last is y(L)
    f.memory[:], f.hidden[:], f.features[:] = 0, 0, 0
    f.features[:, n_g + f.x.shape[2]] = 1
    for n in range(samples if f.start.size else 0):
        for k in range(f.memory.shape[0]):
            _copy(f.memory[k, n], 0, f.start[first + n, k], n_h)
    for begin in range(0, readings, CHUNK):
        for j in range(CHUNK):
            for n in range(f.value.shape[0]):
                _copy(f.readings[j, n], 0, f.bias, f.bias.size)
        if begin or f.start.size:
            _read_memory(f, 0 if begin < steps else gate, shape)
        for t in range(begin, min(begin + CHUNK, readings)):
            j, out = t - begin, f.readings[t - begin]
            for i in range(j):  # no gate after the last step, no output before the first
                part, end = 0 if t < steps else gate, panels if t else gate
                _multiply(f.hidden[i], f.a[j - 1 - i], out, part, end, tile, width)
            for n in range(samples if t and f.y.size else 0):
                _copy(f.y[t - 1, first + n], 0, out[n, n_g:], f.y.shape[2])
            if t < steps:
                _step(f, t, j, shape)
        for n in range(samples):
            taken = _steps_taken(f.stop[first + n], begin)
            for k in range(f.memory.shape[0]):
                _combine(f.memory[k, n], f.powers[k, taken], f.gains[taken, k], f.hidden, n)
    for n in range(samples):
        for k in range(f.memory.shape[0]):
            _copy(f.u[first + n, k], 0, f.memory[k, n], n_h)


# Backward --------------------------------------------------------------------------------------


class Backward(NamedTuple):
    """The arrays of the backward pass; scratch holds the steps of a group of chunks."""

    x: Any
    start: Any
    stop: Any
    powers: Any
    gains: Any
    m: Any  # (K, panels, n_r, panel)
    a: Any  # (CHUNK - 1, panels, n_r, panel)
    w: Any  # W2, and U where the gradient of x is wanted, (panels, n_h, panel)
    h: Any
    g: Any
    d_y: Any  # (L, N, n_y), or empty
    d_u: Any  # (N, K, n_h), or empty
    d_start: Any  # (N, K, n_h)
    d_x: Any  # (L, N, n_in), or empty
    d_m: Any  # (K, n_h, n_r), added to like the next three
    d_a: Any  # (CHUNK - 1, n_h, n_r)
    d_w: Any  # (n_f, n_h)
    d_bias: Any  # (n_r,)
    d_memory: Any  # (K, rows, n_h)
    sums: Any  # sum_t alpha_k^t d_r(t) over the readings so far, (K, rows, n_r)
    value: Any  # (rows, n_r)
    d_features: Any  # (rows, panels of w)
    hidden: Any  # (steps, rows, n_h)
    features: Any  # (steps, rows, n_f)
    d_hidden: Any  # (steps, rows, n_h)
    d_readings: Any  # (steps, rows, n_r)
    added: Any  # to u_k by each chunk, (K, chunks, rows, n_h)
    later: Any  # the sums of the readings after it, (K, chunks, rows, n_r)


@kernel
def _load(b, begin, shape):
    """Copy the steps of a group; those that are not, or after the end of a sample, are zeros."""
    n_g, n_in, n_y = shape.n_g, b.x.shape[2], b.d_y.shape[2]
    for s in range(b.hidden.shape[0]):
        for n in range(shape.last - shape.first):
            t, sample = begin + s, shape.first + n
            if t < b.stop[sample]:
                _copy(b.hidden[s, n], 0, b.h[t, sample], b.h.shape[2])
                _copy(b.features[s, n], 0, b.g[t, sample], b.g.shape[2])
                _copy(b.features[s, n], n_g, b.x[t, sample], n_in)
                b.features[s, n, n_g + n_in] = 1
            else:
                b.hidden[s, n], b.features[s, n], b.d_hidden[s, n] = 0, 0, 0
                b.d_readings[s, n] = 0
            b.d_readings[s, n, n_g:] = 0
            if 0 < t <= b.stop[sample]:
                _copy(b.d_readings[s, n], n_g, b.d_y[t - 1, sample], n_y)


@kernel
def _step_backward(b, s, t, j, shape):
    """Step t, at s in its group, the j-th of its chunk: all gradients but those of weights."""
    first, n_g, d_hidden = shape.first, shape.n_g, b.d_hidden[s]
    for n in range(shape.last - first):
        taken = _steps_taken(b.stop[first + n], t - j)
        d_hidden[n] = 0
        for k in range(b.gains.shape[1]):
            _add_scaled(d_hidden[n], b.gains[taken, k, j], b.d_memory[k, n])
    for lag in range(CHUNK - 1 - j):
        from_later, panels = b.d_readings[s + 1 + lag], b.a.shape[1]
        _multiply(from_later, b.a[lag], d_hidden, 0, panels, shape.tile, shape.width)
    _apply(shape.kind, d_hidden, b.hidden[s], d_hidden, d_hidden.shape[1])
    b.d_features[:] = 0
    _multiply(d_hidden, b.w, b.d_features, 0, b.w.shape[0], shape.tile, shape.width)
    _apply(shape.kind, b.d_features, b.features[s], b.d_readings[s], n_g)
    for n in range(shape.last - first if b.d_x.size else 0):
        _copy(b.d_x[t, first + n], 0, b.d_features[n, n_g:], b.x.shape[2])


@kernel
def _memory_backward(b, c, begin, shape):
    """The gradient of the memory before chunk c of a group, and the sums that go with it."""
    steps, first = slice(c * CHUNK, (c + 1) * CHUNK), shape.first
    hidden, d_readings = b.hidden[steps], b.d_readings[steps]
    for k in range(b.m.shape[0]):
        for n in range(shape.last - first):
            _copy(b.later[k, c, n], 0, b.sums[k, n], b.sums.shape[2])
            _combine(b.added[k, c, n], 0, b.gains[CHUNK, k], hidden, n)
            _combine(b.value[n], 0, b.powers[k], d_readings, n)
            _combine(b.sums[k, n], b.powers[k, CHUNK], b.powers[k], d_readings, n)
            decay = b.powers[k, _steps_taken(b.stop[first + n], begin)]
            for i in range(b.d_memory.shape[2]):
                b.d_memory[k, n, i] *= decay
        _multiply(b.value, b.m[k], b.d_memory[k], 0, b.m.shape[1], shape.tile, shape.width)


@kernel
def _weights_backward(b, chunks):
    """Add the products of a group to the gradients of the weights."""
    rows = b.value.shape[0]
    for k in range(b.d_m.shape[0]):
        _multiply_transposed(b.added[k], b.later[k], 0, b.d_m[k], chunks * rows, 1, 1)
    for lag in range(CHUNK - 1):
        later, depth = (1 + lag) * rows, (CHUNK - 1 - lag) * rows
        jump = CHUNK * rows
        _multiply_transposed(b.hidden, b.d_readings, later, b.d_a[lag], depth, chunks, jump)
    _multiply_transposed(b.features, b.d_hidden, 0, b.d_w, chunks * CHUNK * rows, 1, 1)
    for s in range(chunks * CHUNK):
        for n in range(rows):
            _add_scaled(b.d_bias, 1, b.d_readings[s, n])


@kernel
def backward(b, shape):
    """All steps of a block of samples, backwards."""
    first, samples, n_h, steps = shape.first, shape.last - shape.first, b.h.shape[2], b.x.shape[0]
    b.d_memory[:], b.sums[:], b.value[:] = 0, 0, 0
    b.hidden[:], b.features[:], b.d_hidden[:], b.d_readings[:] = 0, 0, 0, 0
    b.added[:], b.later[:] = 0, 0
    for n in range(samples if b.d_u.size else 0):
        for k in range(b.d_memory.shape[0]):
            _copy(b.d_memory[k, n], 0, b.d_u[first + n, k], n_h)
    chunks, group = -(-(steps + 1 if b.d_y.size else steps) // CHUNK), b.added.shape[1]
    for c_first in range((chunks - 1) // group * group, -1, -group):
        _load(b, c_first * CHUNK, shape)
        some = min(group, chunks - c_first)
        for c in range(some - 1, -1, -1):
            begin = (c_first + c) * CHUNK
            for j in range(min(CHUNK, steps - begin) - 1, -1, -1):
                _step_backward(b, c * CHUNK + j, begin + j, j, shape)
            _memory_backward(b, c, begin, shape)
        _weights_backward(b, some)
    for k in range(b.d_m.shape[0]):
        for n in range(samples):
            _copy(b.d_start[first + n, k], 0, b.d_memory[k, n], n_h)
        for n in range(
            samples if b.start.size else 0
        ):  # as if a step before the first had added it
            _copy(b.added[k, 0, n], 0, b.start[first + n, k], n_h)
            _copy(b.later[k, 0, n], 0, b.sums[k, n], b.sums.shape[2])
        depth = samples if b.start.size else 0
        _multiply_transposed(b.added[k], b.later[k], 0, b.d_m[k], depth, 1, 1)
