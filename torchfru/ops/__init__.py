"""The scans, and the one place where a backend is chosen for them."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from . import collapsed, reference, sru
from .weights import NONLINEARITIES, Weights

__all__ = [
    "NONLINEARITIES",
    "Weights",
    "available_backends",
    "fru_scan",
    "sru_scan",
    "use_backend",
]

Scan = Callable[..., tuple[Tensor | None, Tensor]]

_FRU_SCANS: dict[str, Scan] = {"reference": reference.scan, "collapsed": collapsed.scan}

_chosen = "auto"


def available_backends() -> tuple[str, ...]:
    """The backends that work here, the slowest first; all of them compute the same function.

    >>> available_backends()
    ('reference', 'collapsed')
    """
    return tuple(_FRU_SCANS)


class use_backend:
    """Choose how the layers compute: as a setting, or for the length of a ``with`` block.

    >>> with use_backend("reference"):
    ...     pass  # layers called here follow the paper step by step
    >>> _ = use_backend("auto")  # from here on: the best one for the tensors at hand
    """

    def __init__(self, name: str) -> None:
        global _chosen
        choices = ("auto", *available_backends())
        if name not in choices:
            raise ValueError(f"use_backend: expected one of {', '.join(choices)}; got {name!r}")
        self._before, _chosen = _chosen, name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _chosen
        _chosen = self._before


def fru_scan(
    x: Tensor, u: Tensor, rows: Tensor, weights: Weights, **options: Any
) -> tuple[Tensor | None, Tensor]:
    """The scan that :func:`torchfru.ops.reference.scan` defines, by the chosen backend."""
    # Samples at different times share no A(t): for them only the direct form exists.
    name = "reference" if rows.dim() == 3 else _pick()
    return _accumulate(_FRU_SCANS[name], x, u, rows, weights, **options)


def sru_scan(
    x: Tensor, u: Tensor, alphas: Tensor, weights: Weights, **options: Any
) -> tuple[Tensor | None, Tensor]:
    """The scan that :func:`torchfru.ops.sru.reference_scan` defines, by the chosen backend."""
    scan = sru.reference_scan if _chosen == "reference" else sru.fast_scan
    return _accumulate(scan, x, u, alphas, weights, **options)


def _pick() -> str:
    return "collapsed" if _chosen == "auto" else _chosen


def _accumulate(
    scan: Scan, x: Tensor, u: Tensor, rates: Tensor, weights: Weights, **options: Any
) -> tuple[Tensor | None, Tensor]:
    """Run a scan in float32 at least: half precision drops the small terms of a long sum."""
    wide, narrow = torch.promote_types(x.dtype, torch.float32), x.dtype
    y, u = scan(x.to(wide), u.to(wide), rates.to(wide), weights.to(wide), **options)
    return None if y is None else y.to(narrow), u.to(narrow)
