"""``python -m benchmarks.gpu``: FRU beside cuDNN's LSTM and GRU on a GPU, as a record to share.

Every figure is a median over rounds, timed by the GPU's own clock after a warm-up. No machine of
this project has a GPU: the record of whoever runs this is the first one.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, nn

from torchfru.cli import run
from torchfru.io import write_atomically
from torchfru.nn import FRU
from torchfru.ops import available_backends, use_backend
from torchfru.ops.doctor import examine

from .measure import PRESETS, Shape

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
BATCHES = (16, 256, 1_024)
WARM_UP = 3  # calls: the first ones compile kernels and choose algorithms


def bench(
    preset: Annotated[str, typer.Option(help="The problem: pixel-mnist, imdb or mix-poly.")] = (
        "pixel-mnist"
    ),
    rounds: Annotated[int, typer.Option(help="Rounds to take medians over.", min=1)] = 20,
    device: Annotated[str, typer.Option(help="The device, as torch names it.")] = "cuda",
    batch: Annotated[list[int] | None, typer.Option(help="Batch size; repeatable.")] = None,
    steps: Annotated[int | None, typer.Option(help="Override the preset's length.", min=1)] = None,
    json_file: Annotated[
        Path, typer.Option("--json", help="Write all figures to this file.")
    ] = Path("gpu.json"),
) -> None:
    """Measure FRU, nn.LSTM and nn.GRU on a GPU, in float32 and bfloat16.

    Please share the file that this writes: see docs/gpu.md.

    Example: python -m benchmarks.gpu --json gpu.json
    """
    if preset not in PRESETS:
        raise ValueError(f"no preset {preset!r}: choose one of {', '.join(PRESETS)}")
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise ValueError("torch finds no CUDA or ROCm device; `torchfru doctor` shows what it has")
    shape = replace(PRESETS[preset], steps=steps or PRESETS[preset].steps)
    record = {
        "preset": preset,
        "rounds": rounds,
        "shape": asdict(shape),
        "cudnn": torch.backends.cudnn.version(),
        "environment": examine(),
        "layers": list(measure_all(shape, batch or BATCHES, torch.device(device), rounds)),
    }
    write_atomically(json_file, json.dumps(record, indent=1))
    typer.echo(f"Written to {json_file}: please share it, as docs/gpu.md says.")


def measure_all(
    shape: Shape, batches: Any, device: torch.device, rounds: int
) -> Iterator[dict[str, Any]]:
    """A row for each batch size, dtype and layer, printed as it is measured."""
    for batch in batches:
        for dtype in DTYPES:
            for name in contenders(shape, device):
                sized = replace(shape, batch=batch)
                row = {"layer": name, "batch": batch, "dtype": dtype}
                row |= measure(name, sized, device, DTYPES[dtype], rounds)
                typer.echo(
                    f"batch {batch:5}  {dtype:8}  {name:14}  forward {row['forward_ms']:9.3f} ms  "
                    f"forward + backward {row['training_ms']:9.3f} ms"
                )
                yield row


def contenders(shape: Shape, device: torch.device) -> dict[str, Callable[[], nn.Module]]:
    """A way to make each layer; a second word in its name is the backend that it is to run by."""

    def fru() -> nn.Module:
        return FRU(
            shape.input_size,
            shape.hidden_size,
            seq_len=shape.steps,
            num_freqs=shape.num_freqs,
            freq_dim=shape.freq_dim,
            gate_size=shape.gate_size,
            return_sequences=shape.every_step,
        )

    backends = available_backends(device)[1:]  # all but the definition
    return {
        "nn.LSTM": lambda: nn.LSTM(shape.input_size, shape.hidden_size),
        "nn.GRU": lambda: nn.GRU(shape.input_size, shape.hidden_size),
        **{f"FRU {name}": fru for name in backends},
    }


def measure(
    name: str, shape: Shape, device: torch.device, dtype: torch.dtype, rounds: int
) -> dict[str, Any]:
    """Median milliseconds of both passes, and the peak of memory while training."""
    torch.manual_seed(0)
    layer = contenders(shape, device)[name]().to(device, dtype)
    x = torch.randn(shape.steps, shape.batch, shape.input_size, device=device, dtype=dtype)
    backend = name.partition(" ")[2]

    def last(output: Tensor) -> Tensor:
        return output[-1] if output.dim() == 3 and not shape.every_step else output

    def forward() -> None:
        with torch.no_grad():
            layer(x)

    def train() -> None:
        layer.zero_grad()
        last(layer(x)[0]).sum().backward()

    with use_backend(backend) if backend else nullcontext():
        forward_ms = [_milliseconds(forward, device) for _ in range(WARM_UP + rounds)]
        training_ms = [_milliseconds(train, device) for _ in range(WARM_UP)]
        _reset_peak(device)
        training_ms += [_milliseconds(train, device) for _ in range(rounds)]
    return {
        "parameters": sum(parameter.numel() for parameter in layer.parameters()),
        "forward_ms": statistics.median(forward_ms[WARM_UP:]),
        "training_ms": statistics.median(training_ms[WARM_UP:]),
        "forward_rounds_ms": forward_ms[WARM_UP:],
        "training_rounds_ms": training_ms[WARM_UP:],
        "peak_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    }


def _milliseconds(call: Callable[[], None], device: torch.device) -> float:
    if device.type != "cuda":
        start = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - start)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize(device)
    return float(begin.elapsed_time(end))


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
app.command()(bench)

if __name__ == "__main__":
    run(app)
