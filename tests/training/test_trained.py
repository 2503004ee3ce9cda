"""A trained model leaves the building: predictions from files, and ONNX."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from training_helpers import toy, toy_config, toy_run

from torchfru.data import DataError, Scaling, load
from torchfru.nn import LAYERS, StepModel
from torchfru.training.checkpoint import Checkpoint
from torchfru.training.export import export_onnx
from torchfru.training.trained import load_trained, predict_file


def trained(folder, task="classify", layer="fru", **changes):
    config = toy_config(layer, epochs=1)
    config = replace(config, model=replace(config.model, num_layers=2))
    toy_run(folder, config, data=replace(toy(task), **changes))
    return load_trained(f"toy/{layer}-seed0", folder / "results")


def test_classes_with_their_chances(tmp_path):
    saved = trained(tmp_path, classes=("no", "yes"))
    data = toy().test
    np.savez(tmp_path / "x.npz", sequences=data.inputs.numpy(), lengths=data.lengths.numpy())
    answers = predict_file(saved, tmp_path / "x.npz")
    with torch.no_grad():
        expected = saved.model(data.inputs, data.lengths).softmax(-1)
    assert [a["class"] for a in answers] == [("no", "yes")[int(p.argmax())] for p in expected]
    assert answers[0]["probability"] == pytest.approx(float(expected[0].max()), abs=1e-5)


@pytest.mark.parametrize("task", ["regress", "predict"])
def test_values(tmp_path, task):
    saved = trained(tmp_path, task)
    x = np.random.default_rng(0).normal(size=(4, 5, 2))
    np.savez(tmp_path / "x.npz", sequences=x)
    with torch.no_grad():
        output = saved.model(torch.tensor(x, dtype=torch.float32))
    last = output[:, -1] if task == "predict" else output
    found = [answer["value"] for answer in predict_file(saved, tmp_path / "x.npz")]
    np.testing.assert_allclose(found, last.numpy(), rtol=1e-5)


def test_a_series_is_forecast_in_its_own_units(tmp_path):
    scaling = Scaling((10.0, 20.0), (2.0, 4.0))
    saved = trained(tmp_path, "predict", scaling=scaling, output_size=2, **_two_outputs())
    (tmp_path / "x.csv").write_text("a,b\n" + "\n".join(f"{i},{2 * i}" for i in range(9)))
    series = torch.tensor([[i, 2 * i] for i in range(3, 9)], dtype=torch.float32)  # the last T
    scaled = (series - torch.tensor(scaling.mean)) / torch.tensor(scaling.std)
    with torch.no_grad():
        output = saved.model(scaled[None])[0, -1]
    expected = output * torch.tensor(scaling.std) + torch.tensor(scaling.mean)
    (answer,) = predict_file(saved, tmp_path / "x.csv")
    assert answer["value"] == pytest.approx(expected.tolist(), rel=1e-5)


def _two_outputs():
    data = toy("predict")
    both = {name: getattr(data, name) for name in ("train", "test")}
    return {name: replace(part, targets=part.inputs) for name, part in both.items()}


def test_rows_of_a_table(tmp_path):
    data = load("mix-poly", size=10, length=7)
    config = toy_config("gru", epochs=1)
    toy_run(tmp_path, config, data=data)
    saved = load_trained(str(tmp_path / "results" / "toy" / "gru-seed0.json"), tmp_path)
    (tmp_path / "x.csv").write_text("a,b,c,label\n1,2,3,x\n1,2,,y\n")
    first, second = predict_file(saved, tmp_path / "x.csv")
    with torch.no_grad():
        alone = saved.model(torch.tensor([[[1.0], [2.0]]]))[0, -1]
    assert second["value"] == pytest.approx(alone.tolist(), rel=1e-5)
    assert first != second


def test_texts(tmp_path):
    words = ("<pad>", "<unk>")
    saved = trained(tmp_path, "tag", words=words, classes=("a", "b"))
    (tmp_path / "x.txt").write_text("so it is\nno\n")
    answers = predict_file(saved, tmp_path / "x.txt")
    assert [len(answer["classes"]) for answer in answers] == [3, 1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.npz", None, "no such file"),
        ("x.npz", b"nonsense", "not an .npz file"),
        ("x.csv", b"a,b\n1,x\n", "not a finite number"),
        ("x.csv", b"a,b\n1,2\n", "has 1 features per step, the model reads 2"),
        ("x.doc", b"", "ends in .npz, .csv, .parquet"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    saved = trained(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        predict_file(saved, tmp_path / name)
    assert name in str(error.value)


def test_a_sequence_that_is_too_long(tmp_path):
    saved = trained(tmp_path)
    np.savez(tmp_path / "x.npz", sequences=np.zeros((1, 9, 2)))
    with pytest.raises(DataError, match="9 steps, the model reads at most 6"):
        predict_file(saved, tmp_path / "x.npz")


def test_runs_that_cannot_be_loaded(tmp_path):
    saved = trained(tmp_path)
    assert saved.data.seq_len == 6
    with pytest.raises(ValueError, match="there is no run record"):
        load_trained("toy/lstm-seed0", tmp_path / "results")
    path = tmp_path / "checkpoints" / "results" / "toy" / "fru-seed0" / "last.safetensors"
    checkpoint = Checkpoint.load(path)
    Checkpoint.save(replace(checkpoint, config={}), path)
    with pytest.raises(ValueError, match="does not describe a model"):
        load_trained(str(path), tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match="has no checkpoint"):
        load_trained("toy/fru-seed0", tmp_path / "results")


@pytest.mark.parametrize("layer", LAYERS)
def test_steps_are_the_whole(layer, tmp_path):
    saved = trained(tmp_path, "predict", layer)
    step, x = StepModel(saved.model), torch.randn(3, 6, 2)
    state, outputs = step.start(3), []
    for t in range(6):
        output, *state = step(x[:, t], *state)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs, 1), saved.model(x), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("layer", "task"), [("fru", "classify"), ("lstm", "tag")])
def test_onnx_says_what_torch_says(tmp_path, layer, task):
    saved = trained(tmp_path, task, layer)
    assert export_onnx(saved, tmp_path / "m.onnx") < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    notes = session.get_modelmeta().custom_metadata_map
    assert json.loads(notes["torchfru.seq_len"]) == 6
    step = StepModel(saved.model)
    x = torch.randn(7, 2) if task == "classify" else torch.randint(0, 2, (7,))  # another batch
    feed = dict(zip(("x", *step.state_names), (x, *step.start(7)), strict=True))
    found = session.run(["output"], {name: value.numpy() for name, value in feed.items()})[0]
    with torch.no_grad():
        expected = step(*feed.values())[0]
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_a_wrong_export_is_not_written(tmp_path, monkeypatch):
    saved = trained(tmp_path)
    monkeypatch.setattr("torchfru.training.export._convert", lambda *_: b"")
    monkeypatch.setattr("torchfru.training.export._compare", lambda *_: float("nan"))
    with pytest.raises(RuntimeError, match="nothing was written"):
        export_onnx(saved, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
