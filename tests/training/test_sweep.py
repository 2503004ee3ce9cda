"""The sweep: every point once, on validation data, also when processes share it or die."""

from __future__ import annotations

import json
from dataclasses import replace

import optuna
import pytest
from training_helpers import toy, toy_config

from torchfru.records import SweepResult
from torchfru.training import sweep as module
from torchfru.training.sweep import Sweep, run_sweep


@pytest.fixture
def grid(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ALIVE", 1)
    monkeypatch.setattr(module, "DEAD", 1)
    config = toy_config("gru", epochs=1)
    config = replace(config, data=replace(config.data, validation=0.25))
    return Sweep("toy", "gru", 0, config, tmp_path / "results", (0.001, 0.1), (0.9, 0.8))


def run(grid, **options):
    return run_sweep(grid, data=toy(), accelerator="cpu", **options)


def test_the_grid_is_the_papers():
    assert len(module.LEARNING_RATES) * len(module.DECAYS) == 25


def test_every_point_once_in_pieces(grid):
    told = []
    points = run(grid, trials=3, report=told.append)
    assert [point.state for point in points].count("waiting") == 1
    points = run(grid, report=told.append)
    assert len(told) == len(points) == 4
    assert {(p.lr, p.lr_decay) for p in points} == {
        (lr, d) for lr in (0.001, 0.1) for d in (0.9, 0.8)
    }
    scores = [point.score for point in points]
    assert scores == sorted(scores, reverse=True)
    assert json.loads(grid.summary.read_text())["points"][0]["score"] == scores[0]
    grid.summary.unlink()  # as if killed just before it was written
    assert run(grid, report=told.append) == points
    assert len(told) == 4
    assert json.loads(grid.summary.read_text())["points"][0]["score"] == scores[0]


def test_equal_scores_are_in_the_order_of_the_settings(grid):
    """Not in that of the trials: a point of a process that was killed is tried last."""
    study = optuna.create_study()
    for lr, lr_decay in ((0.1, 0.9), (0.001, 0.8), (0.1, 0.8)):
        point = {"lr": lr, "lr_decay": lr_decay}
        study.enqueue_trial({}, user_attrs=point)
        study.tell(study.ask(), 1.0)
    found = [(point.lr, point.lr_decay) for point in module.summarize(study)]
    assert found == [(0.001, 0.8), (0.1, 0.8), (0.1, 0.9)]


def test_the_test_set_is_not_looked_at(grid):
    run(grid, trials=1)
    (record,) = grid.folder.glob("toy/*.json")
    epoch = json.loads(record.read_text())["epochs"][0]
    assert "validation_accuracy" in epoch
    assert not any(name.startswith("test") for name in epoch)


@pytest.mark.parametrize("sign_of_life", [True, False])
def test_the_point_of_a_dead_process_is_taken_up(grid, sign_of_life):
    run(grid, trials=3)
    study = optuna.load_study(
        study_name=grid.name, storage=f"sqlite:///{grid.folder / 'sweeps.db'}"
    )
    trial = study.ask()  # as a process that took a point and died, after a sign of life or before
    if sign_of_life:
        study._storage.record_heartbeat(trial._trial_id)
    points = run(grid)
    assert [point.state for point in points] == ["finished"] * 4


def test_other_settings_are_another_sweep(grid):
    run(grid, trials=1)
    other = replace(grid, config=replace(grid.config, model=replace(grid.config.model, dropout=0)))
    with pytest.raises(ValueError, match="was begun with other settings"):
        run(other)
    named = replace(other, label="no-dropout")
    assert len(run(named)) == 4
    assert named.summary.name == f"sweep-{grid.model}-0-no-dropout.json"
    assert SweepResult.load(named.summary).config["model"]["dropout"] == 0
    assert SweepResult.load(grid.summary).config["model"]["dropout"] != 0


def test_a_storage_that_cannot_be_opened(grid):
    with pytest.raises(ValueError, match="--storage: cannot open"):
        run(grid, storage="sqlite:////no/such/folder/x.db")
    with pytest.raises(
        ValueError, match=r"cannot open postgresql\+psycopg://me:\*\*\*@127"
    ) as error:
        run(grid, storage="postgresql://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(error.value)


def test_a_point_that_failed_is_put_back_once(grid):
    """Also when the process that noticed the failure died before it could put the point back."""
    run(grid, trials=1)
    study = optuna.load_study(
        study_name=grid.name, storage=f"sqlite:///{grid.folder / 'sweeps.db'}"
    )
    study.tell(study.ask(), state=optuna.trial.TrialState.FAIL)
    assert [point.state for point in run(grid)] == ["finished"] * 4
    done = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    assert len(done) == 4


@pytest.mark.parametrize("diverged", [False, True])
def test_a_process_that_others_gave_up_while_it_slept_goes_on(grid, diverged, monkeypatch):
    train, seen, told = module._train, [], []

    def asleep(sweep, trial, *rest):
        score = train(sweep, trial, *rest)
        seen.append(trial.number)
        if len(seen) == 1:
            trial.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            return None if diverged else score
        return score

    monkeypatch.setattr(module, "_train", asleep)
    points = run(grid, report=told.append)
    assert [point.state for point in points] == ["finished"] * 4
    assert len(seen) == 5  # one of them twice; the second time its record was there
    assert len(told) == 4


def test_an_error_while_training_a_point_is_shown(grid, monkeypatch):
    def broken(*_):
        raise ValueError("no such data")

    monkeypatch.setattr(module, "_train", broken)
    with pytest.raises(ValueError, match="no such data"):
        run(grid)
