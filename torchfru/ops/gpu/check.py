"""The self-check: does the backend compute on this very GPU what ``collapsed`` computes?

The kernels were written without a GPU at hand. So ``auto`` trusts them on a device only after their
outputs and gradients have agreed there with the collapsed form, computed on the CPU in float64. A
pass is remembered on disk, for the device, its driver and all versions; a failure is not: the next
process tries again.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...io import write_atomically
from .. import collapsed
from ..weights import Weights
from . import operator

Scan = Callable[..., tuple[Tensor | None, Tensor]]
TOLERANCE = 3e-5  # relative to the largest entry of each tensor; TF32 misses it by far


class Verdict(NamedTuple):
    """Whether the backend proved itself on a device, and how."""

    proved: bool
    reason: str


class Shape(NamedTuple):
    """One problem of the check."""

    steps: int
    samples: int
    n_g: int
    blocks: int
    per_block: int
    freq_dim: int
    nonlinearity: str
    every_step: bool
    ragged: bool


# Together: h in one tile and in several, both sides of every mask, and all kernels. By whether z is
# too wide for registers: for that there are kernels of their own, which few layers need.
SHAPES = {
    False: (
        Shape(12, 17, 60, 4, 1, 10, "tanh", every_step=True, ragged=True),
        Shape(9, 3, 20, 2, 3, 11, "relu", every_step=False, ragged=False),
    ),
    True: (Shape(5, 17, 300, 2, 3, 7, "tanh", every_step=True, ragged=True),),
}
_verdicts: dict[tuple[torch.device, bool], Verdict] = {}  # of this process


def proved(device: torch.device, wide: bool) -> bool:
    """Whether ``auto`` may use the backend on a device; the first "no" comes with a warning."""
    known = (device, wide) in _verdicts
    verdict = verdict_on(device, wide)
    if not verdict.proved and not known:
        warnings.warn(
            f"torchfru: the backend 'triton' failed its self-check on {device}, so that FRU runs "
            f"there by the slower backend 'collapsed'; please report what `torchfru doctor` "
            f"prints. Reason: {verdict.reason}",
            stacklevel=2,
        )
    return verdict.proved


# torch.compile asks while it traces. This is what torch.compiler.assume_constant_result sets; but
# that imports torch's compiler, which takes longer than all else that an import does.
vars(proved)["_dynamo_marked_constant"] = True


def verdict_on(device: torch.device, wide: bool) -> Verdict:
    """The verdict of this process, else the one on disk, else that of a check made now."""
    key = device, wide
    if key not in _verdicts:
        path = cache_file(*key)
        _verdicts[key] = _load(path) or run(*key)
        if _verdicts[key].proved:
            _save(path, *key)
    return _verdicts[key]


def run(device: torch.device, wide: bool = False, scan: Scan = operator.scan) -> Verdict:
    """Compare outputs and gradients at all shapes, of this backend or another; never raises."""
    try:
        worst = max(_worst_gap(shape, device, scan) for shape in SHAPES[wide])
    except Exception as error:  # whatever Triton, its compiler or the driver come up with
        lines = str(error).strip().splitlines()
        return Verdict(False, f"{type(error).__name__}: {lines[0] if lines else 'no message'}")
    if not worst <= TOLERANCE:  # NaN is a failure too
        return Verdict(False, f"relative difference {worst:.1e}, above {TOLERANCE:.0e}")
    return Verdict(True, f"outputs and gradients agree to {worst:.1e}")


def _worst_gap(shape: Shape, device: torch.device, scan: Scan) -> float:
    with _plain_settings(device):
        tensors = _problem(shape)
        expected = _results(collapsed.scan, shape, {k: v.double() for k, v in tensors.items()})
        found = _results(scan, shape, {k: v.to(device) for k, v in tensors.items()})
    gaps = []
    for value, right in zip(found, expected, strict=True):
        gap = (value.double().cpu() - right).abs().max() / right.abs().max()
        gaps.append(gap.item())
    return max(gaps, key=lambda gap: float("inf") if gap != gap else gap)


def _problem(shape: Shape) -> dict[str, Tensor]:
    """Random inputs and weights, by name: the same in every run."""
    make = torch.Generator().manual_seed(0)
    n_h, freqs = shape.per_block * shape.freq_dim, shape.blocks * shape.per_block
    n_u, n_in, n_y = freqs * shape.freq_dim, 2, 5
    sizes: dict[str, tuple[int, ...]] = {
        "x": (shape.steps, shape.samples, n_in),
        "u": (shape.samples, n_u),
        "rows": (shape.steps, freqs),
        "weight_ug": (shape.n_g, n_u),
        "bias_g": (shape.n_g,),
        "weight_gh": (n_h, shape.n_g),
        "weight_xh": (n_h, n_in),
        "bias_h": (n_h,),
        "weight_uy": (n_y, n_u),
        "bias_y": (n_y,),
    }
    return {name: torch.rand(size, generator=make) - 0.5 for name, size in sizes.items()}


def _results(scan: Scan, shape: Shape, tensors: dict[str, Tensor]) -> list[Tensor]:
    """Outputs, and the gradients of all tensors that a scan uses."""
    leaves = {name: value.detach().requires_grad_() for name, value in tensors.items()}
    x, u, rows, *weights = leaves.values()
    lengths = None
    if shape.ragged:
        lengths = torch.arange(shape.samples, device=x.device) % (shape.steps + 1)
    y, u_last = scan(
        x,
        u,
        rows,
        Weights(*weights),
        nonlinearity=shape.nonlinearity,
        every_step=shape.every_step,
        lengths=lengths,
    )
    outputs = [u_last] if y is None else [y, u_last]
    wanted = list(leaves.values())[: len(leaves) if y is not None else -2]
    loss = sum((out * torch.cos(out.detach())).sum() for out in outputs)
    assert isinstance(loss, Tensor)
    return [*(out.detach() for out in outputs), *torch.autograd.grad(loss, wanted)]


@contextmanager
def _plain_settings(device: torch.device) -> Iterator[None]:
    """Neither TF32 nor autocast nor inference mode: the check judges the kernels alone."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast(device.type, enabled=False),
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)


# On disk -----------------------------------------------------------------------------------


def identity(device: torch.device, wide: bool) -> dict[str, Any]:
    """Everything that a verdict depends on."""
    return {
        **describe(device),
        "wide": wide,
        **{name: _version(name) for name in ("torchfru", "torch", "triton")},
        "kernels": _digest_of_kernels(),
    }


def describe(device: torch.device) -> dict[str, Any]:
    """The name of a GPU, its architecture, and the driver."""
    if device.type != "cuda":
        return {"device": device.type, "driver": "Triton's interpreter"}
    properties = torch.cuda.get_device_properties(device)
    architecture = getattr(properties, "gcnArchName", f"sm_{properties.major}{properties.minor}")
    runtime = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    driver = getattr(torch._C, "_cuda_getDriverVersion", lambda: "unknown")()
    return {
        "device": properties.name,
        "architecture": architecture,
        "memory_bytes": properties.total_memory,
        "driver": f"{driver} ({runtime})",
    }


def cache_file(device: torch.device, wide: bool) -> Path:
    """The file that exists once the backend has proved itself on a device."""
    folder = os.environ.get("TORCHFRU_CACHE")
    if not folder:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = str(Path(home) / "torchfru")
    text = json.dumps(identity(device, wide), sort_keys=True)
    return Path(folder) / "gpu" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _load(path: Path) -> Verdict | None:
    try:
        return Verdict(True, str(json.loads(path.read_text())["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _save(path: Path, device: torch.device, wide: bool) -> None:
    content = identity(device, wide) | {"reason": _verdicts[device, wide].reason}
    with suppress(OSError):  # without it, the next process checks again
        write_atomically(path, json.dumps(content, indent=1))


def _digest_of_kernels() -> str:
    """Changes with every edit: the version of a package under development stays the same."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _version(package: str) -> str | None:
    if package == "triton":  # ROCm's comes in a package of another name
        import triton

        return str(triton.__version__)
    try:
        return version(package)
    except PackageNotFoundError:
        return None
