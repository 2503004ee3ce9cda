"""``torchfru train FILE``: labelled sequences with settings that follow them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from training_helpers import torchfru_here

from torchfru.data import DataError, load
from torchfru.training.trained import load_trained, predict_file

SHORT = ["--set", "training.steps=40", "--set", "training.epochs=2", "--set", "training.lr=0.01"]


def waves(n, steps=20, seed=0, classes=("slow", "fast")):
    rng = np.random.default_rng(seed)
    labels = np.array(classes)[np.arange(n) % len(classes)]
    speed = np.where(labels == "slow", 0.3, 0.9)[:, None]
    return np.sin(speed * np.arange(steps) + rng.uniform(0, 6, (n, 1))), labels


def apart(path, **more):
    """An .npz with both parts; the test sequences are longer than those to train on."""
    x, y = waves(30)
    other, labels = waves(16, steps=24, seed=1)
    arrays = {"train_sequences": x, "train_labels": y, "test_sequences": other}
    arrays |= {"test_labels": labels, "train_lengths": np.where(np.arange(30) % 3, 20, 15)}
    np.savez(path, **arrays | {"test_lengths": np.full(16, 24)} | more)
    return path


def train(path, folder, *more):
    torchfru_here("train", str(path), "--results", str(folder / "results"), *SHORT, *more)
    (record,) = (folder / "results").glob("*/*.json")
    return json.loads(record.read_text()), record


def test_a_file_gets_settings_that_follow_it(tmp_path):
    x, y = waves(50)
    np.savez(tmp_path / "mine.npz", sequences=x, labels=y)
    record, path = train(tmp_path / "mine.npz", tmp_path)
    assert record["model"] == "fru"
    assert record["config"]["model"]["basis"] == "pairs"
    assert record["config"]["data"]["scale"]
    assert record["epochs"][-1]["test_accuracy"] == 100
    model = load_trained(str(path), tmp_path / "results")
    assert model.data.scaling is not None
    answers = predict_file(model, tmp_path / "mine.npz")
    assert np.mean([row["class"] for row in answers] == y) > 0.95


@pytest.mark.parametrize("model", ["lstm", "fru-paper"])
def test_other_models_by_name(tmp_path, model):
    x, y = waves(20)
    np.savez(tmp_path / "mine.npz", sequences=x, labels=y)
    record, _ = train(tmp_path / "mine.npz", tmp_path, "--model", model)
    assert record["model"] == model
    assert record["config"]["model"]["window"] == (1 if model == "fru-paper" else 3)
    assert record["config"]["data"]["scale"] == (model == "lstm")


def test_official_parts_in_one_file(tmp_path):
    path = apart(tmp_path / "mine.npz")
    data = load(str(path))
    assert (len(data.train), len(data.test), data.seq_len) == (30, 16, 24)
    assert data.train.lengths.tolist()[:3] == [15, 20, 20]
    assert data.test.lengths is None
    record, found = train(path, tmp_path)
    assert record["epochs"][-1]["test_accuracy"] > 90
    answers = predict_file(load_trained(str(found), tmp_path / "results"), path)
    right = np.mean([row["class"] for row in answers] == np.load(path)["test_labels"])
    assert 100 * right == pytest.approx(record["epochs"][-1]["test_accuracy"])


def test_a_test_part_in_a_file_of_its_own(tmp_path):
    x, y = waves(24)
    rows = ["label," + ",".join(map(str, range(20)))]
    rows += [f"{label}," + ",".join(map(str, row)) for row, label in zip(x, y, strict=True)]
    (tmp_path / "train.csv").write_text("\n".join(rows[:21]))
    (tmp_path / "test.csv").write_text("\n".join([rows[0], *rows[21:]]))
    record, _ = train(tmp_path / "train.csv", tmp_path, "--test", str(tmp_path / "test.csv"))
    assert set(record["data"]) == {"train.csv", "test: test.csv"}
    data = load(str(tmp_path / "train.csv"), test_file=str(tmp_path / "test.csv"))
    assert (len(data.train), len(data.test)) == (20, 4)
    assert data.classes == ("fast", "slow")


def test_epochs_are_passes(tmp_path):
    x, y = waves(20)
    np.savez(tmp_path / "mine.npz", sequences=x, labels=y)
    record, _ = train(tmp_path / "mine.npz", tmp_path, "--epochs", "3")
    assert record["config"]["training"]["steps"] is None
    assert len(record["epochs"]) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            waves(16, 24, classes=("slow", "new")),
            "the label new, which no sequence of the training",
        ),
        ((np.zeros((16, 24, 3)), waves(16)[1]), "has 1 features per step, and its test part has 3"),
    ],
)
def test_parts_that_do_not_fit(tmp_path, change, problem):
    path = apart(tmp_path / "mine.npz", test_sequences=change[0], test_labels=change[1])
    with pytest.raises(DataError, match=problem):
        load(str(path))


def test_half_of_a_pair_is_an_error(tmp_path):
    x, y = waves(8)
    np.savez(tmp_path / "mine.npz", train_sequences=x, train_labels=y)
    with pytest.raises(DataError, match="expected test_sequences and test_labels"):
        load(str(tmp_path / "mine.npz"))
    np.savez(tmp_path / "series.npz", series=np.arange(400.0))
    with pytest.raises(ValueError, match="test_file is for sequences"):
        load(str(tmp_path / "series.npz"), test_file=str(tmp_path / "mine.npz"))


def test_the_random_test_part_is_balanced(tmp_path):
    x, y = waves(200)
    y[:180] = "slow"
    np.savez(tmp_path / "mine.npz", sequences=x, labels=y)
    for seed in range(5):
        data = load(str(tmp_path / "mine.npz"), stratify=True, seed=seed)
        assert (data.test.targets == 0).sum() == 2  # a fifth of the ten fast ones
        assert len(data.train) == 160


def test_a_number_for_each_sequence(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 12))
    y = 1000 + 50 * x.mean(1)
    rows = ["age," + ",".join(f"t{i}" for i in range(12))]
    rows += [f"{target}," + ",".join(map(str, row)) for row, target in zip(x, y, strict=True)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(rows))
    record, found = train(path, tmp_path, "--set", "data.target=age", "--set", "training.steps=200")
    assert record["epochs"][-1]["test_mse"] < 0.5  # 1 is as bad as the mean
    answers = predict_file(load_trained(str(found), tmp_path / "results"), path)
    values = np.array([row["value"][0] for row in answers])
    assert np.corrcoef(values, y)[0, 1] > 0.9
    assert abs(values.mean() - 1000) < 20  # in the units of the file


def test_several_models_train_and_answer_together(tmp_path):
    """The record, the checkpoint, --resume and predict know of one run."""
    x, y = waves(30)
    np.savez(tmp_path / "mine.npz", sequences=x, labels=y)
    record, path = train(tmp_path / "mine.npz", tmp_path)
    assert record["config"]["model"]["members"] == 4
    model = load_trained(str(path), tmp_path / "results")
    assert len(model.model.members) == 4
    assert record["parameters"] == 4 * model.model.members[0].count_parameters()
    again, _ = train(tmp_path / "mine.npz", tmp_path, "--resume")
    assert again["epochs"] == record["epochs"]
    one, _ = train(tmp_path / "mine.npz", tmp_path, "--set", "model.members=1")
    assert one["parameters"] * 4 == record["parameters"]
