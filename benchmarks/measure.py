"""Recurrent layers side by side in one run: time, memory, and how both grow.

Machines are noisy, so every figure is a median over rounds, and in each round every contender
takes its turn before any takes its next. Peak memory is measured in a process of its own.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchfru.nn import FRU, SRU
from torchfru.ops import available_backends, use_backend
from torchfru.records import hardware

HIDDEN = 200  # of the layers that FRU is compared with


@dataclass(frozen=True)
class Shape:
    """One problem: the input, the FRU that reads it, and whether all outputs are wanted."""

    steps: int
    batch: int
    input_size: int
    num_freqs: int
    freq_dim: int
    gate_size: int = 60
    hidden_size: int = HIDDEN
    every_step: bool = False

    @property
    def fru_name(self) -> str:
        return f"FRU_{self.num_freqs},{self.freq_dim}"


PRESETS = {
    "pixel-mnist": Shape(784, 256, 1, num_freqs=60, freq_dim=10),
    "imdb": Shape(300, 32, 128, num_freqs=5, freq_dim=10, hidden_size=128),
    "mix-poly": Shape(176, 32, 1, num_freqs=120, freq_dim=5, every_step=True),
}

# The sizes of a problem that are varied one at a time, and their values.
SIZES: dict[str, tuple[int, ...]] = {
    "steps": (100, 1_000, 10_000, 100_000),
    "batch": (1, 8, 64, 512),
    "num_freqs": (10, 30, 100, 300),
    "freq_dim": (5, 10, 20, 40),
}
LONG_BATCH = 16  # while steps are varied: 100,000 steps must fit the machine
SMALL_BATCHES = (1, 8)  # at which FRU is set against nn.LSTM as well
PATIENCE = 0.3  # seconds for which a fast layer is called repeatedly, in each turn


def contenders(shape: Shape) -> dict[str, Callable[[], nn.Module]]:
    """A way to make each layer; a second word in its name is the backend that it is to run by."""
    hidden = shape.hidden_size
    layers: dict[str, Callable[[], nn.Module]] = {
        "nn.RNN": lambda: nn.RNN(shape.input_size, hidden),
        "nn.GRU": lambda: nn.GRU(shape.input_size, hidden),
        "nn.LSTM": lambda: nn.LSTM(shape.input_size, hidden),
        "SRU reference": lambda: SRU(shape.input_size, hidden, return_sequences=shape.every_step),
        "SRU": lambda: SRU(shape.input_size, hidden, return_sequences=shape.every_step),
    }
    for backend in available_backends():
        layers[f"FRU {backend}"] = lambda: FRU(
            shape.input_size,
            hidden,
            seq_len=shape.steps,
            num_freqs=shape.num_freqs,
            freq_dim=shape.freq_dim,
            gate_size=shape.gate_size,
            return_sequences=shape.every_step,
        )
    return layers


@dataclass
class Timing:
    """Seconds, one for each round."""

    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Result:
    """The times and the memory of one layer."""

    name: str
    parameters: int
    forward: Timing = field(default_factory=Timing)
    training: Timing = field(default_factory=Timing)  # forward and backward
    peak_bytes: int | None = None

    def record(self) -> dict[str, Any]:
        medians = {"forward_median": self.forward.median, "training_median": self.training.median}
        return asdict(self) | medians


def run_benchmark(
    shape: Shape,
    rounds: int,
    names: list[str],
    *,
    memory: bool,
    sweeps: bool,
    tick: Callable[[str], None],
) -> dict[str, Any]:
    """All that is measured of a problem, as JSON holds it."""
    results = time_layers(shape, rounds, names, tick)
    for result in results if memory else ():
        result.peak_bytes = peak_memory(shape, result.name)
    rate = kernel_rate(shape, rounds)
    return {
        "shape": asdict(shape),
        "rounds": rounds,
        "environment": environment(),
        "layers": [result.record() for result in results],
        "kernel": None if rate is None else asdict(rate) | {"ratio": rate.ratio},
        "sweeps": {size: growth(shape, size, rounds, tick) for size in SIZES} if sweeps else {},
        "small_batches": small_batches(shape, rounds, tick) if sweeps else {},
    }


def count_turns(rounds: int, names: list[str], sweeps: bool) -> int:
    """How often ``tick`` is called by :func:`run_benchmark`."""
    grown = sum(map(len, SIZES.values())) + 2 * len(SMALL_BATCHES)
    return rounds * (len(names) + (grown if sweeps else 0))


def run_forward(name: str, layer: nn.Module, x: Tensor) -> Tensor:
    """The outputs that are wanted, by the backend that the name ends in."""
    backend = name.split()[1] if " " in name else "auto"
    with use_backend(backend):
        return layer(x)[0]


def run_training(name: str, layer: nn.Module, x: Tensor, gradient: Tensor) -> None:
    """Forward, and backward from a gradient of the outputs that are wanted."""
    output = run_forward(name, layer, x)
    wanted = output if output.dim() == gradient.dim() else output[-1]
    wanted.backward(gradient)
    layer.zero_grad(set_to_none=True)


def gradient_for(shape: Shape, steps: int | None = None) -> Tensor:
    """A gradient to start the backward pass from, of every output or of the last."""
    last = (shape.batch, shape.hidden_size)
    return torch.randn((steps or shape.steps, *last) if shape.every_step else last)


def time_layers(
    shape: Shape,
    rounds: int,
    names: Iterable[str] | None = None,
    tick: Callable[[str], None] = print,
) -> list[Result]:
    """Time every contender in turn, ``rounds`` times over.

    Each turn begins with a call that does not count: it compiles, and it leaves the allocator as
    a layer that is being trained finds it, and not with what the one before has left behind.
    """
    makers = contenders(shape)
    chosen = list(makers) if names is None else list(names)
    layers = {name: makers[name]() for name in chosen}
    found = {n: Result(n, sum(p.numel() for p in layers[n].parameters())) for n in chosen}
    x = torch.randn(shape.steps, shape.batch, shape.input_size)
    gradient = gradient_for(shape)
    for _ in range(rounds):
        for name, layer in layers.items():
            run_training(name, layer, x, gradient)
            with torch.no_grad():
                forward = seconds_of(run_forward, name, layer, x)
            training = seconds_of(run_training, name, layer, x, gradient)
            found[name].forward.seconds.append(forward)
            found[name].training.seconds.append(training)
            tick(name)
    return list(found.values())


def seconds_of(
    work: Callable[..., object], *arguments: object, patience: float | None = None
) -> float:
    """Of a call; if it is quick, the median of as many as there is patience for."""
    times: list[float] = []
    end = time.perf_counter() + (PATIENCE if patience is None else patience)
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        work(*arguments)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# Memory ------------------------------------------------------------------------------------


def peak_memory(shape: Shape, name: str) -> int | None:
    """Bytes above the inputs and weights at the peak of one training step, or None.

    Measured by the operating system, in a new process; Linux only.
    """
    if not Path("/proc/self/clear_refs").exists():
        return None
    command = [sys.executable, "-m", "benchmarks.measure", name, json.dumps(asdict(shape))]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"measuring the memory of {name} failed: {run.stderr.strip()}")
    return int(run.stdout)


def _print_peak(name: str, shape: Shape) -> None:
    """In the new process: warm up on a short input, then one training step on the real one."""
    layer = contenders(shape)[name]()
    x = torch.randn(shape.steps, shape.batch, shape.input_size)
    gradient = gradient_for(shape)
    run_training(name, layer, x[:2], gradient_for(shape, steps=2))
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _resident("VmRSS")
    run_training(name, layer, x, gradient)
    print(_resident("VmHWM") - before)


def _resident(entry: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(entry))


# The kernel against a matrix product ---------------------------------------------------------


@dataclass
class Rate:
    """Floating point operations per second of the fused loop, and of a large product."""

    kernel: float
    product: float

    @property
    def ratio(self) -> float:
        return self.kernel / self.product


def kernel_rate(shape: Shape, rounds: int) -> Rate | None:
    """The forward loop alone, and torch's product of two 2048 x 2048 matrices, in turn."""
    if "numba" not in available_backends():
        return None
    import numpy as np

    from torchfru.ops.cpu.batch import batch_forward
    from torchfru.ops.cpu.nonlinear import KINDS
    from torchfru.ops.cpu.plan import layout_of
    from torchfru.ops.cpu.simd import SEGMENT

    n_g, n_h, size = shape.gate_size, shape.freq_dim, 2048
    layout = layout_of(max(shape.batch, 5), n_g, n_h, torch.float32)
    rows, row, n_g_pad, n_h_pad = layout.rows, layout.row, layout.n_g_pad, layout.n_h_pad
    make = np.random.default_rng(0)

    def normal(*sizes: int) -> np.ndarray:
        return make.standard_normal(sizes, np.float32)

    arrays = [
        normal(shape.steps, shape.input_size, rows * row),
        normal(shape.steps, layout.numbers) / shape.steps,
        normal(n_g_pad, n_h_pad) / 10,
        normal(shape.input_size, n_h_pad),
        np.zeros((n_h_pad,), np.float32),
        np.empty(0, np.float32),
        np.zeros((rows, n_g_pad, row), np.float32),
        np.empty((-(-shape.steps // SEGMENT), rows, n_g_pad, row), np.float32),
        np.empty((shape.steps, rows, n_h_pad, row), np.float32),
    ]
    kind, layout_shape = KINDS["relu"], layout.shape

    def forward() -> None:
        arrays[6].fill(0)
        batch_forward(*arrays, kind, *layout_shape, 0, rows)

    left, right = torch.randn(size, size), torch.randn(size, size)
    kernel, product = Timing(), Timing()
    for turn in range(rounds + 1):
        timings = (
            (kernel, seconds_of(forward)),
            (product, seconds_of(torch.mm, left, right)),
        )
        for timing, seconds in timings:
            if turn > 0:
                timing.seconds.append(seconds)
    work = 2 * 2 * n_g * n_h * shape.steps * shape.batch
    return Rate(work / kernel.median, 2 * size**3 / product.median)


# Growth ------------------------------------------------------------------------------------


def growth(
    shape: Shape, size: str, rounds: int, tick: Callable[[str], None] = print
) -> dict[int, float]:
    """Seconds of a training step of FRU, by the best backend, as one size of the problem grows."""
    if size == "steps":
        shape = replace(shape, batch=LONG_BATCH)
    best = f"FRU {available_backends()[-1]}"
    times = {}
    for value in SIZES[size]:
        changed = replace(shape, **{size: value})  # type: ignore[arg-type]
        times[value] = time_layers(changed, rounds, [best], tick)[0].training.median
    return times


def small_batches(
    shape: Shape, rounds: int, tick: Callable[[str], None] = print
) -> dict[int, dict[str, float]]:
    """Seconds of a training step at small batches, of nn.LSTM and of FRU by the best backend."""
    names = ["nn.LSTM", f"FRU {available_backends()[-1]}"]
    return {
        batch: {
            result.name: result.training.median
            for result in time_layers(replace(shape, batch=batch), rounds, names, tick)
        }
        for batch in SMALL_BATCHES
    }


def environment() -> dict[str, Any]:
    """Versions and hardware that the figures depend on."""
    place = hardware(devices=1, nodes=1)
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        **{name: place[name] for name in ("threads", "cores", "cpu")},
    }


if __name__ == "__main__":
    _print_peak(sys.argv[1], Shape(**json.loads(sys.argv[2])))
