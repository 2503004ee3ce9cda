"""The settings of a run: frozen and typed; ``--set section.field=value`` changes one of them.

Nothing here imports torch, so that listing experiments is instant.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from .. import defaults
from ..defaults import ADDED_LAYERS, LAYER_OPTIONS, has_option, layers_with
from ..io import from_json

SCHEDULES = ("steps", "one-cycle")


@dataclass(frozen=True)
class DataConfig:
    """The data set and its options. None means the default of the data set."""

    name: str
    size: int | None = None  # sequences, where they are generated
    seed: int | None = None  # of the generated data, not of the run
    variant: str | None = None  # "paper" or "released", where the two differ
    degree: int | None = None
    length: int | None = None
    horizon: int | None = None  # steps of a user's series to forecast
    steps: int | None = None
    side: int | None = None  # of MNIST's images: 28, or averaged to 14 or 7
    split: str | None = None  # "standard" or "released"
    pixels: str | None = None  # "unit" or "standard"
    words: int | None = None
    every: str | None = None  # "hour" or "day"
    start: int | None = None
    end: int | None = None
    label: str | None = None  # of the user's own table: the column of the labels,
    target: str | None = None  # that of the numbers to predict,
    column: str | None = None  # or that of the series
    test: float | None = None  # the share that is kept for the test,
    test_file: str | None = None  # or a file that is the test
    stratify: bool | None = None  # whether each part has its share of every class
    scale: bool = False  # scale inputs, and targets that are numbers, by the training part
    validation: float = 0.0  # the share of the training part that is held back from training
    limit: int | None = None  # at most so many sequences of each part, drawn at random

    def __post_init__(self) -> None:
        _require(0 <= self.validation < 1, "data.validation", self.validation, "within [0, 1)")
        _require_positive("data.limit", self.limit)

    def options(self) -> dict[str, Any]:
        """The options that were given, for ``torchfru.data.load``."""
        given = {key: value for key, value in asdict(self).items() if value is not None}
        ours = ("name", "scale", "validation", "limit")
        return {key: value for key, value in given.items() if key not in ours}


@dataclass(frozen=True)
class ModelConfig:
    """The layer and its sizes. Only some layers have the fields that ``LAYER_OPTIONS`` lists."""

    layer: str
    hidden_size: int = defaults.HIDDEN_SIZE
    num_layers: int = 1
    members: int = 1  # models of this kind, each trained by itself, that answer together
    embedding_size: int = defaults.EMBEDDING_SIZE  # for tokens only
    dropout: float = 0.0
    output: str = defaults.OUTPUT  # between layer and head
    window: int = 1  # inputs that each step reads
    window_size: int | None = None  # features after the window; None: the inputs side by side
    window_norm: bool = False
    window_activation: str = defaults.WINDOW_ACTIVATION
    scale: str = defaults.SCALE  # of the read-out: "none", "sqrt" (of the steps) or "learned"
    norm: bool = False  # LayerNorm before the head
    head_sizes: tuple[int, ...] = ()  # hidden layers of the head
    energy: int = 0  # features of an energy read-out; for basis="pairs"
    time_freqs: int = 0  # frequencies that tell the head the time
    skip: bool = False  # whether the head sees the layer's input
    naive: str = defaults.NAIVE  # the forecast to start from: "last", "line", "ridge", "best", ...
    naive_width: int = 1  # inputs that "ridge" and "best" read
    season: int = 1  # steps of a season, for "seasonal"; for "best" 1 is to look for it
    relative: bool = False  # windows less their last inputs, in units of their spread
    input_dropout: float = 0.0  # of whole steps, or words
    num_freqs: int = defaults.NUM_FREQS
    freq_dim: int = defaults.FREQ_DIM
    freqs_per_block: int = defaults.FREQS_PER_BLOCK
    min_freq: float = defaults.MIN_FREQ
    max_freq: float | None = None  # None: seq_len for "log", half of it for "even"
    freqs: str = defaults.FREQS  # spacing: "log" or "even"
    basis: str = defaults.BASIS
    gate_size: int = defaults.GATE_SIZE
    nonlinearity: str = defaults.NONLINEARITY
    stat_size: int = defaults.STAT_SIZE
    alphas: tuple[float, ...] = defaults.ALPHAS

    def __post_init__(self) -> None:
        if self.layer not in ADDED_LAYERS:
            _require_choice("model.layer", self.layer, LAYER_OPTIONS)
        _require_positive("model.members", self.members)
        for name in ("dropout", "input_dropout"):
            value = getattr(self, name)
            _require(0 <= value < 1, f"model.{name}", value, "within [0, 1)")

    def options(self) -> dict[str, Any]:
        """The settings that this layer has, for ``SequenceModel``, of which there are members."""
        known = asdict(self).items()
        own = {name: value for name, value in known if has_option(self.layer, name)}
        del own["members"]
        return own


@dataclass(frozen=True)
class TrainingConfig:
    """How to train, with Adam.

    ``schedule``: "steps" multiplies the learning rate by ``lr_decay`` every ``decay_every`` steps;
    "one-cycle" raises it to ``lr`` over the share ``warmup`` of all steps, and lowers it to 0 over
    the rest, both along a cosine.

    An epoch is a pass over the training part, or with ``steps`` its share of these steps: passes
    follow each other, and an epoch may end within one. ``keep_best`` keeps the weights of the epoch
    with the least loss on the validation part.
    """

    lr: float = 0.001
    lr_decay: float = 1.0
    decay_every: int = 1000
    batch_size: int = 256
    epochs: int = 100
    steps: int | None = None  # of the optimizer, in all epochs together
    keep_best: bool = False
    patience: int | None = None  # with keep_best: stop after so many epochs that were not better
    noise: float | None = None  # deviation of what is added to the inputs, while training
    jitter: float | None = None  # deviation of a sequence's random factor, while training
    clip: float | None = None  # the largest norm of the gradient
    weight_decay: float | None = None  # AdamW's: each step takes lr times this share of a weight
    schedule: str = "steps"
    warmup: float = 0.1
    label_smoothing: float | None = None  # of classes, while training
    max_loss: float = 1e6  # above this loss, at the end of an epoch, a run counts as diverged
    max_minutes: float | None = None  # stop after the epoch that exceeds this
    probe_every: int | None = None  # epochs between the measurements of a hook

    def __post_init__(self) -> None:
        _require_choice("training.schedule", self.schedule, SCHEDULES)
        for name, value in asdict(self).items():
            if name not in ("schedule", "keep_best"):
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
        changed = differences(self, RunConfig.from_dict(then))
        return [f"{name}={before}, not {now}" for name, (now, before) in changed.items()]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """The inverse of :meth:`to_dict`, also from JSON, where tuples are lists.

        Fields that do not exist any more are left out.
        """
        return from_json(cls, values)


def differences(ours: RunConfig, theirs: RunConfig) -> dict[str, tuple[Any, Any]]:
    """The settings in which ours differ, by ``section.field``, each with both values."""
    there = flat(theirs)
    pairs = {name: (value, there[name]) for name, value in flat(ours).items()}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def flat(config: RunConfig) -> dict[str, Any]:
    """Every setting by ``section.field``, with lists for tuples, as JSON has it."""
    return {
        f"{section}.{name}": list(value) if isinstance(value, tuple) else value
        for section, values in config.to_dict().items()
        for name, value in values.items()
    }


def _require_choice(name: str, value: str, choices: Iterable[str]) -> None:
    _require(value in choices, name, value, f"one of {', '.join(choices)}")


def _require_positive(name: str, value: float | None) -> None:
    _require(value is None or value > 0, name, value, "greater than 0")


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expected}, got {value!r}")


# --set --------------------------------------------------------------------------------------


def override(config: RunConfig, settings: Iterable[str]) -> RunConfig:
    """The configuration with each ``section.field=value`` applied, in order.

    >>> config = RunConfig(DataConfig("copy"), ModelConfig("lstm"))
    >>> override(config, ["training.lr=0.01", "training.clip=none"]).training.lr
    0.01
    >>> override(config, ["training.lrr=0.01"])
    Traceback (most recent call last):
    ValueError: --set: there is no field 'training.lrr'; did you mean 'training.lr'?
    """
    types = field_types()
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise ValueError(f"--set: expected section.field=value, got {setting!r}")
        if name not in types:
            raise ValueError(f"--set: there is no field {name!r}; {_suggest(name, list(types))}")
        section, _, field = name.partition(".")
        layer = config.model.layer
        if section == "model" and not has_option(layer, field):
            raise ValueError(
                f"--set: {name} belongs to {' and '.join(layers_with(field))}, and this model's "
                f"layer is {layer}"
            )
        changed = replace(getattr(config, section), **{field: _parse(name, text, types[name])})
        config = replace(config, **{section: changed})
    return config


def field_types() -> dict[str, Any]:
    """Every field that can be set, ``section.field``, with its type."""
    return {
        f"{section}.{name}": hint
        for section, kind in get_type_hints(RunConfig).items()
        for name, hint in get_type_hints(kind).items()
    }


def _parse(name: str, text: str, kind: Any) -> Any:
    """``text`` as the field's type, or an error that says which values it takes."""
    choices = get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)
    for choice in choices:
        with suppress(ValueError):
            return _convert(text, choice)
    words = {int: "a whole number", float: "a number", str: "a text", NoneType: "none"}
    words |= {bool: "true or false"}
    expected = " or ".join(words.get(choice, "comma-separated numbers") for choice in choices)
    raise ValueError(f"--set: {name} must be {expected}, got {text!r}")


def _convert(text: str, kind: Any) -> Any:
    if kind in (bool, NoneType):
        names = {"none": None} if kind is NoneType else {"true": True, "false": False}
        if text.lower() not in names:
            raise ValueError(text)
        return names[text.lower()]
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return tuple(_convert(part, item) for part in text.strip("()[] ").split(",") if part)
    value = kind(text)
    if kind is float and not math.isfinite(value):
        raise ValueError(text)
    return value


def _suggest(name: str, known: list[str]) -> str:
    """The field that is nearest, also one in another section, or those of the same section."""
    leaves = {full.partition(".")[2]: full for full in known}
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    near = near or difflib.get_close_matches(name.rpartition(".")[2], leaves, n=1)
    if near:
        return f"did you mean {leaves.get(near[0], near[0])!r}?"
    section = [full for full in known if full.startswith(f"{name.partition('.')[0]}.")]
    return f"choose one of {', '.join(section or known)}"
