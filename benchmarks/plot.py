"""The picture of a benchmark: a bar a layer, and how FRU's time grows with each size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .measure import Result

LABELS = {
    "steps": "steps (batch 16)",
    "batch": "batch",
    "num_freqs": "frequencies K",
    "freq_dim": "width of h",
}


def draw(title: str, results: list[Result], grown: dict[str, dict[int, float]], path: Path) -> None:
    """Write the plot; the file's ending chooses the format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    panels = figure.subplot_mosaic(
        [["bars", "bars", "steps", "batch"], ["bars", "bars", "num_freqs", "freq_dim"]]
        if grown
        else [["bars"]]
    )
    _bars(panels["bars"], title, results)
    for what, seconds in grown.items():
        _growth(panels[what], LABELS[what], seconds)
    figure.savefig(path, dpi=150)


def _bars(axes: Any, title: str, results: list[Result]) -> None:
    names = [result.name for result in results]
    forward = [1e3 * result.forward.median for result in results]
    training = [1e3 * result.training.median for result in results]
    axes.barh(names, training, color="#0072b2", label="forward + backward")
    axes.barh(names, forward, color="#e69f00", height=0.45, label="forward")
    for i, value in enumerate(training):
        axes.text(value * 1.1, i, f"{value:,.1f} ms", va="center", fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(left=min(forward) / 2, right=max(training) * 15)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds (log scale)")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8, loc="lower right")


def _growth(axes: Any, label: str, seconds: dict[int, float]) -> None:
    times = [1e3 * s for s in seconds.values()]
    axes.loglog(list(seconds), times, "o-", color="#0072b2")
    axes.set_xlabel(label, fontsize=8)
    axes.set_ylabel("ms", fontsize=8)
    axes.set_xticks(list(seconds), [f"{value:,}" for value in seconds], fontsize=7)
    labelled: list[float] = []
    for t in sorted(times):  # two that are nearly equal would be printed over each other
        if not labelled or t > labelled[-1] * (max(times) / min(times)) ** 0.1:
            labelled.append(t)
    axes.set_yticks(labelled, [f"{t:,.0f}" for t in labelled], fontsize=7)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
