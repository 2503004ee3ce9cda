"""``python -m benchmarks``: layers and backends side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from torchfru.cli.common import usage_errors

if TYPE_CHECKING:
    from .measure import Shape


def bench(
    preset: Annotated[
        str, typer.Option(help="The problem: pixel-mnist, imdb or mix-poly.")
    ] = "pixel-mnist",
    rounds: Annotated[int, typer.Option(help="Rounds to take medians over.", min=1)] = 5,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this layer, as the table names it; repeatable.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Override the preset's length.", min=1)] = None,
    batch: Annotated[
        int | None, typer.Option(help="Override the preset's batch size.", min=1)
    ] = None,
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
    over many steps is far faster: its gradients vanish into denormal numbers, and CPUs are slow
    with those.

    Example: python -m benchmarks --preset pixel-mnist --json bench.json --plot bench.svg
    """
    import torch

    from torchfru.io import write_atomically

    from .report import markdown

    torch.set_flush_denormal(flush_denormals)  # before there are threads, which take it over
    with usage_errors():
        shape = _shape(preset, steps, batch)
        names = _names(only, shape)
    console = Console()
    found = _run(shape, rounds, names, memory=memory, sweeps=sweeps, console=console)
    document = {"preset": preset, **found, "flush_denormals": flush_denormals}
    document = json.loads(json.dumps(document))  # as it will be read
    text = markdown(document)
    console.print(Markdown(text) if console.is_terminal else text, soft_wrap=True)
    if json_file is not None:
        write_atomically(json_file, json.dumps(document, indent=1))
    if plot is not None:
        from .plot import draw

        draw(document, plot)
        console.print(f"Plot: {plot}")


def _run(
    shape: Shape, rounds: int, names: list[str], *, memory: bool, sweeps: bool, console: Console
) -> dict[str, Any]:
    """Measure, with a bar that is drawn between measurements, not by a thread beside them."""
    from .measure import count_turns, run_benchmark

    columns = (TextColumn("{task.description:36}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=count_turns(rounds, names, sweeps))

        def tick(name: str) -> None:
            progress.update(task, advance=1, description=name, refresh=True)

        return run_benchmark(shape, rounds, names, memory=memory, sweeps=sweeps, tick=tick)


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
