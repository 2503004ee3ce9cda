"""The form of every data set: its sequences, and a description that a model is built from."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from torch import Tensor

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
        known = {item.name: stored[item.name] for item in fields(DataSpec) if item.name in stored}
        for name in ("classes", "words"):
            known[name] = _texts(name, known.get(name) or ())
        if known.get("scaling") is not None:
            known["scaling"] = _scaling(known["scaling"], known.get("input_size"))
        if known.get("reading") is not None:
            known["reading"] = _reading(known["reading"])
        for name in ("name", "task", "input_size", "output_size", "seq_len"):
            if name not in known:
                raise ValueError(f"its description of the data has no {name}")
        spec = DataSpec(**known)
        _check(spec)
        return spec


@dataclass(frozen=True, kw_only=True)
class SequenceData(DataSpec):
    """A data set: its description, and the sequences to train and to test on."""

    train: Split
    test: Split


def _check(spec: DataSpec) -> None:
    for name in ("input_size", "output_size", "seq_len", "vocab_size"):
        size = getattr(spec, name)
        if size is None and name == "vocab_size":
            continue
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"its {name} is {size!r}, not a whole number from 1")
    if spec.task not in get_args(Task):
        raise ValueError(f"its task is {spec.task!r}, none of {', '.join(get_args(Task))}")
    for name, texts, size in (
        ("classes", spec.classes, spec.output_size),
        ("words", spec.words, spec.vocab_size),
    ):
        if texts and len(texts) != size:
            raise ValueError(f"it names {len(texts)} {name} for {size}")


def _scaling(stored: Any, channels: Any) -> Scaling:
    try:
        mean, std = (tuple(map(float, stored[name])) for name in ("mean", "std"))
    except (KeyError, TypeError, ValueError):
        mean, std = (), ()
    finite = all(math.isfinite(value) for value in (*mean, *std))
    if len(mean) != channels or len(std) != channels or not finite or min(std) <= 0:
        raise ValueError("its scaling is not a mean and a positive std for each channel")
    return Scaling(mean, std)


def _reading(stored: Any) -> Reading:
    if not isinstance(stored, dict) or not isinstance(stored.get("label"), str):
        raise ValueError("its reading names no column of labels")
    column = stored.get("column")
    if column is not None and not isinstance(column, str):
        raise ValueError(f"its reading names the column {column!r}, which is no text")
    return Reading(stored["label"], column, _texts("columns", stored.get("columns") or ()))


def _texts(name: str, stored: Any) -> tuple[str, ...]:
    if not isinstance(stored, list | tuple) or not all(isinstance(text, str) for text in stored):
        raise ValueError(f"its {name} are no list of names")
    return tuple(stored)
