"""The losses and measures of each task, as sums.

A mean over half a batch is not half of the mean over the batch, unless the halves are equal.
So every loss here is a sum, with the number of terms beside it, and is divided once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..data import IGNORED, Split, Task


def every_step(task: Task) -> bool:
    """Whether the task needs an output at every step, or only after the last one."""
    return task in ("predict", "tag")


def first_output(task: Task, *parts: Split) -> int:
    """The first step at which any of the parts' targets counts. Earlier outputs are not needed.

    >>> tags = torch.tensor([[IGNORED, IGNORED, 3], [IGNORED, 5, 0]])
    >>> first_output("tag", Split(tags, tags))
    1
    """
    if task != "tag":
        return 0
    counts = ((part.targets != IGNORED).any(0) for part in parts)  # (L,) each
    return min(int(steps.to(torch.uint8).argmax()) for steps in counts)


def is_accuracy(task: Task) -> bool:
    """Whether the task is measured by accuracy, or by mean squared error."""
    return task in ("classify", "tag")


def count_terms(task: Task, targets: Tensor, lengths: Tensor | None) -> int:
    """The number of terms of the loss."""
    if task == "tag":
        return int((targets != IGNORED).sum())
    if task == "predict" and lengths is not None:
        return int(lengths.sum()) * targets.shape[-1]
    return targets.numel()


def loss_sum(
    task: Task,
    output: Tensor,
    targets: Tensor,
    lengths: Tensor | None,
    smoothing: float = 0.0,
    unit: Tensor | float = 1.0,
) -> Tensor:
    """Cross entropies, of smoothed labels if so wished, or squared errors in a unit, summed."""
    if is_accuracy(task):
        output = output.flatten(0, 1) if task == "tag" else output  # (N L, classes)
        return F.cross_entropy(
            output,
            targets.flatten(),
            reduction="sum",
            ignore_index=IGNORED,
            label_smoothing=smoothing,
        )
    error = ((output - targets) / unit).square()
    if task == "predict" and lengths is not None:
        steps = torch.arange(targets.shape[1], device=targets.device)
        error = torch.where((steps < lengths.unsqueeze(-1)).unsqueeze(-1), error, 0.0)
    return error.sum()


def count_beside(task: Task, output: Tensor, targets: Tensor) -> tuple[Tensor, int]:
    """A sum beside the loss, and the number of its terms.

    It is the number of correct classes, of all; or for ``predict`` the squared errors of the
    first step, at which there is only one value to go by.
    """
    if is_accuracy(task):
        return (output.argmax(-1) == targets).sum(), 0
    if task == "predict":
        return (output[:, 0] - targets[:, 0]).square().sum(), targets[:, 0].numel()
    return output.new_zeros(()), 0


def measures(
    task: Task, part: str, loss: float, beside: float, terms: float, beside_terms: float
) -> dict[str, float]:
    """The numbers of a record, by task.

    ``test_loss`` with ``test_accuracy`` in percent, or ``test_mse``, and for ``predict`` also
    ``test_mse_after_first``, the mean squared error without that of the first step.
    """
    mean = loss / max(terms, 1)
    if is_accuracy(task):
        return {f"{part}_loss": mean, f"{part}_accuracy": 100 * beside / max(terms, 1)}
    if task != "predict" or terms <= beside_terms:
        return {f"{part}_mse": mean}
    after = (loss - beside) / (terms - beside_terms)
    return {f"{part}_mse": mean, f"{part}_mse_after_first": after}
