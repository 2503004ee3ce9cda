"""Tensors as the kernels need them: padded, of one piece, and quick to touch for the first time."""

from __future__ import annotations

import math
import mmap
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

# Without this, the copies of a process would write into the same memory; Windows makes no copies.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


def multiple(size: int, unit: int) -> int:
    """The least multiple of ``unit`` that is not below ``size``."""
    return -(-size // unit) * unit


# Arrays for the kernels ------------------------------------------------------------------------
#
# A kernel writes only into memory that its own operator allocated. So everything else is handed to
# it as :func:`read_only`: Numba then refuses to compile a write. :func:`writable` is for tensors
# that came from ``new_empty``, ``new_zeros``, :func:`large_empty` or :func:`padded_copy`.

_TYPES = {torch.float32: "f4", torch.float64: "f8", torch.int64: "i8"}


class _View:
    """The memory of a contiguous tensor, for NumPy.

    ``Tensor.numpy()`` would mark the storage as one that cannot be resized, and FSDP resizes those
    of parameters.
    """

    def __init__(self, tensor: Tensor, read_only: bool) -> None:
        self.tensor = tensor  # lives as long as the array does
        self.__array_interface__ = {
            "shape": tuple(tensor.shape),
            "typestr": _TYPES[tensor.dtype],
            "data": (tensor.data_ptr(), read_only),
            "version": 3,
        }


def read_only(tensor: Tensor) -> NDArray[Any]:
    """An array that no kernel can write to, in the memory of a tensor."""
    assert tensor.is_contiguous()
    return np.asarray(_View(tensor, True))


def writable(tensor: Tensor) -> NDArray[Any]:
    """An array in the memory of a tensor that the running operator allocated."""
    assert tensor.is_contiguous()
    return np.asarray(_View(tensor, False))


def padded(tensor: Tensor, shape: Any) -> Tensor:
    """Contiguous and of this shape, with zeros behind what the tensor has in each dimension.

    To be read only: it is the tensor itself where that fits.
    """
    if tuple(tensor.shape) == tuple(shape):
        return tensor.contiguous()
    return padded_copy(tensor, shape)


def padded_copy(tensor: Tensor, shape: Any) -> Tensor:
    """As :func:`padded`, always in memory of its own."""
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
# as pages that the system has to clear first. So some are kept when they are let go, in huge pages
# where the system has them.
#
# Arrays are let go of whenever Python collects them, in the middle of _take perhaps, or in another
# thread: there is no lock to wait for, only operations on a dictionary that cannot be interrupted.

SMALLEST, LARGEST = 2**18, 2**25  # bytes of an array that is worth keeping
KEPT = 2**27  # bytes that are kept in all
_free: dict[int, NDArray[np.uint8]] = {}  # by their id, the oldest first


def large_empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An empty tensor, in memory that was used before if there is some that fits."""
    size = math.prod(shape) * like.element_size()
    if like.is_meta or isinstance(like, FakeTensor) or not SMALLEST <= size <= LARGEST:
        return like.new_empty(shape)
    block = _take(size)
    view = block[:size]  # an object of its own, which ends when the tensor does
    weakref.finalize(view, _give_back, block).atexit = False
    return torch.from_numpy(view).view(like.dtype).view(shape)


def product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """left @ right, in such memory if ``out`` has no room for it."""
    if out is None or not out.numel():
        out = large_empty((left.shape[0], right.shape[1]), left)
    return torch.mm(left, right, out=out)


def _take(size: int) -> NDArray[np.uint8]:
    """Memory for so many bytes that nobody else has."""
    fitting = [block for block in list(_free.values()) if size <= block.nbytes <= 2 * size]
    for block in sorted(fitting, key=lambda block: block.nbytes):
        if _free.pop(id(block), None) is not None:  # no other thread was quicker
            return block
    for block in list(_free.values())[:1]:  # what is kept may be of sizes that nobody needs now
        _free.pop(id(block), None)
    return _new(size)


def _give_back(block: NDArray[np.uint8]) -> None:
    if sum(kept.nbytes for kept in list(_free.values())) + block.nbytes <= KEPT:
        _free[id(block)] = block


def _new(size: int) -> NDArray[np.uint8]:
    """Memory straight from the system: among what comes and goes in between, in the heap, blocks
    that stay would leave holes. In huge pages, as touching memory first costs a fault for each."""
    memory = mmap.mmap(-1, size, **PRIVATE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a hint; not every system has huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
