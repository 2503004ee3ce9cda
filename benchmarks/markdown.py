"""Markdown by program: tables, escaped text, and the parts of a page that are not typed by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: Iterable[int] = (0,)) -> str:
    """A table; the columns in ``words`` are aligned to the left, numbers to the right.

    >>> print(table(["model", "error"], [["FRU", "0.1"]]))
    | model | error |
    |---|--:|
    | FRU | 0.1 |
    """
    words = set(words)
    rule = "|".join("---" if i in words else "--:" for i in range(len(header)))
    return "\n".join([_row(header), f"|{rule}|", *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is.

    >>> print(escaped("a|b*c"))
    a\\|b\\*c
    """
    for character in "\\|*_<[":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", " ")


def marks(name: str) -> tuple[str, str]:
    """The comments around a part of a page."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def fill_between(page: str, name: str, text: str) -> str:
    """The page with ``text`` between the marks of that name."""
    begin, end = marks(name)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page has no place for {name}: {begin} and {end}, once each")
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
