"""Generated data: the paper's mixtures of curves, and the adding and copy problems.

The paper's Algorithms 1 and 2 generate mixtures of sine curves and polynomials.

Five curves are fixed for the data set, and each sequence l is a random mixture of them:

    x_l(t) = sum_i (delta_i c_i(s) + b_i),    s = (t - T/2) / (T/2),    t = 1..T

    mix-sin   c_i(s) = sum_j a_ij sin(2 pi f_j s + 2 pi theta_j)
    mix-poly  c_i(s) = sum_j a_ij s^j,    j = 1..degree

with a and theta uniform in [-1, 1], f uniform in [0.1, 3], delta and b normal with standard
deviation 0.1. The algorithms print the bias after the sum without a bracket; as it carries
the index i, it is read as inside the sum over i, so each component brings its own.

Two variants. ``paper``: at every step predict the next value. ``released``, the authors'
published program: t = 0..T-1, one bias for each sequence, for mix-sin frequencies that are
multiples of 0.1 up to 2.9 and a phase for each component and frequency; and the task is to
give, after the last step, all values from the second on, each of which has been read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from .arrays import (
    Array,
    floats,
    generator,
    integers,
    require_choice,
    require_count,
    sha256,
    train_size,
)
from .sequence import IGNORED, SequenceData, Task

COMPONENTS = 5  # k
FREQUENCIES = 15  # d of Algorithm 1
NOISE = 0.1  # N(0, 0.1): the standard deviation
TEST = 0.2
VARIANTS = ("paper", "released")

SYMBOLS = 8  # kinds of symbols to copy
COPIED = 10  # symbols to copy
BLANK, GO = SYMBOLS, SYMBOLS + 1  # the two further channels


def mix_sin(
    *, size: int = 4000, length: int = 176, seed: int = 0, variant: str = "paper"
) -> SequenceData:
    """Mixtures of five curves of 15 sines (Algorithm 1)."""
    _check(size, length, variant)
    rng, d = generator(seed), FREQUENCIES
    if variant == "paper":
        f = rng.uniform(0.1, 3.0, d)
        theta = np.broadcast_to(rng.uniform(-1, 1, d), (COMPONENTS, d))
    else:
        f = np.floor(rng.uniform(1, 30, d)) * 0.1
        theta = rng.uniform(-1, 1, (COMPONENTS, d))
    a = rng.uniform(-1, 1, (COMPONENTS, d))
    s = _times(length, variant)
    curves = np.zeros((COMPONENTS, length))
    for j in range(d):
        curves += a[:, j, None] * _sin_of_turns(f[j] * s + theta[:, j, None])
    return _mixtures("mix-sin", curves, size, rng, variant)


def mix_poly(
    *, degree: int = 5, size: int = 4000, length: int = 176, seed: int = 0, variant: str = "paper"
) -> SequenceData:
    """Mixtures of five polynomials of a given degree (Algorithm 2)."""
    _check(size, length, variant)
    require_count("mix-poly: degree", degree)
    rng = generator(seed)
    a = rng.uniform(-1, 1, (COMPONENTS, degree))
    s = _times(length, variant)
    curves, power = np.zeros((COMPONENTS, length)), np.ones(length)
    for j in range(degree):
        power = power * s
        curves += a[:, j, None] * power
    return _mixtures("mix-poly", curves, size, rng, variant)


def mix(curves: Array, size: int, rng: np.random.Generator, biases: int) -> Array:
    """(size, T) mixtures of the curves (k, T), each with this number of biases added."""
    delta = rng.normal(0, NOISE, (size, len(curves)))
    b = rng.normal(0, NOISE, (size, biases))
    # One component after the other: a matrix product may add in another order elsewhere.
    x = np.zeros((size, curves.shape[1]))
    for i, curve in enumerate(curves):
        x += delta[:, i, None] * curve
    for i in range(biases):
        x += b[:, i, None]
    return x


def _check(size: int, length: int, variant: str) -> None:
    require_count("size", size, least=2)
    require_count("length", length, least=2)
    require_choice("variant", variant, VARIANTS)


def _times(length: int, variant: str) -> Array:
    t = np.arange(length, dtype=np.float64) + (1 if variant == "paper" else 0)
    return (t - 0.5 * length) / (0.5 * length)


def _sin_of_turns(turns: Array) -> Array:
    """sin(2 pi turns), to 2^-26: machines differ in the last digits of a sine, not in these."""
    return np.round(np.sin(2 * np.pi * turns) * 2.0**26) / 2.0**26


def _mixtures(
    name: str, curves: Array, size: int, rng: np.random.Generator, variant: str
) -> SequenceData:
    next_value = variant == "paper"
    x = mix(curves, size, rng, COMPONENTS if next_value else 1).astype(np.float32)  # (N, T)
    if next_value:
        inputs, targets = x[:, :-1, None], x[:, 1:, None]  # (N, T-1, 1) each
    else:
        inputs, targets = x[:, :, None], x[:, 1:]  # (N, T, 1), (N, T-1)
    task: Task = "predict" if next_value else "regress"
    return _data(name, task, floats(inputs), floats(targets), checksum=sha256(x))


def _data(
    name: str, task: Task, inputs: Tensor, targets: Tensor, *, checksum: str, **sizes: Any
) -> SequenceData:
    n = train_size(len(inputs), TEST)
    checksums = {name: checksum}
    return SequenceData.of(name, task, inputs, targets, train=n, checksums=checksums, **sizes)


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
    checksum = sha256(inputs, targets)
    return _data("adding", "regress", floats(inputs), floats(targets), checksum=checksum)


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
    inputs = floats(np.eye(SYMBOLS + 2, dtype=np.float32)[steps])  # (N, L, 10)
    checksum = sha256(steps)
    return _data("copy", "tag", inputs, integers(targets), checksum=checksum, output_size=SYMBOLS)
