"""Configurations: light, complete, and changed one checked field at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from torchfru.data import DATASETS
from torchfru.experiments import EXPERIMENTS, find_run, override, record_name
from torchfru.experiments.config import LAYER_NAMES, OWN_FIELDS
from torchfru.experiments.override import field_types
from torchfru.experiments.plan import MEASUREMENTS, PLAN, SAME
from torchfru.nn import LAYERS
from torchfru.results import RunResult, record_path

RESULTS = Path(__file__).parents[1] / "results"
FRU = find_run("pixel-mnist", "fru")


def test_experiments_import_nothing_heavy():
    program = "import sys, types; sys.modules['torchfru'] = p = types.ModuleType('torchfru');"
    program += "p.__path__ = ['torchfru']; import torchfru.experiments;"
    program += "print(sorted({'torch', 'numpy', 'lightning'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_data(name):
    for run in EXPERIMENTS[name].values():
        known = DATASETS[run.data.name].options
        assert set(run.data.options()) <= set(known)


@pytest.mark.parametrize(
    "name", ["mix-sin", "mix-poly-5", "pixel-mnist", "permuted-mnist", "imdb", "beijing"]
)
def test_a_task_is_there_for_every_layer(name):
    assert set(LAYERS) <= set(EXPERIMENTS[name])


def test_names_say_which_frequencies():
    few, many = (
        find_run("frequencies", name) for name in ("steps28-5-2.5-28", "steps784-60-0.25-25")
    )
    assert (few.data.steps, few.model.num_freqs) == (28, 5)
    assert (few.model.min_freq, few.model.max_freq) == (2.5, 28.0)
    assert (many.data.steps, many.model.num_freqs, many.model.max_freq) == (None, 60, 25.0)


def test_the_gradients_figure_has_decays_of_its_own():
    assert find_run("gradients", "sru").model.alphas == (0.0, 0.25, 0.5, 0.9, 0.95)
    assert find_run("mix-poly-5", "sru").model.alphas[-1] == 0.99
    assert find_run("gradients", "fru").training.probe_every == 10


def test_the_plan_is_made_of_known_runs_once_each():
    names = [(run.experiment, run.model, run.seed) for run in PLAN]
    assert len(set(names)) == len(names)
    for run in PLAN:
        assert find_run(run.experiment, run.model)
        assert run.minutes > 0
    assert names[0] == ("pixel-mnist", "fru-60-10", 0)
    planned = {run.experiment for run in PLAN} | {experiment for experiment, _ in MEASUREMENTS}
    assert planned == set(EXPERIMENTS) - {"adding", "copy"}  # those are for training by hand


def test_what_is_trained_once_for_two_experiments_is_the_same():
    planned = {(run.experiment, run.model) for run in PLAN}
    for here, there in SAME.items():
        assert find_run(*here) == find_run(*there)
        assert here not in planned
        assert there in planned


def test_the_plan_s_minutes_are_those_of_the_records():
    recorded = [(run, record_path(RESULTS, run.experiment, run.model, run.seed)) for run in PLAN]
    done = [(run.minutes, RunResult.load(path).seconds) for run, path in recorded if path.exists()]
    planned, took = sum(minutes for minutes, _ in done), sum(seconds for _, seconds in done) / 60
    assert planned == pytest.approx(took, rel=0.15)
    assert 42 * 60 < sum(run.minutes for run in PLAN) < 46 * 60  # 22 hours of two cores


def test_a_limit_on_minutes_is_in_the_plan():
    for run in PLAN:
        limit = find_run(run.experiment, run.model).training.max_minutes
        assert limit is None or run.minutes <= 3 * limit  # the last epoch may end beyond it


def test_every_data_option_can_be_set():
    settable = {name.removeprefix("data.") for name in field_types() if name.startswith("data.")}
    for entry in DATASETS.values():
        assert set(entry.options) <= settable


def test_names_agree_with_the_layers():
    assert tuple(LAYERS) == LAYER_NAMES
    assert all(f"model.{name}" in field_types() for name in OWN_FIELDS)


def test_set_changes_one_field():
    changed = override(
        FRU, ["training.lr=1e-2", "training.clip=none", "data.steps=28", "model.num_freqs=5"]
    )
    assert (changed.training.lr, changed.training.clip) == (0.01, None)
    assert (changed.data.steps, changed.model.num_freqs) == (28, 5)
    assert FRU.training.lr == 0.005
    sru = override(find_run("imdb", "sru"), ["model.alphas=0,0.5"])
    assert sru.model.alphas == (0.0, 0.5)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.lrr=1", "there is no field 'training.lrr'; did you mean 'training.lr'"),
        ("training.learning_rate=1", "there is no field 'training.learning_rate'; there are"),
        ("lr=1", "did you mean 'training.lr'"),
        ("model.lr_decay=1", "did you mean 'training.lr_decay'"),
        ("modl.num_freqs=1", "did you mean 'model.num_freqs'"),
        ("training.epochs=1.5", "training.epochs must be a whole number, got '1.5'"),
        ("training.lr=fast", "training.lr must be a number, got 'fast'"),
        ("training.lr=nan", "training.lr must be a number, got 'nan'"),
        ("training.clip=x", "training.clip must be a number or none, got 'x'"),
        ("training.lr=-1", "training.lr must be greater than 0, got -1.0"),
        ("training.epochs=0", "training.epochs must be greater than 0, got 0"),
        ("data.validation=1", "data.validation must be within"),
        ("model.layer=x", "model.layer must be one of rnn, lstm, gru, sru, fru, got 'x'"),
        ("model.stat_size=5", "model.stat_size belongs to sru, and this model's layer is fru"),
        ("training.lr", "expected section.field=value, got 'training.lr'"),
    ],
)
def test_a_wrong_setting_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        override(FRU, [setting])


def test_a_wrong_name_is_refused():
    with pytest.raises(ValueError, match="did you mean 'pixel-mnist'"):
        find_run("pixel-mnits", "fru")
    with pytest.raises(ValueError, match="pixel-mnist has no model 'fru-50-10'; did you mean"):
        find_run("pixel-mnist", "fru-50-10")


def test_a_file_is_an_experiment_of_its_own():
    assert find_run("folder/mine.npz", "gru").data.name == "folder/mine.npz"
    assert record_name("folder/mine.npz") == "mine"
    assert record_name("mix-poly-5") == "mix-poly-5"
