"""How kernels run: buffers that are used again, and threads."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

# Arrays ----------------------------------------------------------------------------------------
#
# A kernel writes only into memory that its own operator allocated: with new_empty, new_zeros,
# or pooled_empty. Everything else it gets read-only, and Numba then refuses to compile
# a write.

_TYPES = {torch.float32: "f4", torch.float64: "f8", torch.int64: "i8"}


def kernel_arrays(read: Iterable[Tensor], write: Iterable[Tensor] = ()) -> list[NDArray[Any]]:
    """Arrays in the memory of contiguous tensors, in this order; only those of ``write`` can be
    written to.

    Tensor.numpy() would mark a storage as one that cannot be resized, and FSDP resizes those of
    parameters.
    """
    arrays = []
    for tensors, read_only in ((read, True), (write, False)):
        for tensor in tensors:
            assert tensor.is_contiguous()
            interface = {
                "shape": tuple(tensor.shape),
                "typestr": _TYPES[tensor.dtype],
                "data": (tensor.data_ptr(), read_only),
                "version": 3,
            }  # with the tensor, which then lives as long as the array
            view = SimpleNamespace(tensor=tensor, __array_interface__=interface)
            array = np.asarray(view)
            if read_only:
                # once more: NumPy forgets it where there is no memory, and for each combination
                # of types a kernel has to be compiled
                array.flags.writeable = False
            arrays.append(array)
    return arrays


def round_up(size: int, unit: int) -> int:
    """The least multiple of ``unit`` that is not below ``size``."""
    return -(-size // unit) * unit


def sum_over_threads(parts: Sequence[Any]) -> Any:
    """The sum of the parts, tensors or arrays, in their order, in the memory of the first."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


# Buffers that are used again -------------------------------------------------------------------
#
# A training step needs some large arrays, for h above all. New ones come as pages that the system
# has to clear first. So some are kept when they are released, in huge pages where there are any.
#
# Python releases an array whenever it collects it, in the middle of _take perhaps, or in another
# thread. So there is no lock, only operations on a dictionary that cannot be interrupted.

SMALLEST, LARGEST = 2**18, 2**25  # bytes of an array that is worth keeping
KEPT = 2**27  # bytes that are kept in all
_free: dict[int, NDArray[np.uint8]] = {}  # by their id, the oldest first
# Without this, forked processes would write into the same memory; Windows does not fork.
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


def pooled_empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An empty tensor, in memory that was used before if some fits."""
    size = math.prod(shape) * like.element_size()
    if like.is_meta or isinstance(like, FakeTensor) or not SMALLEST <= size <= LARGEST:
        return like.new_empty(shape)
    block = _take(size)
    view = block[:size]  # an object of its own, which ends when the tensor does
    weakref.finalize(view, _give_back, block).atexit = False
    return torch.from_numpy(view).view(like.dtype).view(shape)


def pooled_arrays(like: NDArray[Any], *shapes: tuple[int, ...]) -> list[NDArray[Any]]:
    """As :func:`pooled_empty`, arrays."""
    least = SMALLEST // like.itemsize
    # By way of a tensor: views of an array would not hold on to it, but to all of its memory.
    return [
        np.empty(shape, like.dtype)
        if math.prod(shape) < least
        else pooled_empty(shape, torch.from_numpy(like)).numpy()
        for shape in shapes
    ]


def _take(size: int) -> NDArray[np.uint8]:
    """Memory for so many bytes that nobody else has."""
    fitting = [block for block in list(_free.values()) if size <= block.nbytes <= 2 * size]
    for block in sorted(fitting, key=lambda block: block.nbytes):
        if _free.pop(id(block), None) is not None:  # no other thread was quicker
            return block
    for block in list(_free.values())[:1]:  # the oldest may have a size that nobody needs now
        _free.pop(id(block), None)
    return _new(size)


def _give_back(block: NDArray[np.uint8]) -> None:
    if sum(kept.nbytes for kept in list(_free.values())) + block.nbytes <= KEPT:
        _free[id(block)] = block


def _new(size: int) -> NDArray[np.uint8]:
    """Memory straight from the system: blocks that stay would leave holes in the heap. In huge
    pages, because touching memory for the first time costs a fault for each page."""
    memory = mmap.mmap(-1, size, **_PRIVATE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a hint; not every system has huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


# Threads ---------------------------------------------------------------------------------------
#
# torch keeps a team of OpenMP threads, which spin while they wait for the next product. A second
# team would fight them for the cores. So the kernels use torch's team, through the entry point of
# the OpenMP library that torch has loaded. Where there is none (macOS, Windows, or a forked
# process, which has lost the team), plain Python threads do the work: the kernels release the
# interpreter lock.

Work = Callable[[int, range], None]


def split_range(units: int) -> list[range]:
    """0..units-1 cut into one range for each thread that torch uses."""
    count = min(torch.get_num_threads(), units)
    if count <= 1:
        return [range(units)]
    cuts = [units * i // count for i in range(count + 1)]
    return [range(a, b) for a, b in pairwise(cuts)]


def run(work: Work, parts: list[range]) -> None:
    """``work(index, part)`` for every part, each in a thread of its own."""
    if len(parts) == 1:
        return work(0, parts[0])
    openmp = None if _forked else _openmp()
    if openmp is not None:
        return _run_in_team(openmp, work, parts)
    return _run_in_pool(work, parts)


def spread(kernel: Any, units: int, *arguments: Any) -> None:
    """``kernel(*arguments, first, last)`` for parts of 0..units-1, each in a thread of its own."""
    parts = split_range(units)
    if len(parts) == 1:
        kernel(*arguments, 0, units)
    else:
        run(lambda _, part: kernel(*arguments, part.start, part.stop), parts)


@cache
def _openmp() -> Any:
    """The OpenMP library in torch's folder, if torch has loaded it and it has GNU's interface."""
    loaded = Path("/proc/self/maps")
    if not loaded.exists():
        return None
    lines = loaded.read_text().splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines if "libgomp" in line}
    folder = (Path(torch.__file__).parent / "lib").resolve()  # the system knows no symbolic links
    own = [path for path in paths if Path(path).parent == folder]
    library = ctypes.CDLL(own[0]) if own else None
    return library if hasattr(library, "GOMP_parallel") else None


def _run_in_team(openmp: Any, work: Work, parts: list[range]) -> None:
    errors: list[BaseException] = []
    waiting = list(enumerate(parts))

    def member(_: int) -> None:
        while True:  # more than once, should the team be smaller than asked for
            try:
                index, part = waiting.pop()
            except IndexError:
                return
            try:
                work(index, part)
            except BaseException as error:
                errors.append(error)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(member)
    openmp.GOMP_parallel(callback, None, ctypes.c_uint(len(parts)), ctypes.c_uint(0))
    if errors:
        raise errors[0]


_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_forked = False


def _forget_threads() -> None:
    """A child process has none of its parent's threads, and OpenMP would wait for them."""
    global _pool, _pool_size, _forked
    _pool, _pool_size, _forked = None, 0, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _run_in_pool(work: Work, parts: list[range]) -> None:
    others = [_executor(len(parts) - 1).submit(work, i, part) for i, part in enumerate(parts) if i]
    work(0, parts[0])
    for other in others:
        other.result()


def _executor(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < size:
        if _pool is not None:
            _pool.shutdown(wait=True)
        _pool, _pool_size = ThreadPoolExecutor(size, thread_name_prefix="torchfru"), size
    return _pool
