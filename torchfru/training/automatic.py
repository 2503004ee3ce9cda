"""Settings that follow the data: from labelled sequences to a configuration that works.

The recipe around every layer is the same: a short window, a normalised read-out, one cycle of the
learning rate, smoothed labels and mild augmentation. The sizes are those of the recipe; dropout and
noise were chosen with an FRU, out of nine settings, by two to four random divisions of the training
parts of up to eight small sets of the UCR and UEA archives (``benchmarks/classify.py``). From which
size on a held-out part helps was not measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..data import SequenceData, load
from ..defaults import LAYER_OPTIONS
from .config import DataConfig, ModelConfig, RunConfig, override
from .recipes import HORIZON, PAPER, forecaster, is_user_file, one_cycle, recipe_fru

STEPS, EPOCHS = 1500, 30
LARGE = 1000  # sequences, from which on a tenth can be spared to judge the others
VALIDATION = 0.1
MODELS = tuple(LAYER_OPTIONS)


def automatic(
    data: SequenceData,
    layer: str = "fru",
    *,
    source: DataConfig | None = None,
    max_steps: int | None = None,
    validation: float | None = None,
) -> RunConfig:
    """The settings for labelled sequences, or sequences with a number each, by their sizes.

    Args:
        source: where the data come from, if they can be loaded again.
        max_steps: of the optimizer; default: 1,500, and at least ten passes.
        validation: the share to hold out for the choice of the best epoch; default: a tenth of
            1,000 sequences or more, none of less.
    """
    n, classify = len(data.train), data.task == "classify"
    if validation is None:
        validation = VALIDATION if n >= LARGE else 0.0
    batches = max(1, round(n / 32))
    training = one_cycle(
        lr=0.003,
        batch_size=-(-n // batches),
        epochs=EPOCHS,
        steps=max(STEPS, 10 * batches) if max_steps is None else max_steps,
        keep_best=validation > 0,
        label_smoothing=0.1 if classify else None,
        noise=0.1,
        jitter=0.1 if classify else None,  # a number may well depend on the size of the inputs
    )
    parts = replace(
        source or DataConfig(data.name),
        scale=True,
        stratify=classify or None,
        validation=validation,
    )
    return RunConfig(parts, _model(layer, data.train.inputs.shape[1], classify), training)


def _model(layer: str, steps: int, classify: bool) -> ModelConfig:
    """The layer between a window of at most a sixth of the steps and a read-out.

    What is classified is normalised; a number may depend on magnitudes, and keeps them.
    """
    shared: dict[str, Any] = {
        "hidden_size": 64,
        "window": max(1, min(31, steps // 6)),
        "window_size": 24,
        "window_norm": True,
        "window_activation": "gelu",
        "norm": classify,
        "scale": "none" if classify else "learned",
        "output": "relu",
        "dropout": 0.5,
    }
    if layer != "fru":
        return ModelConfig(layer, **shared)
    highest = max(0.5, min(11.5, steps / 2))
    return recipe_fru(24, 12, highest, gate_size=16, energy=64, **shared)


def fit_to_file(
    config: RunConfig, model: str, settings: Iterable[str]
) -> tuple[RunConfig, SequenceData | None]:
    """For a user's file, the settings that follow its sequences or series, and its content.

    Other configurations stay as they are, and their data are not loaded. ``settings`` are applied
    to the new ones again.
    """
    if not is_user_file(config) or model.endswith(PAPER):
        return config, None
    source = replace(config.data, horizon=config.data.horizon or HORIZON)
    source = source if source.stratify is False else replace(source, stratify=True)
    data = load(source.name, **source.options())
    if data.horizon is None:
        source = replace(source, horizon=None)
        return override(automatic(data, model, source=source), settings), data
    source = replace(source, stratify=None, length=data.seq_len)
    return override(forecaster(source, data.seq_len, layer=model), settings), data
