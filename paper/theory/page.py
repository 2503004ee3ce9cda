"""What was found, written into the page about it: no number there is typed by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

WIDTH = 99


def fill(page: str, findings: Iterable[Mapping[str, Any]]) -> str:
    """The page with the table of verdicts, and each claim's findings, between their marks.

    ``findings`` are as ``python -m paper verify --json`` writes them. A claim that is not among
    them is left as it stands.
    """
    findings = list(findings)
    page = _between(page, "verdicts", _table(findings))
    for finding in findings:
        page = _between(page, finding["claim"], _measured(finding))
    return page


def _between(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page has no place for {name}: {begin} and {end}, once each")
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _table(findings: list[Mapping[str, Any]]) -> str:
    rows = [
        f"| [{f['claim']}](#{f['claim']}) | {f['verdict']} | {_short(f['worst'])} "
        f"| {_short(f['bound'])} |"
        for f in findings
    ]
    return "\n".join(["| claim | verdict | worst case | bound |", "|---|---|--:|--:|", *rows])


def _measured(finding: Mapping[str, Any]) -> str:
    """A list: what was tried, the worst case, and whatever else the check has to say."""
    worst, bound = _short(finding["worst"]), _short(finding["bound"])
    parts = {
        "tried": finding["tried"],
        finding["measure"]: f"{worst} (bound {bound}): {finding['verdict']}",
        "counterexample": finding["counterexample"],
        "what holds": finding["statement"],
    }
    items = [f"{name}: {text}" for name, text in parts.items() if text]
    items += finding["notes"]
    return "\n".join(["Measured:", "", *(_item(_escaped(item)) for item in items)])


def _item(text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _escaped(text: str) -> str:
    for character in "\\|*_<":
        text = text.replace(character, f"\\{character}")
    return text


def _short(value: float | None) -> str:
    return "none" if value is None else f"{value:.2g}"
