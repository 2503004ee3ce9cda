"""Beijing's temperature: forecast the next value. The paper fits it; the training is ours."""

from __future__ import annotations

from .config import DataConfig, RunConfig, TrainingConfig
from .models import baselines, fru

MODELS = {**baselines(), "fru-60-10": fru(60, 10, None), "fru": fru(60, 10, None)}
TRAINING = TrainingConfig(lr=0.001, lr_decay=0.9, batch_size=32, epochs=50, clip=5.0)

EXPERIMENTS = {
    "beijing": {
        name: RunConfig(DataConfig("beijing"), model, TRAINING) for name, model in MODELS.items()
    }
}
