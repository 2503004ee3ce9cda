"""What every recurrent layer here shares with ``torch.nn.LSTM``: arguments, shapes, errors.

A subclass names its parameters (``_parameter_shapes``) and reads one layer in one direction
(``_read``). Layers, directions, padding, packing and state are dealt with here, once.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ..ops import Weights
from .checks import (
    check_dtype,
    check_shape,
    check_state_pair,
    check_steps,
    check_width,
    require_bool,
    require_nonlinearity,
    require_size,
    values_of,
    without_autocast,
)

State = tuple[Tensor, Tensor]


class RecurrentLayer(nn.Module):
    """A stack of recurrent units with the calling conventions of ``torch.nn.LSTM``.

    The state is ``(u, t)``: the memories u (D*num_layers, N, n_u), and the number of steps
    that each has taken, t (D*num_layers, N), int64.
    """

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
        self._require_dropout(dropout, num_layers)
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

    # What a subclass provides ------------------------------------------------------------

    state_size: int  # n_u

    def _parameter_shapes(self, input_size: int) -> dict[str, tuple[int, ...]]:
        """Names, without suffix, and shapes of the parameters of one layer and direction."""
        raise NotImplementedError

    def _read(
        self,
        suffix: str,
        x: Tensor,
        u: Tensor | None,
        t: Tensor | None,
        *,
        lengths: Tensor | None,
        every_step: bool,
    ) -> tuple[Tensor, Tensor]:
        """Read x (L, N, n_in) with one layer: y, (L, N, n_y) or the last (N, n_y), and u.

        ``u`` and ``t`` are None where every sample is at its beginning.
        """
        raise NotImplementedError

    # Parameters --------------------------------------------------------------------------

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

    def _register_parameters(self, device: Any, dtype: Any) -> None:
        for index, suffix in enumerate(self._suffixes()):
            first = index < self.num_directions
            n_in = self.input_size if first else self.hidden_size * self.num_directions
            register_parameters(
                self, self._parameter_shapes(n_in), suffix, self.bias, device, dtype
            )

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters, a list for each layer and direction, as ``nn.LSTM`` has it."""
        return [
            [p for name, p in self.named_parameters() if name.endswith(suffix)]
            for suffix in self._suffixes()
        ]

    def flatten_parameters(self) -> None:
        """Does nothing: code written for ``nn.LSTM`` calls it."""

    # Forward -----------------------------------------------------------------------------

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
        with step ``output_from``, counted from 0: those before it are read, and not computed.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx, lengths, output_from)
        self._check_input(input)
        batched = input.dim() == 3
        x = input if batched else input.unsqueeze(0 if self.batch_first else 1)
        x = x.transpose(0, 1) if self.batch_first else x  # (L, N, n_in)
        if x.shape[0] == 0:
            raise RuntimeError(f"{self._name}: Expected sequence length to be larger than 0, got 0")
        hx = self._check_state(hx, x, batched)
        lengths = self._check_lengths(lengths, x, batched)
        self._check_output_from(output_from, x.shape[0])
        if output_from:
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
        self._check_input(packed.data, packed=True)
        x, sizes = pad_packed_sequence(packed)  # in the user's order, as the state is
        hx = self._check_state(hx, x, batched=True)
        output, state = self._forward_padded(x, hx, sizes.to(x.device), self.return_sequences)
        if not self.return_sequences:
            return output, state
        order = packed.sorted_indices
        if order is not None:
            output, sizes = output.index_select(1, order), sizes[order.cpu()]
        data = pack_padded_sequence(output, sizes).data
        return PackedSequence(data, packed.batch_sizes, order, packed.unsorted_indices), state

    def _forward_padded(
        self, x: Tensor, hx: State | None, lengths: Tensor | None, return_sequences: bool
    ) -> tuple[Tensor, State]:
        """x (L, N, n_in), checked; every layer and direction in turn."""
        dtype = next(self.parameters()).dtype
        with without_autocast(x):
            x = x.to(dtype)  # differs under autocast only
            padded = x.shape[0]
            if lengths is not None:
                x, lengths = _trim(x, lengths)
                mask = sequence_mask(x, lengths)  # (L, N, 1)
                x = torch.where(mask, x, 0.0)  # whatever the padding holds, NaN included
            output, memories = self._run_layers(x, hx, lengths, return_sequences)
            if lengths is not None and return_sequences:
                output = torch.where(mask, output, 0.0)
                output = nn.functional.pad(output, (0, 0, 0, 0, 0, padded - x.shape[0]))
            taken = x.shape[0] if lengths is None else lengths
            t = self._steps_before(hx, x) + taken
        return output, (memories, t)

    def _run_layers(
        self, x: Tensor, hx: State | None, lengths: Tensor | None, return_sequences: bool
    ) -> tuple[Tensor, Tensor]:
        memories = []
        index = 0
        for layer in range(self.num_layers):
            last = layer == self.num_layers - 1
            outputs = []
            for reverse in (False, True)[: self.num_directions]:
                u, t = self._state_of(index, hx, x)
                every_step = return_sequences or not last
                y, u = self._read(
                    self.suffix(layer, reverse),
                    flip(x, lengths) if reverse else x,
                    u,
                    t,
                    lengths=lengths,
                    every_step=every_step,
                )
                outputs.append(flip(y, lengths) if reverse and every_step else y)
                memories.append(u)
                index += 1
            x = torch.cat(outputs, -1) if self.bidirectional else outputs[0]
            if not last:
                x = nn.functional.dropout(x, self.dropout, self.training)
        return x, memories[0].unsqueeze(0) if len(memories) == 1 else torch.stack(memories)

    def _state_of(
        self, index: int, hx: State | None, x: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        if hx is None:
            return None, None
        return hx[0][index].to(x.dtype), hx[1][index]

    def _steps_before(self, hx: State | None, x: Tensor) -> Tensor:
        if hx is not None:
            return hx[1]
        shape = (self.num_layers * self.num_directions, x.shape[1])
        return torch.zeros(shape, dtype=torch.int64, device=x.device)

    # Checks ------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _require_dropout(self, dropout: Any, num_layers: int) -> None:
        number = isinstance(dropout, numbers.Real) and not isinstance(dropout, bool)
        if not number or not 0 <= dropout <= 1:
            raise ValueError(
                f"{self._name}: dropout must be a number in [0, 1], the probability of zeroing "
                f"an element; got {dropout!r}"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{self._name}: dropout acts between layers, so dropout={dropout} does nothing "
                f"with num_layers={num_layers}",
                stacklevel=4,
            )

    def _check_input(self, x: Tensor, packed: bool = False) -> None:
        if not packed and x.dim() not in (2, 3):
            raise ValueError(f"{self._name}: Expected input to be 2D or 3D, got {x.dim()}D instead")
        check_dtype(self, "input", x)
        check_width(x, self.input_size)

    def _check_state(self, hx: State | None, x: Tensor, batched: bool) -> State | None:
        """The state with its batch dimension, once its shapes are right."""
        if hx is None:
            return None
        u, t = check_state_pair(self, hx, dims=(3, 2) if batched else (2, 1))
        if not batched:
            u, t = u.unsqueeze(1), t.unsqueeze(1)
        layers = self.num_layers * self.num_directions
        check_shape(self, "u", u, (layers, x.shape[1], self.state_size))
        check_shape(self, "t", t, (layers, x.shape[1]))
        check_dtype(self, "u", u)
        return u, check_steps(self, t)

    def _check_lengths(self, lengths: Tensor | None, x: Tensor, batched: bool) -> Tensor | None:
        if lengths is None:
            return None
        lengths = torch.as_tensor(lengths, device=x.device)
        if lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise TypeError(f"{self._name}: lengths must be integers, got {lengths.dtype}")
        if not batched and lengths.dim() == 0:
            lengths = lengths.unsqueeze(0)
        check_shape(self, "lengths", lengths, (x.shape[1],))
        values = values_of(lengths)
        if values is not None and bool(((values < 0) | (values > x.shape[0])).any()):
            raise ValueError(
                f"{self._name}: lengths must lie within 0..{x.shape[0]}, the padded length; "
                f"got {values.tolist()}"
            )
        return lengths.to(torch.int64)

    def _check_output_from(self, first: int, steps: int) -> None:
        if first == 0:
            return
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

    def extra_repr(self) -> str:
        stack = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        last = {"nonlinearity": "relu", "return_sequences": True}
        return describe(self, stack | {"bidirectional": False} | self._extra_defaults() | last)

    def _extra_defaults(self) -> dict[str, Any]:
        """The subclass's own arguments with their defaults, for ``repr``."""
        raise NotImplementedError


# Shared with the cells -------------------------------------------------------------------


def register_parameters(
    module: nn.Module,
    shapes: dict[str, tuple[int, ...]],
    suffix: str,
    bias: bool,
    device: Any,
    dtype: Any,
) -> None:
    """Empty parameters of these shapes; None for the biases of a module without them."""
    for name, shape in shapes.items():
        absent = name.startswith("bias_") and not bias
        value = None if absent else nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        module.register_parameter(name + suffix, value)


def weights_of(module: nn.Module, suffix: str = "") -> Weights:
    """Read at call time, so that weights swapped in from outside are the ones used."""
    return Weights(*(getattr(module, name + suffix) for name in Weights._fields))


def reset_weights(module: nn.Module) -> None:
    """The authors' start: weights from a truncated normal, biases 0, phases about 0."""
    for name, parameter in module.named_parameters(recurse=False):
        if name.startswith("weight_"):
            nn.init.trunc_normal_(parameter, std=0.1, a=-0.2, b=0.2)
        elif name.startswith("bias_"):
            nn.init.zeros_(parameter)
        elif name.startswith("phase"):
            nn.init.normal_(parameter, std=0.1 * 2 * math.pi)  # 0.1 turns


def describe(module: nn.Module, defaults: dict[str, Any]) -> str:
    """The two sizes, then each argument that is not at its default."""
    values = {name: getattr(module, name) for name in defaults}
    if "basis" in values:
        values["basis"] = type(values["basis"]).__name__.lower()
    changed = [f"{name}={value!r}" for name, value in values.items() if value != defaults[name]]
    return ", ".join([f"{module.input_size}, {module.hidden_size}", *changed])


def sequence_mask(x: Tensor, lengths: Tensor) -> Tensor:
    """(L, N, 1): whether a step of x (L, N, n) belongs to its sequence.

    Laid out as x is: so is then what the two make together, and its gradient.
    """
    steps = torch.arange(x.shape[0], device=x.device)
    if x.stride(0) < x.stride(1):  # a sample's steps lie together
        return (steps < lengths.unsqueeze(-1)).t().unsqueeze(-1)
    return (steps.unsqueeze(-1) < lengths).unsqueeze(-1)


def flip(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence backwards, from its own end; its padding stays where it is."""
    if lengths is None:
        return x.flip(0)
    steps = torch.arange(x.shape[0], device=x.device).unsqueeze(-1)  # (L, 1)
    source = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (L, N)
    return x.gather(0, source.unsqueeze(-1).expand_as(x))


def _trim(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Without the steps that no sequence reaches."""
    values = values_of(lengths)
    if values is None or values.numel() == 0:
        return x, lengths
    longest = max(1, int(values.max()))
    return (x if longest == len(x) else x[:longest]), lengths
