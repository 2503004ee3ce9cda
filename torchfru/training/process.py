"""The processes of a run: start, end, signals and processor settings."""

from __future__ import annotations

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
    """End the connection to the other processes. A process that finds it closed can crash."""
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
def quiet() -> Iterator[None]:
    """Silence Lightning's remarks on hardware, processes and logging folders."""
    logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"lightning\..*")
        yield
