"""Everyday shapes side by side in one interleaved run: layers, cells, streams and lengths.

``python -m benchmarks.shapes --json benchmarks/shapes.json`` takes about ten minutes, on a
machine that does nothing else. All rows but one are measured on one thread, each of them with
denormal numbers as torch treats them and with denormal numbers flushed.
"""

from __future__ import annotations

import json
import logging
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import torchfru
from torchfru.cli import run
from torchfru.io import write_atomically

from .measure import environment, seconds_of

PATIENCE = 0.1  # seconds for which a fast call is repeated, in each turn
LONG = 1.0  # seconds of a call that needs no other before it
STEPS_TIMED = 4000  # single steps whose latency is measured
TURN = 100  # of them in a row

Work = Callable[[], object]
Works = dict[str, dict[str, Work]]  # by contender and measure
Times = dict[str, dict[str, dict[str, list[float]]]]  # by contender, measure and mode


@dataclass(frozen=True)
class Row:
    """One shape. ``kind`` says what is called: layer, step, cell, stream or lengths."""

    name: str
    kind: str
    batch: int
    steps: int
    input_size: int
    hidden_size: int
    options: dict[str, Any] = field(default_factory=dict)  # of every layer
    fru: dict[str, Any] = field(default_factory=dict)
    every_step: bool = True
    threads: int = 1


EVEN: dict[str, Any] = {"freqs": "even"}
ROWS = (
    Row("batch 1, T = 256, 64 -> 128", "layer", 1, 256, 64, 128),
    Row("batch 1, T = 256, 1 -> 32", "layer", 1, 256, 1, 32),
    Row("batch 32, T = 100, 64 -> 128", "layer", 32, 100, 64, 128),
    Row("batch 64, T = 500, 32 -> 64", "layer", 64, 500, 32, 64),
    Row(
        "two layers, bidirectional, batch 32, T = 100, 64 -> 128",
        *("layer", 32, 100, 64, 128),
        options={"num_layers": 2, "bidirectional": True},
    ),
    Row("batch 32, T = 20, 8 -> 32", "layer", 32, 20, 8, 32),
    Row("batch 16, T = 10, 8 -> 16", "layer", 16, 10, 8, 16),
    Row("batch 32, T = 50, 300 -> 512", "layer", 32, 50, 300, 512),
    Row("layer fed one step, batch 1, 64 -> 128", "step", 1, 1, 64, 128),
    Row("cell, batch 1, 64 -> 128", "cell", 1, 1, 64, 128),
    Row("cell, batch 1, 1 -> 32", "cell", 1, 1, 1, 32),
    Row("stream, batch 1, 64 -> 128", "stream", 1, 1, 64, 128),
    Row("stream, batch 1, 1 -> 32", "stream", 1, 1, 1, 32),
    Row(
        "IMDB, FRU_5,10, batch 32, T = 300, last output",
        *("layer", 32, 300, 128, 128),
        fru={"num_freqs": 5, "freq_dim": 10, "gate_size": 60},
        every_step=False,
    ),
    Row(
        "mix-poly, FRU_120,5, batch 32, T = 176",
        *("layer", 32, 176, 1, 200),
        fru={"num_freqs": 120, "freq_dim": 5, "gate_size": 60},
    ),
    Row(
        "permuted MNIST, FRU_400,1 even, batch 128, T = 784, last output",
        *("layer", 128, 784, 1, 256),
        fru={"num_freqs": 400, "freq_dim": 1, "gate_size": 40, **EVEN},
        every_step=False,
    ),
    Row(
        "pixel-MNIST, the recipe's 24 pairs of d = 24, batch 128, T = 784, last output",
        *("layer", 128, 784, 24, 64),
        fru={"num_freqs": 48, "freq_dim": 24, "gate_size": 16, "basis": "pairs", **EVEN},
        every_step=False,
    ),
    Row(
        "copy over 1,000 steps, FRU_60,12 even, batch 64, T = 1,020",
        *("layer", 64, 1020, 10, 128),
        fru={"num_freqs": 60, "freq_dim": 12, "gate_size": 24, **EVEN},
    ),
    Row(
        "two layers, lengths 1 to T, batch 32, T = 1,000, 16 -> 64",
        *("lengths", 32, 1000, 16, 64),
        options={"num_layers": 2},
    ),
    Row(
        "pixel-MNIST, FRU_60,10, batch 256, T = 784, last output",
        *("layer", 256, 784, 1, 200),
        every_step=False,
    ),
    Row(
        "pixel-MNIST, FRU_60,10, batch 256, T = 784, last output, two threads",
        *("layer", 256, 784, 1, 200),
        every_step=False,
        threads=2,
    ),
)


# What is called -----------------------------------------------------------------------------


def works(row: Row) -> Works:
    """The calls to measure, by contender."""
    torch.manual_seed(0)
    return {"layer": _layers, "lengths": _lengths}.get(row.kind, _steps)(row)


def _make(row: Row, name: str) -> nn.Module:
    sizes = (row.input_size, row.hidden_size)
    if name == "FRU":
        horizon = max(row.steps, 100) if row.kind in ("layer", "lengths") else 10**7
        own: dict[str, Any] = {"return_sequences": row.every_step, "seq_len": horizon, **row.fru}
        return torchfru.FRU(*sizes, **{**row.options, **own})
    if name == "SRU":
        return torchfru.SRU(*sizes, **row.options, return_sequences=row.every_step)
    return getattr(nn, name.removeprefix("nn."))(*sizes, **row.options)


LAYER_NAMES = ("nn.RNN", "nn.GRU", "nn.LSTM", "SRU", "FRU")


def _layers(row: Row) -> Works:
    x = torch.randn(row.steps, row.batch, row.input_size)
    made = {name: _make(row, name) for name in LAYER_NAMES}
    return {name: _forward_and_training(layer, x, row.every_step) for name, layer in made.items()}


def _forward_and_training(
    layer: nn.Module, x: Any, every_step: bool = True, **given: Any
) -> dict[str, Work]:
    def output() -> Tensor:
        y = layer(x, **given)[0]
        y = y.data if isinstance(y, PackedSequence) else y
        return y if every_step or y.dim() == 2 else y[-1]

    def forward() -> None:
        with torch.no_grad():
            output()

    def training() -> None:
        output().sum().backward()
        layer.zero_grad(set_to_none=True)

    return {"forward": forward, "training": training}


def _lengths(row: Row) -> Works:
    """Padded, packed and with lengths: two layers and lengths from 1 to T, as in PyTorch's issue
    149194, where a packed LSTM takes up to 114 times as long as a padded one."""
    x = torch.randn(row.steps, row.batch, row.input_size)
    lengths = torch.linspace(1, row.steps, row.batch).round().long()
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    found: Works = {}
    for name in ("nn.LSTM", "SRU", "FRU"):
        layer = _make(row, name)
        found[f"{name} padded"] = _forward_and_training(layer, x)
        found[f"{name} packed"] = _forward_and_training(layer, packed)
        if name != "nn.LSTM":
            found[f"{name} lengths="] = _forward_and_training(layer, x, lengths=lengths)
    return found


def _steps(row: Row) -> Works:
    """One step of a layer, a cell or a stream, without gradients; a stream beside nn.LSTMCell."""
    x = torch.randn(row.batch, row.input_size)
    found: Works = {}
    for name in ("nn.LSTM",) if row.kind == "stream" else LAYER_NAMES:
        kind = "cell" if row.kind == "stream" else row.kind
        found[name + ("Cell" if kind == "cell" else "")] = {"forward": _step(row, name, kind, x)}
    if row.kind == "stream":
        for name in ("SRU", "FRU"):
            stream: Any = _make(row, name).stream(batch=row.batch)  # type: ignore[operator]
            found[name] = {"forward": partial(stream, x)}
    return found


def _step(row: Row, name: str, kind: str, x: Tensor) -> Work:
    """A call that goes on from the state after the first step."""
    if kind == "step":
        module: Any = _make(row, name)
        x = x.unsqueeze(0)  # (1, N, n_in)
    else:
        home = nn if name.startswith("nn.") else torchfru
        own = {"seq_len": 10**7} if name == "FRU" else {}
        cell = getattr(home, name.removeprefix("nn.") + "Cell")
        module = cell(row.input_size, row.hidden_size, **own)
    with torch.no_grad():
        first = module(x)
    state = first if kind == "cell" and name.startswith("nn.") else first[1]

    def step() -> None:
        with torch.no_grad():
            module(x, state)

    return step


# Measuring ----------------------------------------------------------------------------------

MODES = {"flushed": True, "as torch comes": False}


@contextmanager
def _mode(flush: bool) -> Iterator[None]:
    """The setting is a thread's own, and the other threads have it flushed: see :func:`measure`."""
    torch.set_flush_denormal(flush)
    try:
        yield
    finally:
        torch.set_flush_denormal(True)


def measure(
    rows: tuple[Row, ...], rounds: int, tick: Callable[[str], None] = print
) -> list[dict[str, Any]]:
    """Seconds of each round, of every row, contender and mode, in turn.

    A row of two threads is measured with denormal numbers flushed only: that the second thread
    flushes them is settled when it begins.
    """
    torch.set_flush_denormal(True)
    prepared = [(row, works(row)) for row in rows]
    times: list[Times] = [
        {name: {m: {} for m in measures} for name, measures in work.items()} for _, work in prepared
    ]
    for turn in range(rounds):
        for (row, work), found in zip(prepared, times, strict=True):
            torch.set_num_threads(row.threads)
            for mode, flush in MODES.items():
                if row.threads == 1 or flush:
                    with _mode(flush):
                        _take_turns(work, found, mode)
            torch.set_num_threads(1)
            tick(f"round {turn + 1} of {rounds}: {row.name}")
    return [{**asdict(row), "seconds": found} for row, found in zip(rows, times, strict=True)]


def _take_turns(work: Works, found: Times, mode: str) -> None:
    for name, measures in work.items():
        for kind, call in measures.items():
            before = found[name][kind].get("flushed", [0.0])
            if before[-1] < LONG:
                call()  # compiles, and leaves the allocator as a call before would
            found[name][kind].setdefault(mode, []).append(seconds_of(call, patience=PATIENCE))


# Latency ------------------------------------------------------------------------------------


def latencies(
    input_size: int, hidden_size: int, steps: int = STEPS_TIMED
) -> dict[str, dict[str, float]]:
    """Microseconds of a step of one sequence: the median, and that which 99 of 100 stay below."""
    torch.set_flush_denormal(True)
    calls = _step_contenders(input_size, hidden_size)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(-(-steps // TURN) + 2):  # the first two warm up
        for name, call in calls.items():
            for _ in range(TURN):
                start = time.perf_counter()
                call()
                if turn > 1:
                    times[name].append(1e6 * (time.perf_counter() - start))
    return {
        name: {"median": statistics.median(t), "p99": statistics.quantiles(t, n=100)[98]}
        for name, t in times.items()
    }


def _step_contenders(input_size: int, hidden_size: int) -> dict[str, Work]:
    from torchfru.nn.baselines import LSTM

    row = Row("", "stream", 1, 1, input_size, hidden_size)
    x = torch.randn(1, input_size)
    fru = torchfru.FRU(input_size, hidden_size, seq_len=10_000, batch_first=True)
    stream = torchfru.FRU(input_size, hidden_size, seq_len=10**7).stream()
    return {
        "FRU, stream": lambda: stream(x),
        "FRU, cell": _step(row, "FRU", "cell", x),
        "FRU, onnxruntime": _onnx_step(fru, x),
        "nn.LSTMCell": _step(row, "nn.LSTM", "cell", x),
        "nn.LSTMCell, compiled": _compiled_step(nn.LSTMCell(input_size, hidden_size), x),
        "LSTM, onnxruntime": _onnx_step(LSTM(input_size, hidden_size), x),
    }


def _compiled_step(cell: nn.LSTMCell, x: Tensor) -> Work:
    compiled = torch.compile(cell)
    state = [torch.zeros(1, cell.hidden_size) for _ in range(2)]

    def step() -> None:
        with torch.no_grad():
            compiled(x, state)

    return step


class _OneStep(nn.Module):
    """A layer's step as a function of tensors."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.tables = layer.step_tables()

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        y, after = self.layer.step(x, state, self.tables)
        return y, *after


def _onnx_step(layer: Any, x: Tensor) -> Work:
    """onnxruntime on one thread, the state handed on from step to step."""
    import onnxruntime

    state = layer.step_start(1)
    names = ["x", *layer.step_names]
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on torch's own deprecations
        program = torch.onnx.export(
            _OneStep(layer).eval(), (x, *state), dynamo=True, verbose=False, input_names=names
        )
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    held = [x.numpy(), *(s.numpy() for s in state)]

    def step() -> None:
        session.run(None, dict(zip(names, held, strict=True)))

    return step


# The command --------------------------------------------------------------------------------


def shapes(
    rounds: Annotated[int, typer.Option(help="Rounds to take medians over.", min=1)] = 5,
    only: Annotated[
        list[str] | None, typer.Option(help="Only rows with this in their name; repeatable.")
    ] = None,
    latency: Annotated[bool, typer.Option(help="The latency of a single step as well.")] = True,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file.")
    ] = None,
) -> None:
    """Measure FRU and SRU beside torch's layers at everyday shapes; prints time / nn.LSTM's.

    Nothing else should run on the machine meanwhile.

    Example: python -m benchmarks.shapes --json shapes.json
    """
    from .shapes_report import markdown

    torch.set_num_threads(1)
    rows = tuple(r for r in ROWS if not only or any(part in r.name for part in only))
    if not rows:
        raise typer.BadParameter(f"no row has {only} in its name: {[r.name for r in ROWS]}")
    document = {
        "rounds": rounds,
        "environment": environment(),
        "rows": measure(rows, rounds, tick=lambda name: typer.echo(name, err=True)),
        "latency": {
            f"{n_in} -> {n_out}": latencies(n_in, n_out) for n_in, n_out in ((64, 128), (1, 32))
        }
        if latency
        else {},
    }
    document = json.loads(json.dumps(document))
    typer.echo(markdown(document))
    if json_file is not None:
        write_atomically(json_file, json.dumps(document, indent=1))


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(shapes)
    run(app)
