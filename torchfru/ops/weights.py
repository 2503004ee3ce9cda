"""Shared by all scans: weights, sizes, the loop over time in plain torch, and fused operators.

The first derivative of a fused operator is an operator too. All others follow torch's own
operators, through the same function in plain torch: a fused backward pass has no derivatives, and
no rule for vmap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


def sequence_mask(x: Tensor, lengths: Tensor) -> Tensor:
    """(L, N, 1): whether a step of x (L, N, n) belongs to its sequence.

    It has the layout of x in memory, and so have then their product and its gradient.
    """
    steps = torch.arange(x.shape[0], device=x.device)
    if x.stride(0) < x.stride(1):  # a sample's steps lie together
        return (steps < lengths.unsqueeze(-1)).t().unsqueeze(-1)
    return (steps.unsqueeze(-1) < lengths).unsqueeze(-1)


def sequence_places(x: Tensor, lengths: Tensor) -> Tensor:
    """Which of the L N steps of x (L, N, n) belong to their sequences, counted in this order."""
    return sequence_mask(x, lengths).flatten().nonzero().squeeze(-1)


def without_padding(y: Tensor | None, lengths: Tensor | None) -> Tensor | None:
    """As :func:`clear_padding`, where there may be no y (L, N, n_y)."""
    return None if y is None else clear_padding(y, lengths)


def clear_padding(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x (L, N, n) with zeros past each sequence's end, whatever was there, NaN included."""
    return x if lengths is None else torch.where(sequence_mask(x, lengths), x, 0.0)


# Operators -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Derivatives:
    """How autograd derives one operator; ``backward`` names the operator of its first derivative.

    Of the inputs of the operator the first ``trained`` may have gradients, the last two of these
    belong to y; ``tensors`` counts all that are tensors. ``optional`` has the places of those whose
    gradients are computed only if needed. ``plain`` is the same function in plain torch.
    """

    backward: str
    tensors: int
    trained: int
    optional: tuple[int, ...]
    plain: Callable[..., tuple[Tensor | None, Tensor]]
    eager: Callable[..., list[Tensor]] | None = None  # the operator's code, without torch around it
    fused: bool = True  # or else the plain form gives the first derivative too

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.settings = inputs[self.tensors :]
        ctx.save_for_backward(*inputs[: self.tensors], *output[2:])
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)  # h is by far the largest output, and gets no gradient

    def derive(
        self, ctx: Any, d_y: Tensor | None, d_u: Tensor | None, *_: Any
    ) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors  # read once: rows that are not held are recomputed by this
        inputs, saved = tensors[: self.tensors], tensors[self.tensors :]
        rest = (None,) * (self.tensors - self.trained + len(ctx.settings))
        needed = list(ctx.needs_input_grad[: self.trained])
        d_y = None if inputs[self.trained - 2] is None else d_y  # then there is no y
        if d_y is None:  # the last two take no part, and get None as autograd has it
            needed[-2:] = False, False
        if d_y is None and d_u is None:
            return (None,) * self.trained + rest
        if not self.fused or torch.is_grad_enabled() or transforms_active(d_y, d_u):
            return *self._by_autograd((*inputs, *ctx.settings), needed, d_y, d_u), *rest
        operator = getattr(torch.ops.torchfru, self.backward.partition("::")[2])
        run = self.eager if self.eager is not None and runs_eagerly(d_y, d_u, *inputs) else operator
        flags = [needed[place] for place in self.optional]
        grads = run(d_y, d_u, *inputs, *ctx.settings, *saved, *flags)
        found = (grad if wanted else None for grad, wanted in zip(grads, needed, strict=True))
        return *found, *rest

    def shapes(self, d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
        """Of the gradients, (0,) where there is none."""
        flags = dict(zip(self.optional, rest[-len(self.optional) :], strict=True))
        shapes = [
            tensor.shape if tensor is not None and flags.get(place, True) else 0
            for place, tensor in enumerate(rest[: self.trained])
        ]
        return [rest[0].new_empty(shape) for shape in shapes]

    def _by_autograd(
        self, inputs: tuple[Any, ...], needed: list[bool], *d_outputs: Tensor | None
    ) -> list[Tensor | None]:
        """The gradients of the tensors as functions of all of them, from the plain form."""
        graph = torch.is_grad_enabled()
        with torch.enable_grad():
            # As new tensors: one may have been computed from another, and the gradient of the one
            # here must not contain that of the other.
            own = [
                (t.view_as(t) if graph else t.detach().requires_grad_()) if is_needed else t
                for t, is_needed in zip(inputs, needed, strict=False)
            ]
            outputs = self.plain(*own, *inputs[self.trained :])
        reached = [(out, d) for out, d in zip(outputs, d_outputs, strict=True) if d is not None]
        found = torch.autograd.grad(
            [out for out, _ in reached if out is not None],
            [t for t, is_needed in zip(own, needed, strict=True) if is_needed],
            [d for _, d in reached],
            create_graph=graph,
            materialize_grads=True,
        )
        rest = iter(found)
        return [next(rest) if is_needed else None for is_needed in needed]


def define(
    steps: str,
    backward: str,
    saved: str,
    inputs: str,
    trained: int,
    optional: tuple[int, ...],
    plain: Callable[..., tuple[Tensor | None, Tensor]],
    eager: Callable[..., list[Tensor]] | None = None,
) -> Derivatives:
    """Define an operator and that of its first derivative.

    ``steps`` returns y (L, N, n_y), or (0,) without outputs; u(T), or its change; and the tensors
    that ``saved`` declares, which ``backward`` gets. Defined piece by piece:
    torch.library.custom_op, which does it in one go, imports torch's compiler at the first call,
    and that takes longer than all else that a first call does. torch keeps compiled programs on
    disk by the names of their operators: an operator whose schema changes needs a new name.
    """
    tags = torch.Tag.pt2_compliant_tag
    names = [argument.split()[-1] for argument in inputs.split(", ")]
    tensors = sum(argument.startswith("Tensor") for argument in inputs.split(", "))
    derivatives = Derivatives(backward, tensors, trained, optional, plain, eager)
    torch.library.define(steps, f"({inputs}) -> (Tensor y, Tensor change, {saved})", tags=tags)
    flags = ", ".join(f"bool needs_{names[place]}" for place in optional)
    gradients = "Tensor? d_y, Tensor? d_change"
    torch.library.define(
        backward, f"({gradients}, {inputs}, {saved}, {flags}) -> Tensor[]", tags=tags
    )
    torch.library.register_fake(backward, derivatives.shapes)
    torch.library.register_autograd(steps, derivatives.derive, setup_context=derivatives.save)
    return derivatives
