"""The backend ``triton``: FRU's collapsed form around a fused loop, as an operator of torch.

Triton is imported where the operator runs: importing this file needs torch only.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import collapsed
from ..collapsed import ScanInputs
from ..weights import Weights, define, without_padding
from .steps import CHUNK, Backward, GPUInputs, forward


def scan(
    x: Tensor,
    u: Tensor,
    rows: Tensor,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """As :func:`torchfru.ops.collapsed.scan`, on a GPU, in float32."""
    w = weights
    if x.shape[1] == 0:  # no samples, no programs
        options = {"nonlinearity": nonlinearity, "every_step": every_step, "lengths": lengths}
        return collapsed.scan(x, u, rows, weights, **options)  # type: ignore[arg-type]
    z = F.linear(u, w.weight_ug, w.bias_g)  # (N, n_g)
    y = F.linear(u, w.weight_uy, w.bias_y) if every_step else None  # (N, n_y)
    weight_uy = w.weight_uy if every_step else None
    loop = (w.weight_ug, w.weight_gh, w.weight_xh, w.bias_h, weight_uy)
    y, change, *_ = torch.ops.torchfru.fru_gpu_steps(x, z, rows, *loop, y, lengths, nonlinearity)
    return (without_padding(y, lengths) if every_step else None), u + change


# The operators -----------------------------------------------------------------------------

STEPS, STEPS_BACKWARD = "torchfru::fru_gpu_steps", "torchfru::fru_gpu_steps_backward"


def _plain(*inputs: Any) -> tuple[Tensor | None, Tensor]:
    return collapsed.run(ScanInputs(*inputs))


define(
    STEPS,
    STEPS_BACKWARD,
    saved="Tensor h, Tensor z_chunks",
    inputs=(
        "Tensor x, Tensor z, Tensor rows, Tensor weight_ug, Tensor weight_gh, Tensor weight_xh, "
        "Tensor? bias_h, Tensor? weight_uy, Tensor? y, Tensor? lengths, str nonlinearity"
    ),
    trained=9,
    optional=(0, 2),
    plain=_plain,
)
_DEVICES = ("cuda", "cpu")  # "cuda" is ROCm's name too; on the CPU only Triton's interpreter runs


@torch.library.impl(STEPS, _DEVICES)
def _fru_gpu_steps(*inputs: Any) -> tuple[Tensor, ...]:
    with _without_autocast(inputs[0]):
        return forward(GPUInputs(*inputs))


@torch.library.impl(STEPS_BACKWARD, _DEVICES)
def _fru_gpu_steps_backward(
    d_y: Tensor | None, d_change: Tensor | None, *rest: Any
) -> list[Tensor]:
    *inputs, h, z_chunks, needs_x, needs_rows = rest
    with _without_autocast(h):
        walk = Backward(GPUInputs(*inputs), d_y, d_change, needs_x=needs_x, needs_rows=needs_rows)
        return walk.run(h, z_chunks)


def _without_autocast(x: Tensor) -> torch.autocast:
    """The kernels take float32 only, and a user may call backward() under autocast."""
    return torch.autocast(x.device.type, enabled=False)


def _shapes(*inputs: Any) -> tuple[Tensor, ...]:
    given = GPUInputs(*inputs)
    x, (samples, n_g) = given.x, given.z.shape
    change = x.new_empty(samples, given.weight_ug.shape[1])
    chunks = (x.shape[0] + CHUNK - 1) // CHUNK
    return given.new_outputs(), change, given.new_hidden(), x.new_empty(chunks, samples, n_g)


torch.library.register_fake(STEPS, _shapes)
