"""What a report is made of, before it is HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field

from .figures import Panel


@dataclass(frozen=True)
class Link:
    """A text that leads to a record, ``experiment/model-seed0``, or to all of a model's."""

    text: str
    to: str
    is_file: bool = True


Cell = str | tuple[Link, ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header; the columns from ``text_from`` on are words, not numbers."""

    caption: str
    header: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    text_from: int = 99


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
