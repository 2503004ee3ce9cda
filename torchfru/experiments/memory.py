"""adding and copy: how far back a model remembers. Not in the paper; the settings are ours."""

from __future__ import annotations

from .config import DataConfig, RunConfig, TrainingConfig
from .models import baselines, fru

FRUS = {"fru-60-10": fru(60, 10, max_freq=None), "fru": fru(60, 10, max_freq=None)}
MODELS = {**baselines(), **FRUS}
TRAINING = TrainingConfig(lr=0.001, lr_decay=0.95, batch_size=64, epochs=50, clip=1.0)

EXPERIMENTS = {
    "adding": {
        name: RunConfig(DataConfig("adding", length=1000), model, TRAINING)
        for name, model in MODELS.items()
    },
    "copy": {
        name: RunConfig(DataConfig("copy", length=100), model, TRAINING)
        for name, model in MODELS.items()
    },
}
