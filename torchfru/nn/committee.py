"""Models that answer together: with the mean of their probabilities, or of their numbers."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .model import SequenceModel
from .step import ModelStream, StepModel


class Committee(nn.Module):
    """Several :class:`SequenceModel` of one shape, each trained by itself, that answer together.

    Models that start from different weights go wrong in different places: their mean is better
    than most of them, above all with little data.

    Args:
        models: the members, with the same inputs and outputs.
        probabilities: whether outputs are logits of classes. The answer is then the logarithm of
            the mean probability, and otherwise the mean output.

    Shape:
        as for a member; while training (members, ...), for a loss of each one.

    >>> members = [SequenceModel("fru", 1, 3, seq_len=5) for _ in range(2)]
    >>> model, x = Committee(members, probabilities=True).eval(), torch.randn(4, 5, 1)
    >>> mean = (members[0](x).softmax(-1) + members[1](x).softmax(-1)) / 2
    >>> torch.allclose(model(x).softmax(-1), mean, atol=1e-6)
    True
    """

    naive = None  # a member that starts from a forecast is refused

    def __init__(self, models: Iterable[SequenceModel], probabilities: bool) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        if any(model.naive is not None for model in self.members):
            raise ValueError(
                "model.members: a forecast from a naive start is made by one model; leave it at 1"
            )
        self.probabilities = probabilities

    @property
    def members(self) -> list[SequenceModel]:
        return list(self.models)  # type: ignore[arg-type]

    @property
    def kind(self) -> str:
        return self.members[0].kind

    @property
    def every_step(self) -> bool:
        return self.members[0].every_step

    @property
    def embedding(self) -> nn.Embedding | None:
        return self.members[0].embedding

    def forward(
        self, inputs: Tensor, lengths: Tensor | None = None, output_from: int = 0
    ) -> Tensor:
        """The common answer, or while training that of each member."""
        outputs = torch.stack([model(inputs, lengths, output_from) for model in self.models])
        return outputs if self.training else self.mean(outputs)

    def mean(self, outputs: Tensor) -> Tensor:
        """The answer (...) to outputs (members, ...)."""
        if not self.probabilities:
            return outputs.mean(0)
        return outputs.log_softmax(-1).logsumexp(0) - math.log(len(outputs))

    def loss_unit(self, steps: int, lengths: Tensor | None = None) -> float:
        """The unit of errors while training."""
        return 1.0

    def stream(self, batch: int = 1) -> CommitteeStream:
        """A stream of this model, ``output = stream(x)`` step by step."""
        return CommitteeStream(self, batch)

    def step_model(self) -> CommitteeStep:
        """A single step as a function of tensors, for export."""
        return CommitteeStep(self)

    def count_parameters(self, embedding: bool = False) -> int:
        """Number of trainable parameters of all members."""
        return sum(model.count_parameters(embedding) for model in self.members)


AnyModel = SequenceModel | Committee


class CommitteeStep(nn.Module):
    """:class:`StepModel` of a committee: the states are the members' own, ``u_0``, ``u_1``..."""

    def __init__(self, model: Committee) -> None:
        super().__init__()
        self.mean = model.eval().mean
        self.steps = nn.ModuleList(map(StepModel, model.members))

    @property
    def _each(self) -> list[StepModel]:
        return list(self.steps)  # type: ignore[arg-type]

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(f"{name}_{i}" for i, one in enumerate(self._each) for name in one.state_names)

    @property
    def batch_axes(self) -> tuple[int, ...]:
        """The axis of each state that counts the samples."""
        return tuple(axis for one in self._each for axis in one.batch_axes)

    def start(self, n: int) -> tuple[Tensor, ...]:
        """The state before the first step, for n sequences."""
        return tuple(state for one in self._each for state in one.start(n))

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        size = len(state) // len(self.steps)
        parts = [state[i : i + size] for i in range(0, len(state), size)]
        found = [one(x, *part) for one, part in zip(self.steps, parts, strict=True)]
        output = self.mean(torch.stack([own[0] for own in found]))
        return output, *(value for own in found for value in own[1:])


class CommitteeStream:
    """:class:`ModelStream` of a committee: the same methods, and a state for each member."""

    def __init__(self, model: Committee, batch: int = 1) -> None:
        self._mean = model.mean
        self._streams = [ModelStream(one, batch) for one in model.members]

    def __call__(self, x: Any) -> Any:
        """The output (batch, output_size) after one more step."""
        if not isinstance(x, Tensor):
            return self(torch.as_tensor(x)).numpy()
        return self._mean(torch.stack([stream(x) for stream in self._streams]))

    @property
    def state(self) -> tuple[Any, ...]:
        """The states of the members' streams."""
        return tuple(stream.state for stream in self._streams)

    @state.setter
    def state(self, state: tuple[Any, ...]) -> None:
        for stream, own in zip(self._streams, state, strict=True):
            stream.state = own

    def reset(self) -> None:
        """Go back to the beginning."""
        for stream in self._streams:
            stream.reset()

    def copy(self) -> CommitteeStream:
        """A stream that continues from here by itself; it shares the weights."""
        twin = copy.copy(self)
        twin._streams = [stream.copy() for stream in self._streams]
        return twin
