"""The predictions that a record keeps: counts by class, a few forecasts, and only at the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_helpers import Cut, read, toy, toy_config, toy_run, with_training

from torchfru.data import Reading, Scaling
from torchfru.records import Outcome, RunResult, best_epoch
from torchfru.training import DataConfig
from torchfru.training.trained import load_trained

RECORD = "results/toy/fru-seed0.json"


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_counts_are_those_of_the_trained_model(tmp_path, task):
    data = replace(toy(task), classes=("no", "yes"))
    kept = toy_run(tmp_path, toy_config(), data=data).outcome
    model, test = load_trained("toy/fru-seed0", tmp_path / "results").model, data.test
    with torch.no_grad():
        predicted = model(test.inputs, test.lengths).argmax(-1)
    expected: dict[str, dict[str, int]] = {}
    for true, found in zip(test.targets.flatten(), predicted.flatten(), strict=True):
        if true != -100:
            row = expected.setdefault(data.classes[true], {})
            row[data.classes[found]] = row.get(data.classes[found], 0) + 1
    assert (kept.part, kept.epoch, kept.classes) == ("test", 3, ["no", "yes"])
    assert kept.counts == expected


def test_forecasts_are_in_the_units_of_the_data(tmp_path):
    data = replace(
        toy("predict"),
        scaling=Scaling((10.0, 0.0), (2.0, 1.0)),
        reading=Reading(columns=("temp",)),
    )
    kept = toy_run(tmp_path, toy_config(), data=data).outcome
    assert [one.window for one in kept.forecasts] == [0, 4, 9]
    model, test = load_trained("toy/fru-seed0", tmp_path / "results").model, data.test
    with torch.no_grad():
        output = model(test.inputs, test.lengths)
    for one in kept.forecasts:
        end = int(test.lengths[one.window])
        assert one.channel == "temp"
        for values, tensor in ((one.truth, test.targets), (one.forecast, output)):
            expected = tensor[one.window, :end, 0] * 2 + 10
            np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_only_a_run_that_is_over_keeps_its_outcome_and_resuming_gives_the_same(tmp_path):
    config = toy_config(epochs=3)
    whole = toy_run(tmp_path / "whole", config)
    with pytest.raises(InterruptedError):
        toy_run(tmp_path / "cut", config, hooks=[Cut(2, 1)])
    assert read(tmp_path / "cut" / RECORD)["measurements"] == {}
    resumed = toy_run(tmp_path / "cut", config, resume=True)
    assert resumed.measurements == whole.measurements
    assert resumed.outcome.epoch == 3
    prolonged = toy_run(tmp_path / "cut", with_training(config, epochs=4), resume=True)
    assert prolonged.outcome.epoch == 4


def test_a_sweep_sees_no_test_part(tmp_path):
    config = replace(toy_config(), data=DataConfig("toy", validation=0.2))
    record = toy_run(tmp_path / "held", config, parts=())
    assert record.outcome.part == "validation"
    assert sum(n for row in record.outcome.counts.values() for n in row.values()) == 4
    assert toy_run(tmp_path / "none", config, keep_outcome=False).measurements == {}


def test_the_outcome_is_that_of_the_best_weights(tmp_path):
    held = DataConfig("toy", validation=0.2)
    config = replace(toy_config("gru", epochs=8, lr=1.0, keep_best=True), data=held)
    record = toy_run(tmp_path, config)
    best = best_epoch(record.epochs)
    assert best < 8
    assert record.outcome.epoch == best
    right = sum(row.get(name, 0) for name, row in record.outcome.counts.items())
    assert 100 * right / 10 == pytest.approx(record.epochs[best - 1]["test_accuracy"])
    assert record.epochs[best - 1]["test_accuracy"] != record.epochs[-1]["test_accuracy"]


def test_many_classes_are_not_counted(tmp_path):
    data = replace(toy(), output_size=201)
    assert toy_run(tmp_path, toy_config(epochs=1), data=data).outcome is None


@pytest.mark.parametrize(
    "spoiled",
    [
        {"counts": {"x": {"a": 1}}},
        {"counts": {"a": {"a": -1}}},
        {"counts": {"a": {"a": "1"}}},
        {"classes": "a"},
        {"forecasts": [{"window": 0, "channel": "a", "truth": [1.0], "forecast": []}]},
    ],
)
def test_an_outcome_from_a_stranger_is_checked(spoiled):
    good = {"part": "test", "epoch": 1, "classes": ["a"], "counts": {"a": {"a": 2}}}
    record = RunResult("x", "fru", 0, {}, 1, measurements={"outcome": good})
    assert record.outcome == Outcome(**good)
    record.measurements["outcome"] = good | spoiled
    with pytest.raises(ValueError, match=r"class|count|forecast"):
        _ = record.outcome
