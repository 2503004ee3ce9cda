"""The backend ``triton``: everything that needs Triton, imported where it runs."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

INSTALLED = find_spec("triton") is not None  # once: torch.compile cannot trace find_spec
DEVICES = ("cuda",)  # of torch; also ROCm's name
WIDEST_IN_REGISTERS = 256  # n_g


def is_wide(n_g: int) -> bool:
    """Whether z does not fit into the registers of a program: then other kernels serve."""
    return n_g > WIDEST_IN_REGISTERS


def interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels on the CPU, which takes very long."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes")


def available(device_type: str) -> bool:
    """Whether Triton is here, and a device of this type that it runs on."""
    usable = device_type in DEVICES and torch.cuda.is_available()
    return INSTALLED and (usable or interpreted())


def limit(device: torch.device, dtype: torch.dtype) -> str | None:
    """The limit of the backend that this is beyond, in words; None if it can compute it."""
    if device.type not in DEVICES and not interpreted():
        return f"on a CUDA or ROCm device, not on {device}"
    if dtype != torch.float32:
        return f"in float32, bfloat16 or float16, not in {str(dtype).removeprefix('torch.')}"
    return None
