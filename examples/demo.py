"""A short demonstration: RNN, LSTM, SRU and FRU predict the next value of mixed polynomials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lightning.pytorch.callbacks import LambdaCallback

from .data import load
from .experiments import find_run
from .results import RunResult
from .training import Run, run_experiment
from .training.simple import simple_predictors

EXPERIMENT = "mix-poly-5"
MODELS = ("rnn", "lstm", "sru", "fru")
MARKERS = {"rnn": "o:", "lstm": "s--", "sru": "^-.", "fru": "D-"}


@dataclass(frozen=True)
class Demo:
    """The runs, and what two predictors reach that need no training."""

    runs: list[RunResult]
    simple: dict[str, float]


def train_all(
    size: int, epochs: int, seed: int, folder: Path, tick: Callable[[str], None] = lambda _: None
) -> Demo:
    """Train the four models on ``size`` sequences, one after the other, with files in ``folder``.

    ``tick`` is called with the model's name after each epoch.
    """
    first = find_run(EXPERIMENT, "fru").data
    data = load(first.name, **replace(first, size=size).options())
    runs = []
    for model in MODELS:
        config = find_run(EXPERIMENT, model)
        config = replace(
            config,
            data=replace(config.data, size=size),
            training=replace(config.training, epochs=epochs),
        )
        run = Run(EXPERIMENT, model, seed, config, folder)
        each_epoch = LambdaCallback(on_train_epoch_end=lambda *_, model=model: tick(model))
        record = run_experiment(run, data=data, accelerator="cpu", callbacks=[each_epoch])
        assert record is not None  # one process
        runs.append(record)
    return Demo(runs, simple_predictors(data))


def draw(demo: Demo, path: Path) -> None:
    """Test error by epoch, a line a model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for run in demo.runs:
        errors = [epoch["test_mse"] for epoch in run.epochs]
        epochs = [epoch["epoch"] for epoch in run.epochs]
        axes.plot(epochs, errors, MARKERS[run.model], markersize=4, label=run.model.upper())
    for (name, error), style in zip(demo.simple.items(), ((0, (1, 2)), (0, (5, 3))), strict=True):
        axes.axhline(error, color="grey", linewidth=1, linestyle=style, label=name)
    axes.set(xlabel="epoch", ylabel="test mean squared error", yscale="log")
    axes.set_title("Predicting the next value of mixed polynomials")
    axes.grid(alpha=0.3)
    axes.legend(ncols=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
