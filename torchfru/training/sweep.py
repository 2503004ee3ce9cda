"""The paper's search: learning rate times decay, judged on data held back from training.

The points of the grid wait in an Optuna study; any number of processes, on any number of
machines that reach its storage, take them one by one. A process that dies stops sending signs of
life; its trial fails, and its point is put back by another process. A point is put into the
study only by a process that holds the sweep's lock, so that none is in it twice.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import optuna
from filelock import FileLock
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from ..data import SequenceData, load
from ..records import SweepResult, sweep_path
from .config import RunConfig
from .loop import run_experiment
from .objective import is_accuracy
from .run import Run

LEARNING_RATES = (0.001, 0.005, 0.01, 0.05, 0.1)
DECAYS = (0.8, 0.85, 0.9, 0.95, 0.99)
ALIVE, DEAD = 5, 20  # seconds between signs of life, and without one until a process is given up
ADVISORY_KEY = 7_461_983  # of the lock in a PostgreSQL database: any number that others do not use


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
    def _ending(self) -> str:
        return "" if self.label is None else f"-{self.label}"

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.model}-seed{self.seed}{self._ending}"

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
    """A point of the grid and its result."""

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
    """Train points until none is left, or ``trials`` of them. Gives all points, the best first."""
    if data is None:
        data = load(sweep.config.data.name, data_dir=data_dir, **sweep.config.data.options())
    up, url = is_accuracy(data.task), _url(sweep, storage)
    with _quiet():
        study = _open(sweep, url, StudyDirection.MAXIMIZE if up else StudyDirection.MINIMIZE)

        def objective(trial: Trial) -> float | None:
            return _train(sweep, trial, data, accelerator)

        taken = 0
        while (trials is None or taken < trials) and _wait_for_work(sweep, study, url):
            _take_point(study, objective, report)
            taken += 1
            _save(sweep, study)
        return _save(sweep, study)  # also if a process was killed before it could


def _take_point(
    study: optuna.Study,
    objective: Callable[[Trial], float | None],
    report: Callable[[Point], None],
) -> None:
    """Train the next point; a score of None is that of one that diverged."""
    trained: list[int] = []

    def scored(trial: Trial) -> float:
        score = objective(trial)
        trained.append(trial.number)
        if score is None:
            raise optuna.TrialPruned
        return score

    def tell(study: optuna.Study, trial: FrozenTrial) -> None:
        if "lr" in trial.user_attrs:
            report(_point(trial))

    try:
        study.optimize(scored, n_trials=1, callbacks=[tell])
    except Exception:
        # A process that was asleep, as a laptop is, has been given up, and Optuna takes no score
        # for its trial. Whoever takes the point again finds its record finished.
        if not trained or study.trials[trained[0]].state != TrialState.FAIL:
            raise


def summarize(study: optuna.Study) -> list[Point]:
    """Each point once, the best first, then those without a score.

    Equal scores are in the order of the settings, whichever process was the first to finish.
    """
    found: dict[tuple[float, float], Point] = {}
    for trial in study.get_trials(deepcopy=False):
        if trial.state == TrialState.FAIL or "lr" not in trial.user_attrs:
            continue
        key = (trial.user_attrs["lr"], trial.user_attrs["lr_decay"])
        if key not in found or found[key].score is None:
            found[key] = _point(trial)
    sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0

    def order(point: Point) -> tuple[bool, float, float, float]:
        return (point.score is None, sign * (point.score or 0.0), point.lr, point.lr_decay)

    return sorted(found.values(), key=order)


def _point(trial: FrozenTrial) -> Point:
    states = {"COMPLETE": "finished", "PRUNED": "diverged", "RUNNING": "running"}
    lr, lr_decay = trial.user_attrs["lr"], trial.user_attrs["lr_decay"]
    return Point(lr, lr_decay, states.get(trial.state.name, "waiting"), trial.value)


def _train(sweep: Sweep, trial: Trial, data: SequenceData, accelerator: str) -> float | None:
    """Train one point, resuming it if it was begun. Gives its score on the validation part."""
    if "lr" not in trial.user_attrs:  # another process took the last one before us
        return None
    trial.set_user_attr("began", True)
    for name in ("lr", "lr_decay"):
        trial.suggest_float(name, 1e-9, 1.0)  # gives the enqueued value, and shows it to Optuna
    run = sweep.run(trial.user_attrs["lr"], trial.user_attrs["lr_decay"])
    record = run_experiment(  # a process that was only slow may be at it still: wait for it
        run,
        resume=True,
        data=data,
        parts=(),
        accelerator=accelerator,
        patience=-1,
        keep_outcome=False,
    )
    assert record is not None
    measure = "validation_accuracy" if is_accuracy(data.task) else "validation_mse"
    score = record.last[measure]
    return None if record.diverged or score is None else float(score)


def _url(sweep: Sweep, storage: str | None) -> str:
    if storage is None:
        return f"sqlite:///{sweep.folder / 'sweeps.db'}"
    return re.sub("^postgres(ql)?://", "postgresql+psycopg://", storage)


def _open(sweep: Sweep, url: str, direction: StudyDirection) -> optuna.Study:
    """The study, with every point of the grid in it once."""
    sweep.folder.mkdir(parents=True, exist_ok=True)
    settings = sweep.config.to_dict()
    for name in ("lr", "lr_decay"):
        del settings["training"][name]
    now = json.dumps(settings, sort_keys=True)
    try:
        with _lock(sweep, url):
            shared = RDBStorage(url, heartbeat_interval=ALIVE, grace_period=DEAD)
            study = optuna.create_study(
                study_name=sweep.name, storage=shared, direction=direction, load_if_exists=True
            )
            if study.user_attrs.get("settings", now) != now:
                raise ValueError(
                    f"the sweep {sweep.name} was begun with other settings; give the same ones to "
                    "continue it, or a new --name to start another one"
                )
            study.set_user_attr("settings", now)
            _enqueue_missing(sweep, study)
    except (SQLAlchemyError, StorageInternalError) as error:
        first = str(error).strip().splitlines()[0]
        shown = re.sub(r":[^:@/]*@", ":***@", url)  # without the password
        raise ValueError(f"--storage: cannot open {shown}: {first}") from error
    return study


@contextmanager
def _lock(sweep: Sweep, url: str) -> Iterator[None]:
    """One process at a time, on all machines that share the study. The lock ends with the process.

    PostgreSQL has locks of its own, which end with the connection. The file of the others is
    beside the checkpoints.
    """
    if not url.startswith("postgresql"):
        with FileLock(sweep.folder / "sweeps.lock"):
            yield
        return
    try:
        engine = create_engine(url, poolclass=NullPool)
    except ModuleNotFoundError as missing:
        raise ValueError(
            f"--storage: PostgreSQL needs {missing.name}: pip install 'torchfru[postgres]'"
        ) from None
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_KEY})
        yield


def _enqueue_missing(sweep: Sweep, study: optuna.Study) -> None:
    """Put each point into the study that is not in it, or only as a trial that failed."""
    known = {(point.lr, point.lr_decay) for point in summarize(study)}
    for lr, lr_decay in product(sweep.learning_rates, sweep.decays):
        if (lr, lr_decay) not in known:
            point = {"lr": lr, "lr_decay": lr_decay}
            study.enqueue_trial(point, user_attrs=point)


def _wait_for_work(sweep: Sweep, study: optuna.Study, url: str) -> bool:
    """Whether a point waits. While a process may be dead, wait until that is known."""
    patience = time.monotonic() + DEAD + ALIVE
    while True:
        fail_stale_trials(study)
        with _lock(sweep, url):
            _enqueue_missing(sweep, study)
        if study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            return True
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if not running:
            return False
        if time.monotonic() > patience:  # all of them send signs of life, or never sent one
            silent = [trial for trial in running if "began" not in trial.user_attrs]
            if not silent:
                return False
            for trial in silent:  # killed between taking the point and the first sign of life
                study.tell(trial.number, state=TrialState.FAIL)
            continue
        time.sleep(min(1.0, ALIVE))


def _save(sweep: Sweep, study: optuna.Study) -> list[Point]:
    """Write the summary; gives the points in it."""
    points, config = summarize(study), sweep.config.to_dict()
    direction, entries = study.direction.name.lower(), [vars(point) for point in points]
    summary = SweepResult(sweep.experiment, sweep.model, sweep.seed, direction, config, entries)
    summary.save(sweep.summary)
    return points


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's log lines, and its warnings about experimental functions."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
    optuna.logging.set_verbosity(before)
