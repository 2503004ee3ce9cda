"""The benchmark: what it measures on a small problem, and that the documentation follows it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from training_helpers import python_command

from benchmarks import measure as bench
from benchmarks import report as bench_report

ROOT = Path(__file__).parents[2]
SMALL = replace(bench.PRESETS["pixel-mnist"], steps=12, batch=9, num_freqs=4, freq_dim=3)


def test_every_contender_is_measured_in_every_round(monkeypatch):
    monkeypatch.setattr(bench, "PATIENCE", 0.0)
    seen = []
    found = bench.time_layers(SMALL, rounds=2, tick=seen.append)
    names = list(bench.contenders(SMALL))
    assert [result.name for result in found] == names
    assert seen == names * 2  # in turn
    for result in found:
        assert len(result.forward.seconds) == len(result.training.seconds) == 2
        assert result.training.median > 0


def test_a_quick_call_is_repeated_and_a_long_one_is_not():
    calls = []
    assert bench.seconds_of(calls.append, None, patience=0.05) < 0.05
    quick = len(calls)
    assert quick > 10
    assert bench.seconds_of(time.sleep, 0.02, patience=0.0) >= 0.02
    bench.seconds_of(calls.append, None, patience=0.0)
    assert len(calls) == quick + 1


def test_spread_is_relative_to_the_median():
    assert bench_report.spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(1 / 3)
    assert bench_report.spread([1.0]) == 0.0


def test_a_ratio_is_taken_within_each_round():
    slow, fast = [10.0, 30.0, 12.0], [1.0, 2.0, 3.0]  # 10, 15 and 4 times; of the medians, 6
    assert bench_report.times_less(slow, fast) == 10.0


on_linux = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is measured on Linux"
)


@on_linux
def test_peak_memory_sees_what_a_step_allocates():
    shape = replace(SMALL, steps=300, batch=256, num_freqs=60, freq_dim=10)
    direct, collapsed = (bench.peak_memory(shape, f"FRU {b}") for b in ("reference", "collapsed"))
    floats = 300 * 256 * 600 * 4  # u at every step, which the definition keeps
    assert direct > floats
    assert collapsed < floats / 2


@on_linux
def test_a_long_sequence_takes_little_memory():
    steps = 200_000
    shape = replace(bench.PRESETS["pixel-mnist"], steps=steps, batch=1)
    assert bench.peak_memory(shape, "FRU numba") < 800 * steps  # 1 GiB for a million and a quarter


def test_command_writes_figures_and_a_plot(tmp_path):
    figures, plot = tmp_path / "new" / "bench.json", tmp_path / "bench.svg"
    run = python_command(
        "-m", "benchmarks", "--steps", "8", "--batch", "4", "--rounds", "2", "--only", "nn.LSTM",
        "--only", "FRU collapsed", "--no-sweeps", "--no-memory",
        "--json", str(figures), "--plot", str(plot),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    record = json.loads(figures.read_text())
    assert [layer["name"] for layer in record["layers"]] == ["nn.LSTM", "FRU collapsed"]
    assert record["shape"]["steps"] == 8
    assert bench_report.markdown(record) in run.stdout
    assert plot.read_text().startswith("<?xml")
    assert not list(figures.parent.glob("*.part"))


def test_command_refuses_unknown_names():
    assert "choose from pixel-mnist" in python_command("-m", "benchmarks", "--preset", "x").stderr
    assert "choose from nn.RNN" in python_command("-m", "benchmarks", "--only", "x").stderr


def test_the_page_shows_the_records():
    page = (ROOT / "docs" / "speed.md").read_text()
    records = bench_report.read(ROOT / "benchmarks")
    assert records
    assert bench_report.fill(page, records) == page, (
        "run: python -m benchmarks.report benchmarks docs/speed.md"
    )
