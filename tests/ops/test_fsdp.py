"""Sharded over processes by FSDP2, a layer trains as it does in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torchfru

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="needs torch.distributed with gloo",
)

PROGRAM = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
import torchfru

def train(layer, x):
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        output, (u, _) = layer(x)
        (output.square().mean() + u.square().mean()).backward()
        optimizer.step()

def make():
    torch.manual_seed(0)
    # Sizes that are whole vectors: the kernels then read the parameters themselves.
    return torchfru.FRU(3, 16, 2, seq_len=20, num_freqs=4, freq_dim=10, gate_size=48)

rank, count = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(1)
x = torch.randn(20, 8, 3)
alone, sharded = make(), make()
train(alone, x)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=count)
mesh = init_device_mesh("cpu", (count,))
fully_shard(sharded, mesh=mesh, reshard_after_forward=True)
train(sharded, x.chunk(count, 1)[rank])
for name, parameter in sharded.named_parameters():
    assert isinstance(parameter, DTensor), name
    torch.testing.assert_close(parameter.full_tensor(), alone.get_parameter(name))
dist.destroy_process_group()
print("equal")
"""


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.long)])
def test_sharded_training_equals_that_of_one_process(count, tmp_path):
    pytest.importorskip("torch.distributed.fsdp", reason="needs FSDP2")
    path = os.pathsep.join(
        [str(Path(torchfru.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), str(count), str(tmp_path / "store")],
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    for process in processes:
        output, error = process.communicate(timeout=120)
        assert output.split()[-1:] == ["equal"], error  # torch 2.8 prints before it
