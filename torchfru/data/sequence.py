"""The form of every data set: its sequences, and a description that a model is built from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal, get_type_hints

from torch import Tensor

from ..io import fits

Task = Literal["classify", "regress", "predict", "tag"]

IGNORED = -100  # the target of a step that does not count, as torch's cross entropy has it


@dataclass(frozen=True)
class Split:
    """One part of a data set: N sequences, padded at the end to L steps.

    Attributes:
        inputs: (N, L, n_in) float32, or token ids (N, L) int64 if the data set has a vocabulary.
        targets: by task: classify (N,) int64; regress (N, n_out); predict (N, L, n_out);
            tag (N, L) int64, where -100 is ignored.
        lengths: (N,) int64, the true lengths; None if every sequence has L steps.
    """

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None = None

    def __len__(self) -> int:
        return self.inputs.shape[0]


@dataclass(frozen=True)
class Scaling:
    """The mean and standard deviation of each channel: ``(x - mean) / std`` is stored."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Reading:
    """How a user's table was read, so that ``predict`` reads the next one the same way.

    Attributes:
        label: the column of the labels.
        column: the one column that is the series, if one was chosen.
        columns: the columns of values, in order; empty if the file was no table.
    """

    label: str = "label"
    column: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """A data set without its sequences: what a model is built from, and what its outputs mean.

    The tasks, by where the loss is taken: ``classify`` is cross entropy at each sequence's own
    last step, ``regress`` mean squared error at the last step, ``predict`` mean squared error
    at every step, ``tag`` cross entropy at every step that is not ignored.

    Attributes:
        input_size: n_in, the features of a step; 1 for tokens, whose width the model chooses.
        output_size: n_out, or the number of classes.
        seq_len: the longest sequence that the layer will read.
        vocab_size: the number of token ids, or None where the inputs are numbers.
        checksums: source file or generator -> SHA-256, for the record of a run.
        classes: the names of the classes, if they have any.
        words: the word of each token id, if the inputs are tokens.
        scaling: of a series, to get back to its units.
        reading: of a user's file.
    """

    name: str
    task: Task
    input_size: int
    output_size: int
    seq_len: int
    vocab_size: int | None = None
    checksums: dict[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    words: tuple[str, ...] = field(default=(), repr=False)
    scaling: Scaling | None = None
    reading: Reading | None = None

    def to_dict(self) -> dict[str, Any]:
        """The description as JSON can store it, in a checkpoint."""
        known = {item.name: getattr(self, item.name) for item in fields(DataSpec)}
        for name in ("scaling", "reading"):
            known[name] = None if known[name] is None else asdict(known[name])
        return known

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> DataSpec:
        """The inverse of :meth:`to_dict`; a ValueError says which entry is missing or wrong."""
        known = dict(stored)
        for name, kind in (("scaling", Scaling), ("reading", Reading)):
            known[name] = None if known.get(name) is None else _build(kind, known[name])
        spec: DataSpec = _build(DataSpec, known)
        _check(spec)
        return spec


@dataclass(frozen=True, kw_only=True)
class SequenceData(DataSpec):
    """A data set: its description, and the sequences to train and to test on."""

    train: Split
    test: Split


def _build(kind: Any, stored: Any) -> Any:
    """A dataclass from the entries of a JSON object, their types checked."""
    hints = get_type_hints(kind)
    if not isinstance(stored, dict):
        raise ValueError(f"its {kind.__name__.lower()} is no JSON object")
    known = {item.name: stored[item.name] for item in fields(kind) if item.name in stored}
    for name, value in known.items():
        if not (is_dataclass(value) or fits(value, hints[name])):
            raise ValueError(f"its {name} cannot be {value!r:.40}")
        known[name] = tuple(value) if isinstance(value, list) else value
    try:
        return kind(**known)
    except TypeError:
        raise ValueError(f"its {kind.__name__.lower()} is not complete") from None


def _check(spec: DataSpec) -> None:
    sizes = (spec.input_size, spec.output_size, spec.seq_len, spec.vocab_size)
    if any(size is not None and size < 1 for size in sizes):
        raise ValueError(f"its sizes must be at least 1, got {sizes}")
    for name, texts, size in (
        ("classes", spec.classes, spec.output_size),
        ("words", spec.words, spec.vocab_size),
    ):
        if texts and len(texts) != size:
            raise ValueError(f"it names {len(texts)} {name} for {size}")
    if spec.scaling is not None:
        mean, std = spec.scaling.mean, spec.scaling.std
        if not len(mean) == len(std) == spec.input_size or min(std) <= 0:
            raise ValueError("its scaling is not a mean and a positive std for each channel")
