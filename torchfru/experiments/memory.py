"""How far back a model remembers: the adding and the copy problem at three lengths.

By ``<problem>-<length>-<model>``. Not in the paper: the settings are ours, the same for every
model, and of a size that one core can do.
"""

from __future__ import annotations

from .config import DataConfig, RunConfig, TrainingConfig
from .models import baselines, fru

PROBLEMS = ("adding", "copy")
MODELS = {**baselines(), "fru": fru(60, 10, max_freq=None)}

SIZES = {100: 10_000, 1000: 5000, 10_000: 500}  # sequences by length
TRAINING = {
    100: TrainingConfig(lr=0.001, batch_size=64, epochs=50, clip=1.0),
    1000: TrainingConfig(lr=0.001, batch_size=64, epochs=50, clip=1.0, max_minutes=10.0),
    10_000: TrainingConfig(lr=0.001, batch_size=16, epochs=30, clip=1.0, max_minutes=10.0),
}

EXPERIMENTS = {
    "memory": {
        f"{problem}-{length}-{name}": RunConfig(
            DataConfig(problem, length=length, size=SIZES[length]), model, TRAINING[length]
        )
        for problem in PROBLEMS
        for length in SIZES
        for name, model in MODELS.items()
    }
}
