"""A model one step at a time: as a function of tensors for export, and as a stream."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LayerStep = Callable[[Tensor], tuple[Tensor, tuple[Tensor, ...]]]  # from x to y and the state


class StepModel(nn.Module):
    """Single-step model for export: ``output, *state = step(x, *state)``.

    x is (N, input_size), or (N,) int64 for tokens; output (N, output_size). The state, by layer::

        rnn, gru   h (num_layers, N, hidden_size)
        lstm       h and c, each as above
        sru        u (num_layers, N, n_u)
        fru        u (num_layers, N, n_u), and t (N,) int64, the steps taken so far

    A window adds the inputs that it keeps, ``window`` (N, width - 1, n), a naive forecast those
    that it reads, ``inputs`` (N, width, n). Where the time is needed, layers that do not count add
    ``step`` (N,) int64.

    It starts as zeros. The basis of an FRU is kept as a table of seq_len rows, so that an exported
    model needs no operator of the basis.

    >>> from torchfru.nn import SequenceModel
    >>> step = StepModel(SequenceModel("fru", 1, 10, seq_len=5))
    >>> output, u, t = step(torch.zeros(2, 1), *step.start(2))
    >>> output.shape, t.tolist()
    (torch.Size([2, 10]), [1, 1])
    """

    def __init__(self, model: Any) -> None:  # a SequenceModel, which imports this file
        super().__init__()
        if model.relative:
            raise ValueError(
                "a model with relative=True forecasts whole windows, and cannot be taken step by "
                "step; call it, or make one with relative=False"
            )
        self.model = model.eval()
        self._tables = tuple(model.layer.step_tables())
        for name, table in model.layer.step_tables().items():
            self.register_buffer(name, table)

    @property
    def state_names(self) -> tuple[str, ...]:
        return (*self.model.layer.step_names, *self._beside(1))

    @property
    def batch_axes(self) -> tuple[int, ...]:
        """The axis of each state that counts the samples."""
        layers = tuple(0 if name == "t" else 1 for name in self.model.layer.step_names)
        return layers + (0,) * len(self._beside(1))

    def _beside(self, n: int) -> dict[str, Tensor]:
        """The start of the states that are not the layer's."""
        model, window, naive = self.model, self.model.window, self.model.naive
        states = {}
        if window is not None:
            states["window"] = torch.zeros(n, window.width - 1, window.input_size)
        if naive is not None:
            states["inputs"] = torch.zeros(n, naive.width, naive.input_size)
        timed = model.time_freqs > 0 or naive is not None
        if timed and "t" not in model.layer.step_names:
            states["step"] = torch.zeros(n, dtype=torch.int64)
        return states

    def start(self, n: int) -> tuple[Tensor, ...]:
        """The state before the first step, for n sequences."""
        return (*self.model.layer.step_start(n), *self._beside(n).values())

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        layer, tables = self.model.layer, {name: self.get_buffer(name) for name in self._tables}
        now = dict(zip(self.state_names, state, strict=True))
        own = state[: len(layer.step_names)]
        return self.around(x, now, lambda v: layer.step(v, own, tables))

    def around(self, x: Tensor, now: dict[str, Tensor], take: LayerStep) -> tuple[Tensor, ...]:
        """The output, and the state after the step, which ``take`` does with the layer."""
        model = self.model
        t = now.get("step", now.get("t"))  # (N,), or None if nothing needs it
        x = model.embed(x.unsqueeze(1))  # (N, 1, n)
        after: dict[str, Tensor] = {}
        forecast = None
        if model.naive is not None:
            assert t is not None
            first = (t == 0).reshape(-1, 1, 1)  # before the first input there is only that one
            before = torch.where(first, x, now["inputs"])  # (N, width, n)
            after["inputs"] = torch.cat([before, x], 1)[:, 1:]
            forecast, x = model.naive_forecast(x, t.unsqueeze(-1) + 1, before)
        if model.window is not None:
            x, after["window"] = model.window(x, now["window"])
        if "step" in now:
            after["step"] = now["step"] + 1
        y, own = take(x[:, 0])
        skipped = x[:, 0] if model.skip else None
        forecast = None if forecast is None else forecast[:, 0]
        t = None if t is None else t + 1
        output = model.head_output(y, own, t, skipped, forecast)
        return output, *own, *(after[name] for name in self._beside(1))


class ModelStream:
    """Reads one step of each of ``batch`` sequences at a call: ``output = stream(x)``.

    The layer's part is its own stream; window, naive forecast and head are around it. x is
    (batch, input_size), or (batch,) for tokens; the output, (batch, output_size), is the model's
    answer for a sequence that ends here. Weights are those that the model had when the stream was
    made; nothing is differentiated.

    >>> from torchfru.nn import SequenceModel
    >>> model = SequenceModel("fru", 1, 10, seq_len=100, window=4).eval()
    >>> stream, x = model.stream(), torch.randn(1, 30, 1)
    >>> for step in x.unbind(1):
    ...     output = stream(step)
    >>> torch.allclose(output, model(x), atol=1e-5)
    True
    """

    def __init__(self, model: Any, batch: int = 1) -> None:
        self._step = StepModel(copy.deepcopy(model).requires_grad_(False))
        self._layer = model.layer.stream(batch)
        self._batch = batch
        self.reset()

    def __call__(self, x: Any) -> Any:
        """The output (batch, output_size) after one more step."""
        if isinstance(x, np.ndarray):
            return self(torch.from_numpy(x)).numpy()
        if x.shape[:1] != (self._batch,):
            raise ValueError(
                f"SequenceModel: a step of this stream has {self._batch} samples, got a tensor of "
                f"size {tuple(x.shape)}"
            )
        with torch.no_grad():
            output, _, *after = self._step.around(x, self._beside, self._take)
        self._beside |= dict(zip(self._names, after, strict=True))
        if "t" in self._beside:
            self._beside["t"] = self._beside["t"] + 1
        return output

    def _take(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        return self._layer(x), (self._layer.memory,)

    @property
    def state(self) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """The layer's state, and that of window, naive forecast and time, by name."""
        return self._layer.state, dict(self._beside)

    @state.setter
    def state(self, state: tuple[tuple[Tensor, ...], dict[str, Tensor]]) -> None:
        self._layer.state, self._beside = state[0], dict(state[1])

    def reset(self) -> None:
        """Go back to the beginning."""
        self._layer.reset()
        self._beside = self._step._beside(self._batch)
        self._names = tuple(self._beside)
        if "t" in self._step.model.layer.step_names:
            self._beside["t"] = torch.zeros(self._batch, dtype=torch.int64)

    def copy(self) -> ModelStream:
        """A stream that continues from here by itself; it shares the weights."""
        twin = copy.copy(self)
        twin._layer, twin._beside = self._layer.copy(), dict(self._beside)
        return twin
