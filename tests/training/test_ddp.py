"""Two processes with half of each batch do what one does with the whole."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel
from training_helpers import command, finish, numbers, read, tiny_arguments, toy, toy_config

from torchfru.data import SequenceData
from torchfru.training.batches import Batches
from torchfru.training.loop import build_model
from torchfru.training.objective import loss_sum
from torchfru.training.outcome import outcome

TASKS = ("classify", "regress", "predict", "tag")


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def gradients(data: SequenceData, size: int, rank: int, world: int) -> list[torch.Tensor]:
    """Those of the first batch, as the loop computes them."""
    model = build_model(toy_config("fru"), data, seed=0).eval()
    wrapped = model if world == 1 else DistributedDataParallel(model)
    batch = next(iter(Batches(data.train, data.task, size, rank=rank, world=world)))
    total = loss_sum(data.task, wrapped(batch.inputs, batch.lengths), batch.targets, batch.lengths)
    (total * batch.scale(world)).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def counts(rank: int, world: int) -> dict[str, Any]:
    """The outcome of a model; the last batch has nothing for the second process."""
    data = toy()
    model = build_model(toy_config("fru"), data, seed=0).eval()
    return outcome(
        data,
        "test",
        1,
        Batches(data.test, data.task, 3, rank=rank, world=world),
        lambda batch: (model(batch.inputs, batch.lengths), batch.targets),
        torch.distributed.all_reduce if world > 1 else torch.Tensor.tolist,
    )


def worker(rank: int, world: int, port: str, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    found = {
        f"{task} {size}": gradients(toy(task), size, rank, world)
        for task in TASKS
        for size in (8, 5, 1)  # equal halves, unequal ones, nothing for the second process
    }
    found["counts"] = counts(rank, world)
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_gradients_of_two_processes_are_those_of_one(tmp_path):
    mp.spawn(worker, (2, free_port(), str(tmp_path)), nprocs=2)
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for task in TASKS:
        for size in (8, 5, 1):
            whole = gradients(toy(task), size, 0, 1)
            for found in parts:
                for here, there in zip(whole, found[f"{task} {size}"], strict=True):
                    torch.testing.assert_close(there, here, atol=1e-7, rtol=1e-5)
    assert parts[0]["counts"] == parts[1]["counts"] == counts(0, 1)
    assert sum(sum(row.values()) for row in counts(0, 1)["counts"].values()) == 10


EXACT = ("--set", "model.dropout=0", "--set", "training.clip=0.01")
PLACE = "mix-poly-5/fru-seed0"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run by one process, from the command line."""
    folder = tmp_path_factory.mktemp("alone")
    finish(start(folder, {}))
    return folder


def start(folder: Path, environment: dict[str, str], *more: str) -> subprocess.Popen[str]:
    arguments = tiny_arguments(folder / "results", *EXACT, *more, epochs=2)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command(*arguments), env=os.environ | environment | {"PYTHONFAULTHANDLER": "1"}, **pipes
    )


def assert_same_run(folder: Path, alone: Path) -> None:
    records = [read(where / "results" / f"{PLACE}.json") for where in (folder, alone)]
    for found, expected in zip(*map(numbers, records), strict=True):
        assert found == pytest.approx(expected, rel=1e-5)
    kept = [record["measurements"]["outcome"]["forecasts"] for record in records]
    for found, expected in zip(*kept, strict=True):
        assert found["truth"] == expected["truth"]
        assert found["forecast"] == pytest.approx(expected["forecast"], rel=1e-3, abs=1e-5)
    tensors = [
        load_file(where / "checkpoints" / "results" / PLACE / "last.safetensors")
        for where in (folder, alone)
    ]
    for name, value in tensors[1].items():
        if name.startswith("model."):
            torch.testing.assert_close(tensors[0][name], value, atol=1e-5, rtol=1e-4)


def test_a_run_on_two_devices_is_the_run_on_one(tmp_path, alone):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    output, errors = finish(start(tmp_path, address, "--devices", "2"))
    assert output.count("Record:") == 1, errors
    assert read(tmp_path / "results" / f"{PLACE}.json")["hardware"]["devices"] == 2
    assert_same_run(tmp_path, alone)


def test_a_run_on_two_machines_is_the_run_on_one(tmp_path, alone):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    machines = [
        start(tmp_path, address | {"NODE_RANK": rank}, "--nodes", "2") for rank in ("0", "1")
    ]
    outputs = [finish(machine)[0] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0]
    assert [output.count("Record:") for output in outputs] == [1, 0]
    assert_same_run(tmp_path, alone)
