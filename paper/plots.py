"""Drawing: panels of curves, as SVG inside a page or as a file.

A panel is drawn in the palette of a light page. Inside a page its colours become CSS variables,
so that the same drawing is readable on any background. Text stays text in both.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

WIDTH, HEIGHT, LEGEND_ROW = 4.4, 2.75, 0.2  # inches
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
DOTS_AND_DASHES = (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (3, 1))
LINES = (":", "--", "-.", DOTS_AND_DASHES[0], "-", DOTS_AND_DASHES[1], "-", "--", ":")
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# The light palette of style.css, and ink, which is no colour of the palette.
INK = "#1a2b3c"
_LINES = "0072b2 c44e00 00805e b04a86 1c1f23 8a6200 6a4c9c 2f8fc9 7a7f87"
_EPOCHS = "440154 482576 414487 35608d 2a788e 21918c 22a884 44bf70 7ad151 b5d335"
COLOURS, EPOCHS = (
    tuple(f"#{digits}" for digits in palette.split()) for palette in (_LINES, _EPOCHS)
)

KINDS: dict[str, dict[str, Any]] = {
    "line": {},
    "solid": {"linestyle": "-"},
    "dashed": {"linestyle": "--"},
    "points": {"linestyle": "", "markevery": None},
    "hollow": {"linestyle": "", "markerfacecolor": "none", "markersize": 6, "clip_on": False},
    "faint": {"alpha": 0.5, "linewidth": 0.9},
    "plain": {"marker": "", "linestyle": "-"},
    "epoch": {"marker": "", "linestyle": "-", "linewidth": 1.2},
    "background": {"color": INK, "marker": "", "linestyle": "-", "linewidth": 0.5, "alpha": 0.5},
}


@dataclass(frozen=True)
class Curve:
    """A line of a panel. ``style`` is its place in the palette, for ``kind`` "epoch" of epochs.

    ``band`` has, for every x, the lowest and the highest of the values whose mean the line is.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    style: int
    kind: str = "line"  # a key of KINDS
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """Axes with curves, and ``limits``: level lines with names."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    limits: dict[str, float] = field(default_factory=dict)
    xscale: str = "linear"
    yscale: str = "linear"
    ylim: tuple[float, float] | None = None
    whole: bool = True  # whether x counts something
    across: int = 3  # entries of the legend side by side

    @property
    def legend_rows(self) -> int:
        labels = {curve.label for curve in self.curves} | set(self.limits)
        return math.ceil(len(labels - {""}) / self.across)


def draw(panel: Panel, name: str) -> str:
    """The panel as an SVG element of a page. ``name`` makes its ids unique there."""
    return _themed(_svg([panel], 1, name), name, panel.title)


def save(panels: Sequence[Panel], path: Path, columns: int = 3) -> None:
    """Write the panels side by side to an SVG file: the same numbers give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_svg(panels, columns, path.stem, facecolor="white"))


def _svg(panels: Sequence[Panel], columns: int, name: str, facecolor: str = "none") -> str:
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    lines = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    heights = [HEIGHT + LEGEND_ROW * max(p.legend_rows for p in line) for line in lines]
    text: Any = {"svg.fonttype": "none", "font.size": 9, "text.color": INK}
    with matplotlib.rc_context({**text, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH * columns, sum(heights)), facecolor=facecolor)
        for row, line in enumerate(lines):
            bottom = sum(heights[row + 1 :])
            for column, panel in enumerate(line):
                _draw_panel(figure, panel, WIDTH * column, bottom, heights[row])
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None})
    return target.getvalue()


def _draw_panel(figure: Any, panel: Panel, left: float, bottom: float, height: float) -> None:
    """Axes above their legend in a cell of the figure, all sizes in inches."""
    width, total = figure.get_size_inches()
    below = 0.48 + LEGEND_ROW * panel.legend_rows
    box = (left + 0.145 * WIDTH, bottom + below, 0.83 * WIDTH, height - below - 0.3)
    axes = figure.add_axes((box[0] / width, box[1] / total, box[2] / width, box[3] / total))
    axes.set_facecolor("none")
    for place, curve in enumerate(panel.curves):
        _plot(axes, curve, place)
    for place, (label, level) in enumerate(panel.limits.items()):
        dashes = ((0, (1, 2)), (0, (7, 3)))[place % 2]
        axes.axhline(level, color=INK, linewidth=1, linestyle=dashes, label=label)
    _finish(axes, panel)
    length = 9 / panel.across  # of a line in the legend
    looks: Any = {"frameon": False, "fontsize": 8, "handlelength": length}
    where = ((left + WIDTH / 2) / width, bottom / total)
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="lower center",
        bbox_to_anchor=where,
        ncols=panel.across,
        **looks,
    )


def _plot(axes: Any, curve: Curve, place: int) -> None:
    colour = (EPOCHS if curve.kind == "epoch" else COLOURS)[curve.style]
    looks: dict[str, Any] = {
        "color": colour,
        "linestyle": LINES[curve.style % len(LINES)],
        "marker": MARKERS[curve.style % len(MARKERS)],
        "markersize": 4,
        "markevery": (place % 5, max(1, len(curve.x) // 8)) if len(curve.x) > 10 else None,
        "linewidth": 1.3,
        "label": curve.label or "_",
    }
    values = [math.nan if y is None else y for y in curve.y]
    axes.plot(curve.x, values, **(looks | KINDS[curve.kind]))
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
        axes.xaxis.set_major_formatter(FuncFormatter(_count_or_power))
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
    """Powers of ten around the positive finite values, one at least."""
    positive = [value for value in values if value is not None and 0 < value < math.inf] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _decades(panel: Panel) -> tuple[float, float]:
    drawn = [y for curve in panel.curves for y in curve.y]
    spread = [y for curve in panel.curves for ends in curve.band for y in ends]
    return decades([*drawn, *spread, *panel.limits.values()])


def _power_of_ten(value: float, _: object) -> str:
    return f"10{str(round(math.log10(value))).translate(SUPERSCRIPT)}"


def _count_or_power(value: float, _: object) -> str:
    return f"{value:,.0f}" if value >= 1 else _power_of_ten(value, _)


def _themed(svg: str, name: str, title: str) -> str:
    """The drawing alone, scalable, with ids of its own and the page's colours."""
    svg = svg[svg.index("<svg") :]
    for part in ("metadata", "style"):
        svg = re.sub(rf"<{part}.*?</{part}>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]*; ", "", svg)  # the page's font
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"^<svg", '<svg role="img" aria-label=' + quoteattr(title), svg)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'\bd="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    svg = svg.replace(INK, "currentColor")
    for kind, palette in (("line", COLOURS), ("epoch", EPOCHS)):
        for place, colour in enumerate(palette):
            svg = svg.replace(colour, f"var(--{kind}-{place:02d})")
    return svg
