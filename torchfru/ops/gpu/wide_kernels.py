"""The two loops for a z too wide for registers: it stays in memory, PART entries at a time.

As in :mod:`torchfru.ops.gpu.kernels`, but a step has two phases with a barrier after each: first h
from all of z, then z from all of h. A program reads only what it wrote itself, so that a barrier
of its own threads suffices. n_g is padded to GATE, a multiple of PART. Loops must not be pipelined
(num_stages=1): a load that is moved ahead of the barrier would read the past.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .kernels import phi, slope


@triton.jit
def forward_wide(
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
    PART: tl.constexpr,
    TILE: tl.constexpr,
):
    """h(t) = phi(W2 phi(z(t)) + U x(t) + b2), z(t+1) = z(t) + A(t) h(t)."""
    n = (tl.program_id(0) * BATCH + tl.arange(0, BATCH)).to(tl.int64)[:, None]
    sample, column = n < samples, tl.arange(0, PART).to(tl.int64)
    part, j = column[None, :], tl.arange(0, TILE)[None, :]
    part_down, j_down = column[:, None], tl.arange(0, TILE)[:, None]
    if RAGGED:
        length = tl.load(lengths + n, sample, 0)
    for t in range(steps):
        for first in range(0, n_h, TILE):
            k = first + j
            h_at, h_mask = (t * samples + n) * n_h + k, sample & (k < n_h)
            total = tl.load(from_x + h_at, h_mask, 0.0)
            for start in range(0, GATE, PART):
                g, g_down = start + part, start + part_down
                gate = phi(tl.load(z + n * GATE + g, sample, 0.0), KIND)
                w2_t = tl.load(w2 + k * GATE + g_down, k < n_h, 0.0)  # (PART, TILE)
                total = tl.dot(gate, w2_t, total, input_precision="ieee")
            h_now = phi(total, KIND)
            if RAGGED:
                h_now = tl.where(t < length, h_now, 0.0)
            tl.store(h + h_at, h_now, h_mask)
        tl.debug_barrier()
        for start in range(0, GATE, PART):
            g = start + part
            z_now = tl.load(z + n * GATE + g, sample, 0.0)  # (BATCH, PART)
            for first in range(0, n_h, TILE):
                k, k_down = first + j, first + j_down
                h_now = tl.load(h + (t * samples + n) * n_h + k, sample & (k < n_h), 0.0)
                a_t = tl.load(a + (t * GATE + g) * n_h + k_down, k_down < n_h, 0.0)  # (TILE, PART)
                z_now = tl.dot(h_now, a_t, z_now, input_precision="ieee")
            tl.store(z + n * GATE + g, z_now, sample)
        tl.debug_barrier()


@triton.jit
def backward_wide(
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
    PART: tl.constexpr,
    TILE: tl.constexpr,
):
    """d_a(t) = phi'(a(t)) (d_h(t) + A(t)^T d_z), then d_z += phi'(z(t)) W2^T d_a(t)."""
    n = (tl.program_id(0) * BATCH + tl.arange(0, BATCH)).to(tl.int64)[:, None]
    sample, column = n < samples, tl.arange(0, PART).to(tl.int64)
    part, j = column[None, :], tl.arange(0, TILE)[None, :]
    part_down, j_down = column[:, None], tl.arange(0, TILE)[:, None]
    if RAGGED:
        length = tl.load(lengths + n, sample, 0)
    for back in range(steps):
        t = steps - 1 - back
        for first in range(0, n_h, TILE):
            k = first + j
            h_at, h_mask = (t * samples + n) * n_h + k, sample & (k < n_h)
            d_now = tl.load(d_h + h_at, h_mask, 0.0)
            for start in range(0, GATE, PART):
                g, g_down = start + part, start + part_down
                d_z_now = tl.load(d_z + n * GATE + g, sample, 0.0)
                a_t = tl.load(a + (t * GATE + g_down) * n_h + k, k < n_h, 0.0)  # (PART, TILE)
                d_now = tl.dot(d_z_now, a_t, d_now, input_precision="ieee")
            d_now *= slope(tl.load(h + h_at, h_mask, 0.0), KIND)
            if RAGGED:
                d_now = tl.where(t < length, d_now, 0.0)
            tl.store(d_h + h_at, d_now, h_mask)
        tl.debug_barrier()
        for start in range(0, GATE, PART):
            g = start + part
            now = (t * samples + n) * GATE + g
            d_gate = tl.zeros((BATCH, PART), tl.float32)
            for first in range(0, n_h, TILE):
                k, k_down = first + j, first + j_down
                d_now = tl.load(d_h + (t * samples + n) * n_h + k, sample & (k < n_h), 0.0)
                w2_now = tl.load(w2 + k_down * GATE + g, k_down < n_h, 0.0)  # (TILE, PART)
                d_gate = tl.dot(d_now, w2_now, d_gate, input_precision="ieee")
            d_z_now = tl.load(d_z + n * GATE + g, sample, 0.0)
            tl.store(d_z_steps + now, d_z_now, sample)
            d_z_now += slope(tl.load(gates + now, sample, 0.0), KIND) * d_gate
            tl.store(d_z + n * GATE + g, d_z_now, sample)
        tl.debug_barrier()
