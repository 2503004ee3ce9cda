"""Pictures of the basis: how frequencies are spaced, where they alias, pairs, and other bases.

Run it with ``python examples/frequencies.py docs/figures/frequencies``: the documentation shows
these pictures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.figure import Figure
from torch import Tensor

import torchfru
from torchfru.basis import BASES

STEPS, COUNT, PULSE = 100, 50, 30
BLUE, ORANGE, GREY = "#0b6e99", "#b5651d", "#6b7280"


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/frequencies")
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (spacing, aliasing, pairs, bases):
        path = folder / f"{draw.__name__}.svg"
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
            draw().savefig(path, metadata={"Date": None})
        print(path)


def panels(columns: int, height: float = 2.6, **options: Any) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(8, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False, **options)[0])


def rows(basis: str, freqs: Tensor, seq_len: int = STEPS, phase: Tensor | None = None) -> Tensor:
    """The basis at steps 1..seq_len, (seq_len, K), in float64."""
    return BASES[basis].rows(torch.arange(1, seq_len + 1), freqs.double(), phase, seq_len)


def spacing() -> Figure:
    """Where the frequencies are, and how sharply a memory of so many tells one step from others."""
    figure, (left, right) = panels(2)
    half = STEPS / 2
    choices = {
        "even": (torchfru.even_frequencies(COUNT, half), BLUE),
        "log": (torchfru.log_frequencies(COUNT, STEPS), ORANGE),
    }
    for height, (name, (freqs, colour)) in enumerate(choices.items()):
        left.plot(
            freqs, torch.full_like(freqs, height), "|", color=colour, markersize=22, alpha=0.7
        )
        both = torch.cat([freqs, freqs])  # cosine and sine of each
        basis = rows("pairs", both)
        pulse = torch.zeros(STEPS, 1, dtype=torch.float64)
        pulse[PULSE - 1] = 1
        kept = basis @ torch.linalg.pinv(basis, rtol=1e-3)  # (T, T), onto the span
        label = f'"{name}": {kept.trace():.0f} of {STEPS} dimensions'
        right.plot(range(1, STEPS + 1), kept @ pulse, color=colour, label=label)
    left.axvspan(half, STEPS, color=GREY, alpha=0.15)
    left.text(0.75 * STEPS, 0.5, "alias", ha="center", va="center", color=GREY)
    left.set(yticks=range(2), yticklabels=choices, ylim=(-0.6, 1.6), xlabel="turns in 100 steps")
    left.set_title(f"{COUNT} frequencies", fontsize=10)
    right.set(xlabel="step", xlim=(1, STEPS), ylim=(-0.2, 1.3))
    right.set_title(f"a pulse at step {PULSE}, as they can draw it", fontsize=10)
    right.legend(frameon=False)
    return figure


def aliasing() -> Figure:
    """Two waves with the same samples."""
    figure, (axes,) = panels(1)
    steps, slow, fast = 20, 3, 17
    fine = torch.linspace(0, steps, 1000)
    for turns, colour in ((slow, BLUE), (fast, ORANGE)):
        wave = torch.cos(2 * torch.pi * turns * fine / steps)
        axes.plot(fine, wave, color=colour, linewidth=1, label=f"{turns} turns")
    freqs = torch.tensor([float(slow), float(fast)])
    samples = rows("fourier", freqs, steps)
    assert torch.allclose(samples[:, 0], samples[:, 1], atol=1e-9)
    axes.plot(range(1, steps + 1), samples[:, 0], "o", color="black", label="at the steps: both")
    axes.set(xlabel=f"step, of seq_len = {steps}", xticks=range(0, steps + 1, 5), ylim=(-1.1, 1.5))
    axes.legend(frameon=False, ncols=3, loc="upper center")
    return figure


def pairs() -> Figure:
    """A bump that moves turns its cosine into its sine; the length of the two stays."""
    figure, (left, right) = panels(2)
    freqs = torch.tensor([3.0, 3.0])
    basis = rows("pairs", freqs)  # (T, 2)
    steps = torch.arange(1, STEPS + 1)
    for column, (name, colour) in enumerate((("cosine", BLUE), ("sine", ORANGE))):
        left.plot(steps, basis[:, column], color=colour, label=name)
    places = torch.arange(15, 86)
    bumps = torch.exp(-(((steps - places.unsqueeze(1)) / 4.0) ** 2)).double()  # (places, T)
    memory = bumps @ basis / STEPS  # (places, 2)
    energy = memory.square().sum(1).sqrt()
    assert energy.max() / energy.min() < 1.001
    right.plot(places, memory[:, 0], color=BLUE, label="cosine")
    right.plot(places, memory[:, 1], color=ORANGE, label="sine")
    right.plot(places, energy, color="black", label="energy")
    left.set(xlabel="step", ylim=(-1.2, 1.6))
    left.set_title("one pair: 3 turns in 100 steps", fontsize=10)
    right.set(xlabel="step around which the bump lies", ylim=(-0.08, 0.11))
    right.set_title("the memory of a bump", fontsize=10)
    for axes in (left, right):
        axes.legend(frameon=False, ncols=3, loc="upper center")
    return figure


def bases() -> Figure:
    """The first functions of every basis that comes with the package."""
    figure, axes = panels(5, sharey=True)
    steps = range(1, STEPS + 1)
    apart = 2.6 * torch.arange(4)  # one above the other
    for panel, name in zip(axes, BASES, strict=True):
        layer = torchfru.FRU(1, 1, seq_len=STEPS, num_freqs=4, basis=name)
        freqs = torch.tensor([0.0, 0.5, 1.0, 1.5]) if name == "fourier" else layer.freqs
        values = rows(name, freqs)
        assert float(values.abs().max()) <= 1 + 1e-6  # the bound that every basis keeps
        drawstyle = "steps-mid" if name == "walsh" else "default"
        panel.plot(steps, values + apart, color=BLUE, linewidth=1.2, drawstyle=drawstyle)
        panel.hlines(apart, 1, STEPS, color=GREY, linewidth=0.4)
        panel.set(xticks=[1, STEPS], yticks=[])
        panel.set_title(f'"{name}"', fontsize=10)
    return figure


if __name__ == "__main__":
    main()
