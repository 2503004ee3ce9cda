"""Streams: a layer fed one step at a time, for inference, with the state kept inside."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..ops import Weights
from .checks import check_state, common_value, require_size, weights_of

State = tuple[Tensor, ...]


class Stream:
    """Reads one step of each of ``batch`` sequences at a call: ``y = stream(x)``.

    x is (batch, input_size), a tensor or an array, and y (batch, hidden_size) of the same kind. The
    weights are those that the layer had when the stream was made; nothing is differentiated. The
    state is the layer's, and can be read and assigned: ``stream.state = layer(x)[1]``.
    """

    def __init__(self, layer: Any, batch: int = 1) -> None:
        if layer.bidirectional:
            raise ValueError(
                f"{type(layer).__name__}: a stream reads in one direction, but the layer is "
                "bidirectional; build it with bidirectional=False"
            )
        require_size(layer, "batch", batch)
        self.layer = copy.deepcopy(layer).eval().requires_grad_(False)
        self._empty = next(layer.parameters()).new_empty(0).detach()
        self._shape = (batch, layer.input_size)
        self._state: State
        self.reset()

    def __call__(self, x: Any) -> Any:
        """y (batch, hidden_size) after one more step."""
        if isinstance(x, np.ndarray):
            return self(torch.from_numpy(x)).numpy()
        if x.shape != self._shape or x.dtype != self._empty.dtype:
            raise ValueError(
                f"{type(self.layer).__name__}: a step of this stream is {self._empty.dtype} of "
                f"size {self._shape}, got {x.dtype} of size {tuple(x.shape)}"
            )
        return self._step(x)

    def _step(self, x: Tensor) -> Tensor:
        time = 1 if self.layer.batch_first else 0
        with torch.no_grad():
            y, self._state = self.layer(x.unsqueeze(time), self._state)
        return y.squeeze(time) if y.dim() == 3 else y

    @property
    def memory(self) -> Tensor:
        """The first part of the state, to look at, not to keep; u (num_layers, N, n_u) of ours."""
        return self._state[0]

    @property
    def state(self) -> State:
        """The layer's state after the last step."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    def reset(self) -> None:
        """Go back to the beginning."""
        self.state = self.layer.start_state(self._shape[0], self._empty)

    def copy(self) -> Stream:
        """A stream that continues from here by itself; it shares the weights."""
        twin = copy.copy(self)
        twin.state = self.state
        return twin


class FusedStream(Stream):
    """The stream of an FRU on the CPU: one kernel takes x to y through all layers.

    It follows the definition: for one sample, W1 u and Y u cost no more than A(t) and E(t) would,
    and nothing has to be prepared ahead.
    """

    def __init__(self, layer: Any, batch: int = 1) -> None:
        from ..ops.cpu.nonlinear import KINDS
        from ..ops.cpu.plan import LIKE
        from ..ops.cpu.step import stream_step

        self._dtype, self._kernel = layer.freqs.dtype, stream_step
        self._like, self._kind = LIKE[self._dtype], KINDS[layer.nonlinearity]
        self._tensors: list[list[Tensor | None]] = []
        for suffix in layer._suffixes():
            tensors = (*layer._waves(0, suffix)[:2], *weights_of(layer, suffix))
            self._tensors.append([None if t is None else t.detach().clone() for t in tensors])
        super().__init__(layer, batch)

    def _step(self, x: Tensor) -> Tensor:
        x = x if x.is_contiguous() else x.contiguous()
        y = torch.empty(self._between.shape[1:], dtype=self._dtype)
        past = self._kernel(self._plan, self._like, x.data_ptr(), y.data_ptr(), self._kind)
        if past >= 0:
            self.layer._check_time(past + 1)
        return y

    @property
    def memory(self) -> Tensor:
        return self._u

    @property
    def state(self) -> State:
        """(u, t) after the last step: (num_layers, N, n_u) and (num_layers, N)."""
        taken = torch.from_numpy(self._plan[:, TAKEN]).unsqueeze(1)
        return self._u.clone(), taken.repeat(1, self._shape[0])

    @state.setter
    def state(self, state: State) -> None:
        layer, batch = self.layer, self._shape[0]
        u, t = check_state(layer, state, 1, True, (layer.num_layers, batch, layer.state_size))
        taken = [common_value(t_k) for t_k in t]
        if None in taken:
            raise ValueError(
                f"{type(layer).__name__}: the samples of a stream must have taken equally many "
                f"steps, got t={t.tolist()}; use a cell, or a stream for each"
            )
        self._u = u.detach().clone(memory_format=torch.contiguous_format)
        self._between = self._u.new_empty(layer.num_layers, batch, layer.hidden_size)
        records = []  # as in stream_step
        for k, tensors in enumerate(self._tensors):
            weights = Weights(*tensors[2:])  # type: ignore[arg-type]
            (n_g, n_u), (n_h, n_in) = weights.weight_ug.shape, weights.weight_xh.shape
            addresses = [0 if a is None else a.data_ptr() for a in (self._u[k], *tensors)]
            sizes = (batch, n_in, n_u, n_g, n_h, layer.hidden_size, layer.num_freqs)
            records.append(
                [*addresses, *sizes, taken[k], layer.seq_len, self._between[k].data_ptr()]
            )
        self._plan = np.array(records, np.int64)


TAKEN = 17  # the place of the steps taken in a record
