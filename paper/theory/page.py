"""The findings, written into the page about them: no number there is typed by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.markdown import escaped, fill_between, table

WIDTH = 99


def fill(page: str, findings: Iterable[Mapping[str, Any]]) -> str:
    """The page with the table of verdicts, and each claim's findings, between their marks.

    ``findings`` are as ``python -m paper verify --json`` writes them. A claim that is not among
    them is left as it stands.
    """
    findings = list(findings)
    page = fill_between(page, "verdicts", _table(findings))
    for finding in findings:
        page = fill_between(page, finding["claim"], _measured(finding))
    return page


def _table(findings: list[Mapping[str, Any]]) -> str:
    rows = [
        (f"[{f['claim']}](#{f['claim']})", f["verdict"], _short(f["worst"]), _short(f["bound"]))
        for f in findings
    ]
    return table(("claim", "verdict", "worst case", "bound"), rows, words=(0, 1))


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
    return "\n".join(["Measured:", "", *(_item(escaped(item)) for item in items)])


def _item(text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _short(value: float | None) -> str:
    return "none" if value is None else f"{value:.2g}"
