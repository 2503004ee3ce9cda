"""How far back a model remembers: the adding and the copy problem at three lengths.

By ``<problem>-<length>-<model>``. Not in the paper: the settings are ours, of a size that one core
can do, and the same for every model but for the learning rate, which is its own of permuted MNIST.
From 1,000 steps on the baselines get ten minutes, or one epoch if that takes longer. A few hundred
sequences of 10,000 steps are learned by heart, which tells nothing of memory; 5,000 are as many as
leave an LSTM's epoch below half an hour.
"""

from __future__ import annotations

from .config import DataConfig, RunConfig, TrainingConfig
from .mnist import PERMUTED
from .models import baselines, fru

PROBLEMS = ("adding", "copy")
MODELS = {**baselines(), "fru": fru(60, 10, max_freq=None)}

# by length: sequences, how many in a batch, epochs
SIZES = {100: (10_000, 64, 50), 1000: (10_000, 64, 100), 10_000: (5_000, 32, 50)}
MINUTES = 10.0


def _run(problem: str, length: int, name: str) -> RunConfig:
    size, batch_size, epochs = SIZES[length]
    minutes = MINUTES if length >= 1000 and name != "fru" else None
    lr, _, clip = PERMUTED[name]
    training = TrainingConfig(
        lr, batch_size=batch_size, epochs=epochs, clip=clip, max_minutes=minutes
    )
    return RunConfig(DataConfig(problem, length=length, size=size), MODELS[name], training)


EXPERIMENTS: dict[str, dict[str, RunConfig]] = {
    "memory": {
        f"{problem}-{length}-{name}": _run(problem, length, name)
        for problem in PROBLEMS
        for length in SIZES
        for name in MODELS
        if name != "gru"  # those that the paper compares
    },
    # for training by hand, as in --set data.length=300
    "adding": {name: _run("adding", 1000, name) for name in MODELS},
    "copy": {name: _run("copy", 100, name) for name in MODELS},
}
