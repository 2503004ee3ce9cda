"""RNN, LSTM, SRU and FRU predict the next value of mixed polynomials, in three minutes.

Run it with ``python examples/demo.py --epochs 10 --plot demo.png``. Nothing is downloaded: the
data are generated. This is also what ``make run`` does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from torchfru.data import SequenceData, load
from torchfru.records import RunResult
from torchfru.training import Run, find_run, run_experiment

EXPERIMENT = "mix-poly-5"
MARKERS = {"rnn": "o:", "lstm": "s--", "sru": "^-.", "fru": "D-"}


def main() -> None:
    options = parse()
    options.plot.parent.mkdir(parents=True, exist_ok=True)  # before the minutes of training
    torch.set_num_threads(1)
    data = load_data(options.size)
    print(f"{options.size} mixtures of five polynomials; at every step, predict the next value.")
    print(f"{'model':>14} {'parameters':>11} {'test MSE':>9} {'seconds':>8}")
    runs = []
    for model in MARKERS:
        runs.append(train(model, data, options))
        print(row(runs[-1]), flush=True)
    line = straight_line(data)
    print(f"{'straight line':>14} {'':>11} {line:9.2e}")
    draw(runs, line, options.plot)
    print(f"Plot: {options.plot}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=400, help="sequences, a fifth of them to test")
    parser.add_argument("--epochs", type=int, default=10, help="for each model")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data order")
    parser.add_argument("--plot", type=Path, default=Path("demo.png"), help="where to write it")
    return parser.parse_args()


def load_data(size: int) -> SequenceData:
    config = replace(find_run(EXPERIMENT, "fru").data, size=size)
    return load(config.name, **config.options())


def train(model: str, data: SequenceData, options: argparse.Namespace) -> RunResult:
    """Train with the settings of the paper's authors, for fewer epochs."""
    config = find_run(EXPERIMENT, model)
    config = replace(
        config,
        data=replace(config.data, size=options.size),
        training=replace(config.training, epochs=options.epochs),
    )
    with tempfile.TemporaryDirectory() as folder:
        run = Run(EXPERIMENT, model, options.seed, config, Path(folder) / "results")
        record = run_experiment(run, data=data, accelerator="cpu")
    assert record is not None  # one process
    return record


def straight_line(data: SequenceData) -> float:
    """Test MSE of the straight line through the last two values, which needs no training."""
    x, y = data.test.inputs, data.test.targets  # (N, L, 1)
    return float((2 * x[:, 1:] - x[:, :-1] - y[:, 1:]).square().mean())


def row(run: RunResult) -> str:
    error = "diverged" if run.diverged else f"{run.last['test_mse']:.2e}"
    return f"{run.model.upper():>14} {run.parameters:>11,} {error:>9} {run.seconds:>8.1f}"


def draw(runs: list[RunResult], line: float, path: Path) -> None:
    """Test error by epoch, a line per model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for run in runs:
        errors = [epoch["test_mse"] for epoch in run.epochs]
        epochs = [epoch["epoch"] for epoch in run.epochs]
        axes.plot(epochs, errors, MARKERS[run.model], markersize=4, label=run.model.upper())
    axes.axhline(line, color="grey", linewidth=1, linestyle="--", label="straight line")
    axes.set(xlabel="epoch", ylabel="test mean squared error", yscale="log")
    axes.set_title("Predicting the next value of mixed polynomials")
    axes.grid(alpha=0.3)
    axes.legend(ncols=2)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"Error: {error}")
