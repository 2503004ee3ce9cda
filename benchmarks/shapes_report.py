"""The tables and the picture of a record of ``python -m benchmarks.shapes``."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from .markdown import table

LSTM = ("nn.LSTM", "nn.LSTMCell")
MEASURES = ("forward", "training")
FORWARD, TRAINING = "#0072b2", "#d55e00"


def ratio(row: dict[str, Any], name: str, kind: str, mode: str, base: str | None = None) -> float:
    """The time of a contender divided by nn.LSTM's, or by another's: the median of the rounds' own
    ratios."""
    seconds = row["seconds"]
    base = next(n for n in LSTM if n in seconds) if base is None else base
    pairs = zip(seconds[name][kind][mode], seconds[base][kind][mode], strict=True)
    return statistics.median(own / other for own, other in pairs)


def _ours(row: dict[str, Any], name: str) -> str | None:
    """The name of our layer or cell in a row, "FRU" or "FRUCell"; None if it has neither."""
    return next((n for n in (name, f"{name}Cell") if n in row["seconds"]), None)


def _cell(row: dict[str, Any], name: str, kind: str, mode: str = "flushed") -> str:
    found = _ours(row, name)
    times = {} if found is None else row["seconds"][found].get(kind, {})
    return f"{ratio(row, found, kind, mode):.2f}" if found and mode in times else ""


def _rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in record["rows"] if row["kind"] != "lengths"]


def markdown(record: dict[str, Any]) -> str:
    """The tables, with a line on what they are."""
    place = record["environment"]
    lines = [
        f"{place['cpu']}, torch {place['torch']}, {record['rounds']} rounds, one thread unless a "
        "row says otherwise. Time divided by nn.LSTM's of the same sizes: **below 1 is faster**. "
        "Denormal numbers are flushed, but for the last column.",
        "",
        table(
            (
                *("shape", "FRU forward", "FRU training", "SRU forward", "SRU training"),
                *("GRU forward", "GRU training", "FRU training, as torch comes"),
            ),
            [
                [row["name"]]
                + [_cell(row, n, k) for n in ("FRU", "SRU", "nn.GRU") for k in MEASURES]
                + [_cell(row, "FRU", "training", "as torch comes")]
                for row in _rows(record)
            ],
        ),
        "",
        "A stream has no backward pass; it is set against nn.LSTMCell. As torch comes, nn.LSTM's "
        "gradients end as denormal numbers over long sequences, which a CPU is slow with.",
    ]
    for row in record["rows"]:
        if row["kind"] == "lengths":
            lines += ["", *_lengths(row)]
    return "\n".join([*lines, *_latency(record["latency"])])


def _lengths(row: dict[str, Any]) -> list[str]:
    found = []
    for name in row["seconds"]:
        layer, _, how = name.rpartition(" ")
        cells = [f"{ratio(row, name, k, 'flushed', f'{layer} padded'):.2f}" for k in MEASURES]
        if how != "padded":
            found.append([layer, how, *cells])
    return [
        f"Sequences of different lengths ({row['name']}): time divided by that of the same layer "
        "on the padded batch, all steps of it.",
        "",
        table(("layer", "given as", "forward", "training"), found, words=(0, 1)),
    ]


def _latency(latency: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    if not latency:
        return []
    names = list(next(iter(latency.values())))
    header = [f"{size}, {kind}" for size in latency for kind in ("median", "99 of 100 below")]
    cells = [
        [name, *(f"{found[name][k]:.1f}" for found in latency.values() for k in ("median", "p99"))]
        for name in names
    ]
    return [
        "",
        "Latency of one step of one sequence, in microseconds, one thread:",
        "",
        table(("step", *header), cells),
    ]


def draw(record: dict[str, Any], path: Path) -> None:
    """Write the picture: where FRU is faster than nn.LSTM, and where it is not."""
    from matplotlib.figure import Figure

    rows = _rows(record)[::-1]
    figure = Figure(figsize=(10, 0.34 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(1e-3, 1, color=FORWARD, alpha=0.06, lw=0)
    axes.axvline(1, color="#444444", lw=1)
    styles = (
        ("forward", "flushed", "o", "full", "forward"),
        ("training", "flushed", "s", "full", "forward and backward"),
        ("training", "as torch comes", "s", "none", "the same, denormals as torch comes"),
    )
    for kind, mode, marker, fill, label in styles:
        color = FORWARD if kind == "forward" else TRAINING
        points = [
            (ratio(row, name, kind, mode), place)
            for place, row in enumerate(rows)
            if (name := _ours(row, "FRU")) and mode in row["seconds"][name].get(kind, {})
        ]
        axes.plot(
            *zip(*points, strict=True), marker, color=color, fillstyle=fill, label=label, alpha=0.85
        )
    axes.set_xscale("log")
    axes.set_xlim(1e-3, 6)
    ticks = (0.001, 0.01, 0.1, 0.5, 1, 2, 5)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("FRU's time / nn.LSTM's, on a CPU: to the left of 1, FRU is faster")
    axes.legend(fontsize=8, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
