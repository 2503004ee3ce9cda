"""Made-up records: all that the plan asks for, with numbers that a test can compute."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from paper.experiments import EXPERIMENTS
from paper.plan import MEASUREMENTS, PLAN, Measurement
from torchfru.records import RunResult, SweepResult, record_path, sweep_path
from torchfru.training import override

LEVELS = {"rnn": 40.0, "lstm": 90.0, "gru": 91.0, "sru": 92.0, "fru": 96.0}
LEVELS |= {"plain": 11.35, "residual": 30.0, "prenorm": 95.0, "mean": 94.0, "fourier": 97.5}
ORIGIN: dict[str, Any] = {
    "versions": {"torch": "2.13.0"},
    "commit": "0123456789abcdef",
    "hardware": {"cpu": "a <b>CPU</b>"},
    "data": {"images": "00ff"},
}


def make_run(
    experiment: str,
    model: str,
    seed: int = 0,
    *,
    epochs: int | None = None,
    final: float | None = None,
    **changes: Any,
) -> RunResult:
    """A finished run whose measure goes to ``final``; ``epochs`` ends it early."""
    config = EXPERIMENTS[experiment][model]
    accuracy = config.data.name in ("pixel-mnist", "permuted-mnist", "imdb", "copy")
    level = LEVELS[config.model.layer.partition("-")[0]] + seed if final is None else final
    done = config.training.epochs if epochs is None else epochs
    rest = [math.exp(-4 * epoch / config.training.epochs) for epoch in range(1, done + 1)]
    values = [
        {"test_accuracy": level * (1 - 0.1 * part)}
        if accuracy
        else {"test_mse": (final or 1 / level**2) * (1 + part)}
        for part in rest
    ]
    if values and not accuracy:
        for value in values:  # nearly all of it at the first step
            value["test_mse_after_first"] = value["test_mse"] / 100
    if values:
        name = "test_accuracy" if accuracy else "test_mse"
        values[-1][name] = level if accuracy else final or 1 / level**2
    measurements = {}
    if config.training.probe_every is not None:
        by_depth = [{"epoch": n, "layer": [0, 5, 10], "l2": [0.1, 0.2, 0.3]} for n in (0, 3)]
        found = gradients(config.model.layer) if experiment == "gradients" else by_depth
        measurements = {"gradients": found}
    record: dict[str, Any] = {
        "status": "finished",
        "seconds": 60.0 * done,
        "epochs": [
            {"epoch": i + 1, "train_loss": 1.0, "seconds": 60.0, **v} for i, v in enumerate(values)
        ],
        "measurements": measurements,
        **ORIGIN,
        **changes,
    }
    return RunResult(experiment, model, seed, config.to_dict(), 1000 + len(model), **record)


def gradients(layer: str) -> list[dict[str, Any]]:
    """Level for an FRU, falling for the others."""
    steps = list(range(1, 176, 20))
    rate = {"fru": 0.0, "sru": 0.03}.get(layer, 0.08)
    norms = [0.1 * math.exp(-rate * step) for step in steps]
    return [
        {"epoch": epoch, "step": steps}
        | {norm: [value / (1 + epoch / 30) for value in norms] for norm in ("l1", "l2", "linf")}
        for epoch in range(0, 100, 10)
    ]


def make_measurement(experiment: str, name: str) -> Measurement:
    values: dict[str, Any] = {"last value": 1e-2, "straight line": 1e-4}
    values["straight line, after step 1"] = 1e-6
    if name == "fits":
        series = [15 * math.sin(day / 58) for day in range(60)]
        fit: dict[str, Any] = {
            str(n): {"rmse": 10 / n, "largest_coefficient": 1.0, "curve": series}
            for n in (5, 20, 60, 100)
        }
        bases = ("fourier", "chebyshev", "legendre", "walsh", "exponentials")
        values = {"every": "day", "start": 2010, "end": 2012, "series": series}
        values |= {"terms": [5, 20, 60, 100], "fits": dict.fromkeys(bases, fit)}
    return Measurement(experiment, name, values, seconds=1.0, **ORIGIN)


def make_sweep(experiment: str, model: str, *points: tuple[float, float | None]) -> SweepResult:
    """A sweep over learning rates, each with its score, on a third of the training set."""
    config = override(EXPERIMENTS[experiment][model], ["data.validation=0.33", "training.epochs=5"])
    found = [{"lr": lr, "lr_decay": 0.9, "state": "finished", "score": s} for lr, s in points]
    return SweepResult(experiment, model, 0, "maximize", config.to_dict(), found)


def save(results: Path, *runs: RunResult) -> None:
    for run in runs:
        run.save(record_path(results, run.experiment, run.model, run.seed))


def make_beyond(results: Path) -> None:
    """The recipe's records, those of 196 steps, and an ablation."""
    finals = {"permuted-mnist": 98.45, "pixel-mnist": 99.2, "imdb": 88.5}
    for experiment, final in finals.items():
        seeds = (make_run(experiment, "fru-recipe", k, final=final + 0.01 * k) for k in range(3))
        save(results, *seeds)
    for experiment in ("mix-sin", "mix-poly-5", "mix-poly-10", "mix-poly-15"):
        for model, final in {"fru": 1e-6, "lstm": 2e-6, "sru": 5e-7}.items():
            save(results, make_run(experiment, f"{model}-recipe", final=final))
        make_measurement(experiment, "simple").save(results / experiment / "simple.json")
    memory = {"adding-10000": 1e-4, "copy-1000": 100.0, "copy-10000": 99.0}
    for name, final in memory.items():
        save(results, make_run("memory", f"{name}-fru-recipe", final=final))
    for experiment in ("pixel-mnist-196", "permuted-mnist-196"):
        levels = {"rnn": 60.0, "lstm": 97.5, "gru": 97.8, "sru": 96.0, "fru": 98.0}
        levels |= {"lstm-recipe": 98.2, "gru-recipe": 98.3, "fru-recipe": 98.9}
        save(results, *(make_run(experiment, m, final=level) for m, level in levels.items()))
    for task, final in {"permuted": 98.0, "pixel": 99.0, "mix-poly-5": 1e-6}.items():
        save(results, make_run("ablation", f"{task}-full", final=final))
        worse = final - 1 if final > 1 else 3 * final
        save(results, make_run("ablation", f"{task}-norm", final=worse))


def make_results(results: Path) -> None:
    """Everything that was planned, finished."""
    save(results, *(make_run(run.experiment, run.name, run.seed) for run in PLAN))
    for planned in MEASUREMENTS:
        make_measurement(planned.experiment, planned.name).save(planned.record(results))
    sweep = make_sweep("imdb", "fru-5-10", (0.1, 80.0))
    sweep.save(sweep_path(results, "imdb", "fru-5-10-0"))
