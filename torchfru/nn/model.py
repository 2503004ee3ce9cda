"""Models for sequences: (embedding), (naive forecast), (window), a recurrent layer, a head."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..basis import Fourier, Pairs, named_frequencies, resolve_basis
from ..defaults import (
    ADDED_LAYERS,
    BASIS,
    EMBEDDING_SIZE,
    FREQS,
    HIDDEN_SIZE,
    LAYER_OPTIONS,
    MIN_FREQ,
    NAIVE,
    NUM_FREQS,
    OUTPUT,
    SCALE,
    WINDOW_ACTIVATION,
)
from ..io import did_you_mean
from .baselines import GRU, LSTM, RNN
from .forecast import FORECASTS, NaiveForecast
from .fru import FRU
from .head import EnergyReadout, Head
from .sru import SRU
from .step import ModelStream, StepModel
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
# The same for layers of a program beside the library, with their options in ADDED_LAYERS.
ADDED_BUILDERS: dict[str, Callable[..., nn.Module]] = {}


class SequenceModel(nn.Module):
    """A recurrent layer with a window before it and a head after it, the same for every layer.

    With the defaults it is the paper's model: no window, and a linear head.

    Args:
        layer: a name in ``torchfru.nn.LAYERS``: "rnn", "lstm", "gru", "sru", "fru".
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
        skip: whether the head sees the layer's input as well, the window's features.
        naive: where to start: "last", "line", "seasonal", "ridge", ..., see
            :class:`NaiveForecast`. The model predicts the difference to this forecast, in units of
            its error on the training set, from a head that starts at zero. With every_step the
            error of the latest forecast, in the same units, becomes an input beside the inputs
            themselves. ``naive_width`` and ``season`` are the forecast's width and season. "none"
            for no forecast.
        horizon: how many steps ahead the outputs are, if not all inputs are forecast: the first
            output_size / horizon of them are.
        relative: for a forecast of whole windows: the layer reads the forecast inputs less the last
            one, in units of their own spread, and the head's output is in these units. Such a
            model cannot be streamed, since every step changes all of its inputs.
        input_dropout: the probability of zeroing a whole step's input (a word) while training.
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
        skip: bool = False,
        naive: str = NAIVE,
        naive_width: int = 1,
        season: int = 1,
        horizon: int | None = None,
        relative: bool = False,
        input_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        if layer not in ADDED_BUILDERS:
            _require_choice("layer", layer, LAYERS)
        _require_choice("output", output, ACTIVATIONS)
        _require_choice("naive", naive, FORECASTS)
        _require_options(layer, options)
        self.kind = layer
        self.every_step = every_step
        self.time_freqs = time_freqs
        self.skip = skip
        self.embedding = None if vocab_size is None else nn.Embedding(vocab_size, embedding_size)
        self.input_dropout = nn.Dropout1d(input_dropout)
        n_in = input_size if vocab_size is None else embedding_size
        self.relative = relative
        self.naive = None
        if naive != NAIVE:
            sizes = (input_size if vocab_size is None else 0, output_size, horizon)
            width = seq_len if naive == "best" else naive_width
            self.naive = _naive_start(naive, *sizes, width=width, season=season)
            n_in += self.naive.input_size if every_step else 0
        if relative and (self.naive is None or every_step):
            raise ValueError(
                "SequenceModel: relative=True needs naive, and one output per sequence; got "
                f"naive={naive!r}, every_step={every_step}"
            )
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
        build = (LAYERS | ADDED_BUILDERS)[layer]
        self.layer: Any = build(n_in, hidden_size, num_layers, **shared, **options)
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
            window=n_in if skip else 0,
            zero=self.naive is not None,
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
        """The outputs for a batch of sequences; the shapes are those of the class."""
        x, forecast, spread = self.embed(inputs), None, None
        steps = torch.arange(1, x.shape[1] + 1, device=x.device)  # (L,)
        ends = steps[-1:].expand(len(x)) if lengths is None else lengths.to(x.device)  # (N,)
        t = steps[output_from:] if self.every_step else ends
        if self.naive is not None and self.every_step:
            forecast, x = self.naive_forecast(x, steps)
            forecast = self._answered(forecast, t)
        elif self.naive is not None:
            forecast = self.naive.after(x[..., : self.naive.input_size], t)
            x, spread = self._relative(x, t) if self.relative else (x, None)
        v = x if self.window is None else self.window(x)[0]  # (N, L, n_in)
        y, state = self.layer(v, lengths=lengths, output_from=output_from)
        skipped = self._answered(v, t) if self.skip else None
        return self.head_output(y, state, t, skipped, forecast, spread)

    def _relative(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """x with its forecast inputs less those at step t, in units of their spread (N, n)."""
        assert self.naive is not None
        n = self.naive.input_size
        change = x[..., :n] - self._answered(x[..., :n], t).unsqueeze(1)
        spread = spread_of(change, t)
        return torch.cat([change / spread.unsqueeze(1), x[..., n:]], -1), spread

    def _answered(self, values: Tensor, t: Tensor) -> Tensor:
        """Of values (N, L, n), those at the steps t that have an output."""
        if self.every_step:
            return values[:, values.shape[1] - len(t) :]  # (N, L', n)
        place = (t - 1).reshape(-1, 1, 1).expand(-1, 1, values.shape[-1])
        return values.gather(1, place)[:, 0]  # (N, n)

    def embed(self, inputs: Tensor) -> Tensor:
        """The inputs as numbers (N, L, n); while training, whole steps may be dropped."""
        return self.input_dropout(inputs if self.embedding is None else self.embedding(inputs))

    def naive_forecast(
        self, x: Tensor, t: Tensor, before: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Forecasts (N, L, n_out) after steps t (L,) or (N, 1), and x with the last one's error.

        A model with one output per sequence reads no errors.
        """
        assert self.naive is not None
        n = self.naive.input_size
        forecast = self.naive(x[..., :n], before)  # (N, L + 1, n_out)
        if not self.every_step:
            return forecast[:, 1:], x
        errors = (x[..., :n] - forecast[:, :-1, :n]) / self.naive.unit(t - 1)[..., :n]
        return forecast[:, 1:], torch.cat([x, errors], -1)

    def fit_naive(self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None) -> None:
        """Fit the naive forecast, where there is one, to the training set."""
        if self.naive is not None:
            self.naive.fit(inputs, targets, lengths)

    def loss_unit(self, steps: int, lengths: Tensor | None = None) -> Tensor | float:
        """The unit of errors while training: those of the naive forecast are 1 on average."""
        if self.naive is None:
            return 1.0
        device = self.naive.units.device
        if self.every_step:
            return self.naive.unit(torch.arange(1, steps + 1, device=device))  # (L, n_out)
        ends = torch.tensor(steps, device=device) if lengths is None else lengths
        return self.naive.unit(ends)  # (n_out,) or (N, n_out)

    def head_output(
        self,
        y: Tensor,
        state: Any = None,
        t: Tensor | None = None,
        skipped: Tensor | None = None,
        forecast: Tensor | None = None,
        spread: Tensor | None = None,
    ) -> Tensor:
        """(..., output_size) from the layer's outputs (..., hidden_size) and what stands beside."""
        energy = None if self.energy is None else self.energy(state[0][-1])  # u of the last layer
        output = self.head(y, energy, t if self.time_freqs else None, skipped)
        if self.naive is None or t is None or forecast is None:
            return output
        if spread is not None:
            output = output * spread.repeat(1, self.naive.horizon)
        return forecast + self.naive.unit(t) * output

    def stream(self, batch: int = 1) -> ModelStream:
        """A stream of this model, ``output = stream(x)`` step by step: :class:`ModelStream`."""
        return ModelStream(self, batch)

    def step_model(self) -> StepModel:
        """A single step as a function of tensors, for export: :class:`StepModel`."""
        return StepModel(self)

    def count_parameters(self, embedding: bool = False) -> int:
        """Number of trainable parameters; the paper does not count the embedding's."""
        left_out = "" if embedding else "embedding."
        return sum(
            parameter.numel()
            for name, parameter in self.named_parameters()
            if parameter.requires_grad and not (left_out and name.startswith(left_out))
        )


def _naive_start(
    kind: str, input_size: int, output_size: int, horizon: int | None, **options: int
) -> NaiveForecast:
    """The forecast of the first output_size / horizon inputs, or of all; tokens have no inputs."""
    n = input_size if horizon is None else output_size // horizon
    if n < 1 or output_size % n or n > input_size:
        raise ValueError(
            f"SequenceModel: naive={kind!r} needs numbers as inputs, and a whole number of steps "
            f"as outputs; got output_size={output_size}, input_size={input_size}, "
            f"horizon={horizon}"
        )
    return NaiveForecast(kind, n, horizon=output_size // n, **options)


SPREAD_FLOOR = 0.05  # added to a spread: a window may be constant


def spread_of(change: Tensor, t: Tensor | None = None) -> Tensor:
    """The root mean square (N, n) of windows (N, L, n) less their last inputs.

    ``t`` (N,) is how many steps of each count.
    """
    squares = change.square()
    if t is not None:
        steps = torch.arange(1, change.shape[1] + 1, device=change.device)
        counted = (steps <= t.unsqueeze(-1)).unsqueeze(-1)
        return (squares * counted).sum(1).div(t.unsqueeze(-1)).sqrt() + SPREAD_FLOOR
    return squares.mean(1).sqrt() + SPREAD_FLOOR


def _require_choice(name: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise ValueError(
            f"SequenceModel: {name} must be one of {', '.join(choices)}; got {value!r}"
        )


def _require_options(layer: str, options: dict[str, Any]) -> None:
    """Refuse an option that the layer does not have, and name the one that was meant."""
    shared = inspect.signature(SequenceModel).parameters
    own_options = (LAYER_OPTIONS | ADDED_LAYERS)[layer]
    known = [*own_options, *(name for name in shared if name != "options")]
    for name in options:
        if name not in known:
            owners = [kind for kind, own in LAYER_OPTIONS.items() if name in own]
            hint = f"{' and '.join(owners)} has it" if owners else did_you_mean(name, known)
            raise TypeError(f"SequenceModel: the layer {layer!r} has no option {name!r}; {hint}")
