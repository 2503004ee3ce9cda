"""The estimators: scikit-learn's conventions, the forms of input, files, and clear errors."""

from __future__ import annotations

import json
import warnings
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from tqdm import tqdm
from training_helpers import python_command

from torchfru import FRUClassifier, FRURegressor
from torchfru.training.checkpoint import Checkpoint
from torchfru.training.trained import load_trained, predict_file

FAST = {"max_steps": 40, "settings": ("training.epochs=2", "training.lr=0.01"), "random_state": 0}
FAST |= {"n_models": 1}
SMALLER = ("model.num_freqs=8", "model.freq_dim=4", "model.window_size=8")


def waves(n=40, steps=24, channels=1, seed=0):
    """Slow and fast waves (n, steps, channels), their names, and how fast they are."""
    rng = np.random.default_rng(seed)
    speed = np.where(np.arange(n) % 2, 0.9, 0.25) + rng.uniform(-0.1, 0.1, n)
    phase = rng.uniform(0, 6, (n, 1, channels))
    x = np.sin(speed[:, None, None] * np.arange(steps)[:, None] + phase)
    return x, np.where(np.arange(n) % 2, "fast", "slow"), speed


@pytest.fixture(scope="module")
def fitted():
    x, names, _ = waves()
    return FRUClassifier(**FAST).fit(x, names)


SUBSET = "float32 sums of a batch depend on its size: answers differ by less than 1e-6"


@pytest.mark.parametrize(
    "estimator",
    [
        FRUClassifier(
            max_steps=15,
            n_models=1,
            settings=("training.epochs=1", "training.lr=0.02", *SMALLER),
        ),
        FRURegressor(max_steps=30, n_models=2, settings=("training.epochs=1", "training.lr=0.01")),
    ],
)
def test_scikit_learn_s_own_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those that the checks provoke
        results = check_estimator(
            estimator,
            expected_failed_checks={"check_methods_subset_invariance": SUBSET},
            on_skip=None,
        )
    states = [result["status"] for result in results]
    assert states.count("passed") > 45
    assert states.count("failed") == 0


def test_three_lines_are_all_it_takes(fitted):
    x, names, _ = waves(seed=1)
    assert fitted.score(x, names) > 0.95
    chances = fitted.predict_proba(x)
    assert chances.shape == (40, 2)
    np.testing.assert_allclose(chances.sum(1), 1)
    assert (fitted.classes_[chances.argmax(1)] == fitted.predict(x)).all()
    assert list(fitted.classes_) == ["fast", "slow"]
    assert (fitted.n_features_in_, fitted.n_iter_) == (24, 2)


def test_the_same_seed_gives_the_same_model(fitted):
    x, names, _ = waves()
    again = clone(fitted).fit(x, names)
    assert (again.predict_proba(x) == fitted.predict_proba(x)).all()
    other = clone(fitted).set_params(random_state=1).fit(x, names)
    assert (other.predict_proba(x) != fitted.predict_proba(x)).any()


def test_a_number_for_each_sequence():
    x, _, speed = waves(60)
    y = 1e4 + 100 * speed
    model = FRURegressor(**FAST).fit(x, y)
    assert model.score(x, y) > 0.9
    both = FRURegressor(**FAST).fit(x, np.stack([y, -y], 1)).predict(x)
    assert both.shape == (60, 2)
    assert np.corrcoef(both.T)[0, 1] < -0.9


def test_every_form_of_input_is_the_same_sequence(fitted):
    x, *_ = waves()
    expected = fitted.predict_proba(x)
    frame = pd.DataFrame(x[..., 0], columns=[f"t{i}" for i in range(24)])
    for form in (x[..., 0], x[..., 0].tolist(), x.astype("f4"), list(x)):
        np.testing.assert_allclose(fitted.predict_proba(form), expected, atol=1e-6)
    named = clone(fitted).fit(frame, waves()[1])
    np.testing.assert_allclose(named.predict_proba(frame), expected, atol=1e-6)
    assert list(named.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame.rename(columns={"t0": "other"}))


def test_channels_first(fitted):
    x, names, _ = waves(channels=3)
    usual = FRUClassifier(**FAST).fit(x, names)
    turned = FRUClassifier(layout="channels_first", **FAST).fit(x.swapaxes(1, 2), names)
    probabilities = turned.predict_proba(x.swapaxes(1, 2))
    np.testing.assert_allclose(probabilities, usual.predict_proba(x), atol=1e-6)
    ragged = [sequence.T[:, : 24 - i % 5] for i, sequence in enumerate(x)]
    assert clone(turned).fit(ragged, names).score(ragged, names) > 0.9


def test_sequences_of_different_lengths():
    """Padding after a sequence's end is ignored; a longer sequence may be predicted from."""
    x, names, _ = waves(steps=30)
    ragged = [sequence[: 20 + i % 5] for i, sequence in enumerate(x)]
    model = FRUClassifier(**FAST).fit(ragged, names)
    assert model.score(ragged, names) > 0.95
    longer = [sequence[:28] for sequence in x]  # all of one length: an array would do as well
    assert model.score(longer, names) > 0.9
    np.testing.assert_allclose(
        model.predict_proba(ragged[:1]), model.predict_proba(ragged)[:1], atol=1e-5
    )
    with pytest.raises(ValueError, match="X has sequences of 60 steps, and the model reads at mo"):
        model.predict([np.zeros((60, 1)), np.zeros((5, 1))])


@pytest.mark.parametrize("layer", ["lstm", "gru"])
def test_other_layers_for_comparison(layer):
    x, names, _ = waves()
    model = FRUClassifier(layer=layer, **FAST).fit(x, names)
    assert model.model_.model.kind == layer
    assert model.score(x, names) > 0.9


def test_searches_and_pipelines():
    x, names, _ = waves()
    x = x[..., 0]
    small = FRUClassifier(**FAST | {"max_steps": 20})
    scaled = make_pipeline(FunctionTransformer(np.tanh), small)
    assert cross_val_score(scaled, x, names, cv=2).mean() > 0.6
    search = GridSearchCV(small, {"hidden_size": [8, 16]}, cv=2, error_score="raise")
    assert search.fit(x, names).best_estimator_.hidden_size in (8, 16)


def test_pickles_and_files(tmp_path, fitted):
    x, names, _ = waves()
    joblib.dump(fitted, tmp_path / "model.joblib")
    fitted.save(tmp_path / "model.safetensors")
    fitted.save(tmp_path / "model.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.joblib",
        "model.safetensors",
    ]
    for again in (
        joblib.load(tmp_path / "model.joblib"),
        FRUClassifier.load(tmp_path / "model.safetensors"),
    ):
        assert (again.predict_proba(x) == fitted.predict_proba(x)).all()
        assert (again.predict(x) == fitted.predict(x)).all()
        assert again.get_params() == fitted.get_params() | {"settings": again.settings}
        assert again.record_.epochs == fitted.record_.epochs
    assert clone(again).fit(x, names).score(x, names) > 0.9
    np.savez(tmp_path / "x.npz", sequences=x)
    answers = predict_file(
        load_trained(str(tmp_path / "model.safetensors"), tmp_path), tmp_path / "x.npz"
    )
    assert [row["class"] for row in answers] == fitted.predict(x).tolist()


@pytest.mark.parametrize("kind", [FRUClassifier, FRURegressor])
def test_several_models_answer_together(tmp_path, kind):
    x, names, speed = waves()
    y = names if kind is FRUClassifier else speed
    model = kind(**FAST | {"n_models": 3, "max_steps": 10}).fit(x, y)
    members = model.model_.model.members
    assert len(members) == 3
    scaling = model.model_.data.scaling
    inputs = torch.from_numpy((x - scaling.mean) / scaling.std).float()
    with torch.no_grad():
        each = torch.stack([one(inputs) for one in members]).double()
    assert each.std(0).min() > 0  # they differ
    if kind is FRUClassifier:
        expected, found = each.softmax(-1).mean(0).numpy(), model.predict_proba(x)
    else:
        target = model.model_.data.target_scaling
        expected = each.mean(0)[:, 0].numpy() * target.std + target.mean
        found = model.predict(x)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    model.save(tmp_path / "m.safetensors")
    again = kind.load(tmp_path / "m.safetensors")
    assert (again.predict(x) == model.predict(x)).all()
    assert again.n_models == 3
    output = model.model_.model.stream(40)  # the answer at each step, for all sequences
    for step in inputs.unbind(1):
        last = output(step)
    np.testing.assert_allclose(last, model.model_.model(inputs).detach(), atol=1e-4)


def test_numbers_come_back_from_files(tmp_path):
    x, _, speed = waves()
    model = FRURegressor(**FAST).fit(x, speed)
    model.save(tmp_path / "m.safetensors")
    again = FRURegressor.load(tmp_path / "m.safetensors")
    assert (again.predict(x) == model.predict(x)).all()
    with pytest.raises(ValueError, match="is not a saved FRUClassifier"):
        FRUClassifier.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("labels", [[3, 7], [1.0, 2.0], [True, False], ["é", "b"]])
def test_labels_keep_their_type(tmp_path, labels):
    x, names, _ = waves(8)
    y = np.array(labels)[(names == "fast").astype(int)]
    model = FRUClassifier(**FAST | {"max_steps": 2}).fit(x, y)
    model.save(tmp_path / "m.safetensors")
    for one in (model, FRUClassifier.load(tmp_path / "m.safetensors")):
        assert one.predict(x).dtype == y.dtype
        assert set(one.predict(x)) <= set(y)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("classes", [1]),
        ("dtype", "no"),
        ("params", 3),
        ("ragged", None),
        ("kind", 1),
    ],
)
def test_a_changed_file_is_an_error_in_one_line(tmp_path, fitted, key, value):
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    checkpoint = Checkpoint.load(path)
    stored = checkpoint.measurements["estimator"]
    stored[key] = value
    if value is None:
        del stored[key]
    path.write_bytes(checkpoint.to_bytes())
    with pytest.raises(ValueError, match=r"m.safetensors is (damaged|not a saved)") as caught:
        FRUClassifier.load(path)
    assert "\n" not in str(caught.value)


def test_files_are_safetensors(tmp_path, fitted):
    with pytest.raises(ValueError, match="an estimator's file ends in"):
        fitted.save(tmp_path / "model.pkl")
    with pytest.raises(NotFittedError):
        FRUClassifier().save(tmp_path / "m.safetensors")


def test_the_run_s_files_can_be_kept(tmp_path):
    x, names, _ = waves(12)
    model = FRUClassifier(folder=tmp_path, **FAST | {"max_steps": 4}).fit(x, names)
    record = json.loads((tmp_path / "results/sequences/fru-seed0.json").read_text())
    assert record["epochs"] == model.record_.epochs
    assert record["config"]["training"]["steps"] == 4


def test_hold_out_and_best_weights():
    x, names, _ = waves(60)
    model = FRUClassifier(validation=0.2, **FAST).fit(x, names)
    training = model.record_.config["training"]
    assert training["keep_best"]
    assert model.record_.last["validation_accuracy"] > 80


def test_minutes_are_a_budget():
    x, names, _ = waves(12)
    settings = {"max_steps": 3000, "max_minutes": 0.001, "random_state": 0}
    model = FRUClassifier(**settings).fit(x, names)
    assert model.n_iter_ < 30


@pytest.mark.parametrize(
    ("x", "y", "problem"),
    [
        (np.zeros((4, 5)), [1, 1, 1, 1], "y has 1 class, .*; to classify takes at least 2"),
        (np.full((4, 5), np.nan), [0, 1, 0, 1], "at sequence 0, step 0, channel 0 X is NaN; fill"),
        (np.full((4, 5), 1e300), [0, 1, 0, 1], "X is 1e.300, which is infinity in float32"),
        (np.zeros((0, 5)), [], "0 sample"),
        (np.zeros((4, 0)), [0, 1, 0, 1], "0 feature"),
        (np.zeros((4, 5, 0)), [0, 1, 0, 1], "X holds no values"),
        (np.zeros((4, 5, 2, 2)), [0, 1, 0, 1], "dim 4"),
        (np.zeros(4), [0, 1, 0, 1], "1D array instead"),
        ([np.zeros(3), np.zeros(0)], [0, 1], "sequence 1 of X has no steps; leave it out"),
        ([np.zeros((3, 1)), np.zeros((3, 2))], [0, 1], "as many channels as the others"),
        (np.zeros((4, 5)), [0, 1], "inconsistent numbers of samples"),
        (np.zeros((4, 5)), None, "requires y to be passed"),
        (np.zeros((4, 5)), [0.5, 0.2, 0.1, 0.7], "Unknown label type: continuous"),
    ],
)
def test_what_cannot_be_classified(x, y, problem):
    with pytest.raises(ValueError, match=problem):
        FRUClassifier(**FAST).fit(x, y)


def test_what_can_be_classified_all_the_same():
    """Two sequences, and constant ones."""
    two = FRUClassifier(**FAST).fit([[0.0, 0, 0], [1.0, 1, 1]], ["no", "yes"])
    assert list(two.predict([[0.0, 0, 0], [1.0, 1, 1]])) == ["no", "yes"]
    same = FRUClassifier(**FAST).fit(np.full((6, 4), 0.1), [0, 1] * 3)
    np.testing.assert_allclose(same.predict_proba(np.full((1, 4), 0.1)), 0.5, atol=0.1)


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ({"layer": "lstmm"}, "there is no layer 'lstmm'; did you mean 'lstm'"),
        ({"layout": "first"}, "layout must be one of channels_last, channels_first; got 'first'"),
        ({"n_models": 0}, "model.members must be greater than 0, got 0"),
        ({"max_steps": 0}, "training.steps must be greater than 0, got 0"),
        ({"validation": 1.0}, r"data.validation must be within \[0, 1\), got 1.0"),
        ({"settings": ["training.lrr=1"]}, "did you mean 'training.lr'"),
    ],
)
def test_options_that_do_not_exist(option, problem):
    x, names, _ = waves(8)
    with pytest.raises(ValueError, match=problem):
        FRUClassifier(**FAST | option).fit(x, names)


def test_other_channels_than_in_training(fitted):
    with pytest.raises(ValueError, match="sequences of 2 channels, and the model reads 1"):
        fitted.predict(np.zeros((3, 24, 2)))


def test_fitting_leaves_random_numbers_and_threads_alone():
    x, names, _ = waves(8)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    FRUClassifier(**FAST | {"max_steps": 2}).fit(x, names)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_progress_bar_on_a_terminal_only(capfd, monkeypatch):
    x, names, _ = waves(10)
    model = FRUClassifier(validation=0.2, **FAST | {"max_steps": 2})
    model.fit(x, names)
    assert capfd.readouterr() == ("", "")
    always = partial(tqdm, ncols=200)
    monkeypatch.setattr(
        "torchfru.estimators.progress.tqdm",
        lambda **options: always(**options | {"disable": False}),
    )
    model.fit(x, names)
    shown = capfd.readouterr().err
    assert "FRUClassifier" in shown
    assert "2/2" in shown
    assert "validation_accuracy=" in shown
    model.set_params(verbose=False).fit(x, names)
    assert capfd.readouterr() == ("", "")


def test_without_scikit_learn_one_line_says_what_to_install():
    program = "import sys; sys.modules['sklearn'] = None; import torchfru; torchfru.FRUClassifier"
    done = python_command("-c", program)
    last = "torchfru's estimators need scikit-learn: pip install 'torchfru[sklearn]'"
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {last}"
    loaded = "import sys, torchfru, torch; print({'sklearn', 'pandas'} & {*sys.modules})"
    assert python_command("-c", loaded).stdout == "set()\n"
