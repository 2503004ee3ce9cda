"""FRU beside LSTM and GRU at two tasks, by the time that training takes: about two minutes.

Copy: name ten symbols again after hundreds of blank steps. Forecast: predict the next value of a
smooth curve. All models have the same window, head and naive start, and train one after the other
on the same cores. Nothing is downloaded: the data are generated.

Run it with ``python examples/demo.py --plot demo.png``. This is also what ``make run`` does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from torchfru.data import SequenceData, load
from torchfru.records import RunResult
from torchfru.training import Run, RunConfig, find_run, run_experiment

MARKERS = {"fru": "D-", "lstm": "s--", "gru": "o:"}
COLOURS = {"fru": "#0b6e99", "lstm": "#b5651d", "gru": "#6b7280"}
DELAY, GUESSING = 300, 12.5  # of the copy problem; eight symbols, in percent


def main() -> None:
    options = parse()
    options.plot.parent.mkdir(parents=True, exist_ok=True)  # before the minutes of training
    copied = compare("Copy", copy_config(options), "test_accuracy", options)
    print(f"{'':>9}guessing {'':>20} {GUESSING:9.2f} %")
    curves = compare("Forecast", forecast_config(options), "test_mse_after_first", options)
    line = straight_line(load_data(forecast_config(options)))
    print(f"{'':>4}straight line {'':>20} {line:9.1e}")
    draw(copied, curves, line, options.plot)
    print(f"Plot: {options.plot}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4000, help="sequences, a fifth of them to test")
    parser.add_argument("--seconds", type=float, default=25.0, help="for each baseline and task")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data order")
    parser.add_argument("--plot", type=Path, default=Path("demo.png"), help="where to write it")
    return parser.parse_args()


def copy_config(options: argparse.Namespace) -> RunConfig:
    return _sized(find_run("memory", "copy-1000-fru-recipe"), options, epochs=12, length=DELAY)


def forecast_config(options: argparse.Namespace) -> RunConfig:
    return _sized(find_run("mix-poly-5", "fru-recipe"), options, epochs=8)


def _sized(config: RunConfig, options: argparse.Namespace, epochs: int, **data: Any) -> RunConfig:
    return replace(
        config,
        data=replace(config.data, size=options.size, **data),
        training=replace(config.training, epochs=epochs),
    )


def load_data(config: RunConfig) -> SequenceData:
    return load(config.data.name, **config.data.options())


def compare(
    task: str, config: RunConfig, measure: str, options: argparse.Namespace
) -> list[RunResult]:
    """Train FRU for its epochs, and the others for their time, with the same window and head."""
    data = load_data(config)
    print(
        f"\n{task}, {data.seq_len} steps\n{'model':>17} {'parameters':>11} {'seconds':>8}", end=""
    )
    print(f" {measure.replace('_', ' '):>22}")
    records = []
    for layer in MARKERS:
        minutes = None if layer == "fru" else options.seconds / 60
        chosen = replace(
            config,
            model=replace(config.model, layer=layer),
            training=replace(config.training, max_minutes=minutes),
        )
        one_step = replace(chosen, training=replace(chosen.training, epochs=1, steps=1))
        train(layer, one_step, data, options.seed)  # FRU's kernels are compiled, not yet timed
        records.append(train(layer, chosen, data, options.seed))
        print(row(records[-1], measure), flush=True)
    return records


def train(layer: str, config: RunConfig, data: SequenceData, seed: int) -> RunResult:
    with tempfile.TemporaryDirectory() as folder:
        run = Run("demo", layer, seed, config, Path(folder) / "results")
        record = run_experiment(run, data=data, accelerator="cpu")
    assert record is not None  # one process
    return record


def straight_line(data: SequenceData) -> float:
    """Test MSE of the line through the last two values, which needs no training."""
    x, y = data.test.inputs, data.test.targets  # (N, L, 1)
    return float((2 * x[:, 1:] - x[:, :-1] - y[:, 1:]).square().mean())


def row(run: RunResult, measure: str) -> str:
    value = run.last[measure]
    shown = f"{value:9.2f} %" if measure.endswith("accuracy") else f"{value:9.1e}"
    return f"{run.model.upper():>17} {run.parameters:>11,} {run.seconds:>8.1f} {shown:>22}"


# The plot ------------------------------------------------------------------------------------


def draw(copied: list[RunResult], curves: list[RunResult], line: float, path: Path) -> None:
    """Both tasks by seconds of training."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, records, measure in (
        (left, copied, "test_accuracy"),
        (right, curves, "test_mse_after_first"),
    ):
        for run in records:
            values = [epoch[measure] for epoch in run.epochs]
            seconds = list(accumulate(epoch["seconds"] for epoch in run.epochs))
            style = {"color": COLOURS[run.model], "markersize": 4, "label": run.model.upper()}
            axes.plot(seconds, values, MARKERS[run.model], **style)
        axes.set(xlabel="seconds of training", xlim=(0, None))
        axes.grid(alpha=0.3)
    left.axhline(GUESSING, color="grey", linewidth=1, linestyle="--", label="guessing")
    left.set(ylabel="symbols named correctly, %", ylim=(0, 103))
    left.set_title(copy_title(copied), fontsize=10)
    right.axhline(line, color="grey", linewidth=1, linestyle="--", label="straight line")
    right.set(ylabel="test mean squared error", yscale="log")
    right.set_title(forecast_title(curves, line), fontsize=10)
    for axes in (left, right):
        axes.legend()
    figure.savefig(path, dpi=150)


def copy_title(records: list[RunResult]) -> str:
    """One line that says what was found, whatever it was."""
    found = ", ".join(
        f"{run.model.upper()} {run.last['test_accuracy']:.1f} % in {run.seconds:.0f} s"
        for run in records
    )
    return f"Ten symbols, remembered over {DELAY} steps:\n{found}"


def forecast_title(records: list[RunResult], line: float) -> str:
    found = ", ".join(
        f"{run.model.upper()} 1/{line / run.last['test_mse_after_first']:,.0f}" for run in records
    )
    return f"The next value of a smooth curve, error as a share of the line's:\n{found}"


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"Error: {error}")
