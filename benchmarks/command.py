"""``python -m benchmarks``: layers and backends side by side."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from .measure import Rate, Result, Shape


def bench(
    preset: Annotated[
        str, typer.Option(help="The problem: pixel-mnist, imdb or mix-poly.")
    ] = "pixel-mnist",
    rounds: Annotated[int, typer.Option(help="Rounds, of which medians are taken.", min=1)] = 5,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this layer, as the table names it; repeatable.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Another length than the preset's.", min=1)
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Another batch size.", min=1)] = None,
    sweeps: Annotated[bool, typer.Option(help="How FRU's time grows with each size.")] = True,
    flush_denormals: Annotated[
        bool,
        typer.Option(
            "--flush-denormals", help="torch.set_flush_denormal(True), which torch leaves off."
        ),
    ] = False,
    memory: Annotated[bool, typer.Option(help="Peak memory, each in its own process.")] = True,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a plot to this file.")] = None,
) -> None:
    """Measure layers side by side: forward, forward and backward, peak memory, growth.

    Nothing else should run on the machine meanwhile. With --flush-denormals nn.LSTM's backward pass
    over many steps is far faster: its gradients vanish into numbers that a CPU is slow with.

    Example: python -m benchmarks --preset pixel-mnist --json bench.json --plot bench.svg
    """
    import torch

    torch.set_flush_denormal(flush_denormals)  # before there are threads, which take it over
    shape = _shape(preset, steps, batch)
    names = _names(only, shape)
    console = Console()
    found = _measure(shape, rounds, names, memory=memory, sweeps=sweeps, console=console)
    _print(console, preset, shape, found)
    if json_file is not None:
        document = _document(preset, shape, rounds, found) | {"flush_denormals": flush_denormals}
        _write(json_file, json.dumps(document, indent=1))
    if plot is not None:
        from .plot import draw

        plot.parent.mkdir(parents=True, exist_ok=True)
        draw(
            f"{preset}: {shape.steps} steps, batch {shape.batch}", found.results, found.grown, plot
        )
        console.print(f"Plot: {plot}")


class Found(NamedTuple):
    """All that was measured."""

    results: list[Result]
    rate: Rate | None
    grown: dict[str, dict[int, float]]  # by size that was varied
    small: dict[int, dict[str, float]]  # by batch


def _measure(
    shape: Shape,
    rounds: int,
    names: list[str],
    *,
    memory: bool,
    sweeps: bool,
    console: Console,
) -> Found:
    from . import measure as measuring

    columns = (TextColumn("{task.description:36}"), BarColumn(), TimeRemainingColumn())
    # drawn between measurements only, not by a thread that would run beside them
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("layers", total=rounds * len(names))

        def tick(name: str) -> None:
            progress.update(task, advance=1, description=name, refresh=True)

        results = measuring.measure(shape, rounds, names, tick)
        if memory:
            for result in progress.track(results, description="memory"):
                result.peak_bytes = measuring.peak_memory(shape, result.name)
        rate = measuring.kernel_rate(shape, rounds)
        grown: dict[str, dict[int, float]] = {}
        for what in measuring.SWEEPS if sweeps else ():
            task = progress.add_task(what, total=rounds * len(measuring.SWEEPS[what]))
            grown[what] = measuring.sweep(shape, what, rounds, tick)
        small: dict[int, dict[str, float]] = {}
        if sweeps:
            total = 2 * rounds * len(measuring.SMALL_BATCHES)
            task = progress.add_task("small batches", total=total)
            small = measuring.small_batches(shape, rounds, tick)
    return Found(results, rate, grown, small)


def _shape(preset: str, steps: int | None, batch: int | None) -> Shape:
    from .measure import PRESETS

    if preset not in PRESETS:
        raise ValueError(f"there is no preset {preset!r}; choose from {', '.join(PRESETS)}")
    known = PRESETS[preset]
    return replace(known, steps=steps or known.steps, batch=batch or known.batch)


def _names(only: list[str] | None, shape: Shape) -> list[str]:
    from .measure import contenders

    names = list(contenders(shape))
    unknown = [name for name in only or () if name not in names]
    if unknown:
        raise ValueError(f"there is no layer {unknown[0]!r}; choose from {', '.join(names)}")
    return names if not only else [name for name in names if name in only]


def _print(console: Console, preset: str, shape: Shape, found: Found) -> None:
    from .report import times_less

    console.print(_table(preset, shape, found.results))
    trained = {result.name: result.training.seconds for result in found.results}
    if {"FRU reference", "FRU numba"} <= set(trained):
        ratio = times_less(trained["FRU reference"], trained["FRU numba"])
        console.print(f"FRU numba against FRU reference, forward + backward: {ratio:.1f} x less.")
    rate = found.rate
    if rate is not None:
        console.print(
            f"The fused forward loop: {rate.kernel / 1e9:.0f} GFLOP/s, {rate.ratio:.2f} of torch's "
            f"2048 x 2048 matrix product ({rate.product / 1e9:.0f} GFLOP/s)."
        )
    for what, seconds in found.grown.items():
        entries = ", ".join(f"{value:,}: {1e3 * s:,.2f} ms" for value, s in seconds.items())
        console.print(f"FRU forward + backward by {what}: {entries}", highlight=False)
    for batch, times in found.small.items():
        (lstm, slow), (fru, fast) = times.items()
        console.print(
            f"Batch {batch}: {lstm} {1e3 * slow:,.1f} ms, {fru} {1e3 * fast:,.2f} ms, "
            f"{slow / fast:.1f} x",
            highlight=False,
        )


def _table(preset: str, shape: Shape, results: list[Result]) -> Table:
    from .report import times_less

    outputs = "every output" if shape.every_step else "the last output"
    title = f"{preset}: {shape.steps} steps, batch {shape.batch}, {shape.fru_name}, {outputs}"
    table = Table(title=title)
    table.add_column("layer")
    right = ("parameters", "forward", "forward + backward", "against nn.LSTM", "peak memory")
    for name in right:
        table.add_column(name, justify="right")
    lstm = next((result.training for result in results if result.name == "nn.LSTM"), None)
    for result in results:
        ratio = "" if lstm is None else f"{times_less(lstm.seconds, result.training.seconds):.1f} x"
        both = (_milliseconds(t.median, t.spread) for t in (result.forward, result.training))
        peak = "" if result.peak_bytes is None else f"{result.peak_bytes / 2**20:,.1f} MiB"
        table.add_row(result.name, f"{result.parameters:,}", *both, ratio, peak)
    return table


def _milliseconds(seconds: float, spread: float) -> str:
    return f"{1e3 * seconds:,.1f} ms ±{100 * spread:.0f} %"


def _document(preset: str, shape: Shape, rounds: int, found: Found) -> dict[str, Any]:
    from .measure import environment

    rate = found.rate
    layers = []
    for result in found.results:
        medians = {
            "forward_median": result.forward.median,
            "training_median": result.training.median,
        }
        layers.append(asdict(result) | medians)
    return {
        "preset": preset,
        "shape": asdict(shape),
        "rounds": rounds,
        "environment": environment(),
        "layers": layers,
        "kernel": None if rate is None else asdict(rate) | {"ratio": rate.ratio},
        "sweeps": found.grown,
        "small_batches": found.small,
    }


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text)
    unfinished.replace(path)
