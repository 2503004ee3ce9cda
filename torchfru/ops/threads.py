"""Work shared out over threads: as many as torch uses, none of torch's own.

The kernels release the interpreter lock, so plain Python threads run them at once. That keeps
clear of OpenMP: nothing to share with torch's pool, and nothing that breaks after a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget_pool() -> None:
    """A child process has none of its parent's threads."""
    global _pool, _pool_size
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def shares(units: int, at_least: int = 1) -> list[range]:
    """0..units-1 cut into one range for each thread, none smaller than ``at_least`` but one."""
    count = max(1, min(torch.get_num_threads(), -(-units // at_least)))
    cuts = [units * i // count for i in range(count + 1)]
    return [range(a, b) for a, b in pairwise(cuts)]


def run(work: Callable[[int, range], None], parts: list[range]) -> None:
    """``work(index, part)`` for every part, the first one in this thread."""
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
