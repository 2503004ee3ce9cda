"""The report as one HTML page that needs no network, as Markdown, and as the README's table."""

from __future__ import annotations

import os
import re
from pathlib import Path

from benchmarks.markdown import escaped, fill_between, marks
from benchmarks.markdown import table as markdown_table

from ..plots import draw
from .content import Cell, Section, Table
from .page import READING, Report
from .tables import comparable_table


def to_html(report: Report) -> str:
    """The page. Jinja escapes all that comes from a record; drawings alone are taken as is."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__name__.rpartition(".")[0], "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"anchor": anchor, "draw": lambda *args: Markup(draw(*args))}
    template = environment.get_template("page.html")
    return template.render(report=report, reading=READING)


def anchor(name: str) -> str:
    """The id of a record on the page.

    >>> anchor("imdb/fru-5-10-seed0")
    'record-imdb-fru-5-10-seed0'
    """
    return f"record-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


# Markdown ----------------------------------------------------------------------------------------

BEGIN, _ = marks("results")


def to_markdown(report: Report, path: Path) -> str:
    """The page for ``path``, from where its links lead to the records."""
    records = os.path.relpath(report.library.folder, path.parent)
    parts = [
        "# Results",
        "<!-- Written by `python -m paper report`; not to be changed by hand. -->",
        *report.summary,
        READING
        + " `python -m paper report` builds this page, and one with figures, from the records.",
        _table(report.claims_table, records, level=2),
        *(_section(section, records) for section in report.sections),
        _table(report.missing_table, records, level=2),
        *(["## Records that could not be read"] if report.library.broken else []),
        *(f"- {escaped(problem)}" for problem in report.library.broken.values()),
        escaped(report.provenance),
    ]
    return "\n\n".join(parts) + "\n"


def fill_readme(readme: str, report: Report, path: Path) -> str:
    """The README, with the accuracies that can be compared between its marks."""
    records = os.path.relpath(report.library.folder, path.parent)
    table = _table(comparable_table(report.library), records, level=3)
    return fill_between(readme, "results", table)


def _section(section: Section, records: str) -> str:
    tables = [_table(part, records, level=3) for part in section.content if isinstance(part, Table)]
    return "\n\n".join([f"## {section.title}", *filter(None, section.text), *tables])


def _table(table: Table, records: str, level: int) -> str:
    table = table.without_empty_columns()
    words = [i for i in range(len(table.header)) if i == 0 or i >= table.text_from]
    rows = ([_cell(cell, records) for cell in row] for row in table.rows)
    caption = f"{'#' * level} {table.caption}" if level == 2 else f"**{table.caption}**"
    return f"{caption}\n\n{markdown_table(table.header, rows, words)}"


def _cell(cell: Cell, records: str) -> str:
    """A link to a record; a model's records have no file of their own, their seeds have."""
    if isinstance(cell, str):
        return escaped(cell)
    return " ".join(
        f"[{escaped(link.text)}]({records}/{link.to}.json)" if link.is_file else link.text
        for link in cell
    )
