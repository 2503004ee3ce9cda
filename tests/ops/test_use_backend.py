"""The choice of a backend: for a with block, for the process, in threads, tasks and compiled code.

Which backend computed is told by the operators that ran: only ``numba`` has one of its own, and
only ``collapsed`` multiplies by batches.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
import torch
from helpers import make_fru
from torch.utils._python_dispatch import TorchDispatchMode

import torchfru
from torchfru.ops import chosen_backend


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(str(function))
        return function(*args, **(kwargs or {}))


def used(run):
    """The backend that a forward pass took."""
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    with torch.no_grad(), Operators() as operators:
        run(x)
    if "torchfru.fru_scan.default" in operators.names:
        return "numba"
    return "collapsed" if "aten.bmm.default" in operators.names else "reference"


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("backend", torchfru.available_backends())
def test_a_block_chooses_and_ends(backend):
    layer = make_fru()
    with torchfru.use_backend(backend):
        assert used(layer) == backend
        with torchfru.use_backend("reference"):
            assert used(layer) == "reference"
        assert used(layer) == backend
    assert chosen_backend() == "auto"


def test_a_setting_within_a_block_ends_with_it():
    with torchfru.use_backend("reference"):
        torchfru.use_backend("collapsed")
        assert chosen_backend() == "collapsed"
        with torchfru.use_backend("auto"):
            assert chosen_backend() == "auto"
        assert chosen_backend() == "collapsed"
    assert chosen_backend() == "auto"


def test_overlapping_blocks_in_two_threads_leave_nothing_behind():
    """The first to enter is the first to leave: each thread sees its own choice throughout."""
    layer, entered, left = make_fru(), threading.Event(), threading.Event()
    seen = []

    def second():
        entered.wait()
        with torchfru.use_backend("collapsed"):
            seen.append(used(layer))
            left.set()
            first_gone.wait()
            seen.append(used(layer))
        seen.append(chosen_backend())

    first_gone = threading.Event()
    thread = threading.Thread(target=second)
    thread.start()
    with torchfru.use_backend("reference"):
        entered.set()
        left.wait()
        assert used(layer) == "reference"
    first_gone.set()
    thread.join()
    assert seen == ["collapsed", "collapsed", "auto"]
    assert chosen_backend() == "auto"


def test_overlapping_blocks_in_two_tasks_leave_nothing_behind():
    async def task(name, enter, leave):
        await asyncio.sleep(enter)
        with torchfru.use_backend(name):
            await asyncio.sleep(leave)
            found = chosen_backend()
        return found, chosen_backend()

    async def together():
        return await asyncio.gather(task("reference", 0, 0.02), task("collapsed", 0.01, 0.02))

    assert asyncio.run(together()) == [("reference", "auto"), ("collapsed", "auto")]


PROCESS = """
import threading, torchfru
from torchfru.ops import chosen_backend
found = []
def look():
    thread = threading.Thread(target=lambda: found.append(chosen_backend()))
    thread.start()
    thread.join()
torchfru.use_backend("reference")
look()
with torchfru.use_backend("collapsed"):
    look()
    found.append(chosen_backend())
found.append(chosen_backend())
choice = torchfru.use_backend("collapsed")
for _ in range(2):
    with choice:
        pass
look()
_ = torchfru.use_backend("auto")
look()
print(*found)
"""


def test_a_setting_holds_for_the_whole_process():
    """In a process of its own: within a test there is always a block around."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True
    )
    expected = ["reference", "reference", "collapsed", "reference", "reference", "auto"]
    assert done.stdout.split() == expected


def spy(taken):
    """A compiler that changes nothing, and notes which backend each call of its program takes."""

    def compiler(program, _):
        targets = [node.target for node in program.graph.nodes]
        name = "collapsed" if torch.bmm in targets else "reference"
        name = "numba" if any("fru_scan" in str(target) for target in targets) else name

        def run(*arguments):
            taken.append(name)
            return program(*arguments)

        return run

    return compiler


def test_compiled_code_follows_the_choice_of_each_thread():
    torch._dynamo.reset()
    layer, taken = make_fru(), []
    compiled = torch.compile(layer, fullgraph=True, backend=spy(taken))
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    names, without = torchfru.available_backends(), used(layer)
    for name in (*names, *names):  # the second time from what was compiled
        with torchfru.use_backend(name):
            compiled(x)
            in_thread(lambda: compiled(x))
        assert taken[-2:] == [name, without]


def test_a_block_within_compiled_code():
    torch._dynamo.reset()
    layer = make_fru()

    def run(x):
        with torchfru.use_backend("reference"):
            y, _ = layer(x)
        return y + layer(x)[0]

    x = torch.randn(6, 2, 3, dtype=torch.float64)
    compiled = torch.compile(run, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), run(x))
    assert chosen_backend() == "auto"
    with torchfru.use_backend("collapsed"):
        torch.testing.assert_close(compiled(x), run(x))
        assert chosen_backend() == "collapsed"
