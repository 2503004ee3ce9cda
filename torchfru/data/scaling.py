"""Inputs and targets in units of the training part."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from .sequence import Scaling, SequenceData, Split

RESOLUTION = torch.finfo(torch.float32).eps


def standardize(data: SequenceData) -> SequenceData:
    """The data with mean 0 and deviation 1 in each channel of the training part.

    Inputs are scaled, and the targets of ``regress``; the result's ``scaling`` and
    ``target_scaling`` lead back. A channel that is constant, as far as float32 can tell, is only
    shifted.
    """
    if data.task not in ("classify", "regress") or data.vocab_size is not None:
        raise ValueError(
            f"data.scale is for numbers to classify or to regress on, and {data.name} has "
            f"{'tokens' if data.vocab_size else f'the task {data.task!r}'}; leave it out"
        )
    scaling = _scaling(_steps(data.train))
    target = _scaling(data.train.targets) if data.task == "regress" else None

    def scaled(part: Split) -> Split:
        targets = part.targets if target is None else apply_scaling(target, part.targets)
        return replace(part, inputs=apply_scaling(scaling, part.inputs), targets=targets)

    return replace(
        data,
        train=scaled(data.train),
        test=scaled(data.test),
        scaling=scaling,
        target_scaling=target,
    )


def apply_scaling(scaling: Scaling, values: Tensor) -> Tensor:
    """``(x - mean) / std`` of each channel (..., C), computed in float64."""
    mean, std = (torch.tensor(part, dtype=torch.float64) for part in (scaling.mean, scaling.std))
    return ((values.double() - mean) / std).to(values.dtype)


def _scaling(values: Tensor) -> Scaling:
    """Mean and standard deviation of each channel of values (n, C)."""
    values = values.double()
    mean, std = values.mean(0), values.std(0, correction=0)
    std = torch.where(std > RESOLUTION * mean.abs(), std, 1.0)
    return Scaling(tuple(mean.tolist()), tuple(std.tolist()))


def _steps(part: Split) -> Tensor:
    """The inputs (n, C) of all steps before each sequence's end."""
    if part.lengths is None:
        return part.inputs.flatten(0, 1)
    steps = torch.arange(part.inputs.shape[1])
    return part.inputs[steps < part.lengths.unsqueeze(-1)]
