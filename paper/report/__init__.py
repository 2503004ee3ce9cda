"""The report: every table and figure from the records, beside what the paper printed."""

from __future__ import annotations

from pathlib import Path

from torchfru.io import write_atomically

from .page import Report
from .reading import read_library
from .records import Library
from .render import BEGIN, fill_readme, to_html, to_markdown

__all__ = ["BEGIN", "Library", "build_report", "read_library", "write_report"]


def build_report(results: Path, html: Path, markdown: Path | None) -> None:
    """Read the records under ``results``, and write the page and, if wanted, its tables."""
    write_report(read_library(results), html, markdown)


def write_report(
    library: Library, html: Path, markdown: Path | None = None, readme: Path | None = None
) -> None:
    """Write the page, the tables, and the README's block, each as a whole or not at all."""
    report = Report(library)
    files = {html: to_html(report)}
    if markdown is not None:
        files[markdown] = to_markdown(report, markdown)
    if readme is not None:
        files[readme] = fill_readme(readme.read_text(), report, readme)
    for path, content in files.items():
        write_atomically(path, content)
