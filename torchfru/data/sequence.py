"""What every data set is handed over as."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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
    """What was taken out of a series, channel by channel: ``(x - mean) / std`` is stored."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class SequenceData:
    """A data set: training and test part, and the sizes that a model for it needs.

    The tasks, by where the loss is taken: ``classify`` is cross entropy at each sequence's own
    last step, ``regress`` mean squared error at the last step, ``predict`` mean squared error
    at every step, ``tag`` cross entropy at every step that is not ignored.

    Attributes:
        input_size: n_in, the numbers of a step; 1 for tokens, whose width the model chooses.
        output_size: n_out, or the number of classes.
        seq_len: the longest sequence that the layer will read.
        vocab_size: the number of token ids, or None where the inputs are numbers.
        checksums: source file or generator -> SHA-256, for the record of a run.
        classes: the names of the classes, if they have any.
        words: what each token id stands for, if the inputs are tokens.
        scaling: what was taken out of a series, to get back to its units.
    """

    name: str
    task: Task
    train: Split
    test: Split
    input_size: int
    output_size: int
    seq_len: int
    vocab_size: int | None = None
    checksums: dict[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    words: tuple[str, ...] = field(default=(), repr=False)
    scaling: Scaling | None = None
