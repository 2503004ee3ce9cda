"""``python -m paper reproduce``: the paper's tables and figures, run by run."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from torchfru.cli.common import DataDir, new_console, print_json, print_table, usage_errors

from .watch import Watch, duration

if TYPE_CHECKING:
    from rich.console import Console

    from ..plan import Planned
    from ..runner import Runner

QUICK = Path("out/quick")


def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Experiments, or all, or quick.")
    ],
    budget: Annotated[
        str | None, typer.Option(help="Begin no epoch after this time: 90s, 120m, 2h.")
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
    """Train the runs of the paper's tables and figures; resume where the last call ended.

    Finished runs are skipped, interrupted ones are resumed. Several of these commands, on
    one folder of results, share the work. quick does every experiment at a tiny size, without
    any download, and writes a report of it.

    Example: python -m paper reproduce pixel-mnist imdb --budget 2h
    """
    from ..plan import select

    quick = "quick" in names
    with usage_errors():
        if quick and len(names) > 1:
            raise ValueError(f"quick goes alone, got {' '.join(names)}")
        if as_json and not dry_run:
            raise ValueError("--json belongs to --dry-run")
        seconds, chosen = _seconds(budget), _seeds(seeds)
        plan = [] if quick else select(names, chosen)
    console = new_console(stderr=as_json)
    if quick:
        plan = _quick(data_dir, console)
    results = results or (QUICK / "results" if quick else Path("results"))
    if dry_run:
        _show_plan([_facts(planned, results) for planned in plan], as_json, console)
        return
    runner = _run(plan, results, data_dir, jobs, seconds, console)
    if runner.stopped:
        console.print("Stopped. The same command resumes after each run's last whole epoch.")
        raise typer.Exit(130)
    console.print(_summary([planned.progress(results).kind for planned in plan]), highlight=False)
    if quick:
        from ..report import build_report

        page = results.parent / "report.html"
        build_report(results, page, None)
        console.print(f"Report: {page}", highlight=False, soft_wrap=True)
    if any(outcome.kind in ("failed", "refused") for outcome in runner.outcomes):
        raise typer.Exit(1)


def _run(
    plan: list[Planned],
    results: Path,
    data_dir: Path | None,
    jobs: int | None,
    budget: float | None,
    console: Console,
) -> Runner:
    """Do the runs, in view, until they are done or somebody stops them."""
    from ..runner import Runner

    linux = hasattr(os, "sched_getaffinity")  # which knows the cores that this process may use
    cores = len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1
    jobs = jobs or cores
    with Watch(console) as watch:
        runner = Runner(
            plan,
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
            runner.run()
    return runner


@contextmanager
def _on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C, or a request to terminate, calls ``stop``."""
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    for name in before:
        signal.signal(name, lambda *_: stop())
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _quick(data_dir: Path | None, console: Console) -> list[Planned]:
    """The tiny runs whose data are here; the others are named."""
    from torchfru.data import available

    from ..quick import data_name, quick_plan

    plan = quick_plan()
    here = {name: available(name, data_dir=data_dir) for name in map(data_name, plan)}
    for name in (name for name, there in here.items() if not there):
        console.print(
            f"skipped   {name}: not here; torchfru data fetch {name} brings it",
            highlight=False,
            soft_wrap=True,
        )
    return [planned for planned in plan if here[data_name(planned)]]


def _summary(kinds: list[str]) -> str:
    """How many runs are finished, cut off, missing or refused."""
    from ..plan import Kind

    counted = (f"{kinds.count(kind)} {kind}" for kind in get_args(Kind) if kind in kinds)
    return f"Of {len(kinds)}: {', '.join(counted)}."


# The plan --------------------------------------------------------------------------------


def _show_plan(facts: list[dict[str, Any]], as_json: bool, console: Console) -> None:
    if as_json:
        print_json(facts)
        return
    headings = ("experiment", "model", "seed", "state", "epochs", "minutes left")
    rows = []
    for entry in facts:
        epochs = "" if entry["of"] is None else f"{entry['epochs']}/{entry['of']}"
        seed = "" if entry["seed"] is None else entry["seed"]
        names = entry["experiment"], entry["model"], seed, entry["state"]
        rows.append((*names, epochs, f"{entry['minutes_left']:.1f}"))
    print_table(headings, rows, numbers=headings[4:])
    for why in (entry["why"] for entry in facts if entry["why"]):
        console.print(why, highlight=False, markup=False, soft_wrap=True)
    left = sum(entry["minutes_left"] for entry in facts)
    console.print(f"About {duration(60 * left)} on one core, an estimate.", highlight=False)


def _facts(planned: Planned, results: Path) -> dict[str, Any]:
    progress = planned.progress(results)
    return {
        "experiment": planned.experiment,
        "model": planned.name,
        "seed": planned.seed,
        "state": progress.kind,
        "epochs": len(progress.epochs),
        "of": None if planned.config is None else planned.config.training.epochs,
        "minutes": planned.minutes,
        "minutes_left": progress.seconds_left() / 60,
        "record": str(planned.record(results)),
        "why": progress.why,
    }


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
