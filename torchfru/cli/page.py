"""The page of ``torchfru runs --html``: one file that needs no network.

Everything is built of elements, so that no text of a record is taken for markup.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, tostring

from ..defaults import layers_with
from ..records import Outcome, RunResult
from .charts import Curve, in_range, line_chart, matrix, swatch, tag

MANY_CLASSES = 20  # beyond these, the table of the classes is folded
FAR = 20  # times the shortest time: the axis of the time is logarithmic
MOST_MISTAKES = 5
NONE = "—"


class Listed(NamedTuple):
    """A run, its record's place, and how it ended: ``finished``, ``diverged``, ``stopped``, ..."""

    path: Path
    record: RunResult
    status: str

    @property
    def planned(self) -> object:
        return self.record.config.get("training", {}).get("epochs", "?")

    @property
    def ending(self) -> str:
        """How the run ended, in a sentence."""
        record, done = self.record, f"{len(self.record.epochs)} of {self.planned} epochs"
        if record.diverged:
            return f"Diverged in epoch {len(record.epochs)}: the loss or a gradient was too large."
        if self.status == "finished":
            return f"Finished after {done}."
        if self.status == "stopped":
            return f"Stopped after {done}; the same command with --resume continues it."
        if self.status == "killed?":
            return (
                f"Recorded as running, after {done}, but no process trains it: it was probably "
                "killed. The same command with --resume continues it."
            )
        return f"Running, when this page was written, after {done}."


def to_html(runs: Sequence[Listed], problems: Sequence[str]) -> str:
    """The page of some runs, and of the records that could not be read."""
    groups: dict[str, list[Listed]] = {}
    for run in runs:
        groups.setdefault(run.record.experiment, []).append(run)
    ids = {run.path: f"run-{i}" for i, run in enumerate(runs)}
    many = f"{len(runs)} run{'s' if len(runs) != 1 else ''}"
    header = [tag("h1", many + (f" of {len(groups)} experiments" if len(groups) > 1 else ""))]
    if problems:
        skipped = tag("ul", *(tag("li", problem) for problem in problems))
        header.append(tag("div", "Records that could not be read:", skipped, class_="problems"))
    if len(groups) > 1:
        links = (tag("li", tag("a", name, href=f"#data-{i}")) for i, name in enumerate(groups))
        header.append(tag("nav", tag("ul", *links), aria_label="Experiments"))
    sections = (_experiment(i, *group, ids) for i, group in enumerate(groups.items()))
    main = tag("main", _overview(runs, ids, several=len(groups) > 1), *sections)
    body = tag("body", tag("header", *header), main, _raw("script", "page.js"))
    page = tag("html", _head(many), body, lang="en")
    return "<!DOCTYPE html>\n" + tostring(page, "unicode", "html") + "\n"


def _head(title: str) -> Element:
    """The script and the styles of the page itself are allowed, and nothing is loaded."""
    script = _raw("script", "page.js")
    digest = base64.b64encode(hashlib.sha256((script.text or "").encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=f"{rules}; img-src data:"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"torchfru: {title}"),
        _raw("style", "page.css"),
    )


def _raw(name: str, file: str) -> Element:
    element = Element(name)
    element.text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return element


# Tables --------------------------------------------------------------------------------------


def _table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[Any]],
    kind: str = "",
    last: Sequence[Any] = (),
) -> Element:
    """A table whose first column names the rows, and whose headings sort them, but for the last.

    A cell is a text, an element, or a number with the text that shows it.
    """
    buttons = (tag("button", name, type="button") for name in headings)
    head = tag("tr", *(tag("th", button, scope="col") for button in buttons))
    table = tag("table", tag("caption", caption), tag("thead", head), class_=f"sortable {kind}")
    table.append(tag("tbody", *(_line(headings, row) for row in rows)))
    if last:
        table.append(tag("tfoot", _line(headings, last)))
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _line(headings: Sequence[str], row: Sequence[Any]) -> Element:
    line = tag("tr", tag("th", row[0], scope="row"))
    for heading, cell in zip(headings[1:], row[1:], strict=True):
        value, text = cell if isinstance(cell, tuple) else (None, cell)
        known = {} if value is None else {"data_value": value}
        kind = "number" if isinstance(cell, tuple) else "words"
        line.append(tag("td", text, data_heading=heading, class_=kind, **known))
    return line


def _number(value: Any, form: str = "{:.4g}") -> tuple[float | None, str]:
    value = in_range(value)
    return (None, NONE) if value is None else (value, form.format(value))


def _measure(record: RunResult, part: str) -> tuple[float | None, str]:
    """The last epoch's accuracy or squared error on a part of the data."""
    if record.last.get(f"{part}_accuracy") is not None:
        return _number(record.last[f"{part}_accuracy"], "{:.2f} %")
    return _number(record.last.get(f"{part}_mse"), "mse {:.4g}")


def _overview(runs: Sequence[Listed], ids: dict[Path, str], several: bool) -> Element:
    headings = ["run", "ended", "epochs", "parameters", "train loss", "validation", "test", "time"]
    rows = []
    for run in runs:
        record, name = run.record, run.path.stem
        link = tag(
            "a", f"{record.experiment}/{name}" if several else name, href=f"#{ids[run.path]}"
        )
        epochs = len(record.epochs), f"{len(record.epochs)}/{run.planned}"
        status = tag("span", run.status, class_=f"status {run.status.rstrip('?')}")
        parameters = record.parameters, f"{record.parameters:,}"
        loss, time = _number(record.last.get("train_loss")), _number(record.seconds, "{:,.1f} s")
        measures = (_measure(record, part) for part in ("validation", "test"))
        rows.append([link, status, epochs, parameters, loss, *measures, time])
    empty = {i for i in range(len(headings)) if all(row[i] == (None, NONE) for row in rows)}
    kept = [i for i in range(len(headings)) if i not in empty]
    caption = "Measured at the end of each run"
    shown = ([row[i] for i in kept] for row in rows)
    return tag("section", _table(caption, [headings[i] for i in kept], shown, "stacked"), id="runs")


# One experiment ------------------------------------------------------------------------------


def _experiment(number: int, name: str, runs: list[Listed], ids: dict[Path, str]) -> Element:
    names = _names(runs)
    section = tag("section", tag("h2", name), id=f"data-{number}")
    section.extend(_curves(runs, names))
    section.extend(_differences(runs, names))
    for run, label in zip(runs, names, strict=True):
        section.append(_run(run, label, ids[run.path]))
    return section


def _names(runs: list[Listed]) -> list[str]:
    """The name of each run, or its whole path where two have the same."""
    stems = [run.path.stem for run in runs]
    return [s if stems.count(s) == 1 else str(r.path) for s, r in zip(stems, runs, strict=True)]


def _curves(runs: list[Listed], names: list[str]) -> Iterator[Element]:
    """The measures by epoch and by time, and the legend of all of these charts."""
    if not any(run.record.epochs for run in runs):
        return
    keys = (
        tag("li", tag("button", swatch(i), name, type="button", data_run=i, aria_pressed="true"))
        for i, name in enumerate(names)
    )
    yield tag("h3", "Learning curves")
    yield tag("ul", *keys, class_="legend", aria_label="Runs: press one to hide or show it")
    totals = [sum(_seconds(run.record)) for run in runs if run.record.epochs]
    far = max(totals) > FAR * min(totals)
    unit, size = _unit(max(totals))
    charts: list[list[Element]] = [[], []]
    for key, title in _measured(runs):
        by_epoch, by_time = [], []
        for i, (run, name) in enumerate(zip(runs, names, strict=True)):
            epochs = run.record.epochs
            y = [in_range(epoch.get(key)) for epoch in epochs]
            times = [in_range(s / size) for s in accumulate(_seconds(run.record))]
            by_epoch.append(Curve(name, [*range(1, len(epochs) + 1)], y, i))
            by_time.append(Curve(name, times, y, i))
        may_log = "accuracy" not in key
        for row, x, curves in ((0, "epoch", by_epoch), (1, unit, by_time)):
            name = f"{title} by {'epoch' if x == 'epoch' else 'time'}"
            chart = line_chart(name, x, curves, log_x=far and row == 1, may_log=may_log)
            charts[row].append(tag("figure", tag("figcaption", name), chart, class_="ends"))
    yield from (tag("div", *row, class_="charts") for row in charts)


def _unit(seconds: float) -> tuple[str, int]:
    """The name and the seconds of a unit in which a time has readable numbers."""
    longer = (unit for unit in (("hours", 3600), ("minutes", 60)) if seconds >= 2 * unit[1])
    return next(longer, ("seconds", 1))


def _seconds(record: RunResult) -> list[float]:
    return [in_range(epoch.get("seconds")) or 0.0 for epoch in record.epochs]


def _measured(runs: list[Listed]) -> Iterator[tuple[str, str]]:
    """The measures that any epoch has, each with the title of its chart."""
    for part, word in (("train", "Training"), ("validation", "Validation"), ("test", "Test")):
        for kind, title in (("loss", "loss"), ("accuracy", "accuracy (%)"), ("mse", "error (mse)")):
            name = f"{part}_{kind}"
            beside = f"{part}_accuracy"  # says more than the loss
            known = {key for run in runs for epoch in run.record.epochs for key in epoch}
            if name in known and not (kind == "loss" and beside in known):
                yield name, f"{word} {title}"


def _differences(runs: list[Listed], names: list[str]) -> Iterator[Element]:
    """The settings in which the runs differ; none that the layer of a run does not have."""
    settings = [_settings(run.record) for run in runs]
    fields = dict.fromkeys(field for one in settings for field in one)
    differing = [f for f in fields if len({one.get(f, NONE) for one in settings}) > 1]
    if differing:
        rows = ([field, *(one.get(field, NONE) for one in settings)] for field in differing)
        yield _table("Settings that differ", ["setting", *names], rows, "settings")


def _settings(record: RunResult) -> dict[str, str]:
    """Every setting that the layer has, as ``--set`` takes it."""
    layer = record.config.get("model", {}).get("layer")
    return {
        f"{section}.{name}": _setting(value)
        for section, values in record.config.items()
        for name, value in values.items()
        if section != "model" or layer in layers_with(name)
    }


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_setting, value))
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


# One run -------------------------------------------------------------------------------------


def _run(run: Listed, name: str, anchor: str) -> Element:
    article = tag("article", tag("h3", name), tag("p", run.ending), id=anchor)
    try:
        outcome = run.record.outcome
    except ValueError as error:
        article.append(tag("p", f"Its predictions cannot be shown: {error}.", class_="problems"))
    else:
        article.extend(_outcome(outcome, name) if outcome is not None else ())
    record = run.record
    facts = {
        "record": run.path,
        **_settings(record),
        "seconds": ", ".join(f"{part} {s}" for part, s in record.split.items()),
        "hardware": ", ".join(f"{name} {value}" for name, value in record.hardware.items()),
        "versions": ", ".join(f"{name} {value}" for name, value in record.versions.items()),
        "commit": record.commit,
        **{f"SHA-256 of {name}": digest for name, digest in record.data.items()},
    }
    terms = (
        tag(kind, text)
        for fact in facts.items()
        if fact[1] not in (None, "")
        for kind, text in zip(("dt", "dd"), map(str, fact), strict=True)
    )
    article.append(tag("details", tag("summary", "Settings and origin"), tag("dl", *terms)))
    return article


def _outcome(outcome: Outcome, name: str) -> Iterator[Element]:
    where = f"for the {outcome.part} part, after epoch {outcome.epoch}"
    if outcome.counts:
        yield tag("div", *_classes(outcome, name, where), class_="classes")
    if outcome.forecasts:
        yield tag("p", f"Forecasts one step ahead {where}", class_="caption")
        key = ((f"{word}", style) for word, style in (("truth", 4), ("forecast", 0)))
        yield tag("ul", *(tag("li", swatch(s), word) for word, s in key), class_="legend")
        charts = []
        for one in outcome.forecasts:
            steps = [*range(1, len(one.truth) + 1)]
            values = (("truth", one.truth, 4), ("forecast", one.forecast, 0))
            curves = [Curve(word, steps, [*map(in_range, v)], s) for word, v, s in values]
            title = f"{one.channel}, window {one.window + 1}"
            chart = line_chart(f"{name}: {title}", "step", curves)
            charts.append(tag("figure", tag("figcaption", title), chart))
        yield tag("div", *charts, class_="charts")


def _classes(outcome: Outcome, name: str, where: str) -> Iterator[Element]:
    title = f"Counts by class {where}"
    chart = matrix(f"{name}: {title}", outcome.classes, outcome.counts)
    yield tag("figure", tag("figcaption", title), chart, class_="matrix")
    yield from _mistakes(outcome)
    scores = [_scores(outcome, one) for one in outcome.classes]
    means = [sum(s[i] or 0 for s in scores) / len(scores) for i in range(3)]
    every = [*scores, (*means, sum(s[3] for s in scores))]
    cells = [[*(_number(value, "{:.3f}") for value in s[:3]), (s[3], f"{s[3]:,}")] for s in every]
    rows = [[one, *row] for one, row in zip([*outcome.classes, "mean, total"], cells, strict=True)]
    headings = ("class", "precision", "recall", "F1", "count")
    table = _table(f"Each class {where}", headings, rows[:-1], last=rows[-1])
    many = len(outcome.classes) > MANY_CLASSES
    yield tag("details", tag("summary", "Each class"), table) if many else table


def _mistakes(outcome: Outcome) -> Iterator[Element]:
    wrong = [
        (count, f"{true} taken for {name} ({count})")
        for true, row in outcome.counts.items()
        for name, count in row.items()
        if name != true
    ]
    if wrong:
        often = sorted(wrong, key=lambda one: -one[0])[:MOST_MISTAKES]
        words = f"Most frequent mistakes: {', '.join(text for _, text in often)}."
        yield tag("p", words, class_="mistakes")


def _scores(outcome: Outcome, name: str) -> tuple[float | None, float | None, float | None, int]:
    """Precision, recall, F1 and the number of a class; None where it divides by 0."""
    right = outcome.counts.get(name, {}).get(name, 0)
    true = sum(outcome.counts.get(name, {}).values())
    predicted = sum(row.get(name, 0) for row in outcome.counts.values())
    precision, recall = (right / n if n else None for n in (predicted, true))
    f1 = 2 * right / (true + predicted) if true + predicted else None
    return precision, recall, f1, true
