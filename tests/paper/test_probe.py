"""Gradients to the initial state: against one backward pass for each of them, and over a kill."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from training_helpers import Cut, read, toy, toy_config, toy_run

from paper import probe as module
from paper.probe import NORMS, GradientProbe, ProbeHook
from torchfru.nn import LAYERS, StepModel
from torchfru.training.loop import build_model


def one_by_one(model, x, y, t) -> torch.Tensor:
    """The same by the model that takes one step at a time, for one sequence and one error."""
    step = StepModel(model)
    start = [s.to(x.dtype) if s.is_floating_point() else s for s in step.start(1)]
    leaves = [s.requires_grad_() for s in start if s.is_floating_point()]
    state = start
    for row in x[: t + 1]:
        output, *state = step(row.unsqueeze(0), *state)
    found = torch.autograd.grad((output - y[t]).square().sum(), leaves)
    return torch.cat([part.flatten() for part in found])


@pytest.mark.parametrize("layer", LAYERS)
def test_against_one_backward_pass_for_each_error(layer, monkeypatch):
    monkeypatch.setattr(module, "STEPS", 4)
    monkeypatch.setattr(module, "SEQUENCES", 3)
    data = toy("predict")
    data = replace(data, test=replace(data.test, lengths=None))
    model = build_model(toy_config(layer), data, seed=0)
    found = GradientProbe(data)(model)
    assert found["step"] == [1, 5]
    model = model.double().eval()
    x, y = data.test.inputs[:3].double(), data.test.targets[:3].double()
    for group, steps in enumerate([range(4), range(4, 6)]):
        gradients = [one_by_one(model, x[n], y[n], t) for n in range(3) for t in steps]
        for name, order in NORMS.items():
            norms = [torch.linalg.vector_norm(g, order) for g in gradients]
            mean = float(torch.stack(norms).mean())
            assert found[name][group] == pytest.approx(mean, rel=1e-9)
            assert mean > 0


def test_measured_before_training_and_on_the_way_also_over_a_kill(tmp_path):
    data = toy("predict")
    config = toy_config("lstm", epochs=5, probe_every=2)
    whole = toy_run(tmp_path / "whole", config, data=data, hooks=[ProbeHook()]).measurements
    assert [entry["epoch"] for entry in whole["gradients"]] == [0, 2, 4]
    assert len({tuple(entry["l2"]) for entry in whole["gradients"]}) == 3
    with pytest.raises(InterruptedError):
        toy_run(tmp_path / "cut", config, data=data, hooks=[ProbeHook(), Cut(3, 1)])
    toy_run(tmp_path / "cut", config, data=data, resume=True, hooks=[ProbeHook()])
    assert read(tmp_path / "cut/results/toy/lstm-seed0.json")["measurements"] == whole


def test_it_changes_nothing_of_the_training(tmp_path):
    data = toy("predict")
    plain = toy_run(tmp_path / "plain", toy_config(), data=data)
    probed = toy_run(tmp_path / "probed", toy_config(probe_every=1), data=data, hooks=[ProbeHook()])
    assert [e["train_loss"] for e in plain.epochs] == [e["train_loss"] for e in probed.epochs]


def test_it_needs_a_prediction_at_every_step(tmp_path):
    with pytest.raises(ValueError, match="the task must be predict; toy is for classify"):
        toy_run(tmp_path, toy_config(probe_every=1), hooks=[ProbeHook()])


def test_without_the_hook_it_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"training\.probe_every needs a hook that measures"):
        toy_run(tmp_path, toy_config(probe_every=1))
    assert not list(tmp_path.iterdir())
