"""Bounded bases: functions of absolute time that the memory sums hidden states against.

A basis is a matrix with a row for each step t = 1..T, a column for each of K functions, and
values within [-1, 1]. That bound is all that the paper's gradient theorem asks of it, and all
that the rest of this package knows about it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .defaults import MIN_FREQ

# How many steps of a user's own basis are looked at in one go.
CHECK_STEPS = 65_536

# Bits of a Walsh sequency: far more functions than steps that anybody will take.
WALSH_BITS = 24


class Basis:
    """The protocol of a basis. Subclass it, or bring an object with the same four members.

    ``has_phase``: whether the layer learns a phase for each function.
    ``default_freqs``: what identifies the K functions when the user does not say.
    ``check_freqs``: raises ValueError for values that name no function of this basis.
    ``rows``: the values, differentiable in ``phase``.

    >>> class Ramp(Basis):
    ...     def rows(self, steps, freqs, phase, seq_len):
    ...         return (steps.unsqueeze(-1) / seq_len) ** freqs
    >>> Ramp().rows(torch.tensor([1, 2]), torch.tensor([0.0, 1.0]), None, seq_len=2)
    tensor([[1.0000, 0.5000],
            [1.0000, 1.0000]])
    """

    has_phase: bool = False

    def default_freqs(self, num_freqs: int, seq_len: int) -> Tensor:
        """(K,) float64: degrees 0, 1, ..., K-1 unless a basis says otherwise."""
        return torch.arange(num_freqs, dtype=torch.float64, device="cpu")

    def check_freqs(self, freqs: Tensor) -> None:
        """Raise ValueError for a (K,) float64 tensor that this basis cannot use."""

    def rows(self, steps: Tensor, freqs: Tensor, phase: Tensor | None, seq_len: int) -> Tensor:
        """The functions at integer ``steps`` (...,), each in 1..seq_len, as (..., K)."""
        raise NotImplementedError


class Fourier(Basis):
    """``cos(2 pi f_k t / T + theta_k)`` with fixed frequencies f and trained phases theta.

    >>> Fourier().rows(torch.arange(1, 5), torch.tensor([0.0, 1.0]), torch.zeros(2), 4).round()
    tensor([[ 1., -0.],
            [ 1., -1.],
            [ 1.,  0.],
            [ 1.,  1.]])
    """

    has_phase = True

    def default_freqs(self, num_freqs: int, seq_len: int) -> Tensor:
        return log_frequencies(num_freqs, max_freq=seq_len)

    def rows(self, steps: Tensor, freqs: Tensor, phase: Tensor | None, seq_len: int) -> Tensor:
        # f t / T counts up to seq_len turns, where float32 has no digits left for the angle:
        # whole turns are dropped in float64 first.
        exact = _exact(steps)
        turns = steps.unsqueeze(-1).to(exact) * (freqs.to(exact) / seq_len)
        angle = turns.frac_().mul_(2 * math.pi).to(_at_least_float32(freqs))
        return torch.cos(angle if phase is None else angle + phase)


class Pairs(Basis):
    """The cosine and the sine of each of K/2 frequencies: K functions without phases.

    A weight for each of the two gives a wave of any phase, so none is learned. The first half of
    the functions are the cosines, ``cos(2 pi f_k t / T)``, the second half the sines. By default
    the frequencies are spaced evenly up to T/2, above which they alias.

    >>> Pairs().rows(torch.arange(1, 5), torch.tensor([1.0, 1.0]), None, 4).round()
    tensor([[-0.,  1.],
            [-1., -0.],
            [ 0., -1.],
            [ 1., -0.]])
    """

    def default_freqs(self, num_freqs: int, seq_len: int) -> Tensor:
        return named_frequencies(self, "even", num_freqs, seq_len)

    def paired(self, freqs: Tensor) -> Tensor:
        """The frequencies of all functions, (K,), from the K/2 different ones."""
        return torch.cat([freqs, freqs])

    def check_freqs(self, freqs: Tensor) -> None:
        half = len(freqs) // 2
        if freqs[:half].tolist() != freqs[half:].tolist():
            raise ValueError(
                "pairs: freqs must name each frequency twice, all for the cosines and then all "
                f"for the sines, got {freqs.tolist()}"
            )

    def phase(self, freqs: Tensor) -> Tensor:
        """The phases (K,) of these functions as waves: cos(angle - pi/2) is the sine."""
        quarter = freqs.new_zeros(freqs.shape[0], dtype=_at_least_float32(freqs))
        quarter[freqs.shape[0] // 2 :] = -math.pi / 2
        return quarter

    def rows(self, steps: Tensor, freqs: Tensor, phase: Tensor | None, seq_len: int) -> Tensor:
        return Fourier().rows(steps, freqs, self.phase(freqs), seq_len)


class Chebyshev(Basis):
    """Chebyshev polynomials of the first kind, ``cos(k arccos s)`` at ``s = (2t - 1)/T - 1``."""

    def check_freqs(self, freqs: Tensor) -> None:
        _require_degrees(freqs, "chebyshev")

    def rows(self, steps: Tensor, freqs: Tensor, phase: Tensor | None, seq_len: int) -> Tensor:
        angle = torch.acos(_midpoints(steps, seq_len)).unsqueeze(-1)
        return torch.cos(angle * freqs.to(angle.dtype)).to(_at_least_float32(freqs))


class Legendre(Basis):
    """Legendre polynomials P_0..P_{K-1} at ``s = (2t - 1)/T - 1``, by their recurrence."""

    def check_freqs(self, freqs: Tensor) -> None:
        if freqs.tolist() != list(range(len(freqs))):
            raise ValueError(
                f"legendre: freqs must be the degrees 0..{len(freqs) - 1}, got {freqs.tolist()}; "
                'leave freqs out, or use basis="chebyshev" for chosen degrees'
            )

    def rows(self, steps: Tensor, freqs: Tensor, phase: Tensor | None, seq_len: int) -> Tensor:
        s = _midpoints(steps, seq_len)
        below, here = torch.zeros_like(s), torch.ones_like(s)
        columns = []
        for n in range(freqs.shape[0]):
            columns.append(here)
            below, here = here, ((2 * n + 1) * s * here - n * below) / (n + 1)
        return torch.stack(columns, -1).to(_at_least_float32(freqs))


class Walsh(Basis):
    """Walsh functions in the order of their sign changes, sampled at ``x = (2t - 1)/2T``.

    Function k multiplies the binary digits of x (as signs) that the Gray code of k selects.
    """

    def check_freqs(self, freqs: Tensor) -> None:
        _require_degrees(freqs, "walsh")
        if freqs.max() >= 2**WALSH_BITS:
            raise ValueError(f"walsh: freqs must be below {2**WALSH_BITS}, got {freqs.max():g}")

    def rows(self, steps: Tensor, freqs: Tensor, phase: Tensor | None, seq_len: int) -> Tensor:
        sequency = freqs.to(torch.int64)
        gray = sequency ^ (sequency >> 1)  # (K,)
        x = (2 * steps - 1).unsqueeze(-1)  # (..., 1), in units of 1/2T
        flips = torch.zeros_like(x * gray)  # (..., K)
        digit = x
        for bit in range(WALSH_BITS):
            flips = flips ^ ((digit // seq_len) & (gray >> bit) & 1)
            digit = 2 * (digit % seq_len)
        return (1 - 2 * flips).to(_at_least_float32(freqs))


BASES: dict[str, Basis] = {
    "fourier": Fourier(),
    "pairs": Pairs(),
    "chebyshev": Chebyshev(),
    "legendre": Legendre(),
    "walsh": Walsh(),
}


def resolve_basis(basis: str | Basis) -> Basis:
    """The basis of that name, or the user's own object once it has the protocol's members."""
    if isinstance(basis, str):
        if basis not in BASES:
            raise ValueError(
                f"basis must be one of {', '.join(BASES)}, or a torchfru.Basis; got {basis!r}"
            )
        return BASES[basis]
    members = ("has_phase", "default_freqs", "check_freqs", "rows")
    missing = [name for name in members if not hasattr(basis, name)]
    if missing:
        raise TypeError(
            f"basis: {type(basis).__name__} has no {', '.join(missing)}; subclass torchfru.Basis"
        )
    return basis


def check_rows(rows: Tensor, steps: Tensor, freqs: Tensor) -> Tensor:
    """``rows`` itself, if it has the shape (..., K) that the steps and frequencies call for."""
    expected = (*steps.shape, freqs.shape[0])
    if tuple(rows.shape) != expected:
        raise ValueError(
            f"basis: rows() must return the shape {expected} (a row a step, a column a "
            f"function), got {tuple(rows.shape)}"
        )
    return rows


def check_bounded(
    basis: Basis, values: Sequence[float], freqs: Tensor, phase: Tensor | None, seq_len: int
) -> None:
    """Refuse a basis that leaves [-1, 1] somewhere in t = 1..seq_len.

    ``values`` are those of ``freqs``, which on the meta device has none; phases are 0 there.
    """
    if freqs.is_meta:
        freqs = torch.tensor(values, dtype=freqs.dtype, device="cpu")
        phase = None if phase is None else torch.zeros_like(phase, device="cpu")
    for first in range(1, seq_len + 1, CHECK_STEPS):
        last = min(first + CHECK_STEPS - 1, seq_len)
        steps = torch.arange(first, last + 1, device=freqs.device)
        with torch.no_grad(), torch.device(freqs.device):
            rows = check_rows(basis.rows(steps, freqs, phase, seq_len), steps, freqs)
        outside = ~(rows.abs() <= 1 + 1e-6)  # NaN counts as outside
        if outside.any():
            t, k = outside.nonzero()[0].tolist()
            raise ValueError(
                f"basis: values must lie within [-1, 1], got {rows[t, k].item():g} at step "
                f"{first + t} of function {k}; scale the basis"
            )


def choose_freqs(
    basis: Basis,
    freqs: str | Sequence[float] | Tensor | None,
    num_freqs: int,
    seq_len: int,
    owner: str,
) -> tuple[float, ...]:
    """The frequencies that a user gave or named, checked, or the default ones of the basis.

    >>> choose_freqs(BASES["walsh"], None, 3, seq_len=8, owner="FRU")
    (0.0, 1.0, 2.0)
    """
    if freqs is None:
        with torch.device("cpu"):  # values are needed, also of a layer that is built on meta
            return tuple(basis.default_freqs(num_freqs, seq_len).tolist())
    if isinstance(freqs, str):
        freqs = named_frequencies(basis, freqs, num_freqs, seq_len)
    chosen = torch.as_tensor(freqs, dtype=torch.float64, device="cpu").detach()
    if tuple(chosen.shape) != (num_freqs,):
        raise ValueError(
            f"{owner}: freqs must hold num_freqs={num_freqs} values, got the shape "
            f"{tuple(chosen.shape)}; give num_freqs the number of your frequencies"
        )
    if not bool(chosen.isfinite().all()):
        raise ValueError(f"{owner}: freqs must be finite, got {chosen.tolist()}")
    basis.check_freqs(chosen)
    return tuple(chosen.tolist())


def log_frequencies(num_freqs: int, max_freq: float, min_freq: float = MIN_FREQ) -> Tensor:
    """0 and then ``num_freqs - 1`` values log-spaced from min_freq to max_freq, in float64.

    >>> log_frequencies(4, max_freq=25.0)
    tensor([ 0.0000,  0.2500,  2.5000, 25.0000], dtype=torch.float64)
    """
    if not 0 < min_freq <= max_freq:
        raise ValueError(
            f"log_frequencies: 0 < min_freq <= max_freq must hold, got min_freq={min_freq}, "
            f"max_freq={max_freq}"
        )
    spread = torch.logspace(
        math.log10(min_freq), math.log10(max_freq), num_freqs - 1, dtype=torch.float64, device="cpu"
    )
    return torch.cat([spread.new_zeros(1), spread])


def even_frequencies(num_freqs: int, max_freq: float) -> Tensor:
    """0 and then ``num_freqs - 1`` values evenly spaced from 0.5 to max_freq, in float64.

    A sequence of seq_len steps can tell frequencies up to ``seq_len / 2`` turns apart; above that
    they alias. Many even frequencies up to there are close to a complete basis of the sequence.
    The half turn keeps them from being multiples of one frequency, which would repeat.

    >>> even_frequencies(4, max_freq=2.5)
    tensor([0.0000, 0.5000, 1.5000, 2.5000], dtype=torch.float64)
    """
    if max_freq < 0.5:
        raise ValueError(f"even_frequencies: max_freq must be 0.5 or more, got {max_freq}")
    spread = torch.linspace(0.5, max_freq, num_freqs - 1, dtype=torch.float64, device="cpu")
    return torch.cat([spread.new_zeros(1), spread])


def named_frequencies(
    basis: Basis,
    spacing: str,
    num_freqs: int,
    seq_len: int,
    max_freq: float | None = None,
    min_freq: float = MIN_FREQ,
) -> Tensor:
    """The frequencies of a Fourier basis, (K,), by the name of their spacing.

    "log": :func:`log_frequencies` from min_freq up to seq_len unless max_freq is given, as in the
    paper. "even": :func:`even_frequencies` up to seq_len / 2 unless max_freq is given.
    """
    if spacing not in ("log", "even"):
        raise ValueError(f"freqs must be 'log', 'even', or the values themselves; got {spacing!r}")
    if not isinstance(basis, (Fourier, Pairs)):
        raise ValueError(f"freqs={spacing!r} is for the bases 'fourier' and 'pairs'; leave it out")
    count = num_freqs
    if isinstance(basis, Pairs):
        if num_freqs % 2:
            raise ValueError(
                f"pairs: num_freqs must be even, a cosine and a sine each; got {num_freqs}"
            )
        count = num_freqs // 2
    if spacing == "log":
        freqs = log_frequencies(count, seq_len if max_freq is None else max_freq, min_freq)
    else:
        freqs = even_frequencies(count, seq_len / 2 if max_freq is None else max_freq)
    return basis.paired(freqs) if isinstance(basis, Pairs) else freqs


def _require_degrees(freqs: Tensor, name: str) -> None:
    if bool(((freqs < 0) | (freqs != freqs.floor())).any()):
        raise ValueError(f"{name}: freqs must be whole numbers from 0 up, got {freqs.tolist()}")


def _midpoints(steps: Tensor, seq_len: int) -> Tensor:
    """The middle of each step's interval when 1..T is laid over [-1, 1]."""
    return (2 * steps - 1).to(_exact(steps)) / seq_len - 1


def _exact(tensor: Tensor) -> torch.dtype:
    """float64 wherever the device has it (Apple's GPUs do not)."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _at_least_float32(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)
