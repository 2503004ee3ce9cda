"""What a run is: frozen, typed settings, that a user can change one by one.

Nothing here imports torch, so that listing experiments is instant.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

LAYER_NAMES = ("rnn", "lstm", "gru", "sru", "fru")

# The settings that only some layers have.
OWN_FIELDS = {
    "num_freqs": ("fru",),
    "freq_dim": ("fru",),
    "freqs_per_block": ("fru",),
    "min_freq": ("fru",),
    "max_freq": ("fru",),
    "basis": ("fru",),
    "gate_size": ("fru", "sru"),
    "nonlinearity": ("fru", "sru"),
    "stat_size": ("sru",),
    "alphas": ("sru",),
}


@dataclass(frozen=True)
class DataConfig:
    """Which data. None leaves an option to the data set, which may not have it."""

    name: str
    size: int | None = None  # sequences, where they are generated
    seed: int | None = None  # of the generated data, not of the run
    variant: str | None = None  # "paper" or "released", where the two differ
    degree: int | None = None
    length: int | None = None
    steps: int | None = None
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
    """Which layer, of what size. Fields of :data:`OWN_FIELDS` are for those layers only."""

    layer: str
    hidden_size: int = 200
    num_layers: int = 1
    embedding_size: int = 128  # for tokens only
    dropout: float = 0.0
    output: str = "identity"  # between layer and head
    num_freqs: int = 60
    freq_dim: int = 10
    freqs_per_block: int = 1
    min_freq: float = 0.25
    max_freq: float | None = None  # None: as many turns as the sequence has steps
    basis: str = "fourier"
    gate_size: int = 60
    nonlinearity: str = "relu"
    stat_size: int = 200
    alphas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.9, 0.99)

    def __post_init__(self) -> None:
        known = self.layer in LAYER_NAMES
        _require(known, "model.layer", self.layer, f"one of {', '.join(LAYER_NAMES)}")
        _require(0 <= self.dropout < 1, "model.dropout", self.dropout, "within [0, 1)")


@dataclass(frozen=True)
class TrainingConfig:
    """How to train: Adam, the learning rate times ``lr_decay`` every ``decay_every`` steps."""

    lr: float = 0.001
    lr_decay: float = 1.0
    decay_every: int = 1000
    batch_size: int = 256
    epochs: int = 100
    clip: float | None = None  # the largest norm of the gradient
    weight_decay: float | None = None  # AdamW's: each step takes lr times this share of a weight
    max_loss: float = 1e6  # to end an epoch with a loss above this one is divergence
    max_minutes: float | None = None  # the first epoch that ends beyond them is the last one
    probe_every: int | None = None  # epochs between measurements of gradients; None: no such

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            _require_positive(f"training.{name}", value)


@dataclass(frozen=True)
class RunConfig:
    """One run, but for its seed."""

    data: DataConfig
    model: ModelConfig
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def changes_since(self, then: dict[str, Any]) -> list[str]:
        """What is different from a recorded configuration: ``training.lr=0.01, not 0.5``.

        A field that the record does not have yet was None.
        """
        before, now = _flat(then), _flat(self.to_dict())
        return [f"{k}={before.get(k)}, not {v}" for k, v in now.items() if before.get(k) != v]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """The inverse of :meth:`to_dict`, also after a journey through JSON."""
        model = {**values["model"], "alphas": tuple(values["model"]["alphas"])}
        data, training = DataConfig(**values["data"]), TrainingConfig(**values["training"])
        return cls(data, ModelConfig(**model), training)


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """By ``section.field``, with lists for tuples, as JSON has it."""
    return {
        f"{section}.{name}": list(value) if isinstance(value, tuple) else value
        for section, values in config.items()
        for name, value in values.items()
    }


def _require_positive(name: str, value: float | None) -> None:
    _require(value is None or value > 0, name, value, "greater than 0")


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expected}, got {value!r}")
