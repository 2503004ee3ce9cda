"""The Triton kernels: FRU's loop over time, forward and backward, and a running sum.

Symbols are those of :mod:`torchfru.ops.collapsed`; ``d_`` before a name means its gradient. A
program takes BATCH samples through all steps of a chunk with z (or d_z) in registers. h is taken
TILE entries at a time, so that n_h may be any number. Where h is a single tile, W2 is loaded once,
before the loop.

Tensors are float32 and contiguous. n_g is padded with zeros to GATE, a power of two; N and n_h are
not padded, and masked instead. The products are exact float32 ("ieee"): TF32, Triton's default,
keeps 10 bits. Offsets are int64 where a chunk may have 2**31 entries. Nothing is summed across
programs, so that a result has the same bits in every run.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def phi(a, KIND: tl.constexpr):
    if KIND == "relu":
        a = tl.where(a <= 0, 0.0, a)  # and not tl.maximum, which drops NaN
    if KIND == "tanh":
        a = tanh(a)
    return a


@triton.jit
def tanh(a):
    """Triton's own needs a library that its interpreter cannot call."""
    square = a * a
    series = 1 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315 - square * (62 / 2835))))
    decay = tl.exp(-2 * tl.abs(a))
    quotient = (1 - decay) / (1 + decay)  # loses digits near 0
    return tl.where(square < 0.09, a * series, tl.where(a < 0, -quotient, quotient))


@triton.jit
def slope(value, KIND: tl.constexpr):
    """phi' where phi took this value."""
    if KIND == "relu":
        return tl.where(value > 0, 1.0, 0.0)
    if KIND == "tanh":
        return 1 - value * value
    return tl.full(value.shape, 1.0, tl.float32)


@triton.jit
def forward_loop(
    from_x,  # (L, N, n_h): U x + b2
    a,  # (L, GATE, n_h)
    w2,  # (n_h, GATE)
    z,  # (N, GATE): before the first step, then after the last one
    h,  # (L, N, n_h): written
    lengths,  # (N,), in steps of this chunk; any pointer if not RAGGED
    steps,
    samples,
    n_h,
    KIND: tl.constexpr,
    RAGGED: tl.constexpr,
    BATCH: tl.constexpr,
    GATE: tl.constexpr,
    TILE: tl.constexpr,
    ONE_TILE: tl.constexpr,
):
    """h(t) = phi(W2 phi(z(t)) + U x(t) + b2), z(t+1) = z(t) + A(t) h(t)."""
    n = (tl.program_id(0) * BATCH + tl.arange(0, BATCH)).to(tl.int64)[:, None]
    g, j = tl.arange(0, GATE)[None, :], tl.arange(0, TILE)[None, :]
    g_down, j_down = tl.arange(0, GATE)[:, None], tl.arange(0, TILE)[:, None]
    z_at, sample = z + n * GATE + g, n < samples
    z_now = tl.load(z_at, sample, 0.0)  # (BATCH, GATE)
    if RAGGED:
        length = tl.load(lengths + n, sample, 0)
    if ONE_TILE:
        w2_t = tl.load(w2 + j * GATE + g_down, j < n_h, 0.0)  # (GATE, TILE)
    for t in range(steps):
        gate = phi(z_now, KIND)
        for first in range(0, TILE if ONE_TILE else n_h, TILE):
            k, k_down = first + j, first + j_down
            if not ONE_TILE:
                w2_t = tl.load(w2 + k * GATE + g_down, k < n_h, 0.0)
            h_at, h_mask = (t * samples + n) * n_h + k, sample & (k < n_h)
            drive = tl.load(from_x + h_at, h_mask, 0.0)
            h_now = phi(tl.dot(gate, w2_t, drive, input_precision="ieee"), KIND)
            if RAGGED:
                h_now = tl.where(t < length, h_now, 0.0)
            tl.store(h + h_at, h_now, h_mask)
            a_t = tl.load(a + (t * GATE + g) * n_h + k_down, k_down < n_h, 0.0)
            z_now = tl.dot(h_now, a_t, z_now, input_precision="ieee")  # a_t: (TILE, GATE)
    tl.store(z_at, z_now, sample)


@triton.jit
def backward_loop(
    a,  # (L, GATE, n_h)
    w2,  # (n_h, GATE)
    gates,  # (L, N, GATE): phi(z(t))
    h,  # (L, N, n_h)
    d_h,  # (L, N, n_h): from outside the loop; replaced by the gradient of U x + b2
    d_z,  # (N, GATE): after the last step, then before the first one
    d_z_steps,  # (L, N, GATE): written, the gradient of z(t+1)
    lengths,
    steps,
    samples,
    n_h,
    KIND: tl.constexpr,
    RAGGED: tl.constexpr,
    BATCH: tl.constexpr,
    GATE: tl.constexpr,
    TILE: tl.constexpr,
    ONE_TILE: tl.constexpr,
):
    """d_a(t) = phi'(a(t)) (d_h(t) + A(t)^T d_z), then d_z += phi'(z(t)) W2^T d_a(t)."""
    n = (tl.program_id(0) * BATCH + tl.arange(0, BATCH)).to(tl.int64)[:, None]
    g, j = tl.arange(0, GATE)[None, :], tl.arange(0, TILE)[None, :]
    g_down, j_down = tl.arange(0, GATE)[:, None], tl.arange(0, TILE)[:, None]
    z_at, sample = n * GATE + g, n < samples
    d_z_now = tl.load(d_z + z_at, sample, 0.0)  # (BATCH, GATE)
    if RAGGED:
        length = tl.load(lengths + n, sample, 0)
    if ONE_TILE:
        w2_now = tl.load(w2 + j_down * GATE + g, j_down < n_h, 0.0)  # (TILE, GATE)
    for back in range(steps):
        t = steps - 1 - back
        now = (t * samples + n) * GATE + g
        tl.store(d_z_steps + now, d_z_now, sample)
        gate = tl.load(gates + now, sample, 0.0)
        d_gate = tl.zeros((BATCH, GATE), tl.float32)
        for first in range(0, TILE if ONE_TILE else n_h, TILE):
            k, k_down = first + j, first + j_down
            if not ONE_TILE:
                w2_now = tl.load(w2 + k_down * GATE + g, k_down < n_h, 0.0)
            h_at, h_mask = (t * samples + n) * n_h + k, sample & (k < n_h)
            a_t = tl.load(a + (t * GATE + g_down) * n_h + k, k < n_h, 0.0)
            d_now = tl.load(d_h + h_at, h_mask, 0.0)
            d_now = tl.dot(d_z_now, a_t, d_now, input_precision="ieee")  # a_t: (GATE, TILE)
            d_now *= slope(tl.load(h + h_at, h_mask, 0.0), KIND)
            if RAGGED:
                d_now = tl.where(t < length, d_now, 0.0)
            tl.store(d_h + h_at, d_now, h_mask)
            d_gate = tl.dot(d_now, w2_now, d_gate, input_precision="ieee")
        d_z_now += slope(gate, KIND) * d_gate
    tl.store(d_z + z_at, d_z_now, sample)


@triton.jit
def running_sum(
    terms,  # (L, columns): replaced by their running sum
    carry,  # (columns,): the sum before the first term, then the sum of all
    steps,
    columns,
    BACKWARDS: tl.constexpr,  # from the last term to the first one
    EXCLUSIVE: tl.constexpr,  # the sum at t is without the term at t
    BLOCK: tl.constexpr,
):
    """Sums over time, in its order, each column by itself."""
    column = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    mask = column < columns
    row = column * 0 + columns  # int64, as t * columns may need
    total = tl.load(carry + column, mask, 0.0)
    for step in range(steps):
        t = steps - 1 - step if BACKWARDS else step
        at = terms + t * row + column
        term = tl.load(at, mask, 0.0)
        tl.store(at, total if EXCLUSIVE else total + term, mask)
        total += term
    tl.store(carry + column, total, mask)
