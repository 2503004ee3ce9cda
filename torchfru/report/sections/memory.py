"""How far back a model remembers: the adding and the copy problem, by length."""

from __future__ import annotations

from ...experiments.memory import MINUTES
from ..content import Section
from ..figures import Curve, Panel
from ..names import label, style
from ..records import Group, Library
from ..tables import Column, against, result, runs_table
from .curves import ACCURACY_NAME, MSE, figure

GUESSING = {"adding": {"guessing": 1 / 6}, "copy": {"guessing": 12.5}}


def section(library: Library) -> Section:
    measures: dict[str, tuple[Column, str, str, str]] = {
        "adding": (result("test MSE", "test_mse", ".2e"), "test_mse", MSE, "log"),
        "copy": (
            result("accuracy, %", "test_accuracy", ".2f"),
            "test_accuracy",
            ACCURACY_NAME,
            "linear",
        ),
    }
    tables, panels = [], []
    for problem, (column, measure, name, scale) in measures.items():
        models = [m for m in library.models("memory") if m.startswith(f"{problem}-")]
        groups = {_length_and_layer(model): library.group("memory", model) for model in models}
        named = {f"{label(layer)}, {n:,}": group for (n, layer), group in groups.items()}
        ratio = against("of guessing's", measure, GUESSING[problem]["guessing"])
        tables.append(runs_table(f"{problem}, by length", named, [column, ratio]))
        curves = _by_length(groups, measure)
        panels.append(
            Panel(problem, "length", name, curves, GUESSING[problem], xscale="log", yscale=scale)
        )
    text = [
        "Two tests of long memory that the paper does not have. Adding: the sum of two marked "
        "numbers, one in each half of the sequence; guessing has an error of 0.167. Copy: ten "
        "symbols of eight kinds, to be repeated after a delay; guessing gets 12.5 % right.",
        "Settings: ours, the same for every model but for the learning rate, which is its own of "
        f"permuted MNIST; from 1,000 steps on the baselines get {MINUTES:g} minutes, or one epoch "
        "where that takes longer, and FRU all of its epochs.",
    ]
    caption = (
        "The last epoch's test measure by length, the mean over seeds. Where all runs of a model "
        "diverged it has no mark."
    )
    figures = figure("memory", caption, panels)
    return Section("memory", "Long memory", text, [*figures, *tables])


def _length_and_layer(model: str) -> tuple[int, str]:
    _, length, layer = model.split("-")
    return int(length), layer


def _by_length(groups: dict[tuple[int, str], Group], measure: str) -> list[Curve]:
    points: dict[str, list[tuple[int, float]]] = {}
    for (length, layer), group in groups.items():
        mean = group.mean(measure)
        if mean is not None:
            points.setdefault(layer, []).append((length, mean))
    return [
        Curve(label(layer), [n for n, _ in found], [y for _, y in found], style(layer))
        for layer, found in points.items()
    ]
