"""The classic tests of long memory, at any length: the adding problem and the copy problem."""

from __future__ import annotations

import numpy as np

from .arrays import cut, floats, generator, integers, require_count, sha256
from .sequence import IGNORED, SequenceData, Split

SYMBOLS = 8  # kinds of symbols to copy
COPIED = 10  # symbols to copy
BLANK, GO = SYMBOLS, SYMBOLS + 1  # the two further channels
TEST = 0.2


def adding(*, length: int = 100, size: int = 10_000, seed: int = 0) -> SequenceData:
    """Add the two numbers that are marked, one in each half of a sequence of random numbers.

    Channel 0 is uniform in [0, 1), channel 1 marks two steps. Always to answer 1 has a mean
    squared error of 1/6.
    """
    require_count("adding: length", length, least=2)
    require_count("adding: size", size, least=2)
    rng, rows, half = generator(seed), np.arange(size), length // 2
    values = rng.random((size, length))
    first = (rng.random(size) * half).astype(np.int64)
    second = half + (rng.random(size) * (length - half)).astype(np.int64)
    marks = np.zeros((size, length))
    marks[rows, first] = marks[rows, second] = 1
    inputs = np.stack([values, marks], -1).astype(np.float32)  # (N, L, 2)
    targets = (values[rows, first] + values[rows, second]).astype(np.float32)[:, None]  # (N, 1)
    n = cut(size, TEST)
    return SequenceData(
        name="adding",
        task="regress",
        train=Split(floats(inputs[:n]), floats(targets[:n])),
        test=Split(floats(inputs[n:]), floats(targets[n:])),
        input_size=2,
        output_size=1,
        seq_len=length,
        checksums={"adding": sha256(inputs, targets)},
    )


def copy(*, length: int = 100, size: int = 10_000, seed: int = 0) -> SequenceData:
    """Repeat ten symbols of eight kinds after a delay of ``length`` steps.

    A step is one-hot in 10 channels: a symbol (0..7), blank (8) or go (9). The ten symbols,
    length - 1 blanks, go, then ten blanks, at which the symbols are to be named in order:
    length + 20 steps. Guessing has a cross entropy of log 8.
    """
    require_count("copy: length", length)
    require_count("copy: size", size, least=2)
    rng = generator(seed)
    symbols = (rng.random((size, COPIED)) * SYMBOLS).astype(np.int64)  # (N, 10)
    steps = np.full((size, length + 2 * COPIED), BLANK)
    steps[:, :COPIED] = symbols
    steps[:, COPIED + length - 1] = GO
    targets = np.full(steps.shape, IGNORED)
    targets[:, -COPIED:] = symbols
    inputs = np.eye(SYMBOLS + 2, dtype=np.float32)[steps]  # (N, L, 10)
    n = cut(size, TEST)
    return SequenceData(
        name="copy",
        task="tag",
        train=Split(floats(inputs[:n]), integers(targets[:n])),
        test=Split(floats(inputs[n:]), integers(targets[n:])),
        input_size=SYMBOLS + 2,
        output_size=SYMBOLS,
        seq_len=steps.shape[1],
        checksums={"copy": sha256(steps)},
    )
