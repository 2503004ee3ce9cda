"""The paper's experiments, and the plan of their runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from paper.experiments import EXPERIMENTS
from paper.plan import MEASUREMENTS, PLAN, SHARED_RUNS
from paper.published import ACCURACY
from torchfru.data import DATASETS
from torchfru.records import RunResult, record_path

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_data(name):
    for run in EXPERIMENTS[name].values():
        known = DATASETS[run.data.name].options
        assert set(run.data.options()) <= set(known)


def test_names_say_which_frequencies():
    few, many = (
        EXPERIMENTS["frequencies"][name] for name in ("steps28-5-2.5-28", "steps784-60-0.25-25")
    )
    assert (few.data.steps, few.model.num_freqs) == (28, 5)
    assert (few.model.min_freq, few.model.max_freq) == (2.5, 28.0)
    assert (many.data.steps, many.model.num_freqs, many.model.max_freq) == (None, 60, 25.0)


def test_the_gradients_figure_has_decays_of_its_own():
    assert EXPERIMENTS["gradients"]["sru"].model.alphas == (0.0, 0.25, 0.5, 0.9, 0.95)
    assert EXPERIMENTS["mix-poly-5"]["sru"].model.alphas[-1] == 0.99
    assert EXPERIMENTS["gradients"]["fru"].training.probe_every == 10


def test_the_plan_is_made_of_known_runs_once_each():
    names = [(run.experiment, run.name, run.seed) for run in PLAN]
    assert len(set(names)) == len(names)
    for run in PLAN:
        assert EXPERIMENTS[run.experiment][run.name]
        assert run.minutes > 0
    assert names[0] == ("pixel-mnist", "fru-60-10", 0)
    planned = {run.experiment for run in PLAN} | {run.experiment for run in MEASUREMENTS}
    assert planned == set(EXPERIMENTS) - {"adding", "copy"}  # those are for training by hand


def test_what_is_trained_once_for_two_experiments_is_the_same():
    planned = {(run.experiment, run.name) for run in PLAN}
    for here, there in SHARED_RUNS.items():
        assert EXPERIMENTS[here[0]][here[1]] == EXPERIMENTS[there[0]][there[1]]
        assert here not in planned
        assert there in planned


def test_the_plan_s_minutes_are_those_of_the_records():
    recorded = [(run, record_path(RESULTS, run.experiment, run.name, run.seed)) for run in PLAN]
    done = [(run.minutes, RunResult.load(path).seconds) for run, path in recorded if path.exists()]
    planned, took = sum(minutes for minutes, _ in done), sum(seconds for _, seconds in done) / 60
    assert planned == pytest.approx(took, rel=0.15)
    assert 57 * 60 < sum(run.minutes for run in PLAN) < 62 * 60  # 30 hours of two cores


def test_a_limit_on_minutes_is_in_the_plan():
    for run in PLAN:
        limit = EXPERIMENTS[run.experiment][run.name].training.max_minutes
        assert limit is None or run.minutes <= 3 * limit  # the last epoch may end beyond it


def test_a_published_accuracy_is_held_against_as_many_epochs():
    for experiment, table in ACCURACY.items():
        for model in table.rows:
            assert EXPERIMENTS[experiment][model].training.epochs == table.epochs
