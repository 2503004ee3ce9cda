"""Small data sets of the UCR and UEA archives under the estimators' defaults, official splits.

``python -m benchmarks.classify --data FOLDER --json benchmarks/classify.json`` fits
``FRUClassifier(layer=..., random_state=seed)`` for each set, layer and seed on one thread, and
writes the accuracy on the test part and the processor's seconds of each fit. FOLDER holds
``<name>.npz`` files with the arrays train_sequences (n, T, channels), train_labels, test_sequences,
test_labels, and train_lengths, test_lengths where these differ. A run that was stopped goes on
where it was.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console
from rich.markdown import Markdown

from torchfru import FRUClassifier
from torchfru.cli import run
from torchfru.io import write_atomically
from torchfru.records import commit

from .measure import environment

Fits = dict[str, dict[str, dict[str, dict[str, float]]]]  # by set, layer and seed


def read(path: Path, part: str) -> tuple[Any, Any]:
    """The sequences, as a list where their lengths differ, and the labels of a part."""
    with np.load(path, allow_pickle=False) as arrays:
        x, y = arrays[f"{part}_sequences"], arrays[f"{part}_labels"]
        if f"{part}_lengths" not in arrays:
            return x, y
        return [row[:n] for row, n in zip(x, arrays[f"{part}_lengths"], strict=True)], y


def measure(path: Path, layer: str, seed: int) -> dict[str, float]:
    """Fit to the training part; the accuracy on the test part, in percent, and the seconds."""
    start = time.process_time()
    model = FRUClassifier(layer=layer, random_state=seed, verbose=False).fit(*read(path, "train"))
    seconds = time.process_time() - start
    accuracy = 100 * model.score(*read(path, "test"))
    found = {"accuracy": accuracy, "seconds": seconds, "parameters": model.record_.parameters}
    return {name: round(value, 2) for name, value in found.items()}


def rows(fits: Fits) -> Iterator[str]:
    """A table: of each set and layer the mean accuracy, the seeds, and the seconds of a fit."""
    layers = list(next(iter(fits.values())))
    yield f"| set | {' | '.join(layers)} | seconds of a fit: {', '.join(layers)} |"
    yield "|---" * (len(layers) + 2) + "|"
    for name, by_layer in fits.items():
        cells, seconds = [], []
        for layer in layers:
            runs = list(by_layer.get(layer, {}).values())
            seeds = ", ".join(f"{one['accuracy']:.1f}" for one in runs)
            mean = statistics.fmean(one["accuracy"] for one in runs) if runs else float("nan")
            cells.append(f"{mean:.1f} ({seeds})")
            seconds.append(f"{max((one['seconds'] for one in runs), default=float('nan')):.0f}")
        yield f"| {name} | {' | '.join(cells)} | {', '.join(seconds)} |"


def classify(
    data: Annotated[Path, typer.Option(help="The folder of the .npz files.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="The record to write.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds of the FRU.", min=1)] = 3,
    other_seeds: Annotated[int, typer.Option(help="Seeds of the other layers.", min=0)] = 1,
) -> None:
    """Measure FRU, LSTM and GRU under the same estimator on every set of a folder.

    Example: python -m benchmarks.classify --data ucr --json benchmarks/classify.json
    """
    torch.set_num_threads(1)
    console, fits = Console(), _begun(json_file)
    for layer, count in {"fru": seeds, "lstm": other_seeds, "gru": other_seeds}.items():
        for path in sorted(data.glob("*.npz")):
            done = fits.setdefault(path.stem, {}).setdefault(layer, {})
            for seed in range(count):
                if str(seed) not in done:
                    done[str(seed)] = measure(path, layer, seed)
                    console.print(path.stem, layer, seed, done[str(seed)], highlight=False)
                    _save(json_file, fits)
    console.print(Markdown("\n".join(rows(fits))))


def _begun(path: Path | None) -> Fits:
    if path is None or not path.exists():
        return {}
    fits: Fits = json.loads(path.read_text())["fits"]
    return fits


def _save(path: Path | None, fits: Fits) -> None:
    if path is not None:
        record = {"environment": environment(), "commit": commit(), "fits": fits}
        write_atomically(path, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(classify)
    run(app)
