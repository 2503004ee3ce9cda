"""The benchmark of everyday shapes, at tiny ones: it measures every contender in every mode."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import shapes, shapes_report

TINY = tuple(
    replace(shapes.Row(kind, kind, 3, 6, 2, 4), fru={"num_freqs": 4, "freq_dim": 2})
    for kind in ("layer", "lengths", "step", "cell", "stream")
)


@pytest.fixture
def record(monkeypatch):
    monkeypatch.setattr(shapes, "PATIENCE", 0.0)
    monkeypatch.setattr(shapes, "_compiled_step", lambda cell, x: lambda: cell(x))
    seen = []
    rows = shapes.measure(TINY, rounds=2, tick=seen.append)
    assert len(seen) == 2 * len(TINY)
    latency = {"2 -> 4": shapes.latencies(2, 4, steps=100)}
    environment = {"cpu": "a processor", "torch": "2.0"}
    return {"rounds": 2, "environment": environment, "rows": rows, "latency": latency}


def test_every_contender_is_measured_in_every_round_and_mode(record, tmp_path):
    for row in record["rows"]:
        for measures in row["seconds"].values():
            assert all(len(times) == 2 for modes in measures.values() for times in modes.values())
            assert all(set(modes) == set(shapes.MODES) for modes in measures.values())
    kinds = {row["kind"]: set(row["seconds"]) for row in record["rows"]}
    assert kinds["layer"] == kinds["step"] == set(shapes.LAYER_NAMES)
    assert kinds["lengths"] >= {"nn.LSTM packed", "FRU packed", "FRU lengths=", "SRU lengths="}
    assert kinds["stream"] == {"nn.LSTMCell", "SRU", "FRU"}
    text = shapes_report.markdown(record)
    for name in ("layer", "cell", "FRU, stream", "LSTM, onnxruntime"):
        assert f"| {name} |" in text
    shapes_report.draw(record, tmp_path / "shapes.svg")
    assert (tmp_path / "shapes.svg").read_text().startswith("<?xml")


def test_a_ratio_is_that_of_nn_lstm_of_the_same_round():
    seconds = {"nn.LSTMCell": [1.0, 2.0, 4.0], "FRUCell": [2.0, 6.0, 4.0]}
    row = {"seconds": {n: {"forward": {"flushed": s}} for n, s in seconds.items()}}
    assert shapes_report.ratio(row, "FRUCell", "forward", "flushed") == 2.0
