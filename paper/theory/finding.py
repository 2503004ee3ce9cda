"""The finding of a check: a verdict with its numbers, and the panels of its figure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..plots import Curve, Panel

Verdict = Literal["holds", "refuted as stated", "fails"]


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


def line(label: str, x: Sequence[float], y: Sequence[float], kind: str = "solid") -> Curve:
    """A curve from any two sequences of numbers; a panel gives it its place in the palette.

    >>> line("a", [1, 2], [3, 4]).y
    (3.0, 4.0)
    """
    return Curve(label, tuple(float(v) for v in x), tuple(float(v) for v in y), 0, kind)


def panel(
    title: str,
    xlabel: str,
    ylabel: str,
    curves: Iterable[Curve],
    limits: dict[str, float] | None = None,
    xscale: str = "log",
    yscale: str = "log",
) -> Panel:
    """A panel whose curves share a colour where their names differ by largest and smallest."""
    curves = list(curves)
    families = list(dict.fromkeys(_family(curve) for curve in curves))
    styled = [replace(curve, style=families.index(_family(curve))) for curve in curves]
    return Panel(title, xlabel, ylabel, styled, limits or {}, xscale, yscale, across=2)


def log_panel(
    title: str, lengths: Sequence[int], curves: dict[float, list[float]], name: str
) -> Panel:
    """Gradient factors over T whose natural logarithms are given, by the value of ``name``."""
    lines = [
        line(f"{name} {value:g}", lengths, [log / math.log(10) for log in logs])
        for value, logs in curves.items()
    ]
    return panel(title, "T", "log10 of the gradient factor", lines, yscale="symlog")


def _family(curve: Curve) -> str:
    return curve.label.replace("largest", "").replace("smallest", "")


def to_json(findings: Sequence[Finding]) -> str:
    """The findings for machines: a list with a record for each."""
    return json.dumps([finding.record() for finding in findings], indent=2) + "\n"
