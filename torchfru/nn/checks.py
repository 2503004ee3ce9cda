"""Errors that a user can cause: each message says what was wrong, the value, and what to do."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from ..ops import NONLINEARITIES, Weights


def has_values(tensor: Tensor) -> bool:
    """Whether values can be looked at: not while tracing, not on the meta device."""
    return not (torch.compiler.is_compiling() or tensor.is_meta)


def values_of(tensor: Tensor) -> Tensor | None:
    """The values in any order, those of all samples where vmap hides them; None without values."""
    if not has_values(tensor):
        return None
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def common_value(t: Tensor) -> int | None:
    """The value that all entries of an integer tensor have; None if they differ or are unknown."""
    values = values_of(t)
    if values is None or values.numel() == 0:
        return None
    if values.numel() == 1:
        return int(values)
    low, high = values.aminmax()
    return int(low) if low == high else None


def autocasts(x: Tensor) -> bool:
    return not x.is_meta and torch.is_autocast_enabled(x.device.type)


def dtype_of(module: nn.Module) -> torch.dtype:
    """The dtype of the weights."""
    for parameter in module._parameters.values():
        if parameter is not None:
            return parameter.dtype
    return next(module.parameters()).dtype  # all weights have parametrizations


def weights_of(module: nn.Module, suffix: str = "") -> Weights:
    """Read at call time, so that weights swapped in from outside are the ones used."""
    own = module._parameters
    names = [name + suffix for name in Weights._fields]
    # Not in own: weights with a parametrization of torch.nn.utils.
    return Weights._make([own[n] if n in own else getattr(module, n) for n in names])


# Of constructors ---------------------------------------------------------------------------


def require_bool(module: nn.Module, name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(
            f"{type(module).__name__}: {name} should be of type bool, got: {type(value).__name__}"
        )


def require_size(module: nn.Module, name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(
            f"{type(module).__name__}: {name} should be of type int, got: {type(value).__name__}"
        )
    if value < 1:
        raise ValueError(f"{type(module).__name__}: {name} must be greater than zero, got {value}")


def require_nonlinearity(module: nn.Module, name: object) -> None:
    if name not in NONLINEARITIES:
        raise ValueError(
            f"{type(module).__name__}: nonlinearity must be one of {', '.join(NONLINEARITIES)}; "
            f"got {name!r}"
        )


def require_dropout(module: nn.Module, dropout: Any, num_layers: int) -> None:
    name = type(module).__name__
    number = isinstance(dropout, numbers.Real) and not isinstance(dropout, bool)
    if not number or not 0 <= dropout <= 1:
        raise ValueError(
            f"{name}: dropout must be a number in [0, 1], the probability of zeroing an element; "
            f"got {dropout!r}"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            f"{name}: dropout acts between layers, so dropout={dropout} does nothing with "
            f"num_layers={num_layers}",
            stacklevel=4,
        )


INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

# Of calls ----------------------------------------------------------------------------------


def check_input(module: nn.Module, x: Tensor, input_size: int, dims: tuple[int, ...]) -> None:
    """x (..., input_size), with one of these numbers of dimensions."""
    if x.dim() not in dims:
        allowed = " or ".join(f"{d}D" for d in dims)
        raise ValueError(
            f"{type(module).__name__}: Expected input to be {allowed}, got {x.dim()}D instead"
        )
    check_dtype(module, "input", x)
    if x.shape[-1] != input_size:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {input_size}, got {x.shape[-1]}"
        )


def check_dtype(module: nn.Module, name: str, value: Tensor) -> None:
    expected = dtype_of(module)
    if value.dtype != expected and not autocasts(value):
        raise ValueError(
            f"{type(module).__name__}: {name} dtype ({value.dtype}) does not match weight dtype "
            f"({expected}). Convert it: .to({expected}), or convert the model: .to({value.dtype})"
        )


def check_shape(module: nn.Module, name: str, value: Tensor, expected: tuple[int, ...]) -> None:
    if tuple(value.shape) != expected:
        raise RuntimeError(
            f"{type(module).__name__}: Expected {name} of size {expected}, got {tuple(value.shape)}"
        )


def check_state(
    module: nn.Module, hx: object, batch_dim: int, batched: bool, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """u and t of ``hx``, with a batch dimension; u must have this shape, t all but the last."""
    name = type(module).__name__
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise RuntimeError(f"{name}: the state must be a tuple (u, t), got {type(hx).__name__}")
    u, t = hx
    if batched and u.shape == shape and t.shape == shape[:-1]:
        check_dtype(module, "u", u)
        return u, _check_steps(module, t)
    dims = len(shape) if batched else len(shape) - 1
    if (u.dim(), t.dim()) != (dims, dims - 1):
        raise RuntimeError(
            f"{name}: for this input the state's u and t must be {dims}-D and {dims - 1}-D, "
            f"got {u.dim()}-D and {t.dim()}-D"
        )
    if not batched:
        u, t = u.unsqueeze(batch_dim), t.unsqueeze(batch_dim)
    check_shape(module, "u", u, shape)
    check_shape(module, "t", t, shape[:-1])
    check_dtype(module, "u", u)
    return u, _check_steps(module, t)


def _check_steps(module: nn.Module, t: Tensor) -> Tensor:
    """t as int64, if it counts steps."""
    if t.dtype not in INTEGERS:
        raise TypeError(f"{type(module).__name__}: t must hold integers, got {t.dtype}")
    steps = values_of(t)
    count = 0 if steps is None else steps.numel()
    if steps is not None and count and int(steps if count == 1 else steps.min()) < 0:
        raise ValueError(f"{type(module).__name__}: t must not be negative, got {steps.tolist()}")
    return t if t.dtype == torch.int64 else t.to(torch.int64)


def check_lengths(module: nn.Module, lengths: Any, x: Tensor, batched: bool) -> Tensor:
    """The lengths (N,) as int64, if they suit x (L, N, n)."""
    name, lengths = type(module).__name__, torch.as_tensor(lengths, device=x.device)
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError(f"{name}: lengths must be integers, got {lengths.dtype}")
    if not batched and lengths.dim() == 0:
        lengths = lengths.unsqueeze(0)
    check_shape(module, "lengths", lengths, (x.shape[1],))
    values = values_of(lengths)
    if values is not None and bool(((values < 0) | (values > x.shape[0])).any()):
        raise ValueError(
            f"{name}: lengths must lie within 0..{x.shape[0]}, the padded length; "
            f"got {values.tolist()}"
        )
    return lengths.to(torch.int64)
