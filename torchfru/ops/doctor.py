"""An examination of the installation: versions, devices, and what each backend proves here."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import torch

from . import collapsed, gpu, reference
from .cpu import scan as cpu
from .gpu import check

PACKAGES = ("torchfru", "torch", "numpy", "numba", "triton", "lightning")
CPU = torch.device("cpu")


def examine() -> dict[str, Any]:
    """Everything that a bug report needs, as JSON holds it. Runs the self-check of each backend."""
    return {
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in PACKAGES},
        "system": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "vectors": torch.backends.cpu.get_cpu_capability(),
        },
        "devices": [{"name": str(device), **check.describe(device)} for device in _gpus()],
        "backends": _backends(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _gpus() -> list[torch.device]:
    return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]


def _backends() -> list[dict[str, Any]]:
    rows = [_row("reference", CPU, check.run(CPU, scan=reference.scan))]
    rows.append(_row("collapsed", CPU, check.run(CPU, scan=collapsed.scan)))
    if find_spec("numba") is None:
        rows.append(_missing("numba", "Numba is not installed: pip install 'torchfru[cpu]'"))
    else:
        rows.append(_row("numba", CPU, check.run(CPU, scan=cpu.scan)))
    if find_spec("triton") is None:
        rows.append(_missing("triton", "Triton is not installed: pip install 'torchfru[gpu]'"))
    elif not gpu.available("cuda"):
        rows.append(_missing("triton", "torch finds no CUDA or ROCm device"))
    else:
        rows += _triton_rows()
    return rows


def _triton_rows() -> list[dict[str, Any]]:
    devices = [CPU] if gpu.interpreted() else _gpus()
    names = {False: "triton", True: f"triton, gate_size above {gpu.WIDEST_IN_REGISTERS}"}
    return [
        _row(name, device, check.run(device, wide))
        for device in devices
        for wide, name in names.items()
    ]


def _row(backend: str, device: torch.device, verdict: check.Verdict) -> dict[str, Any]:
    state = "proved" if verdict.proved else "failed"
    return {"name": backend, "device": str(device), "state": state, "reason": verdict.reason}


def _missing(backend: str, reason: str) -> dict[str, Any]:
    return {"name": backend, "device": None, "state": "unavailable", "reason": reason}
