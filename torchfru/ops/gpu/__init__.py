"""The backend ``triton``: everything that needs Triton, imported where it runs."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

DEVICES = ("cuda",)  # of torch; also ROCm's name
WIDEST_GATE = 512  # n_g that a program can hold


def interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels on the CPU, which takes very long."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes")


def available(device_type: str) -> bool:
    """Whether Triton is here, and a device of this type that it runs on."""
    usable = device_type in DEVICES and torch.cuda.is_available()
    return find_spec("triton") is not None and (usable or interpreted())


def limit(device: torch.device, dtype: torch.dtype, n_g: int) -> str | None:
    """The limit of the backend that this is beyond, in words; None if it can compute it."""
    if device.type not in DEVICES and not interpreted():
        return f"on a CUDA or ROCm device, not on {device}"
    if dtype != torch.float32:
        return f"in float32, bfloat16 or float16, not in {str(dtype).removeprefix('torch.')}"
    if n_g > WIDEST_GATE:
        return f"with a gate_size up to {WIDEST_GATE}, not {n_g}"
    return None
