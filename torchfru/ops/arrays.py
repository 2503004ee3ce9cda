"""Tensors as the kernels need them: padded, of one piece, and quick to touch for the first time."""

from __future__ import annotations

import ctypes
import math
import mmap
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

PAGE, ALIGNED = mmap.PAGESIZE, 64


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


def total(parts: Sequence[Tensor] | Tensor) -> Tensor:
    """The sum over threads, in their order; the first part is used up."""
    for part in parts[1:]:
        parts[0].add_(part)
    return parts[0]


# Memory that is used again ---------------------------------------------------------------------
#
# A training step needs some large arrays, for h above all. Asked for anew in every step, they come
# as pages that the system clears first, which takes about as long as the fused loop itself does.
# So a few of them are kept when they are let go, in huge pages where the system has them.

SMALLEST, LARGEST, KEPT = 2**18, 2**26, 12  # bytes of an array worth keeping; how many are kept
_free: list[NDArray[np.uint8]] = []
_lock = threading.Lock()


def large_empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An empty tensor, in memory that was used before if there is some that fits."""
    size = math.prod(shape) * like.element_size()
    if like.is_meta or isinstance(like, FakeTensor) or not SMALLEST <= size <= LARGEST:
        return like.new_empty(shape)
    block = _take(size)
    view = block[:size]  # an object of its own, which ends when the tensor does
    weakref.finalize(view, _give_back, block).atexit = False
    return torch.from_numpy(view).view(like.dtype).view(shape)


def _take(size: int) -> NDArray[np.uint8]:
    with _lock:
        fitting = [block for block in _free if size <= block.nbytes <= 2 * size]
        if fitting:
            best = min(fitting, key=lambda block: block.nbytes)
            del _free[next(i for i, block in enumerate(_free) if block is best)]
            return best
    memory = np.empty(size + ALIGNED, np.uint8)
    _advise(memory)
    return memory[-memory.ctypes.data % ALIGNED :]


def _give_back(block: NDArray[np.uint8]) -> None:
    with _lock:
        _free.append(block)
        del _free[:-KEPT]  # the oldest go


def _advise(memory: NDArray[np.uint8]) -> None:
    """Ask for huge pages: one fault for each page is most of the cost of touching memory first."""
    madvise = _madvise()
    if madvise is not None:
        start = -(-memory.ctypes.data // PAGE) * PAGE
        length = (memory.ctypes.data + memory.nbytes - start) // PAGE * PAGE
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)  # a hint


@cache
def _madvise() -> Any:
    return ctypes.CDLL(None).madvise if hasattr(mmap, "MADV_HUGEPAGE") else None
