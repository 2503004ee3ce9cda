"""Functions that the data sets share: random order, splits, checksums, checks of options."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


class DataError(RuntimeError):
    """Data that cannot be used: one line that names the file and says what to do."""


def damaged(path: Path | str, problem: str, name: str) -> DataError:
    """The error for a file of the data set ``name`` that has a wrong content."""
    return DataError(f"{path}: {problem}; delete it and run torchfru data fetch {name}")


def generator(seed: int) -> np.random.Generator:
    """The source of every random number here: the same numbers on every machine."""
    return np.random.Generator(np.random.PCG64(seed))


def shuffled(n: int, rng: np.random.Generator) -> Array:
    """A random order of n things, from uniform numbers alone: no release of numpy changes it.

    >>> shuffled(5, generator(0))
    array([3, 2, 1, 0, 4])
    """
    return np.argsort(rng.random(n), kind="stable")


def train_size(n: int, test: float) -> int:
    """The number of n samples to train on; at least one is kept for the test.

    >>> train_size(4000, test=0.2)
    3200
    """
    if not 0 < test < 1:
        raise ValueError(f"test must lie between 0 and 1, got {test}")
    if n < 2:
        raise ValueError(f"a training and a test part need at least 2 samples, got {n}")
    return min(max(round(n * (1 - test)), 1), n - 1)


def held_out(labels: Array, share: float, rng: np.random.Generator) -> Array:
    """Which samples to hold out: a share of each class, and at least one. Each class keeps one.

    >>> held_out(np.array([0, 0, 0, 0, 1, 1, 2]), 0.4, generator(0))
    array([False, False,  True,  True,  True, False, False])
    """
    order = shuffled(len(labels), rng)
    place = np.empty(len(labels))  # of each sample within its class, from 0 to 1
    for label in np.unique(labels):
        members = order[labels[order] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
        place[members[-1]] = np.inf
    first = order[np.argsort(place[order], kind="stable")][: max(1, round(share * len(labels)))]
    held = np.zeros(len(labels), bool)
    held[first] = np.isfinite(place[first])
    if not held.any():
        raise ValueError(
            f"each of the {len(labels)} sequences has a class of its own, which it must be trained "
            "on: none can be held out; give more sequences of each class"
        )
    return held


def sha256(*arrays: Array) -> str:
    """The SHA-256 of the arrays' bytes, little-endian, one array after the other."""
    digest = hashlib.sha256()
    for array in arrays:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(np.ascontiguousarray(little).data)
    return digest.hexdigest()


def floats(array: Array) -> Tensor:
    """A float32 tensor."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def integers(array: Array) -> Tensor:
    """An int64 tensor."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))


def require_count(name: str, value: object, least: int = 1) -> None:
    """Refuse an option that is no whole number, or too small a one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def require_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Refuse an option that is none of the choices."""
    choices = list(choices)
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {listed}; got {value!r}")
