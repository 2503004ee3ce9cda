"""The sections of the report: each takes the records that it shows."""

from __future__ import annotations

from dataclasses import replace

from torchfru.training.recipes import PROBLEM_MINUTES as MINUTES

from ..experiments import frequency_name
from ..plots import Curve, Panel
from ..published import ACCURACY
from .beyond import MIXTURE_TITLES as TITLES
from .beyond import beyond
from .claims import MIXTURES
from .content import EMPTY, Figure, Link, Section, Table, label, style
from .depth import depth
from .parts import SPREAD, Groups, by_size, comparison, curves, figure, plain
from .probes import beijing, gradients
from .records import Library
from .tables import (
    MSE,
    PERCENT,
    VARIABLES,
    against,
    each_seed,
    published,
    result,
    runs_table,
    tried_table,
)


def all_sections(library: Library) -> list[Section]:
    """The recipe beyond the paper, every part of the paper in its order, then missing runs."""
    return [
        *beyond(library),
        mixtures(library),
        gradients(library),
        *(accuracy(library, experiment) for experiment in ACCURACY),
        *(section(library) for section in (frequencies, beijing, bases, memory, depth)),
    ]


# Mixtures: two tasks, four models, two predictors without training -------------------------------

PREDICTORS = ("last value", "straight line")  # that are measured at every step, as the models are
TASKS = {"": "next value", "-released": "released program's task"}


def mixtures(library: Library) -> Section:
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
    found = []
    for suffix, task in TASKS.items():
        groups = _of_task(library, experiment, suffix)
        simple = {} if suffix else library.values(f"{experiment}/simple")
        line = simple.get("straight line")
        columns = [against("of straight line's", MSE, line)] if simple else []
        levels = {name: mse for name, mse in simple.items() if name in PREDICTORS}
        title = f"{TITLES[experiment]}: {task}"
        table, panel = comparison(title, groups, MSE, [*columns, VARIABLES], levels)
        for name, mse in simple.items():
            cells = (Link(f"{mse:.2e}", f"{experiment}/simple"),), f"{mse / line:.3g}"
            rest = [EMPTY] * (len(table.header) - 4)
            table.rows.append((name, *cells, *rest, "no training"))
        found.append((table, panel))
    tables, panels = zip(*found, strict=True)
    caption = (
        f"{experiment}: test error by epoch, {SPREAD}. Level lines: the two predictors that need "
        "no training."
    )
    return [*figure(experiment, caption, panels), *tables]


def _of_task(library: Library, experiment: str, suffix: str) -> Groups:
    models = [m for m in library.models(experiment) if m.endswith("-released") == bool(suffix)]
    return {label(m.removesuffix(suffix)): (library.group(experiment, m), style(m)) for m in models}


def not_below_the_line(library: Library) -> dict[str, list[str]]:
    """For each mixture that can be judged, the models that do not beat the straight line."""
    found = {}
    for experiment in MIXTURES:
        line = library.values(f"{experiment}/simple").get("straight line")
        groups = _of_task(library, experiment, "")
        means = {name: group.mean(MSE.key) for name, (group, _) in groups.items()}
        known = {name: mean for name, mean in means.items() if mean is not None}
        if line is not None and known:
            found[experiment] = [name for name, mean in known.items() if mean >= line]
    return found


# The paper's three tables of accuracies ----------------------------------------------------------


def accuracy(library: Library, experiment: str) -> Section:
    paper, lstm = ACCURACY[experiment], library.group(experiment, "lstm")
    models = dict.fromkeys([*paper.rows, *library.models(experiment)])  # the paper's, then others
    groups = {label(m): (library.group(experiment, m), style(m)) for m in models}
    caption = (
        f"Test accuracy after the last epoch, beside the paper's {paper.place}. "
        f"* after fewer than the {paper.epochs} epochs of the paper: not comparable."
    )
    table = runs_table(caption, plain(groups), published(paper, lstm))
    ends = [
        Curve("", [paper.epochs], [row.accuracy], style(model), "hollow")
        for model, row in paper.rows.items()
    ]
    drawn = curves(groups, PERCENT.key)
    by_epoch = [*drawn, *ends] if drawn else []
    timed = curves(groups, PERCENT.key, by_time=True)
    panels = [
        Panel("By epoch", "epoch", PERCENT.axis, by_epoch),
        Panel("By epoch, the top", "epoch", PERCENT.axis, by_epoch, ylim=paper.zoom),
        Panel("By time", "minutes of training", PERCENT.axis, timed, whole=False),
    ]
    drawing = f"Test accuracy, {SPREAD}. Hollow marks: the paper's numbers at its last epoch."
    tuned = "Tuned: settings of our own, chosen among those that were tried, below."
    text = [paper.task, paper.settings, tuned if any("-tuned" in m for m in models) else ""]
    tried = tried_table([s for s in library.sweeps if s.result.experiment == experiment], ".2f")
    figures = figure(experiment, drawing, panels)
    return Section(experiment, paper.title, text, [table, *figures, *tried])


# Which frequencies an FRU needs ------------------------------------------------------------------

TOP = {28: (95, 98.5), 784: (95, 98)}  # by steps: the accuracies to be drawn once more


def frequencies(library: Library) -> Section:
    tables, panels = [], []
    for steps, zoom in TOP.items():
        models = [m for m in library.models("frequencies") if frequency_name(m)[0] == steps]
        groups = {
            _range(model): (library.group("frequencies", model), place)
            for place, model in enumerate(models)
        }
        table, panel = comparison(f"{steps} steps", groups, PERCENT)
        tables.append(table)
        panels += [panel, replace(panel, title=f"{panel.title}, the top", ylim=zoom)]
    text = [
        "Pixel-MNIST read by rows (28 steps) and by pixels (784 steps), with other frequencies: "
        "0 and K - 1 more, log-spaced over a range. The paper's Figures 10 to 12 print no numbers.",
        "Settings: at 784 steps FRU 60,10's of pixel-MNIST; at 28 steps ours (50 epochs, as the "
        "paper says, learning rate 0.001, decay 0.9, clip 1), since the authors published none.",
    ]
    caption = f"Test accuracy by epoch, {SPREAD}: number of frequencies, and their range."
    figures = figure("frequencies", caption, panels)
    return Section("frequencies", "Frequencies", text, [*figures, *tables])


def _range(model: str) -> str:
    _, count, low, high = frequency_name(model)
    return f"{count}: {low:g} to {high:g}"


# FRUs over other bases ---------------------------------------------------------------------------

BASIS_TASKS = {
    "permuted": ("Permuted MNIST", PERCENT),
    "mix-poly-5": ("Polynomials of degree 5", MSE),
}


def bases(library: Library) -> Section:
    found = []
    for task, (title, measure) in BASIS_TASKS.items():
        models = [m for m in library.models("bases") if m.startswith(f"{task}-")]
        bases = {model.rpartition("-")[2]: library.group("bases", model) for model in models}
        groups = {label(basis): (group, style(basis)) for basis, group in bases.items()}
        found.append(comparison(title, groups, measure))
    tables, panels = zip(*found, strict=True)
    text = [
        "The paper's bound on gradients holds for every bounded basis. Here the FRU sums over "
        "others in the Fourier basis's place; the paper does not measure this.",
        "Settings: those of FRU 60,10 on permuted MNIST and of FRU 120,5 on mixtures of "
        "polynomials, with the basis changed.",
    ]
    figures = figure("bases", f"Test measure by epoch, {SPREAD}.", panels)
    return Section("bases", "Other bases", text, [*figures, *tables])


# How far back a model remembers: the adding and the copy problem ---------------------------------

PROBLEMS = {"adding": (MSE, 1 / 6), "copy": (PERCENT, 12.5)}  # the measure, and by guessing


def memory(library: Library) -> Section:
    tables, panels = [], []
    for problem, (measure, guessing) in PROBLEMS.items():
        models = [m for m in library.models("memory") if m.startswith(f"{problem}-")]
        groups = {_length_and_layer(model): library.group("memory", model) for model in models}
        named = {f"{label(layer)}, {n:,}": group for (n, layer), group in groups.items()}
        columns = result(measure), against("of guessing's", measure, guessing), each_seed(measure)
        tables.append(runs_table(f"{problem}, by length", named, columns))
        drawn, levels = by_size(groups, measure.key), {"guessing": guessing}
        panels.append(Panel(problem, "length", measure.axis, drawn, levels, "log", measure.scale))
    text = [
        "Two tests of long memory that the paper does not have. Adding: the sum of two marked "
        "numbers, one in each half of the sequence; guessing has an error of 0.167. Copy: ten "
        "symbols of eight kinds, to be repeated after a delay; guessing gets 12.5 % right.",
        "Settings: ours, the same for every model but for the learning rate, which is its own of "
        f"permuted MNIST; from 1,000 steps on the baselines get {MINUTES:g} minutes, or one epoch "
        "where that takes longer, and FRU all of its epochs.",
        "A remark names a test loss so large that a run would count as diverged in training: for "
        "some sequence the outputs are huge, which an accuracy does not show.",
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
