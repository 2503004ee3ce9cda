"""The parts of a report, before it is HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..plots import Panel


@dataclass(frozen=True)
class Link:
    """A text that leads to a record, ``experiment/model-seed0``, or to all of a model's."""

    text: str
    to: str
    is_file: bool = True


Cell = str | tuple[Link, ...]
EMPTY = "–"  # noqa: RUF001
NOTHING: tuple[Cell, ...] = ("", EMPTY)


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header; the columns from ``text_from`` on are words, not numbers."""

    caption: str
    header: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    text_from: int = 99

    def without_empty_columns(self) -> Table:
        """The same table, but for the columns in which no row says anything."""
        columns = enumerate(zip(*self.rows, strict=True))
        kept = [i for i, column in columns if any(cell not in NOTHING for cell in column)]
        return Table(
            self.caption,
            tuple(self.header[i] for i in kept),
            [tuple(row[i] for i in kept) for row in self.rows],
            sum(i < self.text_from for i in kept),
        )


@dataclass(frozen=True)
class Figure:
    """Panels side by side over a caption."""

    name: str
    caption: str
    panels: list[Panel]


@dataclass(frozen=True)
class Section:
    """A part of the report: paragraphs, then tables and figures in this order."""

    name: str
    title: str
    text: list[str]
    content: list[Table | Figure] = field(default_factory=list)
