"""The outputs of every step, as kernels."""

from __future__ import annotations

import numpy as np

from .kernel import kernel
from .simd import (
    add_dot,
    add_outer,
    add_scaled,
    add_store_sums,
    load_row,
    load_tile,
    store_row,
    store_tile,
    zeros_tile,
)

# e (L, n_h, n_y) is E(t) transposed, h (L, N, n_h), and total (N, n_y) the running sum, with n_y
# padded to whole vectors; y and d_y (L, N, n_y) are not padded. ``tile`` is as long as n_h.


@kernel
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


@kernel
def outputs_backward(e, h, d_y, total, d_h, d_e, tile, first, last):
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
            products, numbers = zeros_tile(e, tile, 1), (t * samples + n) * n_h
            for i in range(0, padded, vector):
                row, place = load_row(total, n * padded + i, 1), t * n_h * padded + i
                products = add_outer(products, load_tile(e, place, padded, tile, 1), row)
                rows = add_scaled(load_tile(d_e, place, padded, tile, 1), h, numbers, row)
                store_tile(d_e, place, padded, rows, 1)
            sums[:] = 0
            add_store_sums(sums, 0, products)
            d_h[t, n] = sums[:n_h]
