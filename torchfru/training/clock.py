"""Where the time of a run goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

PARTS = ("forward", "backward", "step", "test")


class Clock:
    """Seconds in the forward pass, the backward pass, the optimizer's step and the testing.

    ``other`` is what is left of the epochs: fetching batches, bookkeeping, checkpoints. Times
    are taken on the host: a GPU that works on its own is only waited for at an epoch's end.
    """

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self.seconds = dict.fromkeys((*PARTS, "other"), 0.0) | (seconds or {})
        self._epoch = time.perf_counter()
        self._known = self._sum()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def start_epoch(self) -> None:
        self._epoch, self._known = time.perf_counter(), self._sum()

    def end_epoch(self) -> float:
        """The seconds of the epoch; what no part accounts for becomes ``other``."""
        elapsed = time.perf_counter() - self._epoch
        self.seconds["other"] += elapsed - (self._sum() - self._known)
        return elapsed

    def _sum(self) -> float:
        return sum(self.seconds[part] for part in PARTS)
