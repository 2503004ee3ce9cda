"""The loop over time in plain torch, which torch.export keeps as a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Before, torch.export rejects some loops: the steps are exported one by one, for one length.
EXPORTS_LOOPS = torch.__version__ >= "2.13"  # compared as a version, not as text


<<<<<<< HEAD
def exporting() -> bool:
    """Whether torch.export traces, for itself, for ONNX or for AOTInductor."""
    # Not torch.compiler.is_exporting(): before torch 2.10 that is true while torch.compile traces.
    return torch.compiler._is_exporting_flag


=======
>>>>>>> c5c1710 (ops/cpu holds everything that imports Numba: loops beside their kernels, one runtime)
def each_step(
    step: Callable[..., tuple[Tensor, Tensor | None]], carry: Tensor, *inputs: Tensor
) -> tuple[Tensor, Tensor]:
    """``carry, output = step(carry, *inputs at t)`` for every t: the last carry, all outputs.

    The inputs are (L, ...), the outputs (L, N, ...), and empty where a step has none.
    """
    if torch.compiler.is_exporting() and EXPORTS_LOOPS:
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
