"""Sections of what was measured without a table of runs: gradients, and fits of a curve."""

from __future__ import annotations

from typing import Any

from ..plots import Curve, Panel, decades
from .content import EMPTY, Cell, Link, Section, Table, label, style
from .parts import figure
from .records import NORMS, Group, Library, Record
from .tables import MSE, VARIABLES, result, runs_table

SHADES = 10  # of the palette of epochs
SMALLEST = 1e-10  # of the largest norm: what is below has vanished, and would flatten the rest


def gradients(library: Library) -> Section:
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
    runs = runs_table("Runs", groups, [result(MSE), VARIABLES])
    return Section("gradients", "Gradients", text, [*figures, _spread_table(groups), runs])


def spreads(group: Group) -> list[tuple[int, float, float]]:
    """(epoch, largest over smallest, first over last) of the L2 norms over the steps.

    Of several seeds, the largest at each epoch.
    """
    found: dict[int, tuple[float, float]] = {}
    for record in group.usable:
        for probe in record.run.measurements.get("gradients", []):
            norms = [norm for norm in probe["l2"] if norm]
            if len(norms) > 1:
                spread, fall = found.get(probe["epoch"], (0.0, 0.0))
                spread = max(spread, max(norms) / min(norms))
                found[probe["epoch"]] = (spread, max(fall, norms[0] / norms[-1]))
    return [(epoch, *ratios) for epoch, ratios in sorted(found.items())]


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
        ends = [*found[0][1:], *found[-1][1:]] if found else []
        links: list[Cell] = [(Link(f"{end:.3g}", group.name, is_file=False),) for end in ends]
        rows.append((name, *(links or [EMPTY] * 4)))
    changes = ("largest / smallest", "first / last")
    header = ("model", f"epoch 0: {changes[0]}", changes[1], f"last epoch: {changes[0]}")
    caption = "How much the L2 norm changes over the steps; of several seeds, the largest"
    return Table(caption, (*header, changes[1]), rows)


# Beijing's temperature, fitted with a few terms of each basis ------------------------------------

TITLE, DAYS = "Beijing's temperature", 365.25


def beijing(library: Library) -> Section:
    text = [
        "Least-squares fits to Beijing's daily mean temperature, 2010 to 2012, with as many terms "
        "of each basis (the paper's Figure 2 shows the Fourier ones and prints no numbers). "
        "The exponentials decay like SRU's averages, with rates log-spaced from its fastest down "
        "to one over the length of the series.",
    ]
    values = library.values("beijing/fits")
    if not values:
        return Section("beijing", TITLE, [*text, "They have not been recorded yet."])
    terms, fits = values["terms"], values["fits"]
    tables = [
        _table("Root mean squared error, °C, by number of terms", values, "rmse", ".2f"),
        _table("Largest coefficient, °C, by number of terms", values, "largest_coefficient", ".3g"),
    ]
    errors = [
        Curve(label(basis), terms, [fits[basis][str(n)]["rmse"] for n in terms], style(basis))
        for basis in fits
    ]
    panels = [_fit_panel(values, count) for count in terms]
    panels.append(Panel("Error by number of terms", "terms", "RMSE, °C", errors))
    caption = "The series with two of the fits, by number of terms; and the error of every basis."
    return Section("beijing", TITLE, text, [*figure("beijing", caption, panels), *tables])


def _table(caption: str, values: dict[str, Any], measure: str, form: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for basis, fits in values["fits"].items():
        numbers = [fits[str(count)][measure] for count in values["terms"]]
        rows.append((label(basis), *((Link(f"{n:{form}}", "beijing/fits"),) for n in numbers)))
    return Table(caption, ("basis", *(str(count) for count in values["terms"])), rows)


def _fit_panel(values: dict[str, Any], count: int) -> Panel:
    series, fits = values["series"], values["fits"]
    days = [values["start"] + day / DAYS for day in range(len(series))]
    curves = [Curve("temperature", days, series, 0, "background")]
    for basis in ("exponentials", "fourier"):
        if basis in fits:
            fitted = fits[basis][str(count)]["curve"]
            curves.append(Curve(label(basis), days, fitted, style(basis), "plain"))
    return Panel(f"{count} terms", "year", "°C", curves)
