"""Gradients to the initial state: three norms, four models, by step and epoch."""

from __future__ import annotations

from typing import Any

from ...plots import Curve, Panel, decades
from ..claims import spreads
from ..content import EMPTY, Cell, Link, Section, Table
from ..names import label
from ..records import NORMS, Group, Library, Record
from ..tables import parameters, result, runs_table
from .curves import figure

SHADES = 10  # of the palette of epochs
SMALLEST = 1e-10  # of the largest norm: what is below has vanished, and would flatten the rest


def section(library: Library) -> Section:
    groups = {label(m): library.group("gradients", m) for m in library.models("gradients")}
    probed = {name: record for name, group in groups.items() if (record := _probed(group))}
    text = [
        "The norm of the gradient of the error at step t to the initial state, while training on "
        "mixtures of polynomials of degree 5: means over 20 consecutive steps and over "
        "test sequences, before training and after every tenth epoch (the paper's Figure 5). SRU "
        "has the rates 0, 0.25, 0.5, 0.9, 0.95, as that figure's caption says.",
        "Settings: the authors' for mixtures of polynomials.",
    ]
    caption = (
        "Norms of the gradient to the initial state by step, a row a model, from epoch 0 (dark) "
        "to the last one (light); a key is the number of epochs. Of several seeds, the first. "
        "A curve that leaves the axes has fallen by ten orders of magnitude."
    )
    figures = figure("gradients", caption, _panels(probed))
    runs = runs_table("Runs", groups, [result("test MSE", "test_mse", ".2e"), parameters()])
    return Section("gradients", "Gradients", text, [*figures, _spread_table(groups), runs])


def _probed(group: Group) -> Record | None:
    """The first run with measured gradients, a finished one if there is any."""
    measured = [r for r in group.records if r.run.measurements.get("gradients")]
    return min(measured, key=lambda record: not record.finished, default=None)


def _panels(probed: dict[str, Record]) -> list[Panel]:
    """A row of three norms for each model; a norm has the same axis for all of them."""
    probes = {name: record.run.measurements["gradients"] for name, record in probed.items()}
    every = [probe for found in probes.values() for probe in found]
    limits = {norm: _limits([y for probe in every for y in probe[norm]]) for norm in NORMS}
    return [
        _panel(f"{name}, {norm.replace('inf', '∞').upper()} norm", found, norm, limits[norm])
        for name, found in probes.items()
        for norm in NORMS
    ]


def _limits(norms: list[float | None]) -> tuple[float, float]:
    low, high = decades(norms)
    return max(low, high * SMALLEST), high


def _panel(title: str, probes: list[Any], norm: str, limits: tuple[float, float]) -> Panel:
    steps = max(1, len(probes) - 1)
    curves = [
        Curve(f"{probe['epoch']}", probe["step"], probe[norm], i * (SHADES - 1) // steps, "epoch")
        for i, probe in enumerate(probes)
    ]
    return Panel(title, "step t", "norm", curves, yscale="log", ylim=limits, across=5)


def _spread_table(groups: dict[str, Group]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, group in groups.items():
        found = spreads(group)
        row: list[Cell] = [EMPTY] * 4
        if found:
            values = (value for probe in (found[0], found[-1]) for value in probe[1:])
            row = [(Link(f"{value:.3g}", group.name, is_file=False),) for value in values]
        rows.append((name, *row))
    header = (
        "model",
        "epoch 0: largest / smallest",
        "first / last",
        "last epoch: largest / smallest",
        "first / last",
    )
    caption = "How much the L2 norm changes over the steps; of several seeds, the largest"
    return Table(caption, header, rows)
