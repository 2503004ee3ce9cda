"""The scans, and the one place where a backend is chosen for them."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from importlib.util import find_spec
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from . import collapsed, gpu, reference, sru
from .cpu import scan as cpu
from .cpu import sru as cpu_sru
from .gpu import check, operator
from .weights import NONLINEARITIES, Waves, Weights, clear_padding, exporting, transforms_active

__all__ = [
    "NONLINEARITIES",
    "Waves",
    "Weights",
    "available_backends",
    "backend_for",
    "chosen_backend",
    "fru_scan",
    "fru_step",
    "sru_scan",
    "use_backend",
]

Scan = Callable[..., tuple[Tensor | None, Tensor]]

_FRU_SCANS: dict[str, Scan] = {"reference": reference.scan, "collapsed": collapsed.scan}
if find_spec("numba") is not None:
    _FRU_SCANS["numba"] = cpu.scan
if find_spec("triton") is not None:
    _FRU_SCANS["triton"] = operator.scan

_SRU_SCANS: dict[str, Scan] = {"reference": sru.reference_scan, "numba": cpu_sru.scan}
_WIDE = (torch.float32, torch.float64)

_warned = False


def available_backends(device: torch.device | str | None = None) -> tuple[str, ...]:
    """The backends that work on a device, the slowest first; all of them compute the same function.

    The device is torch's default one, usually the CPU, unless another one is given.

    >>> available_backends("cpu")[:2]
    ('reference', 'collapsed')
    """
    kind = (torch.get_default_device() if device is None else torch.device(device)).type
    works = {"numba": kind == "cpu", "triton": gpu.available(kind)}
    return tuple(name for name in _FRU_SCANS if works.get(name, True))


class use_backend:
    """Choose how the layers compute: for the length of a ``with`` block, or as a setting.

    A block holds for its own thread, or its own asyncio task, and for nothing else. A setting
    holds for the whole process, threads that start later included; within a block, it holds until
    the end of the block.

    >>> with use_backend("reference"):
    ...     pass  # layers called here follow the paper step by step
    >>> _ = use_backend("auto")  # from here on: the best one for the tensors at hand
    """

    def __init__(self, name: str) -> None:
        without = () if gpu.available("cuda") else ("triton",)
        choices = ("auto", *(backend for backend in _FRU_SCANS if backend not in without))
        if name not in choices:
            raise ValueError(f"use_backend: expected one of {', '.join(choices)}; got {name!r}")
        self.name = name
        self._outer = _chosen_here()
        if self._outer is None and not torch.compiler.is_compiling():
            _settings.add(self)  # until __enter__ says that it is a block
        else:
            _choose_here(name)

    def __enter__(self) -> None:
        if not torch.compiler.is_compiling():
            _settings.withdraw(self)
        _choose_here(self.name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _choose_here(self._outer)


class _Settings:
    """The settings of the process; the newest one counts.

    Every block is a setting for an instant, between __init__ and __enter__, perhaps in several
    threads at once: hence a list, bounded so that a program may call use_backend forever.
    """

    def __init__(self) -> None:
        self.newest = "auto"
        self._all: deque[use_backend] = deque(maxlen=256)
        self._lock = threading.Lock()

    def add(self, setting: use_backend) -> None:
        with self._lock:
            self._all.append(setting)
            self.newest = setting.name

    def withdraw(self, setting: use_backend) -> None:
        with self._lock:
            if setting in self._all:
                self._all.remove(setting)
                self.newest = self._all[-1].name if self._all else "auto"


class _Traced(threading.local):
    """The block of this thread once more: torch.compile cannot read a context variable."""

    def __init__(self) -> None:
        self.name: str | None = None


_settings = _Settings()
_block: ContextVar[str | None] = ContextVar("torchfru_backend", default=None)
_traced = _Traced()


def chosen_backend() -> str:
    """The name that :func:`use_backend` was given for this place: "auto" or a backend."""
    return _chosen_here() or _settings.newest


def _chosen_here() -> str | None:
    return _traced.name if torch.compiler.is_compiling() else _block.get()


def _choose_here(name: str | None) -> None:
    if not torch.compiler.is_compiling():
        _block.set(name)
    _traced.name = name


def fru_scan(
    x: Tensor, u: Tensor | None, rows: Tensor | Waves, weights: Weights, **options: Any
) -> tuple[Tensor | None, Tensor]:
    """The scan that :func:`torchfru.ops.reference.scan` defines, by the chosen backend.

    u=None means zeros; the padding of x may hold anything. Only the backend "numba" takes Waves.
    """
    # Samples at different times share no A(t): for them only the direct form exists.
    if isinstance(rows, Waves):
        return _in_float32(_FRU_SCANS["numba"], x, u, rows, weights, **options)
    name = "reference" if rows.dim() == 3 else backend_for(x, len(weights.weight_ug))
    if name != "numba":
        x, u = clear_padding(x, options.get("lengths")), _empty(x, weights) if u is None else u
    return _in_float32(_FRU_SCANS[name], x, u, rows, weights, **options)


def fru_step(
    x: Tensor,
    u: Tensor | None,
    waves: Waves,
    weights: Weights,
    nonlinearity: str,
    times: Tensor | None = None,
) -> tuple[Tensor, Tensor, int]:
    """The y and u of :func:`torchfru.ops.cpu.scan.step`, and a sample's time past the end or -1."""
    if x.dtype in _WIDE:
        return cpu.step(x, u, waves, weights, nonlinearity, times)
    wide, u = _wide(x), None if u is None else u.float()
    waves, weights = waves.to(wide), weights.to(wide)
    y, after, past = cpu.step(x.to(wide), u, waves, weights, nonlinearity, times)
    return y.to(x.dtype), after.to(x.dtype), past


def sru_scan(
    x: Tensor, u: Tensor | None, alphas: Tensor, weights: Weights, **options: Any
) -> tuple[Tensor | None, Tensor]:
    """The scan that :func:`torchfru.ops.sru.reference_scan` defines, by the chosen backend.

    u=None means zeros; the padding of x may hold anything.
    """
    chosen = chosen_backend()
    on_cpu = x.device.type == "cpu" or chosen == "numba"
    name = backend_for(x, len(weights.weight_ug)) if on_cpu else chosen
    x = clear_padding(x, options.get("lengths"))
    if u is None and name != "numba":
        u = _empty(x, weights)
    return _in_float32(_SRU_SCANS.get(name, sru.fast_scan), x, u, alphas, weights, **options)


def _empty(x: Tensor, weights: Weights) -> Tensor:
    return x.new_zeros(x.shape[1], weights.weight_ug.shape[1])


def backend_for(x: Tensor, n_g: int) -> str:
    """The chosen backend, or the best one for the tensor at hand."""
    wide, chosen = _wide(x), chosen_backend()
    on_cpu = x.device.type == "cpu" and wide in _WIDE
    if chosen == "numba" and not on_cpu:
        raise ValueError(
            f"use_backend: 'numba' computes on the CPU in float32 or float64, not on "
            f"{x.device} in {wide}; choose 'auto'"
        )
    if chosen == "triton" and (limit := gpu.limit(x.device, wide)) is not None:
        raise ValueError(f"use_backend: 'triton' computes {limit}; choose 'auto'")
    # The operators have no rules for torch.func, and what is exported shall run where there is
    # neither Numba nor Triton nor Python.
    plain = transforms_active() or (chosen == "auto" and exporting())
    if plain and chosen in ("auto", "numba", "triton"):
        return "collapsed"
    if chosen != "auto":
        return chosen
    if x.device.type in gpu.DEVICES:
        usable = "triton" in _FRU_SCANS and gpu.limit(x.device, wide) is None
        return "triton" if usable and check.proved(x.device, gpu.is_wide(n_g)) else "collapsed"
    if on_cpu and "numba" not in _FRU_SCANS:
        _warn_once()
    return "numba" if on_cpu and "numba" in _FRU_SCANS else "collapsed"


def _warn_once() -> None:
    """Say why the CPU is slow; while a program is traced is no time for it."""
    global _warned
    if not _warned and not torch.compiler.is_compiling():
        _warned = True
        warnings.warn(
            "torchfru: Numba is not installed, so that layers run on the CPU by the slower backend "
            "'collapsed': pip install 'torchfru[cpu]'",
            stacklevel=8,
        )


def _in_float32(
    scan: Scan, x: Tensor, u: Tensor | None, rates: Any, weights: Weights, **options: Any
) -> tuple[Tensor | None, Tensor]:
    """Run a scan in float32 at least: half precision drops the small terms of a long sum."""
    wide, narrow = _wide(x), x.dtype
    if wide == narrow:
        rates = rates if isinstance(rates, Waves) or rates.dtype == wide else rates.to(wide)
        return scan(x, u, rates, weights, **options)
    before = None if u is None else u.to(wide)
    y, after = scan(x.to(wide), before, rates.to(wide), weights.to(wide), **options)
    return None if y is None else y.to(narrow), after.to(narrow)


def _wide(x: Tensor) -> torch.dtype:
    dtype = x.dtype
    return dtype if dtype in _WIDE else torch.promote_types(dtype, torch.float32)
