"""The report as one HTML page that needs no network, as Markdown, and as the README's table."""

from __future__ import annotations

import os
import re
from pathlib import Path

from benchmarks.markdown import escaped, fill_between, marks
from benchmarks.markdown import table as markdown_table

from ..plots import draw
from .beyond import recipe_table, time_table
from .content import Cell, Section, Table
from .page import READING, Report
from .tables import comparable_table

BEGIN, _ = marks("results")
FIRST = ("beyond", "mnist-196")  # the sections before the paper's claims
TONES = {  # how a verdict is shown
    **dict.fromkeys(("falls short", "contradicted"), "bad"),
    **dict.fromkeys(("in between", "in part", "holds in part"), "mixed"),
    **dict.fromkeys(("ahead", "holds"), "good"),
    "open": "open",
}


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
    environment.filters["tone"] = lambda cell: TONES.get(cell, "") if isinstance(cell, str) else ""
    template = environment.get_template("page.html")
    return template.render(report=report, reading=READING, first=FIRST)


def anchor(name: str) -> str:
    """The id of a record on the page.

    >>> anchor("imdb/fru-5-10-seed0")
    'record-imdb-fru-5-10-seed0'
    """
    return f"record-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


# Markdown ----------------------------------------------------------------------------------------


def to_markdown(report: Report, path: Path) -> str:
    """The page for ``path``, from where its links lead to the records."""
    records = os.path.relpath(report.library.folder, path.parent)
    ahead = [s for s in report.sections if s.name in FIRST]
    missing = report.missing_table
    parts = [
        "# Results",
        "<!-- Written by `python -m paper report`; not to be changed by hand. -->",
        _table(report.glance, records, level=2),
        READING
        + " `python -m paper report` builds this page, and one with figures, from the records.",
        *(_section(section, records) for section in ahead),
        _table(report.claims_table, records, level=2),
        *filter(None, report.summary),
        *(_section(section, records) for section in report.sections if section not in ahead),
        *([_table(missing, records, level=2)] if missing.rows else []),
        *(["## Records that could not be read"] if report.library.broken else []),
        *(f"- {escaped(problem)}" for problem in report.library.broken.values()),
        escaped(report.provenance),
    ]
    return "\n\n".join(parts) + "\n"


def fill_readme(readme: str, report: Report, path: Path) -> str:
    """The README, with the recipe's results and the comparable accuracies between its marks.

    The recipe's are ``results``, on the first screen; ``paper`` has what follows further below.
    """
    library = report.library
    records = os.path.relpath(library.folder, path.parent)
    blocks = {
        "results": [recipe_table(library, brief=True)],
        "paper": [time_table(library), comparable_table(library)],
    }
    for name, tables in blocks.items():
        shown = [_table(table, records, level=3) for table in tables if table.rows]
        readme = fill_between(readme, name, "\n\n".join(shown))
    return readme


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
