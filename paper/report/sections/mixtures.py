"""mix-sin and mix-poly: two tasks, four models, and two predictors that need no training."""

from __future__ import annotations

from ...plots import Panel
from ..claims import MIXTURES
from ..content import EMPTY, Cell, Figure, Link, Section, Table
from ..names import label, style
from ..records import Group, Library
from ..tables import against, parameters, result, runs_table
from .curves import MSE, SPREAD, curves, figure

TITLES = {
    "mix-sin": "Sines",
    **{f"mix-poly-{n}": f"Polynomials of degree {n}" for n in (5, 10, 15)},
}


PREDICTORS = ("last value", "straight line")  # that are measured at every step, as the models are
TASKS = {"": "next value", "-released": "released program's task"}


def section(library: Library) -> Section:
    text = [
        "Models read a mixture of five fixed curves, 176 steps long. In the paper's text they "
        "predict the next value at every step; in its authors' released program they give, from "
        "the last state, the whole sequence that they have read. The two are kept apart here. "
        "The paper's Figures 3 and 4 print no numbers.",
        "Two predictors need no training: repeat the last value, or continue the straight "
        "line through the last two. They stand in the tables and figures beside the models. At the "
        "first step there is no line yet, and the last value stands in for it. The error of the "
        "line after that step is given as well; a model's, over all steps, cannot be compared with "
        "it.",
        "Settings: the authors' (batches of 32, 100 epochs, learning rate 0.001, times 0.7 (sines) "
        "or 0.9 (polynomials) every 1,000 steps, gradients clipped at 5), FRU 120,5, unless a "
        "remark says otherwise.",
    ]
    content = [part for experiment in MIXTURES for part in _experiment(library, experiment)]
    return Section("mixtures", "Mixtures", text, content)


def _experiment(library: Library, experiment: str) -> list[Table | Figure]:
    tables, panels = [], []
    for suffix, task in TASKS.items():
        groups = _of_task(library, experiment, suffix)
        simple = {} if suffix else library.values(f"{experiment}/simple")
        title = f"{TITLES[experiment]}: {task}"
        tables.append(_table(title, experiment, groups, simple))
        places = {name: (group, style(group.model)) for name, group in groups.items()}
        drawn = curves(places, "test_mse")
        levels = {name: mse for name, mse in simple.items() if name in PREDICTORS}
        panels.append(Panel(title, "epoch", MSE, drawn, levels, yscale="log"))
    caption = (
        f"{experiment}: test error by epoch, {SPREAD}. Level lines: the two predictors that need "
        "no training."
    )
    return [*figure(experiment, caption, panels), *tables]


def _of_task(library: Library, experiment: str, suffix: str) -> dict[str, Group]:
    models = [m for m in library.models(experiment) if m.endswith("-released") == bool(suffix)]
    return {label(m.removesuffix(suffix)): library.group(experiment, m) for m in models}


def _table(
    title: str, experiment: str, groups: dict[str, Group], simple: dict[str, float]
) -> Table:
    line = simple.get("straight line")
    columns = [result("test MSE", "test_mse", ".2e"), parameters()]
    if simple:
        columns.insert(1, against("of straight line's", "test_mse", line))
    table = runs_table(title, groups, columns)
    for name, mse in simple.items():
        ratio = f"{mse / line:.3g}" if line else EMPTY
        filled: tuple[Cell, ...] = (name, (Link(f"{mse:.2e}", f"{experiment}/simple"),), ratio)
        rest = [EMPTY] * (len(table.header) - len(filled) - 1)
        table.rows.append((*filled, *rest, "no training"))
    return table


def not_below_the_line(library: Library) -> dict[str, list[str]]:
    """For each mixture that can be judged, the models that do not beat the straight line."""
    found = {}
    for experiment in MIXTURES:
        line = library.values(f"{experiment}/simple").get("straight line")
        groups = _of_task(library, experiment, "")
        means = {name: group.mean("test_mse") for name, group in groups.items()}
        known = {name: mean for name, mean in means.items() if mean is not None}
        if line is not None and known:
            found[experiment] = [name for name, mean in known.items() if mean >= line]
    return found
