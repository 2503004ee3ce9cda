"""``python -m paper reproduce``: the paper's tables and figures, run by run."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from torchfru.cli.common import usage_errors
from torchfru.cli.train import DataDir

from .watch import Watch, duration

if TYPE_CHECKING:
    from ..runner import Outcome, Runner
    from ..tasks import Task

QUICK = Path("out/quick")
STATES = ("finished", "cut off", "missing", "refused")


def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Experiments, or all, or quick.")
    ],
    budget: Annotated[
        str | None, typer.Option(help="Time after which no epoch is begun: 90s, 120m, 2h.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time. Default: one for each core.", min=1)
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Only these seeds, as in 0,1.")] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="The folder of the run records. Default: results; quick: out/quick."),
    ] = None,
    data_dir: DataDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, run nothing.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: for a machine to read.")
    ] = False,
) -> None:
    """Train the runs of the paper's tables and figures; go on where the last call ended.

    Finished runs are skipped, those that were cut off are resumed. Several of these commands, on
    one folder of results, share the work. quick does every experiment at a tiny size, without
    any download, and writes a report of it.

    Example: python -m paper reproduce pixel-mnist imdb --budget 2h
    """
    from ..tasks import plan_tasks

    quick = "quick" in names
    with usage_errors():
        if quick and len(names) > 1:
            raise ValueError(f"quick goes alone, got {' '.join(names)}")
        if as_json and not dry_run:
            raise ValueError("--json belongs to --dry-run")
        seconds, chosen = _seconds(budget), _seeds(seeds)
        tasks = [] if quick else plan_tasks(names, chosen)
    console = Console(stderr=as_json)
    if quick:
        tasks = _quick(data_dir, console)
    results = results or (QUICK / "results" if quick else Path("results"))
    if dry_run:
        _show_plan(tasks, results, as_json, console)
        return
    runner, outcomes = _run(tasks, results, data_dir, jobs, seconds, console)
    if runner.stopped:
        console.print("Stopped. The same command goes on after each run's last whole epoch.")
        raise typer.Exit(130)
    _summarize(tasks, results, console)
    if quick:
        _report(results, console)
    if any(outcome.ending in ("failed", "refused") for outcome in outcomes):
        raise typer.Exit(1)


def _run(
    tasks: list[Task],
    results: Path,
    data_dir: Path | None,
    jobs: int | None,
    budget: float | None,
    console: Console,
) -> tuple[Runner, list[Outcome]]:
    """Do the tasks, in view, until they are done or somebody stops them."""
    from ..runner import Runner

    cores = _cores()
    jobs = jobs or cores
    with Watch(console) as watch:
        runner = Runner(
            tasks,
            results,
            data_dir=data_dir,
            jobs=jobs,
            threads=max(1, cores // jobs),
            budget=budget,
            began=watch.began,
            ended=watch.ended,
            tick=watch.tick,
        )
        with _on_signal(runner.stop):
            return runner, runner.run()


@contextmanager
def _on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C, or a polite request to end, calls ``stop``."""
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    for name in before:
        signal.signal(name, lambda *_: stop())
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


# The plan --------------------------------------------------------------------------------


def _show_plan(tasks: list[Task], results: Path, as_json: bool, console: Console) -> None:
    rows = [_row(task, results) for task in tasks]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    if not console.is_terminal:
        console.width = 120  # a file has room
    table = Table("experiment", "model", "seed", "state", "epochs", "minutes left")
    table.box = box.SIMPLE_HEAD
    for column in table.columns[4:]:
        column.justify = "right"
    for row in rows:
        epochs = "" if row["of"] is None else f"{row['epochs']}/{row['of']}"
        seed = "" if row["seed"] is None else str(row["seed"])
        left = f"{row['minutes_left']:.1f}"
        table.add_row(row["experiment"], row["model"], seed, row["state"], epochs, left)
    console.print(table)
    _explain_refused(rows, console)
    left = sum(row["minutes_left"] for row in rows)
    console.print(f"About {duration(60 * left)} on one core, an estimate.", highlight=False)


def _row(task: Task, results: Path) -> dict[str, Any]:
    from ..tasks import inspect, minutes_left

    state = inspect(task, results)
    return {
        "experiment": task.experiment,
        "model": task.name,
        "seed": task.seed,
        "state": state.kind,
        "epochs": state.epochs,
        "of": None if task.config is None else task.config.training.epochs,
        "minutes": task.minutes,
        "minutes_left": minutes_left(task, state),
        "record": str(task.record(results)),
        "why": state.why,
    }


def _explain_refused(rows: list[dict[str, Any]], console: Console) -> None:
    for row in rows:
        if row["why"]:
            console.print(row["why"], highlight=False, markup=False, soft_wrap=True)


def _summarize(tasks: list[Task], results: Path, console: Console) -> None:
    rows = [_row(task, results) for task in tasks]
    count = {kind: sum(row["state"] == kind for row in rows) for kind in STATES}
    parts = [f"{number} {kind}" for kind, number in count.items() if number]
    console.print(f"Of {len(rows)}: {', '.join(parts)}.", highlight=False)


# quick -----------------------------------------------------------------------------------


def _quick(data_dir: Path | None, console: Console) -> list[Task]:
    """The tiny tasks whose data are here; the others are named."""
    from ..quick import data_name, quick_tasks, without_data

    tasks = quick_tasks()
    missing = without_data(tasks, data_dir)
    for name in dict.fromkeys(data_name(task) for task in missing):
        console.print(
            f"skipped   {name}: not here; torchfru data fetch {name} brings it",
            highlight=False,
            soft_wrap=True,
        )
    return [task for task in tasks if task not in missing]


def _report(results: Path, console: Console) -> None:
    from ..report import build_report

    page = results.parent / "report.html"
    build_report(results, page, None)
    console.print(f"Report: {page}", highlight=False, soft_wrap=True)


# Arguments -------------------------------------------------------------------------------


def _seconds(budget: str | None) -> float | None:
    """
    >>> _seconds("90s"), _seconds("1.5h"), _seconds(None)
    (90.0, 5400.0, None)
    """
    if budget is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget.strip())
    if match is None:
        raise ValueError(
            f"--budget must be a number with s, m or h behind it, as in 120m; got {budget!r}"
        )
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def _seeds(text: str | None) -> set[int] | None:
    try:
        return None if text is None else {int(part) for part in text.split(",")}
    except ValueError:
        raise ValueError(f"--seeds must be whole numbers, as in 0,1,2; got {text!r}") from None


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
