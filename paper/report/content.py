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
    """Rows of cells under a header; the columns from ``text_from`` on are words, not numbers.

    A ``stacked`` table shows each row as a card where the screen is narrow.
    """

    caption: str
    header: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    text_from: int = 99
    stacked: bool = False

    def without_empty_columns(self) -> Table:
        """The same table, but for the columns in which no row says anything."""
        columns = enumerate(zip(*self.rows, strict=True))
        kept = [i for i, column in columns if any(cell not in NOTHING for cell in column)]
        return Table(
            self.caption,
            tuple(self.header[i] for i in kept),
            [tuple(row[i] for i in kept) for row in self.rows],
            sum(i < self.text_from for i in kept),
            self.stacked,
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


# How models are called and drawn: always the same name, colour, marker and line ---------------

OTHERS = 8
LAYERS = ("rnn", "lstm", "gru", "sru", "fru")
PLACES = {  # in the palette; two that share a place are never in one figure
    **{layer: place for place, layer in enumerate(LAYERS)},
    **{
        "fru-40-10": 5,
        "fru-1-10": 5,
        "fru-60-10": 6,
        "fru-5-10": 6,
        "fru-60-10-tuned": 7,
        "fru-5-10-tuned": 7,
    },
    **{"fru-recipe": 6, "lstm-recipe": 5, "gru-recipe": 7},
    **{"plain": 0, "residual": 1, "prenorm": 2, "mean": 3},
    **{"fourier": 4, "chebyshev": 0, "legendre": 1, "walsh": 2, "exponentials": 3},
}


def label(model: str) -> str:
    """The model's name for a reader.

    >>> label("lstm"), label("fru-60-10-tuned"), label("walsh")
    ('LSTM', 'FRU 60,10 tuned', 'Walsh')
    """
    layer, *rest = model.split("-")
    if layer not in LAYERS:
        return model.capitalize()
    sizes = ",".join(part for part in rest if part.isdigit())
    words = [part for part in rest if not part.isdigit()]
    return " ".join(filter(None, [layer.upper(), sizes, *words]))


def style(model: str) -> int:
    """The place of a model or a basis in the palette; the last one is for all others."""
    return PLACES.get(model.removesuffix("-released"), OTHERS)
