"""Configurations: light, complete, and changed one checked field at a time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from torchfru.data import DATASETS
from torchfru.experiments import EXPERIMENTS, find_run, override, record_name
from torchfru.experiments.config import LAYER_NAMES, OWN_FIELDS
from torchfru.experiments.override import field_types
from torchfru.nn import LAYERS

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
