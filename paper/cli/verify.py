"""``python -m paper verify``: the paper's claims, measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from ..theory import Finding, Settings

EXHAUSTIVE = 10_000
COLOURS = {"holds": "green", "refuted as stated": "yellow", "fails": "bold red"}


def verify(
    claim: Annotated[
        list[str] | None, typer.Option(help="Check this claim only; repeatable.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the findings as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a figure per claim here, as SVG.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Write the findings into this page, between its marks.", exists=True),
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="10,000 random cases per bound, not 100.")
    ] = False,
    weights: Annotated[
        Path | None,
        typer.Option(help="For picard: a file with a trained FRU, measured too.", exists=True),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Measure the paper's claims: what was tried, the worst case, the bound, the verdict.

    The exit code is 1 if a verdict is "fails": this package does not do what it should. A
    claim of the paper that is "refuted as stated" is a finding, not an error.

    Example: python -m paper verify --claim gradient-fru --plot figures --json findings.json
    """
    from torchfru.io import write_atomically

    from ..theory import CLAIMS, Settings, to_json

    names = claim or list(CLAIMS)
    unknown = [name for name in names if name not in CLAIMS]
    if unknown:
        raise ValueError(f"no claim {unknown[0]!r}; there are {', '.join(CLAIMS)}")
    console = Console()
    if not console.is_terminal:  # a pipe has no width of its own
        console = Console(width=120)
    settings = Settings(examples=EXHAUSTIVE if exhaustive else 100, seed=seed, weights=weights)
    findings = _measure(names, settings, console)
    _print(findings, console)
    if json is not None:
        write_atomically(json, to_json(findings))
    if page is not None:
        from ..theory.page import fill

        write_atomically(page, fill(page.read_text(), [finding.record() for finding in findings]))
    if plot is not None:
        from ..plots import save

        for finding in findings:
            save(finding.panels, plot / f"{finding.claim}.svg")
        console.print(f"Figures: {plot}")
    if any(finding.verdict == "fails" for finding in findings):
        raise typer.Exit(1)


def _measure(names: list[str], settings: Settings, console: Console) -> list[Finding]:
    from dataclasses import replace

    from ..theory import check

    findings = []
    columns = (TextColumn("{task.description:60}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:

            def tick(text: str, name: str = name) -> None:
                progress.update(task, description=f"{name}: {text}")

            tick("")
            findings.append(check(name, replace(settings, tick=tick)))
            progress.advance(task)
        progress.update(task, description="done")
    return findings


def _print(findings: list[Finding], console: Console) -> None:
    table = Table(show_lines=True)
    for heading, wraps in (("claim", False), ("tried", True), ("worst", False), ("bound", False)):
        table.add_column(heading, no_wrap=not wraps)
    table.add_column("verdict", no_wrap=True)
    for finding in findings:
        colour = COLOURS[finding.verdict]
        numbers = f"{finding.worst:.2g}", f"{finding.bound:.2g}"
        verdict = f"[{colour}]{finding.verdict}[/]"
        table.add_row(finding.claim, finding.tried, *numbers, verdict)
    console.print(table)
    for finding in findings:
        _explain(finding, console)
    console.print(f"{sum(finding.seconds for finding in findings):.0f} seconds")


def _explain(finding: Finding, console: Console) -> None:
    console.print(f"[bold]{finding.claim}[/] ({finding.seconds:.1f} s)", highlight=False)
    lines = {"worst and bound": finding.measure, "counterexample": finding.counterexample}
    lines |= {"what holds": finding.statement, "note": "; ".join(finding.notes)}
    for label, text in lines.items():
        if text:
            console.print(f"  [dim]{label}:[/] ", end="")
            console.print(text, highlight=False, markup=False, soft_wrap=True)
