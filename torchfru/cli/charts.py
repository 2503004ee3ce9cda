"""Charts as elements of SVG. Colours and dashes are classes, which the page's style sheet has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement

from ..io import printable

WIDTH, HEIGHT = 400, 240  # units of a line chart; the page scales it
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 8, 36
MOST_MARKS = 60  # points of a curve that tell their value
HUGE, TINY = 1e300, 1e-300  # beyond these, a difference or a quotient is not a float
NUMBERED, LABELLED = 12, 30  # classes up to which a matrix has counts and names
LONGEST_NAME = 16


class Curve(NamedTuple):
    """A line of a chart. ``style`` chooses its colour and dashes; None in y is a gap."""

    label: str
    x: Sequence[float | None]
    y: Sequence[float | None]
    style: int


def tag(kind: str, /, *children: Element | str, **attributes: object) -> Element:
    """An element. Every text in it is escaped when it is written.

    An attribute may end in an underscore (``class_``); other underscores stand for hyphens.

    >>> from xml.etree.ElementTree import tostring
    >>> tostring(tag("p", "a < b", tag("b", "c"), class_="x"), "unicode", "html")
    '<p class="x">a &lt; b<b>c</b></p>'
    """
    named = {key.rstrip("_").replace("_", "-"): printable(v) for key, v in attributes.items()}
    element = Element(kind, named)
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + printable(child)
        else:
            element.text = (element.text or "") + printable(child)
    return element


def in_range(value: Any) -> float | None:
    """A number that can be drawn; None for one that is missing or too large."""
    if value is None or not abs(value) < HUGE:
        return None
    return 0.0 if abs(value) < TINY else float(value)


def short(name: str, longest: int = LONGEST_NAME) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


class Axis:
    """The place of a value between two ends, linear or logarithmic, and the marked values."""

    def __init__(self, values: Iterable[float], ends: tuple[float, float], log: bool) -> None:
        found = [math.log10(v) if log else v for v in values] or [0.0]
        low, high = min(found), max(found)
        size = max(abs(low), abs(high))
        if high - low <= 1e-9 * size or size == 0:
            low, high = low - (0.05 * size or 1), high + (0.05 * size or 1)
        margin = 0.03 * (high - low)
        low, high = low - margin, high + margin
        self.low, self.high, self.ends, self.log = low, high, ends, log

    def __call__(self, value: float) -> float:
        share = ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)
        return round(self.ends[0] + share * (self.ends[1] - self.ends[0]), 2)

    def ticks(self) -> list[float]:
        if self.log and self.high - self.low >= 1.5:
            every = math.ceil((self.high - self.low) / 5)
            powers = range(math.ceil(self.low), math.floor(self.high) + 1, every)
            return [10.0**power for power in powers]
        low, high = (10.0**self.low, 10.0**self.high) if self.log else (self.low, self.high)
        step = _round_step((high - low) / 5)
        first = math.ceil(low / step - 1e-9)
        return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _round_step(step: float) -> float:
    """The next larger of 1, 2, 5 and 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def line_chart(
    title: str, xlabel: str, curves: Sequence[Curve], *, log_x: bool = False, may_log: bool = False
) -> Element:
    """Curves over common axes; ``may_log`` makes y logarithmic if its values lie far apart."""
    points = [(curve, list(_points(curve))) for curve in curves]
    xs = [x for _, known in points for x, _ in known]
    ys = [y for _, known in points for _, y in known]
    log = may_log and bool(ys) and min(ys) > 0 and max(ys) > 20 * min(ys)
    x_axis = Axis(xs, (LEFT, WIDTH - RIGHT), log=log_x and min(xs, default=0) > 0)
    y_axis = Axis(ys, (HEIGHT - BOTTOM, TOP), log=log)
    svg = _new_svg(title, WIDTH, HEIGHT)
    for y in y_axis.ticks():
        svg.append(tag("path", class_="grid", d=f"M{LEFT},{y_axis(y)}H{WIDTH - RIGHT}"))
        svg.append(_text(f"{y:.6g}", LEFT - 6, y_axis(y) + 4, "end"))
    for x in x_axis.ticks():
        svg.append(_text(f"{x:.6g}", x_axis(x), HEIGHT - BOTTOM + 16, "middle"))
    svg.append(tag("path", class_="axis", d=f"M{LEFT},{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"))
    below = f"{xlabel} (logarithmic)" if x_axis.log else xlabel
    svg.append(_text(below, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, "middle"))
    for curve, known in points:
        line = SubElement(svg, "g", {"class": _style(curve.style)})
        line.append(tag("path", class_="line", d=_path(curve, x_axis, y_axis)))
        for x, y in known[:: -math.ceil(len(known) / MOST_MARKS) or -1][::-1]:  # the last at least
            name = tag("title", f"{curve.label}, {xlabel} {x:.4g}: {y:.6g}")
            line.append(tag("circle", name, cx=x_axis(x), cy=y_axis(y), r=3))
    return svg


def _points(curve: Curve) -> Iterator[tuple[float, float]]:
    for x, y in zip(curve.x, curve.y, strict=True):
        if x is not None and y is not None:
            yield x, y


def _path(curve: Curve, x_axis: Axis, y_axis: Axis) -> str:
    """A line through the points, broken where a value is missing."""
    parts, command = [], "M"
    for x, y in zip(curve.x, curve.y, strict=True):
        if x is None or y is None:
            command = "M"
            continue
        parts.append(f"{command}{x_axis(x)},{y_axis(y)}")
        command = "L"
    return "".join(parts) or "M0,0"


def swatch(style: int) -> Element:
    """The line of a curve beside its name in a legend."""
    svg = tag("svg", viewBox="0 0 26 10", class_=f"swatch {_style(style)}", aria_hidden="true")
    svg.append(tag("path", class_="line", d="M1,5H25"))
    return svg


def _style(number: int) -> str:
    """Nine colours, and then the same ones with other dashes."""
    return f"run c{number % 9} d{number // 9 % 3} r{number}"


def matrix(title: str, classes: Sequence[str], counts: dict[str, dict[str, int]]) -> Element:
    """A confusion matrix: rows are true classes, columns predicted ones.

    The shade is the share of the row; right predictions have another colour than wrong ones.
    """
    named = len(classes) <= LABELLED
    longest = max(len(short(name)) for name in classes) if named else 0
    cell = 40 if len(classes) <= NUMBERED else 18 if named else max(2.0, 400 / len(classes))
    edge = 34 + 6 * longest
    size = edge + cell * len(classes)
    svg = _new_svg(title, size + 0.6 * edge, size + 2)
    svg.append(_text("predicted →", edge, 12, "start"))
    svg.append(_text("↓ true", 0, edge - 6, "start"))
    svg.append(tag("rect", class_="frame", x=edge, y=edge, width=size - edge, height=size - edge))
    for i, name in enumerate(classes if named else ()):
        middle = edge + (i + 0.5) * cell + 4
        svg.append(_text(short(name), edge - 6, middle, "end"))
        label = _text(short(name), middle, edge - 6, "start")
        label.set("transform", f"rotate(-45 {middle:.1f} {edge - 6:.1f})")
        svg.append(label)
    for row, true in enumerate(classes):
        found = counts.get(true, {})
        total = sum(found.values())
        for name, count in found.items():
            column = classes.index(name)
            x, y = edge + column * cell, edge + row * cell
            svg.append(_cell(x, y, cell, count / total, row == column))
            svg[-1].append(tag("title", f"true {true}, predicted {name}: {count} of {total}"))
            if len(classes) <= NUMBERED:
                kind = "strong" if count / total > 0.5 else "count"
                svg.append(_text(f"{count}", x + cell / 2, y + cell / 2 + 4, "middle", kind))
    return svg


def _cell(x: float, y: float, size: float, share: float, right: bool) -> Element:
    place = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{size:.2f}", "height": f"{size:.2f}"}
    kind = "right" if right else "wrong"
    return tag("rect", class_=kind, fill_opacity=f"{0.1 + 0.9 * share:.3f}", **place)


def _new_svg(title: str, width: float, height: float) -> Element:
    box = f"0 0 {width:.0f} {height:.0f}"
    return tag("svg", viewBox=box, width=f"{width:.0f}", role="img", aria_label=title)


def _text(text: str, x: float, y: float, anchor: str, kind: str = "label") -> Element:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    return tag("text", text, class_=kind, **place)
