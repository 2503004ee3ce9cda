"""Tensors that the backward pass makes again, instead of holding them until then."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ..ops.weights import transforms_active

RESULT = -1  # the place of what is made; what autograd keeps on the way there has 0, 1, ...


@contextmanager
def made_again(make: Callable[[], Tensor]) -> Iterator[Tensor]:
    """``make()``, of which autograd keeps nothing from inside the block.

    When the backward pass asks for it, or for what its own gradient needs, ``make`` is called once
    more for both: it must do the same every time.
    """
    if not _possible():
        yield make()
        return
    found: dict[int, Tensor] = {}  # by the second call, until it is asked for

    def recall(place: int) -> Tensor:
        if place not in found:
            found.update(_call_again(make))
        return found.pop(place)

    places = itertools.count()
    with saved_tensors_hooks(lambda _: next(places), recall):
        result = make()
    address, shape = result.data_ptr(), result.shape  # autograd keeps these functions: no tensor

    def pack(kept: Tensor) -> Tensor | int:
        same = kept.data_ptr() == address and kept.shape == shape
        return RESULT if same else kept

    def unpack(kept: Tensor | int) -> Tensor:
        return recall(kept) if isinstance(kept, int) else kept

    with saved_tensors_hooks(pack, unpack):
        yield result


def _possible() -> bool:
    """Not while torch compiles, which decides by itself, nor within torch.func."""
    return not (torch.compiler.is_compiling() or transforms_active())


def _call_again(make: Callable[[], Tensor]) -> dict[int, Tensor]:
    """What ``make`` returns, and what autograd would keep of it, in the order of keeping."""
    kept: list[Tensor] = []
    with torch.enable_grad(), saved_tensors_hooks(kept.append, lambda nothing: nothing):
        result = make()
    return {RESULT: result.detach(), **dict(enumerate(kept))}
