"""The finding of a check: its numbers, the verdict on them, and the panels of its figure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from ..plots import Curve, Panel

Verdict = Literal["holds", "refuted as stated", "fails"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim of the paper, and what measuring it gave.

    ``worst`` and ``bound`` are numbers of the quantity that ``measure`` names. ``sound`` is
    whether this package does what it should, by default whether the worst is within the bound.
    ``refuted`` is whether the paper's words do not hold: then ``counterexample`` says where, and
    ``statement`` what does hold.
    """

    claim: str = ""  # filled in by the registry
    tried: str
    measure: str
    worst: float
    bound: float
    sound: bool | None = None
    refuted: bool = False
    seconds: float = 0.0
    statement: str = ""
    counterexample: str = ""
    notes: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()

    @property
    def verdict(self) -> Verdict:
        if not (self.worst <= self.bound if self.sound is None else self.sound):
            return "fails"
        return "refuted as stated" if self.refuted else "holds"

    def record(self) -> dict[str, Any]:
        """Everything but the figure, as JSON can hold it (no infinities)."""
        numbers = {"worst": self.worst, "bound": self.bound}
        return {
            "claim": self.claim,
            "verdict": self.verdict,
            "tried": self.tried,
            "measure": self.measure,
            **{name: v if math.isfinite(v) else None for name, v in numbers.items()},
            "seconds": self.seconds,
            "statement": self.statement,
            "counterexample": self.counterexample,
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Settings:
    """How hard to look. ``examples`` random cases are tried for each bound."""

    examples: int = 100
    seed: int = 0
    weights: Path | None = None
    tick: Callable[[str], None] = field(default=lambda text: None, compare=False)

    @property
    def generator(self) -> torch.Generator:
        """A new generator, at the seed."""
        return torch.Generator().manual_seed(self.seed)

    def random_units(self, draw: Callable[[torch.Generator, int], T]) -> Iterator[T]:
        """``examples`` units drawn one after another; ``draw`` also gets their numbers."""
        generator = self.generator
        for index in range(self.examples):
            if index % 50 == 0:
                self.tick(f"{index} of {self.examples} random units")
            yield draw(generator, index)


def panel(
    title: str,
    xlabel: str,
    ylabel: str,
    x: Sequence[float] | Mapping[str, Sequence[float]],
    curves: Mapping[str, Sequence[float]],
    limits: dict[str, float] | None = None,
    *,
    xscale: str = "log",
    yscale: str = "log",
    kinds: Mapping[str, str] | None = None,
) -> Panel:
    """A panel of curves over x, or over its beginning; or over an x of each curve's own.

    Curves share a colour where their names differ by largest and smallest; the smallest are dashed.
    """
    xs = x if isinstance(x, Mapping) else dict.fromkeys(curves, x)
    families = list(dict.fromkeys(map(_family, curves)))
    drawn = [
        Curve(
            label,
            tuple(float(v) for v in xs[label][: len(y)]),
            tuple(float(v) for v in y),
            families.index(_family(label)),
            (kinds or {}).get(label, "dashed" if "smallest" in label else "solid"),
        )
        for label, y in curves.items()
    ]
    return Panel(title, xlabel, ylabel, drawn, limits or {}, xscale, yscale, across=2)


def log_panel(title: str, lengths: Sequence[int], logs: Mapping[str, Sequence[float]]) -> Panel:
    """Gradient factors over T, whose natural logarithms are given by name."""
    tens = {name: [value / math.log(10) for value in values] for name, values in logs.items()}
    return panel(title, "T", "log10 of the gradient factor", lengths, tens, yscale="symlog")


def _family(label: str) -> str:
    return label.replace("largest", "").replace("smallest", "")


def to_json(findings: Sequence[Finding]) -> str:
    """The findings for machines: a list with a record for each."""
    return json.dumps([finding.record() for finding in findings], indent=2) + "\n"
