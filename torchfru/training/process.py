"""The processes of a run: start, end, signals and processor settings."""

from __future__ import annotations

import ctypes
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from lightning.fabric import Fabric
from lightning.fabric.loggers.csv_logs import CSVLogger
from lightning.fabric.loggers.tensorboard import TensorBoardLogger

# Groups of processes that have ended. The destructor of one joins its threads, and these may still
# wait for Python's lock, which the destroying thread holds: a group lives as long as its process.
_ended: list[object] = []

# mallopt's parameters in glibc's malloc.h, and the values that it comes to by itself in a program
# that frees large blocks
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_USUAL = {_MMAP_MAX: 65_536, _MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}


# Batch size times steps times parameters; below this, one thread trains no slower than two. On two
# idle cores: one thread takes 0.8 of the time of two with FRU at 0.3e9, and as long at 2e9;
# with nn.LSTM 0.75 at 0.1e9, and 1.3 at 0.4e9.
LITTLE_WORK = 4e8


def require_accelerator(accelerator: str) -> None:
    """Refuse a device that is not here, and name those that are."""
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    known = {"auto": True, "cpu": True, "gpu": any(here.values()), **here}
    if accelerator not in known:
        raise ValueError(f"--accelerator must be one of {', '.join(known)}, got {accelerator!r}")
    if not known[accelerator]:
        found = ", ".join(["cpu", *(name for name, there in here.items() if there)])
        raise ValueError(
            f"--accelerator {accelerator}: torch {torch.__version__} finds none on this machine, "
            f"only {found}; choose --accelerator cpu, or install torch for your GPU"
        )


def launch(folder: Path, devices: int, nodes: int, accelerator: str) -> Fabric:
    """Start the other processes, if any. Each of them runs the same program up to this line."""
    fabric = Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy="ddp" if devices * nodes > 1 else "auto",
        loggers=[
            CSVLogger(str(folder), "logs", flush_logs_every_n_steps=1),
            TensorBoardLogger(str(folder), "tensorboard"),
        ],
    )
    fabric.launch()
    return fabric


def leave(fabric: Fabric) -> None:
    """Close the logs, and end the connection to the other processes.

    TensorBoard's thread would write to its folder later on, also while that is being deleted. A
    process that finds the connection closed can crash.
    """
    for logger in fabric.loggers:
        logger.finalize("success")
    if fabric.world_size > 1:
        fabric.barrier()
        _ended.append(torch.distributed.group.WORLD)
        torch.distributed.destroy_process_group()


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Take denormal numbers for zeros inside the block.

    Gradients that vanish over hundreds of steps end as denormal numbers, which a CPU is slow
    with: nn.LSTM's backward pass over 784 steps takes ten times as long. The setting is a
    thread's own; threads that torch starts later inherit it.
    """
    before = sys.float_info.min / 2 == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def useful_threads(work: float) -> int:
    """How many threads to train with; ``work`` is counted as for LITTLE_WORK.

    Threads meet after every small operation. Beside other programs each of these meetings waits
    until the system gives all of them a core: small runs took fifteen times as long with two.
    """
    return 1 if work < LITTLE_WORK else torch.get_num_threads()


@contextmanager
def threads_used(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def memory_kept() -> Iterator[None]:
    """Inside the block, memory that is freed stays with the process, up to 2 GiB of it.

    glibc hands blocks of 32 MiB or more back at once, and the kernel clears them anew, page by
    page, at each batch: at pixel-MNIST with a window that is half of the time of two threads.
    Other C libraries are left as they are.
    """
    try:
        libc = ctypes.CDLL(None)
        mallopt, trim = libc.mallopt, libc.malloc_trim
    except (AttributeError, OSError, TypeError):  # TypeError: Windows
        yield
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        for parameter, value in _USUAL.items():
            mallopt(parameter, value)
        trim(0)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Inside the block, SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Inside the block, Ctrl-C and SIGTERM wait: they take effect at its end.

    For files that belong together: a stop between two of them would leave one an epoch behind.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda n, _: came.append(n)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for first in came[:1]:
        signal.raise_signal(first)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Lightning's remarks on hardware, processes and logging folders."""
    logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"lightning\..*")
        yield
