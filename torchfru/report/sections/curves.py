"""Curves and figures out of groups of runs."""

from __future__ import annotations

from ..content import Figure
from ..figures import Curve, Panel
from ..records import Group

MSE, ACCURACY_NAME = "test mean squared error", "test accuracy, %"


def curves(
    groups: dict[str, tuple[Group, int]], measure: str, by_time: bool = False
) -> list[Curve]:
    """A curve a run, in the style of its label; an unfinished run is drawn fainter."""
    found, named = [], set()
    for name, (group, place) in groups.items():
        for record in group.records:
            points = record.curve(measure)
            kind = "line" if record.finished else "unfinished"
            shown = name if kind == "line" else f"{name} (unfinished)"
            if points:
                x = [minutes if by_time else float(epoch) for epoch, minutes, _ in points]
                text = "" if shown in named else shown
                found.append(Curve(text, x, [y for *_, y in points], place, kind))
                named.add(shown)
    return found


def figure(name: str, caption: str, panels: list[Panel]) -> list[Figure]:
    """The figure, or none where there is nothing to draw."""
    drawn = [panel for panel in panels if panel.curves]
    return [Figure(name, caption, drawn)] if drawn else []
