"""The benchmark for GPUs, on the CPU: it runs, and its record has everything."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.gpu import DTYPES, app

RUNNER = CliRunner()


def test_record_has_every_layer_in_every_dtype(tmp_path):
    file = tmp_path / "gpu.json"
    arguments = ["--device", "cpu", "--batch", "3", "--steps", "5", "--rounds", "1"]
    done = RUNNER.invoke(app, [*arguments, "--json", str(file)])
    assert done.exit_code == 0, done.output
    record = json.loads(file.read_text())
    found = {(row["layer"], row["dtype"]) for row in record["layers"]}
    layers = {"nn.LSTM", "nn.GRU", "FRU collapsed"}
    assert {(layer, dtype) for layer in layers for dtype in DTYPES} <= found
    assert all(row["forward_ms"] > 0 and row["training_ms"] > 0 for row in record["layers"])
    assert record["environment"]["backends"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_it_says_so():
    done = RUNNER.invoke(app, [])
    assert "torch finds no CUDA or ROCm device" in str(done.exception)
