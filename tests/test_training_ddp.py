"""Two processes with half of each batch do what one does with the whole."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest
import torch
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel
from training_helpers import command, numbers, read, tiny_arguments, toy, toy_config

from torchfru.data import SequenceData
from torchfru.training.batches import Batches
from torchfru.training.module import build_model
from torchfru.training.objective import loss_sum

TASKS = ("classify", "regress", "predict", "tag")


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def gradients(data: SequenceData, size: int, rank: int, world: int) -> list[torch.Tensor]:
    """Those of the first batch, as RunModule computes them."""
    model = build_model(toy_config("fru"), data, seed=0).eval()
    wrapped = model if world == 1 else DistributedDataParallel(model)
    batch = next(iter(Batches(data.train, data.task, size, rank=rank, world=world)))
    total = loss_sum(data.task, wrapped(batch.inputs, batch.lengths), batch.targets, batch.lengths)
    (total * batch.scale(world)).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def worker(rank: int, world: int, port: str, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    found = {
        f"{task} {size}": gradients(toy(task), size, rank, world)
        for task in TASKS
        for size in (8, 5, 1)  # equal halves, unequal ones, nothing for the second process
    }
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


@pytest.fixture(scope="module")
def one_and_two(tmp_path_factory):
    """The same run by one process and by two, from the command line."""
    folder = tmp_path_factory.mktemp("ddp")
    dropout = ("--set", "model.dropout=0", "--set", "training.clip=0.01")
    environment = os.environ | {"MASTER_PORT": free_port(), "MASTER_ADDR": "127.0.0.1"}
    for devices in ("1", "2"):
        arguments = tiny_arguments(folder / devices, *dropout, "--devices", devices, epochs=2)
        done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Record:") == 1
    return folder


def test_a_run_on_two_devices_is_the_run_on_one(one_and_two):
    records = [read(one_and_two / n / "mix-poly-5" / "fru-seed0.json") for n in ("1", "2")]
    for one, two in zip(numbers(records[0]), numbers(records[1]), strict=True):
        assert two == pytest.approx(one, rel=1e-5)
    assert records[1]["hardware"]["devices"] == 2
    place = "mix-poly-5/fru-seed0/last.safetensors"
    tensors = [load_file(one_and_two / "checkpoints" / n / place) for n in ("1", "2")]
    for name, value in tensors[0].items():
        if name.startswith("model."):
            torch.testing.assert_close(tensors[1][name], value, atol=1e-5, rtol=1e-4)
