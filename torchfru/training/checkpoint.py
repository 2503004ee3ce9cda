"""A checkpoint is one safetensors file of numbers and JSON: loading one cannot run code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..io import write_atomically
from ..records import nan_to_none

FORMATS = ("torchfru-checkpoint-1", "torchfru-checkpoint-2")  # the first has no digest
NAME, EARLIER, DAMAGED = "last.safetensors", "earlier.safetensors", "damaged.safetensors"

PARTS = {"model": "weights", "optimizer": "optimizer", "best": "best"}  # tensors: prefix, field


class DamagedError(ValueError):
    """The file is not a checkpoint, or was changed after it was written."""


@dataclass
class Checkpoint:
    """Everything needed to resume a run exactly.

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
    data: dict[str, Any] = field(default_factory=dict)  # the description of the data
    measurements: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)  # weights, with ``training.keep_best``

    def at_best(self) -> Checkpoint:
        """The checkpoint with the weights to predict with: the best ones, where they are kept."""
        return replace(self, weights=self.best or self.weights)

    def save(self, path: Path) -> None:
        """Write the file as a whole. The one before is kept as ``earlier``."""
        content = self.to_bytes()
        if path.exists():
            earlier = path.with_name(EARLIER)
            earlier.unlink(missing_ok=True)
            try:
                os.link(path, earlier)
            except OSError:  # a disk without links
                shutil.copyfile(path, earlier)
        write_atomically(path, content)

    def to_bytes(self) -> bytes:
        """The content of the file, with a digest."""
        tensors = {
            f"{part}.{name}": value.detach().cpu().contiguous()
            for part, field in PARTS.items()
            for name, value in getattr(self, field).items()
        }
        names = [item.name for item in fields(self) if item.name not in PARTS.values()]
        state = json.dumps(nan_to_none({name: getattr(self, name) for name in names}))
        metadata = {"format": FORMATS[-1], "state": state, "digest": _digest(tensors, state)}
        return save(tensors, metadata=metadata)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read the file, or say in one line what is wrong with it.

        safetensors compares the sizes in the header with the file before it allocates anything.
        """
        try:
            if path.exists() and not path.is_file():
                raise ValueError("it is not a file")
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if metadata.get("format") not in FORMATS:
                raise ValueError(f"its format is {metadata.get('format')!r}, not {FORMATS[-1]!r}")
            old = metadata["format"] == FORMATS[0] and "digest" not in metadata
            if not old and metadata.get("digest") != _digest(tensors, metadata["state"]):
                raise ValueError("its contents do not match its digest: it was changed or damaged")
            known = {item.name for item in fields(cls)} - {*PARTS.values()}
            state = {k: v for k, v in json.loads(metadata["state"]).items() if k in known}
            parts: dict[str, Any] = {field: {} for field in PARTS.values()}
            for name, value in tensors.items():
                part, _, rest = name.partition(".")
                parts[PARTS[part]][rest] = value
            return cls(**parts, **state)
        except FileNotFoundError:
            raise ValueError(f"there is no checkpoint {path}") from None
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            ours = type(error) is ValueError  # the words of a library are not for users
            problem = str(error) if ours else "it is damaged, or was cut off"
            raise DamagedError(f"{path} is not a checkpoint of torchfru: {problem}") from None


def _digest(tensors: dict[str, Tensor], state: str) -> str:
    """SHA-256 of the contents of a checkpoint."""
    digest = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as one dictionary of tensors."""
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
    except RuntimeError:
        found = {key: list(value.shape) for key, value in checkpoint.weights.items()}
        expected = {key: list(value.shape) for key, value in model.state_dict().items()}
        name = next(key for key in expected | found if found.get(key) != expected.get(key))
        raise ValueError(
            f"{path} does not fit the model: {name} has the shape {found.get(name)}, not "
            f"{expected.get(name)}; train it again"
        ) from None
