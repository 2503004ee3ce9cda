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

    def in_time(self, share: float) -> tuple[Split, Split] | None:
        """The samples before the last share of the time and those after; None without a time."""
        return None


@dataclass(frozen=True)
class Scaling:
    """The mean and standard deviation of each channel: ``(x - mean) / std`` is stored."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def fits(self, channels: int) -> bool:
        """Whether there is a mean and a positive deviation for each channel."""
        return len(self.mean) == len(self.std) == channels and min(self.std) > 0


@dataclass(frozen=True)
class Reading:
    """How a user's table was read, so that ``predict`` reads the next one the same way.

    Attributes:
        label: the column of the labels, or of the targets.
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
        scaling: of the inputs; and for ``predict``, of the outputs, which are inputs of a later
            step.
        target_scaling: of the outputs of ``regress``.
        reading: of a user's file.
        horizon: of windows over series, how many steps ahead are forecast; the targets have
            output_size / horizon numbers for each step, and ``scaling`` has all series' channels.
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
    target_scaling: Scaling | None = None
    reading: Reading | None = None
    horizon: int | None = None

    @property
    def forecasts(self) -> bool:
        """Whether the data are windows of scaled series, whose next values are predicted."""
        return self.horizon is not None or (self.task == "predict" and self.scaling is not None)

    @property
    def output_scaling(self) -> Scaling | None:
        """The scaling to undo in a model's output; None where its unit is that of the targets."""
        return self.scaling if self.forecasts else self.target_scaling

    @property
    def channels(self) -> int:
        """How many channels are scaled."""
        return 0 if self.scaling is None else len(self.scaling.mean)

    def to_dict(self) -> dict[str, Any]:
        """The description as JSON can store it, in a checkpoint."""
        return asdict(
            DataSpec(**{item.name: getattr(self, item.name) for item in fields(DataSpec)})
        )

    def channel(self, number: int) -> str:
        """The name of an output of a series: that of its column, or else its number."""
        columns = self.reading.columns if self.reading is not None else ()
        known = self.output_size if self.horizon is None else self.channels
        return columns[number] if len(columns) == known else str(number)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> DataSpec:
        """The inverse of :meth:`to_dict`; a ValueError says which entry is missing or wrong."""
        spec = from_json(DataSpec, stored)
        sizes = (spec.input_size, spec.output_size, spec.seq_len, spec.vocab_size, spec.horizon)
        if any(size is not None and size < 1 for size in sizes):
            raise ValueError(f"its sizes must be at least 1, got {sizes}")
        for name, texts, size in (
            ("classes", spec.classes, spec.output_size),
            ("words", spec.words, spec.vocab_size),
        ):
            if texts and len(texts) != size:
                raise ValueError(f"it names {len(texts)} {name} for {size}")
        for scaling, size in (
            (spec.scaling, spec.input_size if spec.horizon is None else spec.channels),
            (spec.target_scaling, spec.output_size),
        ):
            if scaling is not None and not scaling.fits(size):
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
