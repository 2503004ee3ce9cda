"""The plan of one call: sizes, layouts and addresses, as a record that kernels read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .gates import BLOCKS, COLUMNS, ROWS
from .runtime import round_up
from .simd import BLOCK, G_UNIT, H_UNIT, MAX_TILE, SEGMENT, VECTOR_BYTES

SMALL_BATCH = 4  # up to here, a vector of samples would be mostly empty
CHUNK = 800  # steps whose A(t) is held at once; a multiple of SEGMENT

# The fields of a record. Sizes that follow from a layout and a number of steps come first.
SIZES = (
    *("steps", "samples", "n_in", "n_g", "n_h", "n_y"),
    *("count", "freq_dim", "per_block"),  # K, d and m
    *("rows", "row"),  # samples lie in rows of so many lanes
    *("n_g_pad", "n_h_pad", "h_row"),  # of A(t), and n_h of h
    *("numbers", "gate_layout", "gate_step", "sums_layout", "sums_step"),  # of A(t), see gates
    *("y_width", "segments"),  # n_y, whole vectors
)
PLACES = (
    "a_step",  # numbers of A(t) and E(t)
    *("start", "seq_len"),  # steps taken before, and T
    *("x_step", "x_sample", "x_feature", "has_u"),
    *("begin", "length", "a"),  # of the chunk at hand
)


class Tensors(NamedTuple):
    """What kernels read and write by address, contiguous but for x; None for what is not there."""

    x: Tensor
    u_start: Tensor | None
    z_start: Tensor | None
    y_start: Tensor | None
    basis: Tensor | None
    freqs: Tensor | None
    phase: Tensor | None
    lengths: Tensor | None
    weight_ug: Tensor
    weight_gh: Tensor
    weight_xh: Tensor | None
    bias_h: Tensor | None
    weight_uy: Tensor | None
    # the outputs of the forward pass
    y: Tensor | None = None
    u: Tensor | None = None
    h: Tensor | None = None
    checkpoints: Tensor | None = None
    # the gradients that the backward pass reads, and those that it writes
    d_y: Tensor | None = None
    d_u: Tensor | None = None
    d_x: Tensor | None = None
    d_z: Tensor | None = None
    d_phase: Tensor | None = None
    d_y_start: Tensor | None = None
    d_weight_ug: Tensor | None = None
    d_weight_gh: Tensor | None = None
    d_weight_xh: Tensor | None = None
    d_bias_h: Tensor | None = None
    d_weight_uy: Tensor | None = None


CHUNK_PLACES = slice(len(SIZES) + len(PLACES) - 3, len(SIZES) + len(PLACES))
RECORD = np.dtype([(name, np.int64) for name in (*SIZES, *PLACES, *Tensors._fields)])
LIKE: dict[torch.dtype, NDArray[Any]] = {
    torch.float32: np.empty(0, np.float32),
    torch.float64: np.empty(0, np.float64),
}


class Layout:
    """How the loop lays its arrays out, for so many samples and sizes of one dtype."""

    def __init__(self, samples: int, n_g: int, n_h: int, dtype: torch.dtype) -> None:
        vector = VECTOR_BYTES // dtype.itemsize
        self.small = samples <= SMALL_BATCH
        if self.small:
            tile = MAX_TILE if n_h % MAX_TILE == 0 else H_UNIT
            self.width: tuple[int, ...] = ()
            self.rows, self.row = samples, 1
            self.n_g_pad, self.n_h_pad = round_up(n_g, vector), round_up(n_h, tile)
            self.h_row = round_up(self.n_h_pad - tile + round_up(tile, vector), vector)
            self.numbers = self.n_g_pad * self.n_h_pad
            self.gate = self.sums = (COLUMNS, self.n_g_pad)
        else:
            self.width = (0,) if samples <= vector else (0, 0)
            self.row = len(self.width) * vector
            self.rows = -(-samples // self.row)
            self.n_g_pad, self.n_h_pad = round_up(n_g, G_UNIT), round_up(n_h, H_UNIT)
            tile = MAX_TILE if self.n_h_pad % MAX_TILE == 0 else H_UNIT
            self.h_row = self.n_h_pad
            self.numbers = round_up(self.n_g_pad * self.n_h_pad, vector)
            self.gate = (ROWS, self.n_h_pad)
            self.sums = (BLOCKS, self.n_h_pad // H_UNIT * round_up(BLOCK, vector))
        self.vector, self.shape = vector, ((0,) * tile, self.width)  # of tiles, for kernels
        self.z_shape = (self.rows, self.n_g_pad, self.row)

    def blocks(self, rows: int) -> int:
        """Blocks of sums in a matrix of so many rows, n_h wide."""
        return rows // G_UNIT * (self.n_h_pad // H_UNIT)


@lru_cache(maxsize=256)
def layout_of(samples: int, n_g: int, n_h: int, dtype: torch.dtype) -> Layout:
    """The layout, made once: sizes come back at every call."""
    return Layout(samples, n_g, n_h, dtype)


@lru_cache(maxsize=256)
def sizes_of(
    layout: Layout, steps: int, samples: int, n_in: int, n_g: int, n_h: int, n_y: int, count: int,
    n_u: int,
) -> tuple[int, ...]:  # fmt: skip
    """The first fields of a record."""
    freq_dim = n_u // count
    return (
        *(steps, samples, n_in, n_g, n_h, n_y),
        *(count, freq_dim, n_h // freq_dim),
        *(layout.rows, layout.row, layout.n_g_pad, layout.n_h_pad, layout.h_row, layout.numbers),
        *(*layout.gate, *layout.sums, round_up(n_y, layout.vector), -(-steps // SEGMENT)),
    )
