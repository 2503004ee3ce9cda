"""The figure of a benchmark: a bar per layer, and how FRU's time grows with each size."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

LABELS = {
    "steps": "steps (batch 16)",
    "batch": "batch",
    "num_freqs": "frequencies K",
    "freq_dim": "width of h",
}


def draw(document: dict[str, Any], path: Path) -> None:
    """Write the plot of a saved benchmark; the file's ending chooses the format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    panels = figure.subplot_mosaic(
        [["bars", "bars", "steps", "batch"], ["bars", "bars", "num_freqs", "freq_dim"]]
        if document["sweeps"]
        else [["bars"]]
    )
    _bars(panels["bars"], document)
    for size, seconds in document["sweeps"].items():
        _growth(panels[size], LABELS[size], {int(n): 1e3 * s for n, s in seconds.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _bars(axes: Any, document: dict[str, Any]) -> None:
    names = [layer["name"] for layer in document["layers"]]
    forward, training = (
        [1e3 * statistics.median(layer[kind]["seconds"]) for layer in document["layers"]]
        for kind in ("forward", "training")
    )
    axes.barh(names, training, color="#0072b2", label="forward + backward")
    axes.barh(names, forward, color="#e69f00", height=0.45, label="forward")
    for i, value in enumerate(training):
        axes.text(value * 1.1, i, f"{value:,.1f} ms", va="center", fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(left=min(forward) / 2, right=max(training) * 15)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds (log scale)")
    shape = document["shape"]
    title = f"{document['preset']}: {shape['steps']} steps, batch {shape['batch']}"
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8, loc="lower right")


def _growth(axes: Any, label: str, times: dict[int, float]) -> None:
    axes.loglog(list(times), list(times.values()), "o-", color="#0072b2")
    axes.set_xlabel(label, fontsize=8)
    axes.set_ylabel("ms", fontsize=8)
    axes.set_xticks(list(times), [f"{value:,}" for value in times], fontsize=7)
    shown: list[float] = []
    for t in sorted(times.values()):  # two that are nearly equal would be printed over each other
        if not shown or t > shown[-1] * (max(times.values()) / min(times.values())) ** 0.1:
            shown.append(t)
    axes.set_yticks(shown, [f"{t:,.0f}" for t in shown], fontsize=7)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
