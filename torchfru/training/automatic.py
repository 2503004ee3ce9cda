"""Settings that follow the data: from labelled sequences to a configuration that works.

The recipe around every layer is the same: a short window, a normalised read-out, one cycle of the
learning rate, smoothed labels and mild augmentation. The sizes are those of the recipe; dropout and
noise were chosen with an FRU, out of nine settings, by two to four random divisions of the training
parts of up to eight small sets of the UCR and UEA archives (``benchmarks/classify.py``). Steps and
members were chosen by three-fold cross-validation within the training parts of six of them: 750
steps for each of several models that answer together are better than 1,500 of one, at the same
cost. From which size on a held-out part helps was not measured, nor from which on one model does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..data import SequenceData, load
from ..defaults import LAYER_OPTIONS
from .config import DataConfig, ModelConfig, RunConfig, override
from .recipes import HORIZON, PAPER, forecaster, is_user_file, one_cycle, recipe_fru

STEPS, EPOCHS = 750, 30
MEMBERS, MEMBERS_STEPS = 4, 2000  # models, and the steps of a sequence that all of them may take
LARGE = 1000  # sequences, from which on a tenth can be spared, and one model trains long enough
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
        max_steps: of the optimizer; default: 750 for each of several models, or 1,500 of a single
            one, and at least ten passes. There are four models for less than 1,000 sequences of up
            to 500 steps.
        validation: the share to hold out for the choice of the best epoch; default: a tenth of
            1,000 sequences or more, none of less.
    """
    n, classify = len(data.train), data.task == "classify"
    if validation is None:
        validation = VALIDATION if n >= LARGE else 0.0
    batches, length = max(1, round(n / 32)), data.train.inputs.shape[1]
    members = _members(n, length)
    if max_steps is None:
        max_steps = max(STEPS if members > 1 else 2 * STEPS, 10 * batches)
    training = one_cycle(
        lr=0.003,
        batch_size=-(-n // batches),
        epochs=EPOCHS,
        steps=max_steps,
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
    model = replace(_model(layer, length, classify), members=members)
    return RunConfig(parts, model, training)


def _members(n: int, steps: int) -> int:
    """How many models to train: so many that a fit takes less than a minute of one core.

    >>> [_members(100, steps) for steps in (50, 500, 900, 5000)], _members(5000, 50)
    ([4, 4, 2, 1], 1)
    """
    return 1 if n >= LARGE else max(1, min(MEMBERS, MEMBERS_STEPS // steps))


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
