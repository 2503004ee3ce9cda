"""Tensors as the kernels need them: padded, of one piece, and quick to touch for the first time."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

from torch import Tensor

PAGE, HUGE_PAGE = mmap.PAGESIZE, 2**21


def multiple(size: int, unit: int) -> int:
    """The least multiple of ``unit`` that is not below ``size``."""
    return -(-size // unit) * unit


def padded(tensor: Tensor, shape: Any) -> Tensor:
    """Contiguous and of this shape, with zeros behind what the tensor has in each dimension."""
    if tuple(tensor.shape) == tuple(shape):
        return tensor.contiguous()
    result = tensor.new_zeros(shape)
    result[tuple(slice(size) for size in tensor.shape)] = tensor
    return result


def total(parts: Tensor) -> Tensor:
    """The sum over threads, in their order; the first part is used up."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def large_empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An empty tensor, in huge pages if it is large and the system has them.

    A training step touches its memory for the first time in every step, and most of the cost of
    that is one fault for each page.
    """
    tensor = like.new_empty(shape)
    size = tensor.numel() * tensor.element_size()
    madvise = _madvise()
    if size >= 2 * HUGE_PAGE and madvise is not None and not tensor.is_meta:
        start = -(-tensor.data_ptr() // PAGE) * PAGE
        length = (tensor.data_ptr() + size - start) // PAGE * PAGE
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)  # a hint
    return tensor


@cache
def _madvise() -> Any:
    return ctypes.CDLL(None).madvise if hasattr(mmap, "MADV_HUGEPAGE") else None
