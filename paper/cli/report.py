"""``python -m paper report``: the page of all results, from the records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[Path, typer.Option(help="The folder of the run records.")] = Path("results"),
    html: Annotated[Path, typer.Option(help="The page to write.")] = Path("out/report.html"),
    markdown: Annotated[Path | None, typer.Option(help="Its text and tables as Markdown.")] = Path(
        "docs/results.md"
    ),
    readme: Annotated[
        Path | None,
        typer.Option(
            help="A file with a block of results, to be rewritten; by default README.md, if "
            "it is here and has one.",
            exists=True,
        ),
    ] = None,
) -> None:
    """Write the page of all results, beside what the paper printed, without training anything.

    Example: python -m paper report --results results --html out/report.html
    """
    from torchfru.io import printable

    from ..report import BEGIN, read_library, write_report

    here = Path("README.md")
    if readme is None and here.exists() and BEGIN in here.read_text():
        readme = here
    if readme is not None and BEGIN not in readme.read_text():
        raise ValueError(f"{readme} has no block of results; put {BEGIN} and its end into it")
    library = read_library(results)
    write_report(library, html, markdown, readme)
    for path in filter(None, (html, markdown, readme)):
        typer.echo(f"Written: {path}")
    typer.echo(f"{len(library.runs)} runs read, {len(library.missing)} planned ones missing.")
    for problem in library.broken.values():
        typer.echo(f"Not read: {printable(problem)}", err=True)
    if library.broken:
        typer.echo(f"{len(library.broken)} files were not read.", err=True)
