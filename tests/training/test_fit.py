"""Training on small data: steps, the best weights, augmentation, balanced parts, scaling."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from training_helpers import Cut, numbers, read, toy, toy_config, toy_run

from torchfru.data import Scaling
from torchfru.data.arrays import generator, held_out
from torchfru.data.scaling import standardize
from torchfru.records import RunResult, best_epoch
from torchfru.training import Hook
from torchfru.training.batches import Batches, split_data
from torchfru.training.checkpoint import Checkpoint
from torchfru.training.fit import fit
from torchfru.training.trained import load_trained, predict_file


def small_config(**training):
    """Everything that small data get, at once."""
    settings = {"epochs": 4, "steps": 18, "keep_best": True, "noise": 0.1, "jitter": 0.1}
    config = toy_config(**(settings | training))
    parts = replace(config.data, validation=0.3, stratify=True, scale=True)
    return replace(config, data=parts)


def test_steps_are_shared_by_the_epochs_and_passes_follow_each_other():
    part = toy(n=30).train  # 20 sequences: 3 batches a pass
    whole = Batches(part, "classify", 8, seed=5)
    passes = [batch.inputs for number in range(4) for batch in whole.epoch(number)]
    shared = Batches(part, "classify", 8, steps=5, seed=5)
    found = [batch.inputs for number in range(2) for batch in shared.epoch(number)]
    assert (len(shared), len(found)) == (5, 10)
    assert all(torch.equal(one, other) for one, other in zip(passes, found, strict=False))


def test_a_budget_of_steps(tmp_path):
    toy_run(tmp_path, toy_config(epochs=4, steps=18))
    path = tmp_path / "checkpoints/results/toy/fru-seed0/last.safetensors"
    assert Checkpoint.load(path).step == 20  # five in each of four epochs
    with pytest.raises(ValueError, match=r"was begun with training.epochs=4, not 8"):
        toy_run(tmp_path, toy_config(epochs=8, steps=18), resume=True)


def test_small_runs_are_resumed_exactly(tmp_path):
    config = small_config(lr=0.3, epochs=8, steps=24)
    whole = toy_run(tmp_path / "whole", config)
    assert best_epoch(whole.epochs) <= 7  # before the last cut
    for epoch, batch in ((0, 1), (2, 2), (7, 1)):
        with pytest.raises(InterruptedError):
            toy_run(tmp_path / "cut", config, resume=True, hooks=[Cut(epoch, batch)])
    resumed = toy_run(tmp_path / "cut", config, resume=True)
    assert numbers(vars(resumed)) == numbers(vars(whole))
    one, other = (
        Checkpoint.load(tmp_path / name / "checkpoints/results/toy/fru-seed0/last.safetensors")
        for name in ("whole", "cut")
    )
    assert one.best.keys() == one.weights.keys()
    for ours, theirs in ((one.best, other.best), (one.weights, other.weights)):
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


class WeightsAt(Hook):
    def __init__(self):
        self.seen = []

    def on_epoch(self, training):
        self.seen.append({k: v.clone() for k, v in training.model.state_dict().items()})


def test_the_best_weights_are_the_ones_that_predict(tmp_path):
    seen = WeightsAt()
    record = toy_run(tmp_path, small_config(lr=0.3, epochs=8, steps=24), hooks=[seen])
    best = best_epoch(record.epochs)
    assert best < 8  # at such a rate a run does not end with its best epoch
    losses = [epoch["validation_loss"] for epoch in record.epochs]
    assert record.last["validation_loss"] == min(losses) == losses[best - 1]
    model = load_trained("toy/fru-seed0", tmp_path / "results").model
    for name, value in model.state_dict().items():
        assert torch.equal(value, seen.seen[best - 1][name])


def test_patience_ends_a_run(tmp_path):
    config = small_config(lr=0.3, epochs=20, steps=60, patience=2)
    record = toy_run(tmp_path, config)
    assert record.status == "finished"
    assert len(record.epochs) == best_epoch(record.epochs) + 2 < 20
    assert toy_run(tmp_path, config, resume=True).epochs == record.epochs


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"keep_best": False, "patience": 3}, "training.patience needs training.keep_best=true"),
        ({"noise": -1.0}, "training.noise must be greater than 0, got -1.0"),
        ({"steps": 0}, "training.steps must be greater than 0, got 0"),
    ],
)
def test_settings_that_do_not_fit(tmp_path, changes, problem):
    with pytest.raises(ValueError, match=problem):
        toy_run(tmp_path, small_config(**changes))


def test_the_best_needs_a_judge_and_noise_needs_numbers(tmp_path):
    with pytest.raises(ValueError, match=r"training.keep_best needs data.validation"):
        toy_run(tmp_path, toy_config(keep_best=True))
    assert not (tmp_path / "checkpoints").exists()
    with pytest.raises(ValueError, match=r"training.jitter are for numbers, not for tokens"):
        toy_run(tmp_path, toy_config(jitter=0.1), data=toy("tag"))


def test_augmentation_is_only_for_training(tmp_path, monkeypatch):
    """Noise of this size would hide everything from the model while it is measured."""
    plain = toy_run(tmp_path / "plain", toy_config(lr=1e-9, epochs=1))
    noisy = toy_run(tmp_path / "noisy", toy_config(lr=1e-9, epochs=1, noise=1e4, jitter=9.0))
    assert noisy.last["test_loss"] == pytest.approx(plain.last["test_loss"], rel=1e-5)
    assert noisy.last["train_loss"] != pytest.approx(plain.last["train_loss"], rel=1e-2)


# Parts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_every_class_has_its_share(share):
    labels = np.repeat([0, 1, 2, 3], [40, 20, 8, 1])
    held = held_out(labels, share, generator(3))
    sizes = np.bincount(labels[held], minlength=4)
    kept = np.bincount(labels[~held], minlength=4)
    assert (kept >= 1).all()
    assert abs(sizes - share * np.array([40, 20, 8, 0])).max() <= 1
    assert not (held == held_out(labels, share, generator(4))).all()


def test_classes_of_one_sequence_are_not_held_out():
    with pytest.raises(ValueError, match="none can be held out; give more sequences of each class"):
        held_out(np.arange(5), 0.2, generator(0))


def test_the_validation_part_is_balanced_if_so_wished():
    data, config = toy(n=90), small_config().data
    parts = split_data(data, replace(config, validation=0.2))
    share = data.train.targets.float().mean()
    assert len(parts["validation"]) == 12
    assert abs(parts["validation"].targets.float().mean() - share) < 0.05
    assert len(parts["train"]) + 12 == len(data.train)


# Scaling -----------------------------------------------------------------------------------


def test_scaling_by_the_true_steps_of_the_training_part():
    data = toy("regress", n=60)
    lengths = data.train.lengths
    inside = torch.arange(6) < lengths.unsqueeze(-1)
    raw = replace(data.train, inputs=torch.where(inside.unsqueeze(-1), data.train.inputs, 1e6))
    scaled = standardize(replace(data, train=raw))
    steps = scaled.train.inputs[inside]
    assert torch.allclose(steps.mean(0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(steps.std(0, correction=0), torch.ones(2), atol=1e-5)
    assert scaled.train.targets.mean().abs() < 1e-6
    mean, std = (torch.tensor(part) for part in (scaled.scaling.mean, scaled.scaling.std))
    assert torch.allclose(scaled.test.inputs * std + mean, data.test.inputs, atol=1e-5)
    assert scaled.output_scaling == scaled.target_scaling
    assert not scaled.forecasts


def test_a_constant_channel_is_only_shifted():
    data = toy()
    data.train.inputs[..., 1] = 0.1
    assert standardize(data).scaling.std[1] == 1.0
    assert standardize(data).train.inputs[..., 1].abs().max() < 1e-6


def test_only_numbers_are_scaled():
    with pytest.raises(ValueError, match=r"data.scale is for numbers .* toy has tokens"):
        standardize(toy("tag"))
    with pytest.raises(ValueError, match=r"toy has the task 'predict'"):
        standardize(toy("predict"))


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_predictions_are_in_the_units_of_the_data(tmp_path, task):
    """A run on data in other units ends with the same answers, in these units."""
    data, config = toy(task), small_config(keep_best=False)
    moved = data
    for name in ("train", "test"):
        part = getattr(data, name)
        targets = part.targets if task == "classify" else 50 * part.targets + 7
        part = replace(part, inputs=1000 * part.inputs - 3000, targets=targets)
        moved = replace(moved, **{name: part})
    answers = []
    for one in (data, moved):
        model, _ = fit(one, config)
        x, path = one.test, tmp_path / "x.npz"
        np.savez(path, sequences=x.inputs.numpy(), lengths=x.lengths.numpy())
        answers.append(predict_file(model, path))
    for ours, theirs in zip(*answers, strict=True):
        if task == "classify":
            assert theirs["probability"] == pytest.approx(ours["probability"], abs=1e-3)
        else:
            assert theirs["value"][0] == pytest.approx(50 * ours["value"][0] + 7, abs=0.1)


def test_a_stored_scaling_must_fit():
    spec = replace(toy("regress"), target_scaling=Scaling((0.0, 1.0), (1.0, 1.0)))
    with pytest.raises(ValueError, match="its scaling is not a mean and a positive std"):
        type(spec).from_dict(spec.to_dict())


def test_no_thread_goes_on_logging(tmp_path):
    before = set(threading.enumerate())
    toy_run(tmp_path, toy_config(epochs=1))
    assert set(threading.enumerate()) <= before


# In memory ---------------------------------------------------------------------------------


def test_fit_leaves_torch_s_random_numbers_alone(tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    model, record = fit(toy(), small_config(), folder=tmp_path)
    assert torch.equal(torch.rand(2), expected)
    assert RunResult.load(tmp_path / "results/toy/fru-seed0.json").epochs == record.epochs
    assert read(tmp_path / "results/toy/fru-seed0.json")["status"] == "finished"
    assert model.data.scaling is not None
    again, _ = fit(toy(), small_config())
    for name, value in again.model.state_dict().items():
        assert torch.equal(value, model.model.state_dict()[name])
