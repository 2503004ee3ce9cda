"""Parts of sections out of groups of runs: curves, and a table beside its panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from ..plots import Curve, Panel
from .content import Figure, Table, label, style
from .records import Group
from .tables import Column, Measure, result, runs_table

Points = Sequence[tuple[int, float, float]]  # (epoch, minutes so far, measure)
Groups = dict[str, tuple[Group, int]]  # by label: the runs, and their place in the palette
SPREAD = "the mean over seeds, shaded from the lowest to the highest"


def plain(groups: Groups) -> dict[str, Group]:
    """The groups alone, for a table."""
    return {name: group for name, (group, _) in groups.items()}


def comparison(
    title: str,
    groups: Groups,
    measure: Measure,
    columns: Sequence[Column] = (),
    levels: dict[str, float] | None = None,
) -> tuple[Table, Panel]:
    """The last epoch's measure of some models as a table, and every epoch's as a panel."""
    table = runs_table(title, plain(groups), [result(measure), *columns])
    drawn = curves(groups, measure.key)
    return table, Panel(title, "epoch", measure.axis, drawn, levels or {}, yscale=measure.scale)


def curves(groups: Groups, measure: str, by_time: bool = False) -> list[Curve]:
    """A group's runs as one curve; those that do not count as one each, fainter."""
    found: list[Curve] = []
    for name, (group, place) in groups.items():
        found += _mean(name, [record.curve(measure) for record in group.usable], place, by_time)
        for record in group.records:
            points = [] if record.usable else record.curve(measure)
            shown = f"{name} ({'diverged' if record.finished else 'unfinished'})"
            text = "" if any(curve.label == shown for curve in found) else shown
            for curve in _mean(text, [points], place, by_time):
                found.append(replace(curve, kind="faint"))
    return found


def _mean(name: str, runs: list[Points], place: int, by_time: bool) -> list[Curve]:
    """The runs' mean, and its band, over the epochs that all of them have."""
    by_epoch = [{epoch: (minutes, value) for epoch, minutes, value in run} for run in runs]
    shared = sorted(set.intersection(*map(set, by_epoch))) if runs else []
    if not shared:
        return []
    minutes = [[run[epoch][0] for run in by_epoch] for epoch in shared]  # (epochs, runs)
    values = [[run[epoch][1] for run in by_epoch] for epoch in shared]  # (epochs, runs)
    x = [fmean(row) for row in minutes] if by_time else [float(epoch) for epoch in shared]
    band = [(min(row), max(row)) for row in values] if len(runs) > 1 else []
    return [Curve(name, x, [fmean(row) for row in values], place, band=band)]


def by_size(groups: dict[tuple[int, str], Group], measure: str) -> list[Curve]:
    """Curves of models by size. Where a size has one seed, the band has no width."""
    points: dict[str, dict[int, list[float]]] = {}
    for (size, model), group in groups.items():
        if values := group.last(measure):
            points.setdefault(model, {})[size] = values
    return [
        Curve(
            label(model),
            list(found),
            [fmean(values) for values in found.values()],
            style(model),
            band=[(min(values), max(values)) for values in found.values()],
        )
        for model, found in points.items()
    ]


def figure(name: str, caption: str, panels: Sequence[Panel]) -> list[Figure]:
    """The figure, or none where there is nothing to draw."""
    drawn = [panel for panel in panels if panel.curves]
    return [Figure(name, caption, drawn)] if drawn else []
