"""The networks of the experiment depth: their definition, their sizes, training and the report."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from report_helpers import make_run, save
from training_helpers import ROOT, Cut, numbers, read, toy_config, toy_run

from paper import networks
from paper.experiments import DEPTH_RATES, DEPTHS, EXPERIMENTS, KINDS, NETWORKS, network_name
from paper.networks import DeepLayer, Stack
from paper.plan import PLAN
from paper.probe import DepthProbe, ProbeHook
from paper.rates import TRIED, sweeps
from paper.report import read_library
from paper.report.depth import depth as depth_section
from torchfru.data import DataSpec, SequenceData
from torchfru.training import ModelConfig
from torchfru.training.loop import build_model

LEARNS = 30.0  # percent on held-back images after one epoch; guessing gives 11
MNIST = DataSpec(name="mnist", task="classify", input_size=784, output_size=10, seq_len=1)


@pytest.fixture(autouse=True)
def _registered():
    networks.register()


def images(n: int = 30) -> SequenceData:
    """Images of 8 x 8 pixels whose class is the sign of their sum."""
    x = torch.randn(n, 1, 64, generator=torch.Generator().manual_seed(1))
    targets = (x.sum((1, 2)) > 0).long()
    return SequenceData.of("toy", "classify", x, targets, train=2 * n // 3, output_size=2)


def small(kind: str, **training):
    config = toy_config("fru", **training)
    own = {"num_freqs": 2, "freq_dim": 3} if kind.startswith("fourier") else {}
    model = ModelConfig(kind, hidden_size=6, num_layers=4, gate_size=3, norm="pre" in kind, **own)
    return replace(config, model=model)


@pytest.mark.parametrize("kernel", [(), (3, 3)])
@pytest.mark.parametrize("update", networks.UPDATES)
def test_a_stack_is_its_definition(update, kernel):
    net = Stack(update, 2, 4, 5, 3, kernel).double()
    for bias in (net.bias_u, net.bias_1, net.bias_2):
        torch.nn.init.normal_(bias)
    x = torch.randn(3, 2, *(6, 6)[: len(kernel)], dtype=torch.float64)
    apply = (lambda *a: F.conv2d(*a, padding="same")) if kernel else F.linear
    u = apply(x, net.weight_xu[0], net.bias_u[0])
    for w1, b1, w2, b2 in zip(net.weight_1, net.bias_1, net.weight_2, net.bias_2, strict=True):
        given = u
        if update == "prenorm":
            flat = u.flatten(1)
            deviation = (flat.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
            given = ((flat - flat.mean(1, keepdim=True)) / deviation).view_as(u)
        f = apply(apply(given, w1, b1).clamp(min=0), w2, b2)
        u = {
            "plain": f.clamp(min=0),
            "residual": u + f,
            "prenorm": u + f,
            "mean": u + f.clamp(min=0) / 5,
        }[update]
    torch.testing.assert_close(net(x), u, rtol=0, atol=1e-10)


def best_rates() -> dict[str, float]:
    """By network: the rate that did best in its committed sweep, where one learned at all."""
    best = {}
    for path in (ROOT / "results" / "depth").glob("sweep-*.json"):
        record = read(path)
        point = record["points"][0]
        if (point["score"] or 0.0) > LEARNS:
            best[record["model"]] = point["lr"]
    return best


def test_the_rates_did_best_on_held_back_images():
    best = best_rates()
    tried_at = {("mlp", 10): 100, ("mlp", 300): 1000, ("conv", 10): 10, ("conv", 50): 50}
    for (shape, least), depth in tried_at.items():
        for kind, rate in DEPTH_RATES[shape][least].items():
            shallow = best.get(f"{kind}-{shape}-10")
            assert rate == best.get(f"{kind}-{shape}-{depth}", shallow), (kind, shape, least)


def test_every_sweep_is_committed_and_has_all_its_rates(tmp_path):
    for sweep in sweeps(TRIED, ROOT / "results"):
        found = {point["lr"] for point in read(sweep.summary)["points"]}
        assert found == set(TRIED[sweep.model]), sweep.model


def test_all_kinds_have_the_same_parameters_within_three_percent():
    for shape, depths in DEPTHS.items():
        for depth in (depths[0], 100):
            runs = EXPERIMENTS["depth"]
            counts = {}
            for kind in KINDS:
                run = runs[f"{kind}-{shape}-{depths[0]}"]
                run = replace(run, model=replace(run.model, num_layers=depth))
                with torch.device("meta"):
                    counts[kind] = build_model(run, MNIST, 0).count_parameters()
            assert max(counts.values()) < 1.03 * min(counts.values())


@pytest.mark.parametrize("kind", ["fourier-mlp", "prenorm-conv"])
def test_the_loop_trains_them_and_resumes(kind, tmp_path):
    data, config = images(), small(kind, epochs=3, probe_every=3)
    whole = toy_run(tmp_path / "whole", config, data=data, hooks=[ProbeHook()])
    assert [entry["epoch"] for entry in whole.measurements["gradients"]] == [0, 3]
    assert whole.epochs[-1]["train_loss"] < whole.epochs[0]["train_loss"]
    with pytest.raises(InterruptedError):
        toy_run(tmp_path / "cut", config, data=data, hooks=[ProbeHook(), Cut(2, 1)])
    toy_run(tmp_path / "cut", config, data=data, resume=True, hooks=[ProbeHook()])
    again = read(tmp_path / f"cut/results/toy/{kind}-seed0.json")
    assert numbers(again) == numbers(vars(whole))
    assert again["measurements"] == whole.measurements


@pytest.mark.parametrize("kind", NETWORKS)
def test_gradients_by_layer(kind):
    """Of one image, the gradient of u_0 is that of the bias it is added to, at every pixel."""
    data = images()
    model = build_model(small(kind), data, seed=0)
    found = DepthProbe(replace(data, train=data.train[:1]))(model)
    assert found["layer"] == [0, 1, 2, 3, 4]
    model = model.double().eval()
    loss = F.cross_entropy(model(data.train.inputs[:1].double()), data.train.targets[:1])
    bias = model.layer.stack.bias_u
    (expected,) = torch.autograd.grad(loss, bias)
    if "mlp" in kind:
        assert found["l2"][0] == pytest.approx(float(expected.norm()), rel=1e-9)
    assert found["l2"][-1] > 0
    u = list(model.layer.states(data.train.inputs[:1].double()))
    output = model.head_output(model.layer.output(u[-1]))
    torch.testing.assert_close(output, model(data.train.inputs[:1].double()))


def test_a_state_that_is_no_product_is_refused():
    with pytest.raises(ValueError, match=r"hidden_size must be num_freqs \* freq_dim = 6, got 5"):
        DeepLayer("fourier-mlp", 4, 5, 1, seq_len=1, batch_first=True, return_sequences=False,
                  gate_size=2, num_freqs=2, freq_dim=3)  # fmt: skip


def test_the_plan_has_every_network_within_three_hours():
    runs = [run for run in PLAN if run.experiment == "depth"]
    assert {run.name for run in runs} == set(EXPERIMENTS["depth"])
    assert sum(run.minutes for run in runs) < 2 * 3 * 60
    assert runs[0].name == "fourier-mlp-1000"


def test_the_section_shows_what_there_is(tmp_path):
    save(tmp_path, make_run("imdb", "lstm"))
    empty = depth_section(read_library(tmp_path))
    assert [part.caption.partition(":")[0] for part in empty.content] == [
        "MLP",
        "MLP",
        "CNN",
        "CNN",
    ]
    assert [row[0] for row in empty.content[0].rows] == ["10", "30", "100", "300", "1,000"]
    assert all(cell == "–" for cell in empty.content[0].rows[0][1:])  # noqa: RUF001
    diverged = make_run("depth", "residual-mlp-1000", epochs=1, diverged=True)
    runs = [make_run("depth", "fourier-mlp-1000", seed, final=97.0 + seed) for seed in range(2)]
    save(tmp_path, diverged, *runs)
    drawn, accuracies, *_ = depth_section(read_library(tmp_path)).content
    assert [panel.title for panel in drawn.panels] == [
        "MLP: accuracy by depth",
        "MLP, 1,000 layers, before training",
        "MLP, 1,000 layers, after training",
    ]
    last = dict(zip(accuracies.header, accuracies.rows[-1], strict=True))
    assert last["Residual"] == "diverged"
    assert last["Fourier"][0].text == "97.50 ± 0.71"
    assert network_name("prenorm-conv-50") == ("prenorm", "conv", 50)
