"""The settings of a run: frozen and typed; ``--set section.field=value`` changes one of them.

Nothing here imports torch, so that listing experiments is instant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..defaults import (
    ALPHAS,
    BASIS,
    EMBEDDING_SIZE,
    FREQ_DIM,
    FREQS,
    FREQS_PER_BLOCK,
    GATE_SIZE,
    HIDDEN_SIZE,
    LAYER_OPTIONS,
    MIN_FREQ,
    NAIVE,
    NONLINEARITY,
    NUM_FREQS,
    OUTPUT,
    SCALE,
    STAT_SIZE,
    WINDOW_ACTIVATION,
)
from ..io import did_you_mean

LAYER_NAMES = tuple(LAYER_OPTIONS)
SCHEDULES = ("steps", "one-cycle")

# The settings that only some layers have, with the names of those layers.
LAYER_FIELDS = {
    option: tuple(layer for layer, own in LAYER_OPTIONS.items() if option in own)
    for option in sorted({option for own in LAYER_OPTIONS.values() for option in own})
}


@dataclass(frozen=True)
class DataConfig:
    """The data set and its options. None means the default of the data set."""

    name: str
    size: int | None = None  # sequences, where they are generated
    seed: int | None = None  # of the generated data, not of the run
    variant: str | None = None  # "paper" or "released", where the two differ
    degree: int | None = None
    length: int | None = None
    steps: int | None = None
    side: int | None = None  # of MNIST's images: 28, or averaged to 14 or 7
    split: str | None = None  # "standard" or "released"
    pixels: str | None = None  # "unit" or "standard"
    words: int | None = None
    every: str | None = None  # "hour" or "day"
    start: int | None = None
    end: int | None = None
    label: str | None = None  # of the user's own table: the column of the labels,
    column: str | None = None  # or that of the series
    test: float | None = None  # the share that is kept for the test
    validation: float = 0.0  # the share of the training part that is held back from training
    limit: int | None = None  # at most so many sequences of each part, drawn at random

    def __post_init__(self) -> None:
        _require(0 <= self.validation < 1, "data.validation", self.validation, "within [0, 1)")
        _require_positive("data.limit", self.limit)

    def options(self) -> dict[str, Any]:
        """The options that were given, for ``torchfru.data.load``."""
        given = {key: value for key, value in asdict(self).items() if value is not None}
        ours = ("name", "validation", "limit")
        return {key: value for key, value in given.items() if key not in ours}


@dataclass(frozen=True)
class ModelConfig:
    """The layer and its sizes. Fields of :data:`LAYER_FIELDS` are for those layers only."""

    layer: str
    hidden_size: int = HIDDEN_SIZE
    num_layers: int = 1
    embedding_size: int = EMBEDDING_SIZE  # for tokens only
    dropout: float = 0.0
    output: str = OUTPUT  # between layer and head
    window: int = 1  # inputs that each step reads
    window_size: int | None = None  # features after the window; None: the inputs side by side
    window_norm: bool = False
    window_activation: str = WINDOW_ACTIVATION
    scale: str = SCALE  # of the read-out: "none", "sqrt" (of the steps) or "learned"
    norm: bool = False  # LayerNorm before the head
    head_sizes: tuple[int, ...] = ()  # hidden layers of the head
    energy: int = 0  # features of an energy read-out; for basis="pairs"
    time_freqs: int = 0  # frequencies that tell the head the time
    skip: bool = False  # whether the head sees the layer's input
    naive: str = NAIVE  # the forecast to start from: "last", "line", "seasonal" or "ridge"
    naive_width: int = 1  # inputs that "ridge" reads
    season: int = 1  # steps of a season, for "seasonal"
    input_dropout: float = 0.0  # of whole steps, or words
    num_freqs: int = NUM_FREQS
    freq_dim: int = FREQ_DIM
    freqs_per_block: int = FREQS_PER_BLOCK
    min_freq: float = MIN_FREQ
    max_freq: float | None = None  # None: seq_len for "log", half of it for "even"
    freqs: str = FREQS  # spacing: "log" or "even"
    basis: str = BASIS
    gate_size: int = GATE_SIZE
    nonlinearity: str = NONLINEARITY
    stat_size: int = STAT_SIZE
    alphas: tuple[float, ...] = ALPHAS

    def __post_init__(self) -> None:
        _require(self.layer in LAYER_NAMES, "model.layer", self.layer, _either(LAYER_NAMES))
        for name in ("dropout", "input_dropout"):
            value = getattr(self, name)
            _require(0 <= value < 1, f"model.{name}", value, "within [0, 1)")

    def options(self) -> dict[str, Any]:
        """The settings that this layer has, for ``SequenceModel``."""
        return {
            name: value
            for name, value in asdict(self).items()
            if self.layer in LAYER_FIELDS.get(name, (self.layer,))
        }


@dataclass(frozen=True)
class TrainingConfig:
    """How to train, with Adam.

    ``schedule``: "steps" multiplies the learning rate by ``lr_decay`` every ``decay_every`` steps;
    "one-cycle" raises it to ``lr`` over the share ``warmup`` of all steps, and lowers it to 0 over
    the rest, both along a cosine.
    """

    lr: float = 0.001
    lr_decay: float = 1.0
    decay_every: int = 1000
    batch_size: int = 256
    epochs: int = 100
    clip: float | None = None  # the largest norm of the gradient
    weight_decay: float | None = None  # AdamW's: each step takes lr times this share of a weight
    schedule: str = "steps"
    warmup: float = 0.1
    label_smoothing: float | None = None  # of classes, while training
    max_loss: float = 1e6  # above this loss, at the end of an epoch, a run counts as diverged
    max_minutes: float | None = None  # stop after the epoch that exceeds this
    probe_every: int | None = None  # epochs between the measurements of a hook

    def __post_init__(self) -> None:
        _require(self.schedule in SCHEDULES, "training.schedule", self.schedule, _either(SCHEDULES))
        for name, value in asdict(self).items():
            if name != "schedule":
                _require_positive(f"training.{name}", value)
        for name in ("warmup", "label_smoothing"):
            value = getattr(self, name)
            _require(value is None or value < 1, f"training.{name}", value, "less than 1")


@dataclass(frozen=True)
class RunConfig:
    """The settings of a run, except for its seed."""

    data: DataConfig
    model: ModelConfig
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def changes_since(self, then: dict[str, Any]) -> list[str]:
        """The differences from a recorded configuration: ``training.lr=0.01, not 0.5``."""
        changed = differences(self.to_dict(), then)
        return [f"{name}={before}, not {now}" for name, (now, before) in changed.items()]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """The inverse of :meth:`to_dict`, also from JSON, where tuples are lists.

        Fields that do not exist any more are left out.
        """
        sections = {}
        for section, kind in SECTIONS.items():
            known = {item.name for item in fields(kind)} & set(values[section])
            stored = {name: values[section][name] for name in known}
            tuples = {name: tuple(v) for name, v in stored.items() if isinstance(v, list)}
            sections[section] = kind(**{**stored, **tuples})
        return cls(**sections)


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings of ours that theirs has not, by ``section.field``, each with both values.

    A field that theirs does not have yet had its default.
    """
    there = _defaults() | flat(theirs)
    found = {name: (value, there.get(name)) for name, value in flat(ours).items()}
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def _defaults() -> dict[str, Any]:
    """Every field, ``section.field``, with its default; None where it has none."""
    sections = {
        section: {
            item.name: None if item.default is MISSING else item.default for item in fields(kind)
        }
        for section, kind in SECTIONS.items()
    }
    return flat(sections)


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """By ``section.field``, with lists for tuples, as JSON has it."""
    return {
        f"{section}.{name}": list(value) if isinstance(value, tuple) else value
        for section, values in config.items()
        for name, value in values.items()
    }


def _either(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}"


def _require_positive(name: str, value: float | None) -> None:
    _require(value is None or value > 0, name, value, "greater than 0")


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expected}, got {value!r}")


# --set --------------------------------------------------------------------------------------

SECTIONS: dict[str, type] = {"data": DataConfig, "model": ModelConfig, "training": TrainingConfig}


def override(config: RunConfig, settings: Iterable[str]) -> RunConfig:
    """The configuration with each ``section.field=value`` applied, in order.

    >>> config = RunConfig(DataConfig("copy"), ModelConfig("lstm"))
    >>> override(config, ["training.lr=0.01", "training.clip=none"]).training.lr
    0.01
    >>> override(config, ["training.lrr=0.01"])
    Traceback (most recent call last):
    ValueError: --set: there is no field 'training.lrr'; did you mean 'training.lr'?
    """
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set: expected section.field=value, got {setting!r}")
        config = _set(config, name.strip(), text.strip())
    return config


def field_types() -> dict[str, Any]:
    """Every field that can be set, ``section.field``, with its type."""
    return {
        f"{section}.{item.name}": get_type_hints(kind)[item.name]
        for section, kind in SECTIONS.items()
        for item in fields(kind)
    }


def _set(config: RunConfig, name: str, text: str) -> RunConfig:
    types = field_types()
    if name not in types:
        raise ValueError(f"--set: there is no field {name!r}; {_suggest(name, list(types))}")
    section, _, field = name.partition(".")
    if section == "model" and config.model.layer not in LAYER_FIELDS.get(
        field, (config.model.layer,)
    ):
        raise ValueError(
            f"--set: {name} belongs to {' and '.join(LAYER_FIELDS[field])}, and this model's layer "
            f"is {config.model.layer}"
        )
    value = parse(name, text, types[name])
    changed = replace(getattr(config, section), **{field: value})
    return replace(config, **{section: changed})


def parse(name: str, text: str, kind: Any) -> Any:
    """``text`` as the field's type, or an error that names what the type is."""
    choices = get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)
    if NoneType in choices and text.lower() == "none":
        return None
    for choice in choices:
        if choice is NoneType:
            continue
        try:
            return _convert(text, choice)
        except ValueError:
            continue
    raise ValueError(f"--set: {name} must be {_describe(choices)}, got {text!r}")


def _convert(text: str, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return tuple(_convert(part, item) for part in text.strip("()[] ").split(",") if part)
    if kind is float:
        value = float(text)
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(text)
        return value
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    return kind(text)


def _describe(choices: tuple[Any, ...]) -> str:
    words = {int: "a whole number", float: "a number", str: "a text", NoneType: "none"}
    words |= {bool: "true or false"}
    return " or ".join(words.get(choice, "comma-separated numbers") for choice in choices)


def _suggest(name: str, known: list[str]) -> str:
    hint = did_you_mean(name, known, cutoff=0.75)
    if hint.startswith("did"):
        return hint
    # the right field in the wrong section, or in none
    leaves = {full.partition(".")[2]: full for full in known}
    leaf = difflib.get_close_matches(name.rpartition(".")[2], leaves, n=1)
    if leaf:
        return f"did you mean {leaves[leaf[0]]!r}?"
    section = [full for full in known if full.startswith(f"{name.partition('.')[0]}.")]
    return f"choose one of {', '.join(section or known)}"
