"""Which frequencies an FRU needs: MNIST at 28 and at 784 steps."""

from __future__ import annotations

from ...experiments import frequency_name
from ...plots import Panel
from ..content import Section
from ..records import Library
from ..tables import result, runs_table
from .curves import ACCURACY_NAME, SPREAD, curves, figure


def section(library: Library) -> Section:
    tables, panels = [], []
    for steps in (28, 784):
        models = [m for m in library.models("frequencies") if frequency_name(m)[0] == steps]
        groups = {_range(model): library.group("frequencies", model) for model in models}
        tables.append(
            runs_table(f"{steps} steps", groups, [result("accuracy, %", "test_accuracy", ".2f")])
        )
        places = {name: (group, place) for place, (name, group) in enumerate(groups.items())}
        drawn = curves(places, "test_accuracy")
        for title, zoom in (("", None), (", the top", (95, 98 if steps == 784 else 98.5))):
            panels.append(Panel(f"{steps} steps{title}", "epoch", ACCURACY_NAME, drawn, ylim=zoom))
    text = [
        "Pixel-MNIST read by rows (28 steps) and by pixels (784 steps), with other frequencies: "
        "0 and K - 1 more, log-spaced over a range. The paper's Figures 10 to 12 print no numbers.",
        "Settings: at 784 steps FRU 60,10's of pixel-MNIST; at 28 steps ours (50 epochs, as the "
        "paper says, learning rate 0.001, decay 0.9, clip 1), since the authors published none.",
    ]
    caption = f"Test accuracy by epoch, {SPREAD}: number of frequencies, and their range."
    figures = figure("frequencies", caption, panels)
    return Section("frequencies", "Frequencies", text, [*figures, *tables])


def _range(model: str) -> str:
    _, count, low, high = frequency_name(model)
    return f"{count}: {low:g} to {high:g}"
