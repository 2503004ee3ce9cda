"""Beijing's temperature, fitted with a few terms of each basis."""

from __future__ import annotations

from typing import Any

from ...plots import Curve, Panel
from ..content import Cell, Link, Section, Table
from ..names import label, style
from ..records import Library
from .curves import figure

TITLE, DAYS = "Beijing's temperature", 365.25


def section(library: Library) -> Section:
    text = [
        "Least-squares fits to Beijing's daily mean temperature, 2010 to 2012, with as many terms "
        "of each basis (the paper's Figure 2 shows the Fourier ones and prints no numbers). "
        "Exponentials are what SRU's averages forget by, with rates log-spaced from its fastest "
        "down to one over the length of the series.",
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
