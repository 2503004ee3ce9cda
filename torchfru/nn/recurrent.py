"""The contract of ``torch.nn.LSTM`` for layers and cells: arguments, shapes, state, errors.

A subclass scans a sequence with one layer in one direction (``_scan_layer``). Layers, directions,
padding, packing and state are handled here.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ..ops.weights import sequence_places
from .checks import (
    autocasts,
    check_input,
    check_lengths,
    check_state,
    common_value,
    dtype_of,
    require_bool,
    require_dropout,
    require_nonlinearity,
    require_size,
    values_of,
    weights_of,
)
from .stream import Stream

State = tuple[Tensor, Tensor]
Cell = TypeVar("Cell", bound="RecurrentCell")


class RecurrentLayer(nn.Module):
    """A stack of recurrent units with the calling conventions of ``torch.nn.LSTM``.

    The state is ``(u, t)``: the memories u (D*num_layers, N, n_u), and the number of steps
    that each has taken, t (D*num_layers, N), int64.
    """

    state_size: int  # n_u
    inner_size: int  # n_h
    step_names: tuple[str, ...] = ("u",)  # the state of :meth:`step`

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        *,
        gate_size: int,
        nonlinearity: str,
        return_sequences: bool,
    ) -> None:
        super().__init__()
        flags = {"bias": bias, "batch_first": batch_first, "bidirectional": bidirectional}
        for name, flag in (flags | {"return_sequences": return_sequences}).items():
            require_bool(self, name, flag)
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        for name, size in (sizes | {"gate_size": gate_size}).items():
            require_size(self, name, size)
        require_nonlinearity(self, nonlinearity)
        require_dropout(self, dropout, num_layers)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.gate_size = gate_size
        self.nonlinearity = nonlinearity
        self.return_sequences = return_sequences

    # A subclass provides ------------------------------------------------------------------

    def _scan_layer(
        self,
        suffix: str,
        x: Tensor,
        u: Tensor | None,
        t: Tensor | int,
        *,
        lengths: Tensor | None,
        every_step: bool,
    ) -> tuple[Tensor, Tensor]:
        """Scan x (L, N, n_in) with one layer: y, (L, N, n_y) or the last (N, n_y), and u (N, n_u).

        ``u`` is None where every sample is at its beginning. ``t`` is one number of steps taken
        where all samples are known to agree, or else that of each, (N,).
        """
        raise NotImplementedError

    def _step_layer(
        self, layer: int, x: Tensor, state: tuple[Tensor, ...], tables: dict[str, Tensor]
    ) -> Tensor:
        """u (N, n_u) of one layer after one step on x (N, n_in), for :meth:`step`."""
        raise NotImplementedError

    # Parameters ---------------------------------------------------------------------------

    @property
    def num_directions(self) -> int:
        return 2 if self.bidirectional else 1

    def suffix(self, layer: int = 0, reverse: bool = False) -> str:
        """The ending of the names of the parameters of one layer and direction."""
        if not 0 <= layer < self.num_layers or (reverse and not self.bidirectional):
            raise ValueError(
                f"{self._name}: there is no layer={layer}, reverse={reverse} with "
                f"num_layers={self.num_layers}, bidirectional={self.bidirectional}"
            )
        return f"_l{layer}_reverse" if reverse else f"_l{layer}"

    def _suffixes(self) -> list[str]:
        directions = (False, True)[: self.num_directions]
        return [self.suffix(k, back) for k in range(self.num_layers) for back in directions]

    def _parameter_shapes(self, input_size: int) -> dict[str, tuple[int, ...]]:
        """Names, without suffix, and shapes of the parameters of one layer and direction."""
        return {
            "weight_ug": (self.gate_size, self.state_size),
            "bias_g": (self.gate_size,),
            "weight_gh": (self.inner_size, self.gate_size),
            "weight_xh": (self.inner_size, input_size),
            "bias_h": (self.inner_size,),
            "weight_uy": (self.hidden_size, self.state_size),
            "bias_y": (self.hidden_size,),
        }

    def _register_parameters(self, device: Any, dtype: Any) -> None:
        """Empty parameters; None for the biases of a module without them."""
        for index, suffix in enumerate(self._suffixes()):
            first = index < self.num_directions
            n_in = self.input_size if first else self.hidden_size * self.num_directions
            for name, shape in self._parameter_shapes(n_in).items():
                empty = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                absent = name.startswith("bias_") and not self.bias
                self.register_parameter(name + suffix, None if absent else empty)

    def reset_parameters(self) -> None:
        """Start as the paper's authors did: weights from a normal of deviation 0.1 cut at 0.2,
        biases 0, phases from a normal of 0.1 turns."""
        for name, parameter in self.named_parameters(recurse=False):
            if name.startswith("weight_"):
                nn.init.trunc_normal_(parameter, std=0.1, a=-0.2, b=0.2)
            elif name.startswith("bias_"):
                nn.init.zeros_(parameter)
            elif name.startswith("phase"):
                nn.init.normal_(parameter, std=0.1 * 2 * math.pi)

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters, a list for each layer and direction, as ``nn.LSTM`` has it."""
        return [[p for n, p in self.named_parameters() if n.endswith(s)] for s in self._suffixes()]

    def flatten_parameters(self) -> None:
        """Does nothing: code written for ``nn.LSTM`` calls it."""

    # Forward ------------------------------------------------------------------------------

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: State | None = None,
        lengths: Tensor | None = None,
        output_from: int = 0,
    ) -> tuple[Tensor | PackedSequence, State]:
        """Read sequences; give ``(output, (u, t))``.

        ``input`` is (L, N, input_size), (N, L, input_size) with ``batch_first``, unbatched
        (L, input_size), or a PackedSequence. ``lengths`` (N,) says how much of each padded
        sequence is real. ``hx`` is the state that an earlier call returned. The output begins
        with step ``output_from``, counted from 0: earlier steps are consumed without outputs.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx, lengths, output_from)
        check_input(self, input, self.input_size, dims=(2, 3))
        batched = input.dim() == 3
        x = input if batched else input.unsqueeze(0 if self.batch_first else 1)
        x = x.transpose(0, 1) if self.batch_first else x  # (L, N, n_in)
        if x.shape[0] == 0:
            raise RuntimeError(f"{self._name}: Expected sequence length to be larger than 0, got 0")
        hx = None if hx is None else self._check_state(hx, x, batched)
        lengths = None if lengths is None else check_lengths(self, lengths, x, batched)
        if output_from:
            self._check_output_from(output_from, x.shape[0])
            before = None if lengths is None else lengths.clamp(max=output_from)
            _, hx = self._forward_padded(x[:output_from], hx, before, return_sequences=False)
            x = x[output_from:]  # (L - output_from, N, n_in)
            lengths = None if lengths is None else (lengths - output_from).clamp(min=0)
        output, (u, t) = self._forward_padded(x, hx, lengths, self.return_sequences)
        if self.return_sequences and self.batch_first:
            output = output.transpose(0, 1)
        if batched:
            return output, (u, t)
        batch_dim = 0 if self.batch_first or not self.return_sequences else 1
        return output.squeeze(batch_dim), (u.squeeze(1), t.squeeze(1))

    def _forward_packed(
        self,
        packed: PackedSequence,
        hx: State | None,
        lengths: Tensor | None,
        output_from: int,
    ) -> tuple[Tensor | PackedSequence, State]:
        if lengths is not None or output_from:
            name = "output_from" if lengths is None else "lengths"
            raise ValueError(f"{self._name}: {name}= belongs to padded tensors; drop it")
        check_input(self, packed.data, self.input_size, dims=(2,))
        # in the order of the packing, the longest first; the state is in the user's
        order, back = packed.sorted_indices, packed.unsorted_indices
        x, sizes = pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))
        hx = None if hx is None else self._check_state(hx, x, batched=True)
        if hx is not None and order is not None:
            hx = hx[0].index_select(1, order), hx[1].index_select(1, order)
        output, (u, t) = self._forward_padded(x, hx, sizes.to(x.device), self.return_sequences)
        if back is not None:
            u, t = u.index_select(1, back), t.index_select(1, back)
        if not self.return_sequences:
            return (output if back is None else output.index_select(0, back)), (u, t)
        # as pack_padded_sequence, whose backward pass takes a call of torch for every step
        inside = sequence_places(output, sizes.to(x.device))
        data = output.flatten(0, 1).index_select(0, inside)
        return PackedSequence(data, packed.batch_sizes, order, back), (u, t)

    def _forward_padded(
        self, x: Tensor, hx: State | None, lengths: Tensor | None, return_sequences: bool
    ) -> tuple[Tensor, State]:
        """Scan x (L, N, n_in), checked, with every layer and direction."""
        if autocasts(x):  # a long sum must not be rounded to half precision at every step
            with torch.autocast(x.device.type, enabled=False):
                dtype = dtype_of(self)
                hx = None if hx is None else (hx[0].to(dtype), hx[1])
                return self._forward_padded(x.to(dtype), hx, lengths, return_sequences)
        padded = x.shape[0]
        if lengths is not None:
            x = x[: _longest(x, lengths)]
        output, memories = self._run_layers(x, hx, lengths, return_sequences)
        if return_sequences and padded != x.shape[0]:
            output = nn.functional.pad(output, (0, 0, 0, 0, 0, padded - x.shape[0]))
        taken = x.shape[0] if lengths is None else lengths
        if hx is not None:
            return output, (memories, hx[1] + taken)
        size = memories.shape[:2]
        if lengths is None:
            return output, (memories, memories.new_full(size, x.shape[0], dtype=torch.int64))
        return output, (memories, lengths.expand(size).clone())

    def _run_layers(
        self, x: Tensor, hx: State | None, lengths: Tensor | None, return_sequences: bool
    ) -> tuple[Tensor, Tensor]:
        memories: list[Tensor] = []
        directions = (False, True) if self.bidirectional else (False,)
        common = 0 if hx is None else common_value(hx[1])
        for layer in range(self.num_layers):
            last = layer == self.num_layers - 1
            every_step = return_sequences or not last
            outputs = []
            for reverse in directions:
                u, t, k = None, common, len(memories)
                if hx is not None:
                    u = hx[0][k]
                    t = common_value(hx[1][k]) if common is None else common
                y, u = self._scan_layer(
                    self.suffix(layer, reverse),
                    flip(x, lengths) if reverse else x,
                    u,
                    hx[1][k] if t is None and hx is not None else t,  # type: ignore[arg-type]
                    lengths=lengths,
                    every_step=every_step,
                )
                outputs.append(flip(y, lengths) if reverse and every_step else y)
                memories.append(u)
            x = torch.cat(outputs, -1) if self.bidirectional else outputs[0]
            if not last:
                x = nn.functional.dropout(x, self.dropout, self.training)
        return x, memories[0].unsqueeze(0) if len(memories) == 1 else torch.stack(memories)

    def stream(self, batch: int = 1) -> Stream:
        """A stream of this layer: ``y = stream(x)``, step by step, see :class:`Stream`."""
        return Stream(self, batch)

    # One step, for a model that is exported as a function of tensors ----------------------------

    def start_state(self, n: int, like: Tensor) -> State:
        """The state (u, t) before the first step of n sequences, in the dtype of ``like``."""
        layers = self.num_layers * self.num_directions
        u = like.new_zeros(layers, n, self.state_size)
        return u, u.new_zeros(layers, n, dtype=torch.int64)

    def step_start(self, n: int) -> tuple[Tensor, ...]:
        """The state of :meth:`step` before the first one: u (num_layers, N, n_u), and t (N,)."""
        u, t = self.start_state(n, torch.zeros(()))
        return (u, t[0])[: len(self.step_names)]

    def step_tables(self) -> dict[str, Tensor]:
        """Constants of :meth:`step` that are worth keeping in a file: none, in general."""
        return {}

    def step(
        self, x: Tensor, state: tuple[Tensor, ...], tables: dict[str, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One step of all layers on x (N, n_in): y (N, n_y) and the next state."""
        memories = []
        for k in range(self.num_layers):
            memories.append(self._step_layer(k, x, state, tables))
            weights = weights_of(self, self.suffix(k))
            x = nn.functional.linear(memories[-1], weights.weight_uy, weights.bias_y)
        return x, (torch.stack(memories), *(t + 1 for t in state[1:]))

    # Checks -------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _check_state(self, hx: object, x: Tensor, batched: bool) -> State:
        layers = self.num_layers * self.num_directions
        return check_state(self, hx, 1, batched, (layers, x.shape[1], self.state_size))

    def _check_output_from(self, first: int, steps: int) -> None:
        if not self.return_sequences or self.bidirectional:
            raise ValueError(
                f"{self._name}: output_from={first} needs return_sequences=True and one direction; "
                "drop it"
            )
        if not 0 <= first < steps:
            raise ValueError(
                f"{self._name}: output_from must lie within 0..{steps - 1}, the steps of the "
                f"input; got {first}"
            )

    # Arguments ----------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The two sizes, then each argument that is not at its default."""
        sizes = f"{self.input_size}, {self.hidden_size}"
        changed = [
            f"{name}={value!r}"
            for name, (value, default) in self._arguments(type(self)).items()
            if value != default and name != "freqs"
        ]
        return ", ".join([sizes, *changed])

    def _arguments(self, kind: type) -> dict[str, tuple[Any, Any]]:
        """The arguments that ``kind`` takes beyond the sizes: their values here, their defaults."""
        left_out = ("input_size", "hidden_size", "device", "dtype")
        own = {n: p for n, p in inspect.signature(kind).parameters.items() if n not in left_out}
        return {name: (self._argument(name), parameter.default) for name, parameter in own.items()}

    def _argument(self, name: str) -> Any:
        """The value of a constructor's argument."""
        return getattr(self, name)

    def _share(self, kind: type[Cell], layer: int, reverse: bool) -> Cell:
        """A cell that shares the parameters of one layer and direction."""
        suffix = self.suffix(layer, reverse)
        arguments: dict[str, Any] = {n: value for n, (value, _) in self._arguments(kind).items()}
        n_in = getattr(self, f"weight_xh{suffix}").shape[1]
        cell = kind(n_in, self.hidden_size, **arguments | {"device": "meta"})
        for name, _ in list(cell.named_parameters()):
            setattr(cell, name, getattr(self, name + suffix))
        for name, buffer in self.named_buffers(recurse=False):
            setattr(cell, name, buffer)
        return cell


class RecurrentCell(RecurrentLayer):
    """One step of one layer, for a batch (N, input_size) or one sample (input_size,).

    The state is ``(u, t)``: the memories u (N, n_u) and the steps taken, t (N,), int64, which
    may differ between samples. No state means the start.
    """

    def suffix(self, layer: int = 0, reverse: bool = False) -> str:
        """Nothing: a cell has one layer."""
        return ""

    def forward(  # type: ignore[override]
        self, input: Tensor, hx: State | None = None
    ) -> tuple[Tensor, State]:
        """The output of one step, and the state after it."""
        check_input(self, input, self.input_size, dims=(1, 2))
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        shape = (x.shape[0], self.state_size)
        u, t = (None, None) if hx is None else check_state(self, hx, 0, batched, shape)
        if autocasts(x):
            with torch.autocast(x.device.type, enabled=False):
                u = None if u is None else u.to(dtype_of(self))
                y, u = self._step(x.to(dtype_of(self)), u, t)
        else:
            y, u = self._step(x, u, t)
        t = x.new_ones(shape[:1], dtype=torch.int64) if t is None else t + 1
        return (y, (u, t)) if batched else (y.squeeze(0), (u.squeeze(0), t.squeeze(0)))

    def _step(self, x: Tensor, u: Tensor | None, t: Tensor | None) -> tuple[Tensor, Tensor]:
        """y (N, n_y) and u (N, n_u) after one step on x (N, n_in); no t means the start."""
        t = 0 if t is None else t  # type: ignore[assignment]
        return self._scan_layer("", x.unsqueeze(0), u, t, lengths=None, every_step=False)  # type: ignore[arg-type]


def flip(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence of x (L, N, n) backwards, from its own end; its padding stays in place."""
    if lengths is None:
        return x.flip(0)
    steps = torch.arange(x.shape[0], device=x.device).unsqueeze(-1)  # (L, 1)
    source = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (L, N)
    return x.gather(0, source.unsqueeze(-1).expand_as(x))


def _longest(x: Tensor, lengths: Tensor) -> int:
    """How many steps of x (L, N, n) some sequence reaches; all where the lengths are unknown."""
    values = values_of(lengths)
    if values is None or values.numel() == 0:
        return x.shape[0]
    return max(1, int(values.max()))
