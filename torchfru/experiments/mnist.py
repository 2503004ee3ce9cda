"""pixel-MNIST, pixel by pixel or row by row, and permuted MNIST, with the authors' settings."""

from __future__ import annotations

from .config import DataConfig, ModelConfig, RunConfig, TrainingConfig
from .models import baselines, fru

FRUS = {f"fru-{k}-10": fru(k, 10, max_freq=784.0) for k in (40, 60)}
MODELS = {**baselines(), **FRUS, "fru": FRUS["fru-60-10"]}

# model: learning rate, decay, gradient clip
PIXEL: dict[str, tuple[float, float, float | None]] = {
    "rnn": (0.001, 0.9, None),
    "lstm": (0.01, 0.8, 1.0),
    "gru": (0.01, 0.8, 1.0),
    "sru": (0.001, 0.8, None),
    "fru-40-10": (0.001, 1.0, None),
    "fru-60-10": (0.005, 0.9, None),
    "fru": (0.005, 0.9, None),
}
PERMUTED: dict[str, tuple[float, float, float | None]] = {
    "rnn": (0.001, 0.9, 1.0),
    "lstm": (0.001, 0.9, 1.0),
    "gru": (0.001, 0.9, 1.0),
    "sru": (0.001, 0.8, 1.0),
    "fru-40-10": (0.005, 0.9, 1.0),
    "fru-60-10": (0.005, 0.9, 1.0),
    "fru": (0.005, 0.9, 1.0),
}


def _run(
    data: DataConfig, model: ModelConfig, lr: float, lr_decay: float, clip: float | None
) -> RunConfig:
    return RunConfig(data, model, TrainingConfig(lr, lr_decay, batch_size=256, clip=clip))


# The appendix's 28 steps of a row each: frequencies up to the number of steps.
ROW_FRUS = {f"fru-{k}-10": fru(k, 10, max_freq=28.0) for k in (5, 10, 20, 60)}
ROW_MODELS = {**baselines(), **ROW_FRUS, "fru": ROW_FRUS["fru-20-10"]}

EXPERIMENTS = {
    "pixel-mnist": {
        name: _run(DataConfig("pixel-mnist"), MODELS[name], *settings)
        for name, settings in PIXEL.items()
    },
    "permuted-mnist": {
        name: _run(DataConfig("permuted-mnist"), MODELS[name], *settings)
        for name, settings in PERMUTED.items()
    },
    "row-mnist": {
        name: _run(DataConfig("pixel-mnist", steps=28), model, 0.001, 0.9, 1.0)
        for name, model in ROW_MODELS.items()
    },
}
