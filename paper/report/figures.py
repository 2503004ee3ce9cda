"""Drawing: curves to SVG that a page can hold, in the page's own colours, light and dark.

A panel is drawn in marked colours that :func:`_themed` replaces with CSS variables, so that the
same drawing is readable on any background. Its text stays text.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, LEGEND_ROW = 4.4, 2.75, 0.2  # inches
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
DOTS_AND_DASHES = (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (3, 1))
LINES = (":", "--", "-.", DOTS_AND_DASHES[0], "-", DOTS_AND_DASHES[1], "-", "--", ":")
INK, COLOUR, EPOCH = "#1a2b3c", "#c0de", "#e0c4"  # the marked colours; two digits follow
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Curve:
    """A line of a panel. ``style`` is its place in the palette, of an epoch where ``epoch``.

    ``band`` has, for every x, the lowest and the highest of the values whose mean the line is.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    style: int
    kind: str = "line"  # or "faint", "point", "plain" (no markers), "epoch", "background"
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """Axes with curves, and ``limits``: level lines with names."""

    title: str
    xlabel: str
    ylabel: str
    curves: list[Curve]
    limits: dict[str, float] | None = None
    xscale: str = "linear"
    yscale: str = "linear"
    ylim: tuple[float, float] | None = None
    whole: bool = True  # whether x counts something
    across: int = 3  # entries of the legend side by side


def draw(panel: Panel, name: str) -> str:
    """The panel as an SVG element. ``name`` makes its ids unique on the page."""
    import matplotlib
    from matplotlib.figure import Figure

    labels = {curve.label for curve in panel.curves} | set(panel.limits or {})
    rows = math.ceil(len(labels - {""}) / panel.across)
    height = HEIGHT + LEGEND_ROW * rows
    text: Any = {"svg.fonttype": "none", "font.size": 9, "text.color": INK}
    with matplotlib.rc_context({**text, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH, height), facecolor="none")
        below = 0.48 + LEGEND_ROW * rows
        axes = figure.add_axes((0.145, below / height, 0.83, (height - below - 0.3) / height))
        for place, curve in enumerate(panel.curves):
            _plot(axes, curve, place)
        for place, (label, level) in enumerate((panel.limits or {}).items()):
            dashes = ((0, (1, 2)), (0, (7, 3)))[place % 2]
            axes.axhline(level, color=INK, linewidth=1, linestyle=dashes, label=label)
        _finish(axes, panel)
        length = 9 / panel.across  # of a line in the legend
        looks: Any = {"frameon": False, "fontsize": 8, "handlelength": length}
        figure.legend(loc="lower center", ncols=panel.across, **looks)
        target = io.StringIO()
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None})
    return _themed(target.getvalue(), name, panel.title)


def _plot(axes: Any, curve: Curve, place: int) -> None:
    colour = f"{EPOCH if curve.kind == 'epoch' else COLOUR}{curve.style:02d}"
    looks: dict[str, Any] = {
        "color": colour,
        "linestyle": LINES[curve.style % len(LINES)],
        "marker": MARKERS[curve.style % len(MARKERS)],
        "markersize": 4,
        "markevery": (place % 5, max(1, len(curve.x) // 8)) if len(curve.x) > 10 else None,
        "linewidth": 1.3,
        "label": curve.label or "_",
    }
    if curve.kind == "faint":
        looks |= {"alpha": 0.5, "linewidth": 0.9}
    elif curve.kind == "point":
        looks |= {"linestyle": "", "markerfacecolor": "none", "markersize": 6, "clip_on": False}
    elif curve.kind == "plain":
        looks |= {"marker": "", "linestyle": "-"}
    elif curve.kind == "epoch":
        looks |= {"marker": "", "linestyle": "-", "linewidth": 1.2}
    elif curve.kind == "background":
        looks |= {"color": INK, "marker": "", "linestyle": "-", "linewidth": 0.5, "alpha": 0.5}
    axes.plot(curve.x, [math.nan if y is None else y for y in curve.y], **looks)
    if curve.band:
        low, high = zip(*curve.band, strict=True)
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.2, linewidth=0)


def _finish(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel, xscale=panel.xscale, yscale=panel.yscale)
    axes.set_title(panel.title, fontsize=9.5, loc="left", color=INK)
    if panel.yscale == "log":
        axes.set_ylim(*(panel.ylim or _decades(panel)))
        axes.yaxis.set_major_formatter(FuncFormatter(_power_of_ten))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif panel.ylim is not None:
        axes.set_ylim(*panel.ylim)
    if panel.xscale == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(integer=panel.whole, steps=[1, 2, 5, 10]))
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(colors=INK, which="both", labelsize=8)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(alpha=0.18, color=INK, linewidth=0.6)


def decades(values: Iterable[float | None]) -> tuple[float, float]:
    """Powers of ten around the positive ones of the values, one at least."""
    positive = [value for value in values if value is not None and value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _decades(panel: Panel) -> tuple[float, float]:
    drawn = [y for curve in panel.curves for y in curve.y]
    spread = [y for curve in panel.curves for ends in curve.band for y in ends]
    return decades([*drawn, *spread, *(panel.limits or {}).values()])


def _power_of_ten(value: float, _: object) -> str:
    return f"10{str(round(math.log10(value))).translate(SUPERSCRIPT)}"


def _themed(svg: str, name: str, title: str) -> str:
    """The drawing alone, scalable, with ids of its own and the page's colours."""
    svg = svg[svg.index("<svg") :]
    for part in ("metadata", "style"):
        svg = re.sub(rf"<{part}.*?</{part}>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]*; ", "", svg)  # the page's font
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"^<svg", '<svg role="img" aria-label=' + _quoted(title), svg)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'\bd="[^"]*"', lambda path: _rounded(path[0]), svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(rf"{COLOUR}(\d\d)", r"var(--line-\1)", svg)
    return re.sub(rf"{EPOCH}(\d\d)", r"var(--epoch-\1)", svg)


def _rounded(path: str) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", path)


def _quoted(text: str) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(text)
