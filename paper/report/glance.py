"""At a glance: what falls short and what holds, as one table and one figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from ..plots import Curve, Panel
from ..published import ACCURACY, PEERS
from .claims import MIXTURES
from .content import Figure, Table, label, style
from .parts import SPREAD, curves, figure
from .records import Group, Library
from .tables import MSE, PERCENT, Measure, mean_and_spread

Row = tuple[str, str, str, str]  # task, verdict, ours, held against
AFTER = Measure("test_mse_after_first", "after step 1", ".2e", "test MSE after step 1", "log")
SOLVED = 99.9  # percent of the copy problem, every seed
EVEN = 0.01  # errors that differ by less than this part are called even
ORDER = ("falls short", "open", "in between", "even", "ahead", "holds")
CAPTION = "What falls short, and what holds (in between: ahead of some that it is held against)"


@dataclass(frozen=True)
class Goal:
    """A task of the recipe, its model, and under which name published results are listed."""

    title: str
    experiment: str
    model: str
    measure: Measure
    peers: str


GOALS = (
    *(Goal(ACCURACY[e].title, e, "fru-recipe", PERCENT, e) for e in ACCURACY),
    Goal("Adding, 10,000 steps", "memory", "adding-10000-fru-recipe", MSE, "adding-10000"),
    *(
        Goal(f"Copy after {n:,} steps", "memory", f"copy-{n}-fru-recipe", PERCENT, f"copy-{n}")
        for n in (1_000, 10_000, 100_000)
    ),
)


def recorded(library: Library) -> Iterator[tuple[Goal, Group]]:
    """The goals with a result."""
    for goal in GOALS:
        group = library.group(goal.experiment, goal.model)
        if group.last(goal.measure.key):
            yield goal, group


def glance(library: Library, paper: list[Row]) -> Table:
    """The verdicts on the recipe, what falls short first, then those on the paper."""
    rows = [_standing(goal, group) for goal, group in recorded(library)]
    rows += [*_against_the_line(library), *_against_the_same_head(library)]
    rows.sort(key=lambda row: ORDER.index(row[1]))
    header = ("task", "verdict", "FRU", "held against")
    return Table(CAPTION, header, [*rows, *paper], text_from=1, stacked=True)


def _standing(goal: Goal, group: Group) -> Row:
    """The mean against published ones; where nobody published any, every seed.

    The verdict is open while runs are missing, shorter than planned, or of other settings.
    """
    values, peers = group.last(goal.measure.key), PEERS.get(goal.peers, ())
    if peers:
        mean, lower = fmean(values), goal.measure is MSE
        verdict = _verdict([mean < p.value if lower else mean >= p.value for p in peers])
    else:
        verdict = "holds" if min(values) >= SOLVED else "falls short"
    unit = " %" if goal.measure is PERCENT else ""
    seeds = f"{len(values)} seed{'s' if len(values) > 1 else ''}"
    if lost := len(group.diverged) + len(group.unfinished):
        seeds += f", {lost} more diverged or unfinished"
        verdict = "falls short" if group.diverged else "open"
    elif not group.comparable:
        verdict = "open"
    against = ", ".join(map(str, peers)) or f"{SOLVED} %, every seed"
    return goal.title, verdict, f"{mean_and_spread(goal.measure, values)}{unit} ({seeds})", against


def _verdict(cases: list[bool]) -> str:
    return "ahead" if all(cases) else "in between" if any(cases) else "falls short"


def _against_the_line(library: Library) -> Iterator[Row]:
    """Errors after the first step as parts of the straight line's, of all mixtures."""
    ratios = []
    for experiment in MIXTURES:
        line = library.values(f"{experiment}/simple").get("straight line, after step 1")
        mean = _comparable_mean(library, experiment, "fru", AFTER)
        if line and mean is not None:
            ratios.append(mean / line)
    if ratios:
        ours = " to ".join(dict.fromkeys(f"{r:.2g}" for r in (min(ratios), max(ratios))))
        task, verdict = "Next value, after the first step", _verdict([r < 1 for r in ratios])
        found = f"{ours} of its error, {len(ratios)} mixtures"
        yield task, verdict, found, "the straight line through the last two values"


def _comparable_mean(
    library: Library, experiment: str, layer: str, measure: Measure
) -> float | None:
    group = library.group(experiment, f"{layer}-recipe")
    return group.mean(measure.key) if group.comparable else None


def _against_the_same_head(library: Library) -> Iterator[Row]:
    """FRU against LSTM and SRU with the same window, head and naive start, over all steps."""
    gains = []  # how much lower its error is, as a part of the other's
    for experiment in MIXTURES:
        fru, *others = (
            _comparable_mean(library, experiment, layer, MSE) for layer in ("fru", "lstm", "sru")
        )
        gains += [1 - fru / other for other in others if fru is not None and other is not None]
    if gains:
        lower, low, high = sum(gain > 0 for gain in gains), min(gains), max(gains)
        verdict = _verdict([gain > 0 for gain in gains])
        verdict = "even" if max(-low, high) < EVEN else verdict
        ours = f"a lower error in {lower} of {len(gains)}, by {low:.1%} to {high:.1%}"
        held = "LSTM and SRU with the same window, head and start"
        yield "Next value, all steps", verdict, ours, held


def opening(library: Library) -> list[Figure]:
    """One figure: accuracy by epoch on both MNIST tasks, and the next value's error."""
    panels = []
    for experiment, zoom in {"permuted-mnist": (94.0, 99.0), "pixel-mnist": (95.0, 100.0)}.items():
        groups = {
            "FRU, the recipe": (library.group(experiment, "fru-recipe"), style("fru-recipe")),
            "FRU, the authors' settings": (library.group(experiment, "fru-60-10"), style("fru")),
        }
        drawn, best = curves(groups, PERCENT.key), PEERS[experiment][-1]
        title, levels = ACCURACY[experiment].title, {f"{best}, published": best.value}
        panels.append(Panel(title, "epoch", PERCENT.axis, drawn, levels, ylim=zoom, across=2))
    panels.append(_by_degree(library))
    caption = (
        "Test accuracy by epoch (the recipe is trained for fewer), and the error of the next value "
        f"after the first step; {SPREAD}."
    )
    return figure("opening", caption, panels)


def _by_degree(library: Library) -> Panel:
    """The error after the first step by the polynomials' degree."""
    degrees = (5, 10, 15)
    lines = [library.values(f"mix-poly-{n}/simple") for n in degrees]
    key = "straight line, after step 1"
    found = {"straight line": [line.get(key) for line in lines]}
    for layer in ("lstm", "sru", "fru"):
        groups = [library.group(f"mix-poly-{n}", f"{layer}-recipe") for n in degrees]
        found[f"{label(layer)}, the recipe"] = [group.mean(AFTER.key) for group in groups]
    places = {"straight line": style("others"), "LSTM, the recipe": style("lstm")}
    places |= {"SRU, the recipe": style("sru"), "FRU, the recipe": style("fru-recipe")}
    drawn = [
        Curve(name, degrees, values, places[name])
        for name, values in found.items()
        if any(value is not None for value in values)
    ]
    title = "Next value of a polynomial, by its degree"
    return Panel(title, "degree", AFTER.axis, drawn, yscale="log", across=2)
