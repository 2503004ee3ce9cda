"""Where a run took place: versions, commit, hardware."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("torchfru", "torch", "numpy", "lightning", "numba")


def versions() -> dict[str, str]:
    """Of Python and of the packages that a result depends on."""
    found = {name: _version(name) for name in PACKAGES}
    installed = {name: number for name, number in found.items() if number is not None}
    return {"python": platform.python_version(), **installed}


def commit() -> str | None:
    """The commit of this package's source, with "-dirty" where it was changed; None outside git."""
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None
    head = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", "torchfru")
    return f"{head}-dirty" if head and changed else head


def hardware(devices: int, nodes: int) -> dict[str, Any]:
    """What did the work."""
    found = {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": devices,
        "nodes": nodes,
        "system": f"{platform.system()} {platform.machine()}",
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
