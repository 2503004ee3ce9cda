"""Work shared out over threads: as many as torch uses and, where that can be, torch's own.

torch keeps a team of OpenMP threads, which wait for the next product by spinning. A second
team would have to fight them for the cores. So the kernels ask for torch's team, through the
entry point of the OpenMP library that torch has loaded. Where there is none (macOS, Windows,
or a forked process, which has lost the team), plain Python threads do the work: the kernels
release the interpreter lock.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

Work = Callable[[int, range], None]


def shares(units: int, at_least: int = 1) -> list[range]:
    """0..units-1 cut into one range for each thread, each of ``at_least`` or so."""
    count = max(1, min(torch.get_num_threads(), units // at_least))
    cuts = [units * i // count for i in range(count + 1)]
    return [range(a, b) for a, b in pairwise(cuts)]


def run(work: Work, parts: list[range]) -> None:
    """``work(index, part)`` for every part, each in a thread of its own."""
    openmp = None if _forked else _openmp()
    if len(parts) == 1:
        work(0, parts[0])
    elif openmp is not None:
        _run_in_team(openmp, work, parts)
    else:
        _run_in_pool(work, parts)


# torch's team --------------------------------------------------------------------------------


@cache
def _openmp() -> Any:
    """The OpenMP library in torch's folder, if torch has loaded it and it speaks GNU's dialect."""
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


# Plain threads -------------------------------------------------------------------------------

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
