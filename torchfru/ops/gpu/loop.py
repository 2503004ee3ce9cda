"""Launch the kernels on tensors: sizes of tiles, padding, and the number of programs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import is_wide, kernels, wide_kernels

BATCH, TILE = 16, 16  # samples that a program takes, and entries of h at a time
PART = 128  # entries of z at a time, where z is too wide for registers
COLUMNS = 128  # that a program sums over time
# enable_fp_fusion=True is the default up to Triton 3.9, which warns unless it is written out.
OPTIONS: dict[str, Any] = {"num_warps": 8, "enable_fp_fusion": True}
NARROW = {"forward": kernels.forward_loop, "backward": kernels.backward_loop}
WIDE = {"forward": wide_kernels.forward_wide, "backward": wide_kernels.backward_wide}


def gate_width(n_g: int) -> int:
    """n_g padded: to a power of two, at least 16, or to whole parts."""
    if is_wide(n_g):
        return -(-n_g // PART) * PART
    return max(16, 1 << (n_g - 1).bit_length())


def loop_options(n_g: int, n_h: int) -> dict[str, Any]:
    """The compile-time sizes and options of the two loops."""
    gate = gate_width(n_g)
    sizes = {"BATCH": BATCH, "GATE": gate, "TILE": TILE}
    if is_wide(n_g):
        return sizes | OPTIONS | {"PART": PART, "num_stages": 1}
    # stages: steps whose loads are under way at once, as long as shared memory has space for them
    return sizes | OPTIONS | {"ONE_TILE": n_h <= TILE, "num_stages": 3 if gate <= 128 else 1}


class Loop:
    """The loop over the steps of a chunk, for one W2 (n_h, n_g)."""

    def __init__(self, weight_gh: Tensor, samples: int, nonlinearity: str) -> None:
        self.n_h, self.n_g = weight_gh.shape
        self.samples, self.nonlinearity = samples, nonlinearity
        self.gate = gate_width(self.n_g)
        self.w2 = self.pad(weight_gh)  # (n_h, GATE)

    def pad(self, tensor: Tensor) -> Tensor:
        """A contiguous copy (..., GATE) of (..., n_g), with zeros behind."""
        padded = tensor.new_zeros(*tensor.shape[:-1], self.gate)
        padded[..., : self.n_g] = tensor
        return padded

    def forward(self, from_x: Tensor, a: Tensor, z: Tensor, h: Tensor, stop: Tensor | None) -> None:
        """Write h (L, N, n_h); z (N, GATE) becomes the one after the last step."""
        self._launch("forward", (from_x, a, self.w2, z, h), len(h), stop)

    def backward(
        self,
        a: Tensor,
        gates: Tensor,
        h: Tensor,
        d_h: Tensor,
        d_z: Tensor,
        d_z_steps: Tensor,
        stop: Tensor | None,
    ) -> None:
        """Turn d_h into the gradient of U x + b2, d_z into the one before the first step.

        Writes d_z_steps (L, N, GATE), the gradient of z(t+1).
        """
        tensors = (a, self.w2, gates, h, d_h, d_z, d_z_steps)
        self._launch("backward", tensors, len(h), stop)

    def _launch(
        self, direction: str, tensors: tuple[Tensor, ...], steps: int, stop: Tensor | None
    ) -> None:
        assert all(tensor.is_contiguous() for tensor in tensors), "kernels know no strides"
        grid = (-(-self.samples // BATCH),)
        lengths = tensors[0] if stop is None else stop  # a pointer that is not read
        kernel = (WIDE if is_wide(self.n_g) else NARROW)[direction]
        with torch.cuda.device_of(self.w2):
            kernel[grid](
                *tensors,
                lengths,
                steps,
                self.samples,
                self.n_h,
                KIND=self.nonlinearity,
                RAGGED=stop is not None,
                **loop_options(self.n_g, self.n_h),
            )

    @staticmethod
    def running_sum(
        terms: Tensor, carry: Tensor, *, backwards: bool = False, exclusive: bool = False
    ) -> None:
        """Replace terms (L, ...) by their sums over time, from ``carry`` (...), which goes along.

        Not torch.cumsum: on a GPU it does not promise the same bits in every run.
        """
        assert all(tensor.is_contiguous() for tensor in (terms, carry)), "kernels know no strides"
        columns = carry.numel()
        with torch.cuda.device_of(terms):
            kernels.running_sum[(-(-columns // COLUMNS),)](
                terms,
                carry,
                len(terms),
                columns,
                BACKWARDS=backwards,
                EXCLUSIVE=exclusive,
                BLOCK=COLUMNS,
                num_stages=3,
                num_warps=4,
                enable_fp_fusion=True,
            )
