"""The report as Markdown: its text and tables; and the short block of the README."""

from __future__ import annotations

import os
from pathlib import Path

from ..markdown import escaped, fill_between, marks
from ..markdown import table as markdown_table
from .content import EMPTY, Cell, Section, Table
from .page import READING, Report
from .paper import ACCURACY
from .sections.accuracy import TITLES, accuracy_groups

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
    """The README, with the three accuracy tables in short between its marks."""
    return fill_between(readme, "results", _short(report, path))


def _short(report: Report, path: Path) -> str:
    records = os.path.relpath(report.library.folder, path.parent)
    rows = []
    for experiment, paper in ACCURACY.items():
        groups = accuracy_groups(report.library, experiment)
        for name, group in groups.items():
            published = paper.row(group.model)
            if published is not None and (group.model in paper.rows or group.usable):
                ours = group.mean("test_accuracy")
                cells = [TITLES[experiment], name, f"{published.accuracy:.2f}"]
                cells.append(EMPTY if ours is None else f"{ours:.2f}")
                seeds = (f"[{r.run.seed}]({records}/{r.name}.json)" for r in group.usable)
                epochs = f"{group.epochs} of {paper.epochs}" if group.usable else EMPTY
                rows.append(f"| {' | '.join([*cells, ' '.join(seeds) or EMPTY, epochs])} |")
    header = "| task | model | paper, % | ours, % | seeds | epochs |\n|---|---|--:|--:|--:|--:|"
    note = (
        "Test accuracy after the last epoch, mean over seeds; after fewer epochs than the paper's "
        "it is not comparable. A tuned model has other settings than the authors'. "
        + escaped(report.provenance)
    )
    return "\n".join([header, *rows, "", note])


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
