"""The paper's search: learning rate times decay, judged on data held back from training.

The points of the grid wait in an Optuna study; any number of processes, on any number of
machines that reach its storage, take them one by one. A process that dies stops sending signs of
life, and its point goes back to those that wait.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import optuna
from filelock import FileLock
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from ..data import SequenceData, load
from ..experiments.config import RunConfig
from ..results import SweepResult, sweep_path
from .objective import is_accuracy
from .run import Run, run_experiment

LEARNING_RATES = (0.001, 0.005, 0.01, 0.05, 0.1)
DECAYS = (0.8, 0.85, 0.9, 0.95, 0.99)
ALIVE, DEAD = 5, 20  # seconds between signs of life, and without one until a process is given up


@dataclass(frozen=True)
class Sweep:
    """A grid over one experiment and model."""

    experiment: str
    model: str
    seed: int
    config: RunConfig
    results: Path
    learning_rates: Sequence[float] = LEARNING_RATES
    decays: Sequence[float] = DECAYS
    label: str | None = None  # tells sweeps with other settings apart

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.model}-seed{self.seed}" + self._ending

    @property
    def _ending(self) -> str:
        return "" if self.label is None else f"-{self.label}"

    @property
    def folder(self) -> Path:
        results = self.results.absolute()
        return results.parent / "checkpoints" / results.name / "sweeps"

    @property
    def summary(self) -> Path:
        return sweep_path(self.results, self.experiment, f"{self.model}-{self.seed}{self._ending}")

    def run(self, lr: float, lr_decay: float) -> Run:
        """The run of a point; its validation part comes out of the training set."""
        training = replace(self.config.training, lr=lr, lr_decay=lr_decay)
        config = replace(self.config, training=training)
        name = f"{self.model}-lr{lr:g}-decay{lr_decay:g}{self._ending}"
        return Run(self.experiment, name, self.seed, config, self.folder)


@dataclass(frozen=True)
class Point:
    """A point of the grid and what came of it."""

    lr: float
    lr_decay: float
    state: str  # "waiting", "running", "finished" or "diverged"
    score: float | None = None


def run_sweep(
    sweep: Sweep,
    *,
    storage: str | None = None,
    data_dir: Path | None = None,
    data: SequenceData | None = None,
    trials: int | None = None,
    accelerator: str = "auto",
    report: Callable[[Point], None] = lambda point: None,
) -> list[Point]:
    """Take points until none is left (or ``trials`` of them); all points, the best one first."""
    if data is None:
        data = load(sweep.config.data.name, data_dir=data_dir, **sweep.config.data.options())
    with _quiet():
        up = is_accuracy(data.task)
        study = _open(sweep, storage, StudyDirection.MAXIMIZE if up else StudyDirection.MINIMIZE)

        def objective(trial: Trial) -> float:
            return _train(sweep, trial, data, accelerator)

        def tell(study: optuna.Study, trial: FrozenTrial) -> None:
            if "lr" in trial.user_attrs:
                report(_point(trial))

        taken = 0
        while (trials is None or taken < trials) and _wait_for_work(study):
            study.optimize(objective, n_trials=1, callbacks=[tell])
            taken += 1
            _save(sweep, study, summarize(study))
        return summarize(study)


def summarize(study: optuna.Study) -> list[Point]:
    """Each point once, the best first, then those without a score."""
    found: dict[tuple[float, float], Point] = {}
    for trial in study.get_trials(deepcopy=False):
        if trial.state == TrialState.FAIL or "lr" not in trial.user_attrs:
            continue
        key = (trial.user_attrs["lr"], trial.user_attrs["lr_decay"])
        if key not in found or found[key].score is None:
            found[key] = _point(trial)
    up = study.direction == StudyDirection.MAXIMIZE
    scored = [point for point in found.values() if point.score is not None]
    rest = [point for point in found.values() if point.score is None]
    return sorted(scored, key=lambda point: point.score or 0.0, reverse=up) + rest


def _point(trial: FrozenTrial) -> Point:
    states = {
        TrialState.COMPLETE: "finished",
        TrialState.PRUNED: "diverged",
        TrialState.RUNNING: "running",
    }
    lr, lr_decay = trial.user_attrs["lr"], trial.user_attrs["lr_decay"]
    return Point(lr, lr_decay, states.get(trial.state, "waiting"), trial.value)


def _train(sweep: Sweep, trial: Trial, data: SequenceData, accelerator: str) -> float:
    """One point, from where it was cut off; its score on the validation part."""
    if "lr" not in trial.user_attrs:  # another process took the last one before us
        raise optuna.TrialPruned
    for name in ("lr", "lr_decay"):
        trial.suggest_float(name, 1e-9, 1.0)  # gives the enqueued value, and shows it to Optuna
    run = sweep.run(trial.user_attrs["lr"], trial.user_attrs["lr_decay"])
    record = run_experiment(run, resume=True, data=data, parts=(), accelerator=accelerator)
    assert record is not None
    measure = "validation_accuracy" if is_accuracy(data.task) else "validation_mse"
    score = record.last[measure]
    if record.diverged or score is None:
        raise optuna.TrialPruned
    return float(score)


def _open(sweep: Sweep, storage: str | None, direction: StudyDirection) -> optuna.Study:
    """The study, with every point of the grid in it once."""
    sweep.folder.mkdir(parents=True, exist_ok=True)
    url = storage or f"sqlite:///{sweep.folder / 'sweeps.db'}"
    alone = FileLock(sweep.folder / "sweeps.lock") if storage is None else nullcontext()
    with alone:
        try:
            shared = RDBStorage(
                url,
                heartbeat_interval=ALIVE,
                grace_period=DEAD,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
            )
        except Exception as error:
            first = str(error).strip().splitlines()[0]
            raise ValueError(f"--storage: cannot open {url}: {first}") from error
        study = optuna.create_study(
            study_name=sweep.name, storage=shared, direction=direction, load_if_exists=True
        )
        _require_same_settings(sweep, study)
        known = {(point.lr, point.lr_decay) for point in summarize(study)}
        for lr, lr_decay in product(sweep.learning_rates, sweep.decays):
            if (lr, lr_decay) not in known:
                point = {"lr": lr, "lr_decay": lr_decay}
                study.enqueue_trial(point, user_attrs=point)
    return study


def _require_same_settings(sweep: Sweep, study: optuna.Study) -> None:
    settings = sweep.config.to_dict()
    for name in ("lr", "lr_decay"):
        settings["training"].pop(name)
    text = json.dumps(settings, sort_keys=True)
    before = study.user_attrs.get("settings", text)
    if before != text:
        raise ValueError(
            f"the sweep {sweep.name} was begun with other settings; give the same ones to go on, "
            "or a new --name to start another one"
        )
    study.set_user_attr("settings", text)


def _wait_for_work(study: optuna.Study) -> bool:
    """Whether a point waits; for those of a process that may be dead, until that is known."""
    patience = time.monotonic() + DEAD + ALIVE
    while True:
        fail_stale_trials(study)
        if study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            return True
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if not running or time.monotonic() > patience:
            return False
        time.sleep(min(1.0, ALIVE))


def _save(sweep: Sweep, study: optuna.Study, points: list[Point]) -> None:
    SweepResult(
        sweep.experiment,
        sweep.model,
        sweep.seed,
        study.direction.name.lower(),
        sweep.config.to_dict(),
        [vars(point) for point in points],
    ).save(sweep.summary)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's log lines and its warnings about what it calls experimental."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
    optuna.logging.set_verbosity(before)
