"""A model's predictions for a part of the data, small enough for the record of its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from ..data import IGNORED, DataSpec
from ..data.windows import Windows
from ..records import Forecast, Outcome, nan_to_none
from .batches import Batch, Batches
from .objective import is_accuracy

MOST_CLASSES = 200
WINDOWS, CHANNELS, STEPS = 3, 3, 200  # of a forecast that are kept

Predict = Callable[[Batch], tuple[Tensor, Tensor]]


@torch.inference_mode()
def outcome(
    data: DataSpec,
    part: str,
    epoch: int,
    batches: Batches,
    predict: Predict,
    over_processes: Callable[[Tensor], Any],
) -> dict[str, Any] | None:
    """The entry of a record: counts by true and predicted class, or the forecasts of a few windows.

    Args:
        predict: gives a batch's outputs and the targets beside them.
        over_processes: sums a tensor over the processes, each of which has a share of the batches.
    """
    found: dict[str, Any] = {}
    if is_accuracy(data.task) and data.output_size <= MOST_CLASSES:
        shares = [_count(*predict(batch)) * (batch.terms > 0) for batch in batches]
        counts = torch.stack(shares).sum(0)  # (K, K)
        over_processes(counts)
        names = list(data.classes or map(str, range(data.output_size)))
        found = {"classes": names, "counts": _by_name(names, counts.tolist())}
    elif data.task == "predict" or data.horizon is not None:
        found = {"forecasts": _forecasts(data, batches, predict)}
    return asdict(Outcome(part, epoch, **found)) if found else None


def _count(output: Tensor, targets: Tensor) -> Tensor:
    """The confusion matrix (K, K): a row for each true class, a column for each predicted one."""
    classes = output.shape[-1]
    counted = targets != IGNORED
    places = targets[counted] * classes + output.argmax(-1)[counted]
    return places.bincount(minlength=classes**2).reshape(classes, classes)


def _by_name(names: list[str], counts: list[list[int]]) -> dict[str, dict[str, int]]:
    rows = ({name: n for name, n in zip(names, row, strict=True) if n} for row in counts)
    return {true: row for true, row in zip(names, rows, strict=True) if row}


def _forecasts(data: DataSpec, batches: Batches, predict: Predict) -> list[Forecast]:
    """A few windows of each of the first series of a part, in the units of the data."""
    split = batches.split
    numbers = split.numbers() if isinstance(split, Windows) else torch.zeros(len(split)).long()
    windows = [w for k in range(CHANNELS) for w in _spread((numbers == k).nonzero().flatten())]
    chosen = split[torch.tensor(windows)]
    output, truth = predict(Batch(chosen.inputs, chosen.targets, chosen.lengths, 1, 1))
    if data.horizon is not None:  # (rows, horizon, n)
        output, truth = (part.unflatten(1, (data.horizon, -1)) for part in (output, truth))
    found, n = [], truth.shape[-1]
    for place in range(min(CHANNELS, n)):
        for row, window in enumerate(windows):
            end = None if chosen.lengths is None else int(chosen.lengths[row])
            channel = int(numbers[window]) * n + place  # each series has n of them
            both = (_values(data, part[row, :end, place], channel) for part in (truth, output))
            found.append(Forecast(window, data.channel(channel), *both))
    return found


def _spread(places: Tensor) -> list[int]:
    """The first, the middle and the last of places."""
    last = len(places) - 1
    chosen = {round(i * last / (WINDOWS - 1)) for i in range(WINDOWS)} if len(places) else set()
    return places[sorted(chosen)].tolist()


def _values(data: DataSpec, values: Tensor, channel: int) -> list[Any]:
    """The last steps of a channel, in its own units and six digits."""
    if data.scaling is not None:
        values = values.double() * data.scaling.std[channel] + data.scaling.mean[channel]
    return nan_to_none([float(f"{value:.6g}") for value in values[-STEPS:].tolist()])
