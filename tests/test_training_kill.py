"""kill -9 at some moment, then --resume: the same numbers, bit for bit."""

from __future__ import annotations

import signal
import subprocess
import time

import torch
from safetensors.torch import load_file
from training_helpers import command, numbers, read, tiny_arguments, torchfru_command


def test_killed_and_resumed(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = tiny_arguments(killed, epochs=40)
    record = killed / "mix-poly-5" / "fru-seed0.json"
    with subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL) as process:
        while not (record.exists() and len(read(record)["epochs"]) >= 3):
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    cut_off = read(record)
    assert cut_off["status"] == "running"
    assert len(cut_off["epochs"]) < 40
    again = torchfru_command(*arguments, "--resume")
    assert again.returncode == 0, again.stderr
    uncut = torchfru_command(*tiny_arguments(whole, epochs=40))
    assert uncut.returncode == 0, uncut.stderr
    first, second = read(record), read(whole / "mix-poly-5" / "fru-seed0.json")
    assert second["status"] == first["status"] == "finished"
    assert numbers(first) == numbers(second)
    assert numbers(first)[: len(cut_off["epochs"])] == numbers(cut_off)
    tensors = [
        load_file(tmp_path / "checkpoints" / name / "mix-poly-5" / "fru-seed0" / "last.safetensors")
        for name in ("killed", "whole")
    ]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(value, tensors[1][name]) for name, value in tensors[0].items())
    assert not list(tmp_path.rglob("*.part"))
