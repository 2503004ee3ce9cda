"""FRUs over other bases."""

from __future__ import annotations

from ...plots import Panel
from ..content import Section
from ..names import label, style
from ..records import Library
from ..tables import result, runs_table
from .curves import ACCURACY_NAME, MSE, SPREAD, curves, figure


def section(library: Library) -> Section:
    tasks = {
        "permuted": ("Permuted MNIST", "test_accuracy", ACCURACY_NAME, ".2f", "linear"),
        "mix-poly-5": ("Polynomials of degree 5", "test_mse", MSE, ".2e", "log"),
    }
    tables, panels = [], []
    for task, (title, measure, name, form, scale) in tasks.items():
        models = [m for m in library.models("bases") if m.startswith(f"{task}-")]
        groups = {
            label(basis): (library.group("bases", model), style(basis))
            for model in models
            if (basis := model.rpartition("-")[2])
        }
        plain = {basis: group for basis, (group, _) in groups.items()}
        tables.append(runs_table(title, plain, [result(name, measure, form)]))
        panels.append(Panel(title, "epoch", name, curves(groups, measure), yscale=scale))
    text = [
        "The paper's bound on gradients holds for every bounded basis. Here the FRU sums over "
        "others in the Fourier basis's place; the paper does not measure this.",
        "Settings: those of FRU 60,10 on permuted MNIST and of FRU 120,5 on mixtures of "
        "polynomials, with the basis changed.",
    ]
    caption = f"Test measure by epoch, {SPREAD}."
    figures = figure("bases", caption, panels)
    return Section("bases", "Other bases", text, [*figures, *tables])
