"""The plan of one call: sizes, layouts and addresses, as a record that kernels read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .batch import BLOCK, G_UNIT, H_UNIT
from .gates import BLOCKS, COLUMNS, ROWS
from .runtime import round_up
from .simd import MAX_TILE, VECTOR_BYTES

SMALL_BATCH = 4  # up to here, a vector of samples would be mostly empty
CHUNK = 800  # steps whose A(t) is held at once; a multiple of SEGMENT

SIZES = (
    *("steps", "samples", "n_in", "n_g", "n_h", "n_y"),
    *("count", "freq_dim", "per_block"),  # K, d and m
    *("start", "seq_len"),  # steps taken before, and T
    *("rows", "row"),  # samples lie in rows of so many lanes
    *("n_g_pad", "n_h_pad", "h_row"),  # of A(t), and n_h of h
    *("numbers", "gate_layout", "gate_step", "sums_layout", "sums_step"),  # of A(t), see gates
    "y_width",  # n_y, whole vectors
    "segments",
    *("begin", "length"),  # of the chunk at hand
    *("x_step", "x_sample", "x_feature", "has_u"),
)
ADDRESSES = (
    *("x", "u_start", "z_start", "y_start", "basis", "freqs", "phase", "lengths"),
    *("weight_ug", "weight_gh", "weight_xh", "bias_h", "weight_uy"),
    *("h", "checkpoints", "a", "y", "u"),
    *("d_y", "d_u", "d_x", "d_z", "d_phase", "d_y_start"),
    *("d_weight_ug", "d_weight_gh", "d_weight_xh", "d_bias_h", "d_weight_uy"),
)
NAMES = dict.fromkeys((*SIZES, *ADDRESSES), 0)
RECORD = np.dtype([(name, np.int64) for name in NAMES])
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
        self.tile, self.vector, self.square = (0,) * tile, vector, (0,) * vector

    def blocks(self, rows: int) -> int:
        """Blocks of sums in a matrix of so many rows, n_h wide."""
        return rows // G_UNIT * (self.n_h_pad // H_UNIT)


@lru_cache(maxsize=256)
def layout_of(samples: int, n_g: int, n_h: int, dtype: torch.dtype) -> Layout:
    """The layout, made once: sizes come back at every call."""
    return Layout(samples, n_g, n_h, dtype)
