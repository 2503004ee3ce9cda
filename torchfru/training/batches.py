"""Batches of tensors in memory, by one index operation per batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data import SequenceData, Split, Task
from ..data.arrays import generator, held_out
from .config import DataConfig
from .objective import count_terms

CHOICE_SEED = 20_180_601  # the same samples are held back for every seed of a run


class Batch(NamedTuple):
    """One process's share of a batch."""

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None
    terms: int  # of the loss of this share; 0 if the batch is too small to share
    all_terms: int  # of the loss of the whole batch

    def scale(self, world: int) -> float:
        """The factor of a share's summed loss that makes DDP's mean of the gradients over ``world``
        processes the gradient of the mean loss of the whole batch."""
        return world / self.all_terms if self.terms else 0.0

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        lengths = None if self.lengths is None else self.lengths.to(device)
        return self._replace(
            inputs=self.inputs.to(device), targets=self.targets.to(device), lengths=lengths
        )


class Batches:
    """Passes over a part of the data, the share of process ``rank`` of ``world``.

    A pass is in the order of the data. :meth:`epoch` shuffles by the seed and the pass's number
    alone, so that a resumed run sees the same batches. An epoch is one pass, or ``steps`` batches:
    then passes follow each other, and an epoch may begin and end within one.
    """

    def __init__(
        self,
        split: Split,
        task: Task,
        batch_size: int,
        *,
        steps: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.split = split
        self.task = task
        self.batch_size = batch_size
        self.per_pass = -(-len(split) // batch_size)
        self.steps = steps
        self.seed = seed
        self.rank = rank
        self.world = world

    def __len__(self) -> int:
        return self.per_pass if self.steps is None else self.steps

    def __iter__(self) -> Iterator[Batch]:
        return map(self._share, torch.arange(len(self.split)).split(self.batch_size))

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch, counted from 0."""
        return map(self._share, self._shuffled(number * len(self), (number + 1) * len(self)))

    def _shuffled(self, first: int, end: int) -> Iterator[Tensor]:
        """The numbers of the sequences of each batch from ``first`` to ``end``, over all passes."""
        for number in range(first // self.per_pass, -(-end // self.per_pass)):
            generator = torch.Generator().manual_seed(derive_seed(self.seed, number))
            order = torch.randperm(len(self.split), generator=generator)
            before = number * self.per_pass
            yield from order.split(self.batch_size)[max(0, first - before) : end - before]

    def _share(self, chosen: Tensor) -> Batch:
        mine = chosen.tensor_split(self.world)[self.rank]
        share = self.split[mine if len(mine) else chosen[:1]]  # all take the step
        terms = self._count(share) if len(mine) else 0
        all_terms = terms if self.world == 1 else self._count(self.split[chosen])
        return Batch(share.inputs, share.targets, share.lengths, terms, all_terms)

    def _count(self, part: Split) -> int:
        return count_terms(self.task, part.targets, part.lengths)


def hold_back(split: Split, share: float, stratify: bool = False) -> tuple[Split, Split]:
    """Split a part into samples for training and a share for validation, of each class if wished.

    Every class keeps a sample to train on. Of windows over a series, the last ones are held back.
    """
    n = len(split)
    if (parts := split.in_time(share)) is not None:
        return parts
    if stratify:
        held = torch.from_numpy(held_out(split.targets.numpy(), share, generator(CHOICE_SEED)))
        return split[(~held).nonzero().flatten()], split[held.nonzero().flatten()]
    kept = n - max(1, round(share * n))
    if kept < 1:
        raise ValueError(f"data.validation={share} leaves nothing of {n} sequences to train on")
    order = _draw(n)
    return split[order[:kept].sort().values], split[order[kept:].sort().values]


def subsample(split: Split, limit: int | None) -> Split:
    """At most ``limit`` samples of a part, drawn at random."""
    if limit is None or limit >= len(split):
        return split
    return split[_draw(len(split))[:limit].sort().values]


def split_data(data: SequenceData, config: DataConfig) -> dict[str, Split]:
    """The parts: "train", "test", and "validation" where some is held back from training."""
    splits = {"train": data.train, "test": data.test}
    if config.validation > 0:
        balanced = bool(config.stratify) and data.task == "classify"
        parts = hold_back(data.train, config.validation, balanced)
        splits["train"], splits["validation"] = parts
    return {part: subsample(split, config.limit) for part, split in splits.items()}


def _draw(n: int) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(CHOICE_SEED))


def derive_seed(*numbers: int) -> int:
    """One seed from several numbers; neighbouring numbers give unrelated seeds."""
    words = (len(numbers), *numbers)  # without their count, (5,) and (5, 0) would be the same
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))
