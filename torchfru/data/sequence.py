"""The form of every data set: its sequences, and a description that a model is built from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from torch import Tensor

from ..io import from_json

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

    def __getitem__(self, chosen: slice | Tensor) -> Split:
        """Some of the sequences, by a slice or by their numbers."""
        lengths = None if self.lengths is None else self.lengths[chosen]
        return Split(self.inputs[chosen], self.targets[chosen], lengths)


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
    """A data set without its sequences: the sizes of a model, and the meaning of its outputs.

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
        return asdict(
            DataSpec(**{item.name: getattr(self, item.name) for item in fields(DataSpec)})
        )

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> DataSpec:
        """The inverse of :meth:`to_dict`; a ValueError says which entry is missing or wrong."""
        spec = from_json(DataSpec, stored)
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
        return spec


@dataclass(frozen=True, kw_only=True)
class SequenceData(DataSpec):
    """A data set: its description, and the sequences to train and to test on."""

    train: Split
    test: Split

    @classmethod
    def of(
        cls,
        name: str,
        task: Task,
        inputs: Tensor,
        targets: Tensor,
        lengths: Tensor | None = None,
        *,
        train: int,
        **more: Any,
    ) -> SequenceData:
        """The first ``train`` sequences to train on, the rest to test on; sizes by their shapes."""
        whole = Split(inputs, targets, lengths)
        sizes = {
            "input_size": inputs.shape[2] if inputs.dim() == 3 else 1,
            "output_size": targets.shape[-1],
            "seq_len": inputs.shape[1],
        }
        known: dict[str, Any] = sizes | more
        return cls(name=name, task=task, train=whole[:train], test=whole[train:], **known)
