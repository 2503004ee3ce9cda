"""What a check hands back: a verdict with its numbers, and the data of its figure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Verdict = Literal["holds", "refuted as stated", "fails"]


@dataclass(frozen=True)
class Line:
    """One series of a panel. ``style``: "line", "points", "dashed" or "band" (a limit)."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: str = "line"


@dataclass(frozen=True)
class Panel:
    """The data of one plot, without a word about how to draw it."""

    title: str
    xlabel: str
    ylabel: str
    lines: tuple[Line, ...]
    xscale: str = "log"
    yscale: str = "log"


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, and what measuring it gave.

    ``worst`` and ``bound`` are numbers of the quantity that ``measure`` names. ``fails`` means
    that this package does not do what it should; ``refuted as stated`` that the paper's words
    do not hold, and then ``counterexample`` says where and ``statement`` what does hold.
    """

    claim: str
    verdict: Verdict
    tried: str
    measure: str
    worst: float
    bound: float
    seconds: float = 0.0
    statement: str = ""
    counterexample: str = ""
    notes: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()

    def record(self) -> dict[str, Any]:
        """Everything but the figure, as JSON can hold it (no infinities)."""
        values = asdict(self)
        del values["panels"]
        for name in ("worst", "bound"):
            values[name] = values[name] if math.isfinite(values[name]) else None
        return values


@dataclass(frozen=True)
class Settings:
    """How hard to look. ``examples`` random cases are tried for each bound."""

    examples: int = 100
    seed: int = 0
    weights: Path | None = None
    tick: Callable[[str], None] = field(default=lambda text: None, compare=False)


def line(label: str, x: Sequence[float], y: Sequence[float], style: str = "line") -> Line:
    """A series from any two sequences of numbers.

    >>> line("a", [1, 2], [3, 4]).y
    (3.0, 4.0)
    """
    return Line(label, tuple(float(v) for v in x), tuple(float(v) for v in y), style)


def to_json(findings: Sequence[Finding]) -> str:
    """The findings for machines: a list with a record for each."""
    return json.dumps([finding.record() for finding in findings], indent=2) + "\n"
