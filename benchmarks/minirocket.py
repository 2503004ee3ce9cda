"""MiniRocket, as aeon has it, on the sets of :mod:`benchmarks.classify`.

``.venv-aeon/bin/python -m benchmarks.minirocket --data FOLDER --json benchmarks/minirocket.json``,
in the environment that ``make test-aeon`` makes. Shorter sequences of a set get zeros after their
end, since this implementation reads sequences of one length.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from torchfru.cli import run
from torchfru.io import write_atomically

from .classify import read


def padded(sequences: Any, steps: int) -> np.ndarray[Any, Any]:
    """Sequences (n, channels, steps), as aeon has them."""
    found = np.zeros((len(sequences), sequences[0].shape[1], steps))
    for row, into in zip(sequences, found, strict=True):
        into[:, : min(len(row), steps)] = row[:steps].T
    return found


def measure(path: Path, seed: int) -> dict[str, float]:
    """The accuracy on the test part, in percent, and the processor's seconds of the fit."""
    from aeon.classification.convolution_based import MiniRocketClassifier

    (x, y), (other, labels) = read(path, "train"), read(path, "test")
    steps = max(map(len, x))
    start = time.process_time()
    model = MiniRocketClassifier(random_state=seed, n_jobs=1).fit(padded(x, steps), y)
    seconds = time.process_time() - start
    accuracy = 100 * float(model.score(padded(other, steps), labels))
    return {"accuracy": round(accuracy, 2), "seconds": round(seconds, 2)}


def minirocket(
    data: Annotated[Path, typer.Option(help="The folder of the .npz files.")],
    json_file: Annotated[Path, typer.Option("--json", help="The record to write.")],
    seeds: Annotated[int, typer.Option(help="Seeds.", min=1)] = 3,
) -> None:
    """Measure MiniRocket on every set of a folder."""
    from importlib.metadata import version

    fits = {
        path.stem: {str(seed): measure(path, seed) for seed in range(seeds)}
        for path in sorted(data.glob("*.npz"))
    }
    typer.echo(json.dumps(fits, indent=1))
    versions = {name: version(name) for name in ("aeon", "numba", "numpy", "scikit-learn")}
    write_atomically(json_file, json.dumps({"versions": versions, "fits": fits}, indent=1) + "\n")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(minirocket)
    run(app)
