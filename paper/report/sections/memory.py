"""How far back a model remembers: the adding and the copy problem, by length."""

from __future__ import annotations

from statistics import fmean

from torchfru.training.recipes import PROBLEM_MINUTES as MINUTES

from ...plots import Curve, Panel
from ..content import Section
from ..names import label, style
from ..records import Group, Library
from ..tables import against, each_seed, result, runs_table
from .curves import ACCURACY_NAME, MSE, SPREAD, figure

GUESSING = {"adding": {"guessing": 1 / 6}, "copy": {"guessing": 12.5}}


def section(library: Library) -> Section:
    problems = {  # the table's heading, the measure, its form, its axis
        "adding": ("test MSE", "test_mse", ".2e", MSE, "log"),
        "copy": ("accuracy, %", "test_accuracy", ".2f", ACCURACY_NAME, "linear"),
    }
    tables, panels = [], []
    for problem, (heading, measure, form, name, scale) in problems.items():
        models = [m for m in library.models("memory") if m.startswith(f"{problem}-")]
        groups = {_length_and_layer(model): library.group("memory", model) for model in models}
        named = {f"{label(layer)}, {n:,}": group for (n, layer), group in groups.items()}
        columns = [
            result(heading, measure, form),
            against("of guessing's", measure, GUESSING[problem]["guessing"]),
            each_seed(measure, form),
        ]
        tables.append(runs_table(f"{problem}, by length", named, columns))
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
        "A remark names a test loss that would be divergence in training: for some sequence the "
        "outputs are huge, which an accuracy does not show.",
    ]
    caption = (
        f"The last epoch's test measure by length, {SPREAD}. Where all runs of a model diverged it "
        "has no mark."
    )
    figures = figure("memory", caption, panels)
    return Section("memory", "Long memory", text, [*figures, *tables])


def _length_and_layer(model: str) -> tuple[int, str]:
    _, length, layer = model.split("-")
    return int(length), layer


def _by_length(groups: dict[tuple[int, str], Group], measure: str) -> list[Curve]:
    """Curves of the layers. Where a length has one seed, the band has no width."""
    points: dict[str, list[tuple[int, list[float]]]] = {}
    for (length, layer), group in groups.items():
        values = group.last(measure)
        if values:
            points.setdefault(layer, []).append((length, values))
    return [
        Curve(
            label(layer),
            [length for length, _ in found],
            [fmean(values) for _, values in found],
            style(layer),
            band=[(min(values), max(values)) for _, values in found],
        )
        for layer, found in points.items()
    ]
