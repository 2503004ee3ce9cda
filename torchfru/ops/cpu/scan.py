"""The operator of the backend ``numba``: a layer's whole scan, from x and u to y and u.

Time is read in chunks: of all that grows with the number of steps only h is held, z at every few
steps, and A(t) where it takes no more memory than h or than one chunk. Numba is imported where the
operator runs: importing this file needs torch only.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .. import collapsed
from ..weights import Inputs, Waves, Weights, clear_padding, define, runs_eagerly

SCAN, SCAN_BACKWARD = "torchfru::fru_scan", "torchfru::fru_scan_backward"


def scan(
    x: Tensor,
    u: Tensor | None,
    rows: Tensor | Waves,
    weights: Weights,
    *,
    nonlinearity: str,
    every_step: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """As :func:`torchfru.ops.collapsed.scan`, on the CPU, in float32 or float64.

    The padding of x may hold anything, NaN included. ``rows`` may be a :class:`Waves`, which the
    operator samples itself; u=None means zeros.
    """
    w, waves = weights, rows if isinstance(rows, Waves) else Waves(None, None, 0, 1)
    table = None if isinstance(rows, Waves) else rows
    outputs = (w.weight_uy, w.bias_y) if every_step else (None, None)
    loop = (w.weight_ug, w.bias_g, w.weight_gh, w.weight_xh, w.bias_h, *outputs)
    settings = (waves.freqs, lengths, waves.start, waves.seq_len, nonlinearity)
    inputs = (x, u, table, waves.phase, *loop, *settings)
    if x.shape[1] == 0:  # no loop
        return _plain(*inputs)
    if not runs_eagerly(*inputs[:13]):
        y, u, *_ = torch.ops.torchfru.fru_scan(*inputs)
    else:
        one = x.shape[0] == 1 and table is None and lengths is None
        differentiated, run = (_one_step_eagerly, _one_step) if one else (_eagerly, _forward_only)
        y, u, *_ = differentiated(*inputs) if torch.is_grad_enabled() else run(*inputs)
    return (y if every_step else None), u


def step(
    x: Tensor,
    u: Tensor | None,
    waves: Waves,
    weights: Weights,
    nonlinearity: str,
    times: Tensor | None = None,
) -> tuple[Tensor, Tensor, int]:
    """y (N, n_y) and u (N, n_u) after one step on x (N, n_in), without gradients.

    ``times`` (N,) has the steps that each sample has taken, where they may differ. One that has
    taken all of seq_len is the third result, and then nothing is computed; or else -1.
    """
    kernel, likes, kinds = _step_kernel()
    given = [x, u, times, waves.freqs, waves.phase, *weights]
    given = [t if t is None or t.is_contiguous() else t.contiguous() for t in given]
    (n_g, n_u), (n_h, n_in) = weights.weight_ug.shape, weights.weight_xh.shape
    samples, count = x.shape[0], waves.freqs.shape[0]  # type: ignore[union-attr]
    n_y = 0 if weights.weight_uy is None else weights.weight_uy.shape[0]
    after, y = x.new_empty(samples, n_u), x.new_empty(samples, n_y)
    addresses = [0 if t is None else t.data_ptr() for t in (*given, after, y)]
    sizes = (samples, n_in, n_u, n_g, n_h, n_y, count, waves.start, waves.seq_len)
    past = kernel(likes[x.dtype], *addresses, *sizes, kinds[nonlinearity])
    return y, after, past


@cache  # an import statement takes as long as a step
def _step_kernel() -> tuple[Any, Any, Any]:
    from .nonlinear import KINDS
    from .plan import LIKE
    from .step import step

    return step, LIKE, KINDS


@cache
def _passes() -> Any:
    from . import walk

    return walk


def _one_step(*arguments: Any) -> tuple[Tensor, Tensor]:
    """As :func:`_forward`, for one step, which needs no A(t)."""
    inputs = Inputs(*arguments)
    waves = Waves(inputs.freqs, inputs.phase, inputs.start, inputs.seq_len)
    weights = Weights(*inputs[4:11])  # type: ignore[arg-type]
    y, u, _ = step(inputs.x[0], inputs.u, waves, weights, inputs.nonlinearity)
    return y.unsqueeze(0), u  # (1, N, n_y)


def _plain(*arguments: Any) -> tuple[Tensor | None, Tensor]:
    """The same in plain torch."""
    inputs = Inputs(*arguments)
    every_step, rows = inputs.weight_uy is not None, inputs.rows
    if rows is None:
        waves = Waves(inputs.freqs, inputs.phase, inputs.start, inputs.seq_len)
        rows = waves.rows(inputs.x.shape[0]).to(inputs.x.dtype)
    weights = Weights(*inputs[4:11])  # type: ignore[arg-type]
    u = inputs.u
    if u is None:
        u = inputs.x.new_zeros(inputs.x.shape[1], weights.weight_ug.shape[1])
    options = {"nonlinearity": inputs.nonlinearity, "every_step": every_step}
    x = clear_padding(inputs.x, inputs.lengths)
    return collapsed.scan(x, u, rows, weights, lengths=inputs.lengths, **options)  # type: ignore[arg-type]


def _forward(*arguments: Any) -> tuple[Tensor, ...]:
    """y, u(T), and h, z_checkpoints and A(t) for the backward pass."""
    return _passes().forward(Inputs(*arguments))


def _forward_only(*arguments: Any) -> tuple[Tensor, ...]:
    return _passes().forward_only(Inputs(*arguments))


def _shapes(*arguments: Any) -> tuple[Tensor, ...]:
    inputs = Inputs(*arguments)
    return _passes().new_outputs(inputs, _passes().layout_for(inputs))


def _backward(d_y: Tensor | None, d_u: Tensor | None, *rest: Any) -> list[Tensor]:
    """The gradients of the tensors of the inputs, in their order; (0,) where there is none.

    Those of x, rows and phase cost time, and are left out where they are not needed.
    """
    saved, needs = rest[-6:-3], rest[-3:]
    return _passes().backward(Inputs(*rest[:-6]), d_y, d_u, saved, needs)


_derivatives = define(
    SCAN,
    SCAN_BACKWARD,
    saved="Tensor h, Tensor checkpoints, Tensor a",
    inputs=(
        "Tensor x, Tensor? u, Tensor? rows, Tensor? phase, Tensor weight_ug, Tensor? bias_g, "
        "Tensor weight_gh, Tensor weight_xh, Tensor? bias_h, Tensor? weight_uy, Tensor? bias_y, "
        "Tensor? freqs, Tensor? lengths, SymInt start, SymInt seq_len, str nonlinearity"
    ),
    trained=11,
    optional=(0, 2, 3),
    plain=_plain,
    eager=_backward,
)
torch.library.register_fake(SCAN, _shapes)
torch.library.impl(SCAN, "cpu", _forward)
torch.library.impl(SCAN_BACKWARD, "cpu", _backward)


class _Eager(torch.autograd.Function):
    """The operator without the machinery of torch.library, which takes longer than a short scan."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _forward(*inputs)
        _derivatives.save(ctx, inputs, output)
        return output

    backward = staticmethod(_derivatives.derive)


_step_derivatives = replace(_derivatives, fused=False)


class _EagerStep(torch.autograd.Function):
    """One step; its backward pass is torch's own."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _one_step(*inputs)
        _step_derivatives.save(ctx, inputs, output)
        return output

    backward = staticmethod(_step_derivatives.derive)


# Past the Python of Function.apply, which looks for transforms of torch.func: there are none here.
_eagerly: Any = super(torch.autograd.Function, _Eager).apply
_one_step_eagerly: Any = super(torch.autograd.Function, _EagerStep).apply
