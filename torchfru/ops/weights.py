"""Shared by all scans: weights, sizes, nonlinearities, and the loop over time in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..basis import Fourier


class Weights(NamedTuple):
    """The matrices of the update rule, named as the layer's parameters are."""

    weight_ug: Tensor  # W1 (n_g, n_u)
    bias_g: Tensor | None  # b1 (n_g,)
    weight_gh: Tensor  # W2 (n_h, n_g)
    weight_xh: Tensor  # U  (n_h, n_in)
    bias_h: Tensor | None  # b2 (n_h,)
    weight_uy: Tensor  # Y  (n_y, n_u); a backend that gives no outputs may get None
    bias_y: Tensor | None  # b_y (n_y,)

    def to(self, dtype: torch.dtype) -> Weights:
        wide: list[Any] = [None if w is None else w.to(dtype) for w in self]
        return Weights(*wide)


class Waves(NamedTuple):
    """Rows of the Fourier basis that a backend may sample itself, for samples at the same time."""

    freqs: Tensor | None  # (K,)
    phase: Tensor | None  # (K,)
    start: int  # steps taken before
    seq_len: int

    def to(self, dtype: torch.dtype) -> Waves:
        freqs, phase = (None if t is None else t.to(dtype) for t in self[:2])
        return Waves(freqs, phase, self.start, self.seq_len)

    def rows(self, steps: int) -> Tensor:
        """c(t) (L, K), with the factor 1/T."""
        assert self.freqs is not None
        taken = torch.arange(self.start + 1, self.start + steps + 1, device=self.freqs.device)
        taken = taken.clamp(max=self.seq_len)  # padding may exceed seq_len
        return Fourier().rows(taken, self.freqs, self.phase, self.seq_len) / self.seq_len


class Inputs(NamedTuple):
    """Arguments of the operator of the CPU. The basis is ``rows``, or Fourier's with ``freqs``."""

    x: Tensor  # (L, N, n_in)
    u: Tensor | None  # (N, n_u); None means zeros
    rows: Tensor | None  # (L, K), with the factor 1/T
    phase: Tensor | None  # (K,)
    weight_ug: Tensor
    bias_g: Tensor | None
    weight_gh: Tensor
    weight_xh: Tensor
    bias_h: Tensor | None
    weight_uy: Tensor | None  # None computes no outputs
    bias_y: Tensor | None
    freqs: Tensor | None  # (K,)
    lengths: Tensor | None  # (N,)
    start: int  # steps taken before
    seq_len: int
    nonlinearity: str


def block_sizes(rows: Tensor, n_u: int, n_h: int) -> tuple[int, int, int]:
    """M, m and d: n_u = M m d, n_h = m d, and K = M m columns in rows."""
    num_freqs = rows.shape[1]
    freq_dim = n_u // num_freqs
    per_block = n_h // freq_dim
    return num_freqs // per_block, per_block, freq_dim


def identity(x: Tensor) -> Tensor:
    return x


NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "identity": identity,
}


def transforms_active(*gradients: Tensor | None) -> bool:
    """Whether torch.func (grad, vmap, jvp, ...) or forward-mode differentiation is at work.

    They follow torch's own operators and nothing else: no kernel, no ``out=``, no hand-written
    backward pass. ``gradients`` are those that reach a backward pass: with ``is_grads_batched``
    they stand for several at once, and have no storage.
    """
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return True
    with_values = [g for g in gradients if g is not None]
    return not all(map(torch._C._has_storage, with_values))


def runs_eagerly(*tensors: Tensor | None) -> bool:
    """Whether a kernel may be called at once: nobody watches what torch does with these tensors.

    A compiler, a tracer, a dispatch mode, or a tensor of a class of its own has to see an operator.
    """
    watched = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    if watched or torch._C._len_torch_dispatch_stack() or transforms_active():
        return False
    return _PLAIN.issuperset(map(type, tensors))


_PLAIN = {Tensor, torch.nn.Parameter, type(None)}


# The loop over time ----------------------------------------------------------------------------

# Before, torch.export rejects some loops: the steps are exported one by one, for one length.
EXPORTS_LOOPS = torch.__version__ >= "2.13"  # compared as a version, not as text


def exporting() -> bool:
    """Whether torch.export traces, for itself, for ONNX or for AOTInductor."""
    # Not torch.compiler.is_exporting(): before torch 2.10 that is true while torch.compile traces.
    return torch.compiler._is_exporting_flag


def each_step(
    step: Callable[..., tuple[Tensor, Tensor | None]], carry: Tensor, *inputs: Tensor
) -> tuple[Tensor, Tensor]:
    """``carry, output = step(carry, *inputs at t)`` for every t: the last carry, all outputs.

    The inputs are (L, ...), the outputs (L, N, ...), and empty where a step has none.
    """
    if exporting() and EXPORTS_LOOPS:
        return _each_step_exported(step, carry, inputs)
    outputs = []
    for inputs_t in zip(*(tensor.unbind(0) for tensor in inputs), strict=True):
        carry, output = step(carry, *inputs_t)
        if output is not None:
            outputs.append(output)
    return carry, torch.stack(outputs) if outputs else carry.new_empty(0)


def _each_step_exported(
    step: Callable[..., tuple[Tensor, Tensor | None]], carry: Tensor, inputs: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """As one operator of torch that holds the loop, for any number of steps and samples."""
    from torch._higher_order_ops.scan import scan  # imports torch's compiler

    # AOTInductor looks for the sizes of the outputs among what a step was given: a step uses the
    # number of samples, and so is given it. With strict=True, torch.export gives all sizes.
    samples, strict = carry.shape[0], torch.compiler.is_dynamo_compiling()

    def combine(carry: Tensor, inputs_t: list[Tensor]) -> tuple[Tensor, Tensor]:
        carry, output = step(carry, *inputs_t)
        if output is None:
            return carry, carry.new_empty(carry.shape[0], 0)
        output = output.clone() if output is carry else output  # scan wants no aliases
        return carry, output if strict else output.reshape(samples, *output.shape[1:])

    found: Any = scan(combine, carry, list(inputs))
    return found
