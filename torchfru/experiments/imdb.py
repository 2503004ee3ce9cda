"""IMDB: whether a review of up to 300 words is a good one, with the authors' settings."""

from __future__ import annotations

from typing import Any

from .config import DataConfig, RunConfig, TrainingConfig
from .models import baselines, fru

SIZE: dict[str, Any] = {"hidden_size": 128, "dropout": 0.2}

MODELS = {
    **baselines(**SIZE),
    **{f"fru-{k}-10": fru(k, 10, max_freq=100.0, **SIZE) for k in (5, 1)},
    "fru": fru(5, 10, max_freq=100.0, **SIZE),
}

# learning rate, decay
SETTINGS = {
    "rnn": (0.01, 0.8),
    "lstm": (0.01, 0.8),
    "gru": (0.01, 0.8),
    "sru": (0.001, 0.5),
    "fru-5-10": (0.001, 0.2),
    "fru-1-10": (0.001, 0.2),
    "fru": (0.001, 0.2),
}

EXPERIMENTS = {
    "imdb": {
        name: RunConfig(
            DataConfig("imdb"),
            MODELS[name],
            TrainingConfig(lr, lr_decay, batch_size=32, epochs=20, clip=1.0),
        )
        for name, (lr, lr_decay) in SETTINGS.items()
    }
}
