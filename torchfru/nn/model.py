"""Models for sequences: (embedding), (naive forecast), (window), a recurrent layer, a head."""

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
        skip: whether the head sees the layer's input as well, the window's features.
        naive: where to start: "last", "line", "seasonal" or "ridge", see :class:`NaiveForecast`.
            The model predicts the difference to this forecast, in units of its error on the
            training set, from a head that starts at zero. The error of the latest forecast, in
            the same units, becomes an input beside the inputs themselves. ``naive_width`` and
            ``season`` are the forecast's width and season. "none" for no forecast.
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
        input_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
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
        self.naive = None
        if naive != NAIVE:
            if vocab_size is not None or output_size % input_size:
                raise ValueError(
                    f"SequenceModel: naive={naive!r} needs numbers as inputs, and a whole number "
                    f"of steps as outputs; got output_size={output_size}, input_size={input_size}"
                )
            horizon = output_size // input_size
            sizes = {"width": naive_width, "season": season, "horizon": horizon}
            self.naive = NaiveForecast(naive, input_size, **sizes)
            n_in += input_size
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
        x, forecast = self.embed(inputs), None
        steps = torch.arange(1, x.shape[1] + 1, device=x.device)  # (L,)
        if self.naive is not None:
            forecast, x = self.naive_forecast(x, steps)
        v = x if self.window is None else self.window(x)[0]  # (N, L, n_in)
        y, state = self.layer(v, lengths=lengths, output_from=output_from)
        ends = steps[-1:].expand(len(x)) if lengths is None else lengths.to(x.device)  # (N,)
        t = steps[output_from:] if self.every_step else ends
        skipped = self._answered(v, t) if self.skip else None
        forecast = None if forecast is None else self._answered(forecast, t)
        return self.head_output(y, state, t, skipped, forecast)

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
        """Forecasts (N, L, n_out) after steps t (L,) or (N, 1), and x with the last one's error."""
        assert self.naive is not None
        forecast = self.naive(x, before)  # (N, L + 1, n_out)
        n = x.shape[-1]
        errors = (x - forecast[:, :-1, :n]) / self.naive.unit(t - 1)[..., :n]
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
    ) -> Tensor:
        """(..., output_size) from the layer's outputs (..., hidden_size) and what stands beside."""
        energy = None if self.energy is None else self.energy(state[0][-1])  # u of the last layer
        output = self.head(y, energy, t if self.time_freqs else None, skipped)
        if self.naive is None or t is None or forecast is None:
            return output
        return forecast + self.naive.unit(t) * output

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

    A window adds the inputs that it keeps, ``window`` (N, width - 1, n), a naive forecast those
    that it reads, ``inputs`` (N, width, n). Where the time is needed, layers that do not count add
    ``step`` (N,) int64.

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
        model, tables = self.model, {name: self.get_buffer(name) for name in self._tables}
        now = dict(zip(self.state_names, state, strict=True))
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
        y, own = model.layer.step(x[:, 0], state[: len(model.layer.step_names)], tables)
        skipped = x[:, 0] if model.skip else None
        forecast = None if forecast is None else forecast[:, 0]
        t = None if t is None else t + 1
        output = model.head_output(y, own, t, skipped, forecast)
        return output, *own, *(after[name] for name in self._beside(1))
