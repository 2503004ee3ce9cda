"""A checkpoint: one safetensors file, which holds numbers and JSON and so cannot run code."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..io import write_atomically
from ..results import finite

FORMAT = "torchfru-checkpoint-1"


@dataclass
class Checkpoint:
    """All that a run needs to go on as if nothing had happened.

    The random state is not here: each epoch starts from a state that seed and epoch determine.
    """

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]  # by "<number of the parameter>.<name of the value>"
    config: dict[str, Any]
    seed: int
    step: int  # optimizer steps taken
    diverged: bool = False
    epochs: list[dict[str, Any]] = field(default_factory=list)
    split: dict[str, float] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)  # what the model was built for
    measurements: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file, all of it or nothing."""
        tensors = {f"model.{name}": value for name, value in self.weights.items()}
        tensors |= {f"optimizer.{name}": value for name, value in self.optimizer.items()}
        names = [item.name for item in fields(self) if item.name not in ("weights", "optimizer")]
        state = json.dumps(finite({name: getattr(self, name) for name in names}))
        content = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        write_atomically(path, save(content, metadata={"format": FORMAT, "state": state}))

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read the file, or say in one line what is wrong with it."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if metadata.get("format") != FORMAT:
                raise ValueError(f"its format is {metadata.get('format')!r}, not {FORMAT!r}")
            state = json.loads(metadata["state"])
            return cls(_part(tensors, "model."), _part(tensors, "optimizer."), **state)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a checkpoint of torchfru: {error}") from None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state, flat."""
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """The inverse of :func:`optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def restore_weights(model: nn.Module, checkpoint: Checkpoint, path: Path) -> None:
    """Put the checkpoint's weights into a model, if they fit."""
    try:
        model.load_state_dict(checkpoint.weights)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the model: {' '.join(str(error).split())}") from None


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
