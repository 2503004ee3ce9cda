"""The benchmark of small data sets: it reads both parts, resumes, and shows every seed."""

from __future__ import annotations

import json
from functools import partial

import numpy as np

from benchmarks import classify as bench
from benchmarks import minirocket
from torchfru import FRUClassifier


def test_each_fit_is_measured_once(tmp_path, monkeypatch, capsys):
    x, y = np.random.default_rng(0).normal(size=(8, 6, 2)), np.array(["a", "b"] * 4)
    arrays = {f"{part}_{name}": v for part in ("train", "test") for name, v in (("sequences", x),)}
    labels = {"train_labels": y, "test_labels": y}
    np.savez(tmp_path / "even.npz", **arrays, **labels)
    lengths = {"train_lengths": np.arange(8) % 3 + 4, "test_lengths": np.full(8, 6)}
    np.savez(tmp_path / "ragged.npz", **arrays, **labels, **lengths)
    assert [len(row) for row in bench.read(tmp_path / "ragged.npz", "train")[0]][:4] == [4, 5, 6, 4]
    short = partial(FRUClassifier, max_steps=2, settings=("training.epochs=1",))
    monkeypatch.setattr(bench, "FRUClassifier", short)
    monkeypatch.setattr(bench.torch, "set_num_threads", lambda number: None)
    record = tmp_path / "record.json"
    bench.classify(tmp_path, record, seeds=1, other_seeds=1)
    first = json.loads(record.read_text())["fits"]
    assert {name: {*layers} for name, layers in first.items()} == {
        "even": {"fru", "lstm", "gru"},
        "ragged": {"fru", "lstm", "gru"},
    }
    bench.classify(tmp_path, record, seeds=2, other_seeds=1)
    second = json.loads(record.read_text())["fits"]
    assert second["even"]["fru"]["0"] == first["even"]["fru"]["0"]
    assert set(second["ragged"]["fru"]) == {"0", "1"}
    assert "ragged" in capsys.readouterr().out


def test_minirocket_reads_sequences_of_one_length():
    rows = [np.arange(4.0).reshape(2, 2), np.ones((5, 2))]
    found = minirocket.padded(rows, 3)
    assert found.shape == (2, 2, 3)
    assert found[0].tolist() == [[0, 2, 0], [1, 3, 0]]
    assert found[1].tolist() == [[1, 1, 1], [1, 1, 1]]
