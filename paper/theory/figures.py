"""Drawing: a finding's panels side by side. What they show was decided where it was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .finding import Finding, Line, Panel

# Okabe and Ito's palette: told apart with any colour vision. Markers tell them apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^Dv*X"
ACROSS = 3  # panels in a row


def draw(finding: Finding, folder: Path, suffix: str = "svg") -> Path:
    """Write ``folder``/claim.``suffix`` and return its path."""
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(ACROSS, len(finding.panels))
    rows = -(-len(finding.panels) // columns)
    with matplotlib.rc_context({"svg.hashsalt": "torchfru", "svg.fonttype": "none"}):
        figure = Figure(figsize=(max(6.0, 5.0 * columns), 3.6 * rows), layout="constrained")
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes in grid[len(finding.panels) :]:
            axes.set_visible(False)
        for axes, panel in zip(grid, finding.panels, strict=False):
            _draw_panel(axes, panel)
        path = folder / f"{finding.claim}.{suffix}"
        folder.mkdir(parents=True, exist_ok=True)
        # no date in the file: the same numbers give the same bytes
        figure.savefig(path, dpi=120, metadata={"Date": None} if suffix == "svg" else None)
    return path


def _draw_panel(axes: Any, panel: Panel) -> None:
    curves = [series for series in panel.lines if series.style != "band"]
    families = list(dict.fromkeys(_family(series) for series in curves))
    for series in curves:
        place = families.index(_family(series)) % len(COLOURS)
        axes.plot(
            series.x,
            series.y,
            color=COLOURS[place],
            marker=MARKERS[place] if len(series.x) < 40 else "",
            markersize=4,
            linestyle={"line": "-", "dashed": "--", "points": ""}[series.style],
            label=series.label,
        )
    for limit in panel.lines:
        if limit.style == "band":
            axes.plot(limit.x, limit.y, color="dimgrey", linestyle=":")
            start = min(zip(limit.x, limit.y, strict=True))
            axes.annotate(limit.label, start, (0, 2), textcoords="offset points", size=7)
    axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.title.set_fontsize(10)
    axes.set_xscale(panel.xscale)
    axes.set_yscale(panel.yscale)
    axes.grid(alpha=0.3)
    _legend(axes, len(curves))


def _family(series: Line) -> str:
    """Lines that belong together share a colour: "largest, sigma 1" and "smallest, sigma 1"."""
    return series.label.replace("largest", "").replace("smallest", "")


def _legend(axes: Any, count: int) -> None:
    """Inside, or beside the axes where it would hide the curves."""
    where: dict[str, Any] = {"loc": "best"}
    if count > 5:
        where = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    axes.legend(fontsize=7, handlelength=3, **where)
