"""Configurations: light, complete, and changed one checked field at a time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torchfru.data import DATASETS
from torchfru.defaults import LAYER_OPTIONS
from torchfru.nn import LAYERS
from torchfru.training import EXPERIMENTS, RunConfig, find_run, override, record_name
from torchfru.training.config import field_types

FRU = find_run("pixel-mnist", "fru")


def test_experiments_import_nothing_heavy():
    program = "import sys, types; sys.modules['torchfru'] = p = types.ModuleType('torchfru');"
    program += "p.__path__ = ['torchfru']; import torchfru.training.recipes;"
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
    assert tuple(LAYERS) == tuple(LAYER_OPTIONS)
    options = {name for own in LAYER_OPTIONS.values() for name in own}
    assert all(f"model.{name}" in field_types() for name in options)


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
        ("training.learning_rate=1", "there is no field 'training.learning_rate'; choose one of"),
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


def test_a_configuration_survives_json_and_dropped_fields():
    stored = json.loads(json.dumps(FRU.to_dict()))
    stored["training"]["dropped"] = stored["model"]["dropped"] = 1
    assert RunConfig.from_dict(stored) == FRU
    del stored["training"]["max_loss"]  # from before it existed
    assert RunConfig.from_dict(stored) == FRU


def test_a_model_gets_the_options_of_its_own_layer():
    assert "num_freqs" not in find_run("imdb", "lstm").model.options()
    assert {"alphas", "stat_size"} <= set(find_run("imdb", "sru").model.options())


def test_a_wrong_name_is_refused():
    with pytest.raises(ValueError, match="did you mean 'pixel-mnist'"):
        find_run("pixel-mnits", "fru")
    with pytest.raises(ValueError, match="pixel-mnist has no model 'fru-50-10'; did you mean"):
        find_run("pixel-mnist", "fru-50-10")


def test_a_file_is_an_experiment_of_its_own(tmp_path):
    assert find_run("folder/mine.npz", "gru").data.name == "folder/mine.npz"
    assert record_name("mix-poly-5", find_run("mix-poly-5", "fru")) == "mix-poly-5"


def names_of(*paths: Path) -> list[str]:
    return [record_name(str(path), find_run(str(path), "gru")) for path in paths]


def test_files_of_one_name_have_records_of_their_own(tmp_path):
    """Also a file that is called like an experiment, and one that is set in an experiment."""
    first, second, paper = tmp_path / "ok.npz", tmp_path / "sub" / "ok.npz", tmp_path / "imdb.csv"
    second.parent.mkdir()
    for number, path in enumerate((first, second, paper)):
        path.write_text(str(number))
    names = names_of(first, second, paper)
    assert names[0] != names[1]
    assert all(re.fullmatch(r"(ok|imdb)-[0-9a-f]{8}", name) for name in names)
    changed = override(find_run("imdb", "fru"), [f"data.name={first}"])
    assert record_name("imdb", changed) == names[0]
    with pytest.raises(ValueError, match=r"no\.npz: no such file; check the path"):
        names_of(tmp_path / "no.npz")


def test_the_name_of_a_file_makes_a_harmless_folder(tmp_path):
    path = tmp_path / "a b\n\x1b[31m..csv"
    path.write_text("")
    (name,) = names_of(path)
    assert re.fullmatch(r"a_b_31m\.-[0-9a-f]{8}", name)
