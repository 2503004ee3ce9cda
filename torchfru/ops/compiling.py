"""The notice that kernels are being compiled, for whoever waits for the first call."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

PATIENCE = 2.0  # seconds; a kernel that comes from the cache is there by then


@contextmanager
def announced(kernel: Any) -> Iterator[None]:
    """Say so when the first call of a kernel takes long: then it is being compiled."""
    if kernel.overloads:  # .signatures lists them, which hashes every type of every argument
        yield
        return
    notice = threading.Timer(PATIENCE, _say_compiling)
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


@cache  # once in a process, however many kernels it needs
def _say_compiling() -> None:
    message = "torchfru: compiling the CPU kernels for this machine, once (about 10 seconds) ..."
    print(message, file=sys.stderr, flush=True)
