"""The user's own data: any model, moderate settings to start from."""

from __future__ import annotations

from .config import DataConfig, RunConfig, TrainingConfig
from .models import baselines, fru

TRAINING = TrainingConfig(lr=0.001, lr_decay=0.95, batch_size=64, epochs=50, clip=1.0)


def models(path: str) -> dict[str, RunConfig]:
    """A run for each layer on the file at ``path``."""
    chosen = {**baselines(), "fru": fru(60, 10, max_freq=None)}
    return {name: RunConfig(DataConfig(path), model, TRAINING) for name, model in chosen.items()}
