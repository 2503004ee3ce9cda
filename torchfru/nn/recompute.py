"""Recompute tensors in the backward pass, instead of holding them until then."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ..ops.weights import transforms_active

RESULT = -1  # the key of the result; the tensors that autograd saves for it have 0, 1, ...


@contextmanager
def recompute(make: Callable[[], Tensor]) -> Iterator[Tensor]:
    """Give ``make()``, and let autograd save nothing of it within the block.

    The backward pass calls ``make`` once more when it needs the result, or a tensor that was saved
    on the way to it: ``make`` must return the same every time.

    >>> phase = torch.zeros(2, requires_grad=True)
    >>> with recompute(lambda: torch.sin(phase)) as rows:
    ...     loss = (rows * rows).sum()
    """
    if torch.compiler.is_compiling() or transforms_active():  # they allow no hooks
        yield make()
        return
    found: dict[int, Tensor] = {}  # of the second call, until asked for

    def recall(key: int) -> Tensor:
        if key not in found:
            found.update(_call_again(make))
        return found.pop(key)

    keys = itertools.count()
    with saved_tensors_hooks(lambda _: next(keys), recall):
        result = make()
    address, shape = result.data_ptr(), result.shape  # autograd keeps the hooks: no tensor in them

    def pack(saved: Tensor) -> Tensor | int:
        same = saved.data_ptr() == address and saved.shape == shape
        return RESULT if same else saved

    def unpack(saved: Tensor | int) -> Tensor:
        return recall(saved) if isinstance(saved, int) else saved

    with saved_tensors_hooks(pack, unpack):
        yield result


def _call_again(make: Callable[[], Tensor]) -> dict[int, Tensor]:
    """The result of ``make``, and the tensors that autograd saves for it, in that order."""
    saved: list[Tensor] = []
    with torch.enable_grad(), saved_tensors_hooks(saved.append, lambda nothing: nothing):
        result = make()
    return {RESULT: result.detach(), **dict(enumerate(saved))}
