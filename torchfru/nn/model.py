"""Models for sequences: (embedding), (window), a recurrent layer, a head."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..basis import Fourier, Pairs, named_frequencies, resolve_basis
from ..defaults import (
    BASIS,
    EMBEDDING_SIZE,
    FREQS,
    HIDDEN_SIZE,
    LAYER_OPTIONS,
    MIN_FREQ,
    NUM_FREQS,
    OUTPUT,
    SCALE,
    WINDOW_ACTIVATION,
)
from ..io import did_you_mean
from .baselines import GRU, LSTM, RNN
from .fru import FRU
from .head import EnergyReadout, Head
from .sru import SRU
from .window import ACTIVATIONS, CausalWindow


def _fru(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    seq_len: int,
    num_freqs: int = NUM_FREQS,
    min_freq: float = MIN_FREQ,
    max_freq: float | None = None,
    freqs: str = FREQS,
    basis: str = BASIS,
    **options: Any,
) -> FRU:
    """An FRU whose frequencies are given by their spacing and range."""
    chosen, kind = None, resolve_basis(basis)
    if isinstance(kind, (Fourier, Pairs)):
        chosen = named_frequencies(kind, freqs, num_freqs, seq_len, max_freq, min_freq)
    options |= {"seq_len": seq_len, "num_freqs": num_freqs, "freqs": chosen, "basis": basis}
    return FRU(input_size, hidden_size, num_layers, **options)


def _timeless(kind: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A layer that does not depend on seq_len."""
    return lambda *sizes, seq_len, **options: kind(*sizes, **options)


# By name: how to build a layer that reads (N, L, n_in). LAYER_OPTIONS has their own options.
LAYERS: dict[str, Callable[..., nn.Module]] = {
    "rnn": _timeless(RNN),
    "lstm": _timeless(LSTM),
    "gru": _timeless(GRU),
    "sru": _timeless(SRU),
    "fru": _fru,
}


class SequenceModel(nn.Module):
    """A recurrent layer with a window before it and a head after it, the same for every layer.

    With the defaults it is the paper's model: no window, and a linear head.

    Args:
        layer: one of :data:`LAYERS`: "rnn", "lstm", "gru", "sru", "fru".
        input_size: features per step; ignored if ``vocab_size`` is given.
        output_size: the number of classes, or of predicted features.
        seq_len: the longest sequence that will be read.
        every_step: an output for every step, or for each sequence's own last step only.
        vocab_size: for inputs that are token ids, the number of tokens.
        dropout: the probability of zeroing an input of the head, or of a layer of it.
        output: the function between layer and head: "identity", as in the paper, or "relu", as
            in its authors' program (or "tanh", "gelu").
        window: how many inputs each step reads, see :class:`CausalWindow`.
        window_size, window_norm, window_activation: its output_size, norm and activation. Without
            window_size the layer reads the inputs themselves, side by side.
        scale, norm, head_sizes, time_freqs: of the :class:`Head`; head_sizes are the widths of its
            hidden layers.
        energy: the width of an :class:`EnergyReadout` beside the output of an FRU with
            ``basis="pairs"``; 0 for none.
        options: the layer's own: num_freqs, freq_dim, max_freq, basis, alphas, ...

    Shape:
        inputs (N, L, input_size), or (N, L) int64 tokens; lengths (N,) where they are padded;
        result (N, output_size), or (N, L - output_from, output_size) with every_step, where
        output_from, 0 unless given, is the first step with an output.

    >>> model = SequenceModel("fru", 1, 10, seq_len=784, max_freq=784.0)
    >>> model.count_parameters()
    158950
    >>> model(torch.randn(2, 5, 1)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        layer: str,
        input_size: int,
        output_size: int,
        *,
        seq_len: int,
        hidden_size: int = HIDDEN_SIZE,
        num_layers: int = 1,
        every_step: bool = False,
        vocab_size: int | None = None,
        embedding_size: int = EMBEDDING_SIZE,
        dropout: float = 0.0,
        output: str = OUTPUT,
        window: int = 1,
        window_size: int | None = None,
        window_norm: bool = False,
        window_activation: str = WINDOW_ACTIVATION,
        scale: str = SCALE,
        norm: bool = False,
        head_sizes: Sequence[int] = (),
        energy: int = 0,
        time_freqs: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        _require_choice("layer", layer, LAYERS)
        _require_choice("output", output, ACTIVATIONS)
        _require_options(layer, options)
        self.kind = layer
        self.every_step = every_step
        self.time_freqs = time_freqs
        self.embedding = None if vocab_size is None else nn.Embedding(vocab_size, embedding_size)
        n_in = input_size if vocab_size is None else embedding_size
        self.window = None
        if window > 1 or window_size is not None:
            self.window = CausalWindow(
                n_in,
                window_size,
                window,
                norm=window_norm,
                activation=window_activation,
                batch_first=True,
            )
            n_in = self.window.output_size
        shared = {"seq_len": seq_len, "batch_first": True, "return_sequences": every_step}
        self.layer: Any = LAYERS[layer](n_in, hidden_size, num_layers, **shared, **options)
        self.energy = self._energy_readout(energy, seq_len) if energy else None
        self.head = Head(
            hidden_size,
            output_size,
            seq_len=seq_len,
            scale=scale,
            norm=norm,
            activation=output,
            sizes=head_sizes,
            dropout=dropout,
            energy=energy,
            time_freqs=time_freqs,
        )

    def _energy_readout(self, features: int, seq_len: int) -> EnergyReadout:
        if self.every_step or not isinstance(getattr(self.layer, "basis", None), Pairs):
            raise ValueError(
                f"SequenceModel: energy={features} needs the layer 'fru' with basis='pairs', and "
                "one output per sequence"
            )
        return EnergyReadout(self.layer.num_freqs // 2, self.layer.freq_dim, features, seq_len)

    def forward(
        self, inputs: Tensor, lengths: Tensor | None = None, output_from: int = 0
    ) -> Tensor:
        x, _ = self.layer_input(inputs)
        y, state = self.layer(x, lengths=lengths, output_from=output_from)
        t = None
        if self.time_freqs and self.every_step:
            t = torch.arange(output_from + 1, inputs.shape[1] + 1, device=x.device)  # (L,)
        elif self.time_freqs:
            ends = torch.full((x.shape[0],), x.shape[1], device=x.device)
            t = ends if lengths is None else lengths.to(x.device)  # (N,)
        return self.head_output(y, state, t)

    def layer_input(
        self, inputs: Tensor, before: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The features (N, L, n_in) that the layer reads, and the inputs that the window keeps."""
        x = inputs if self.embedding is None else self.embedding(inputs)
        return (x, None) if self.window is None else self.window(x, before)

    def head_output(self, y: Tensor, state: Any = None, t: Tensor | None = None) -> Tensor:
        """(..., output_size) from the layer's outputs (..., hidden_size), state and time."""
        energy = None if self.energy is None else self.energy(state[0][-1])  # u of the last layer
        return self.head(y, energy, t)

    def count_parameters(self, embedding: bool = False) -> int:
        """Number of trainable parameters; the paper does not count the embedding's."""
        left_out = "" if embedding else "embedding."
        return sum(
            parameter.numel()
            for name, parameter in self.named_parameters()
            if parameter.requires_grad and not (left_out and name.startswith(left_out))
        )


def _require_choice(name: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise ValueError(
            f"SequenceModel: {name} must be one of {', '.join(choices)}; got {value!r}"
        )


def _require_options(layer: str, options: dict[str, Any]) -> None:
    """Refuse an option that the layer does not have, and name the one that was meant."""
    shared = inspect.signature(SequenceModel).parameters
    known = [*LAYER_OPTIONS[layer], *(name for name in shared if name != "options")]
    for name in options:
        if name not in known:
            owners = [kind for kind, own in LAYER_OPTIONS.items() if name in own]
            hint = f"{' and '.join(owners)} has it" if owners else did_you_mean(name, known)
            raise TypeError(f"SequenceModel: the layer {layer!r} has no option {name!r}; {hint}")


class StepModel(nn.Module):
    """Single-step model for export: ``output, *state = step(x, *state)``.

    x is (N, input_size), or (N,) int64 for tokens; output (N, output_size). The state, by layer:

        rnn, gru   h (num_layers, N, hidden_size)
        lstm       h and c, each as above
        sru        u (num_layers, N, n_u)
        fru        u (num_layers, N, n_u), and t (N,) int64, the steps taken so far

    A window adds the inputs that it keeps, ``window`` (N, width - 1, n), and a head that knows the
    time adds ``step`` (N,) int64 for layers that do not count.

    It starts as zeros. The basis of an FRU is kept as a table of seq_len rows, so that an exported
    model needs no operator of the basis.

    >>> step = StepModel(SequenceModel("fru", 1, 10, seq_len=5))
    >>> output, u, t = step(torch.zeros(2, 1), *step.start(2))
    >>> output.shape, t.tolist()
    (torch.Size([2, 10]), [1, 1])
    """

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model.eval()
        self._tables = tuple(model.layer.step_tables())
        for name, table in model.layer.step_tables().items():
            self.register_buffer(name, table)

    @property
    def state_names(self) -> tuple[str, ...]:
        model = self.model
        window = () if model.window is None else ("window",)
        return (*model.layer.step_names, *window, *(("step",) if self._counts else ()))

    @property
    def _counts(self) -> bool:
        return self.model.time_freqs > 0 and "t" not in self.model.layer.step_names

    def start(self, n: int) -> tuple[Tensor, ...]:
        """The state before the first step, for n sequences."""
        window, state = self.model.window, self.model.layer.step_start(n)
        if window is not None:
            state = (*state, torch.zeros(n, window.width - 1, window.input_size))
        return (*state, torch.zeros(n, dtype=torch.int64)) if self._counts else state

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        model, tables = self.model, {name: self.get_buffer(name) for name in self._tables}
        by_name = dict(zip(self.state_names, state, strict=True))
        v, window = model.layer_input(x.unsqueeze(1), by_name.get("window"))  # (N, 1, n_in)
        own = state[: len(model.layer.step_names)]
        y, own = model.layer.step(v[:, 0], own, tables)
        t = by_name["step" if self._counts else "t"] + 1 if model.time_freqs else None  # (N,)
        after = own if window is None else (*own, window)
        after = (*after, by_name["step"] + 1) if self._counts else after
        return model.head_output(y, own, t), *after
