"""The errors that a user can cause: what was wrong, the value, what to do."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from ..ops import NONLINEARITIES


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


def autocasting(x: Tensor) -> bool:
    """Whether torch is choosing dtypes by itself on the device of ``x``."""
    return not x.is_meta and torch.is_autocast_enabled(x.device.type)


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A long sum must not be rounded to half precision at every step."""
    return torch.autocast(x.device.type, enabled=False) if autocasting(x) else nullcontext()


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


def check_dtype(module: nn.Module, name: str, value: Tensor) -> None:
    expected = next(module.parameters()).dtype
    if value.dtype != expected and not autocasting(value):
        raise ValueError(
            f"{type(module).__name__}: {name} dtype ({value.dtype}) does not match weight dtype "
            f"({expected}). Convert it: .to({expected}), or convert the model: .to({value.dtype})"
        )


def check_width(x: Tensor, input_size: int) -> None:
    if x.shape[-1] != input_size:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {input_size}, got {x.shape[-1]}"
        )


def check_shape(module: nn.Module, name: str, value: Tensor, expected: tuple[int, ...]) -> None:
    if tuple(value.shape) != expected:
        raise RuntimeError(
            f"{type(module).__name__}: Expected {name} of size {expected}, got {tuple(value.shape)}"
        )


def check_state_pair(module: nn.Module, hx: object, dims: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """u and t, if that is what ``hx`` holds, with these numbers of dimensions."""
    name = type(module).__name__
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise RuntimeError(f"{name}: the state must be a tuple (u, t), got {type(hx).__name__}")
    u, t = hx
    if (u.dim(), t.dim()) != dims:
        raise RuntimeError(
            f"{name}: for this input the state's u and t must be {dims[0]}-D and {dims[1]}-D, "
            f"got {u.dim()}-D and {t.dim()}-D"
        )
    return u, t


def check_steps(module: nn.Module, t: Tensor) -> Tensor:
    """t as int64, if it counts steps."""
    if t.is_floating_point() or t.is_complex() or t.dtype == torch.bool:
        raise TypeError(f"{type(module).__name__}: t must hold integers, got {t.dtype}")
    steps = values_of(t)
    if steps is not None and bool((steps < 0).any()):
        raise ValueError(f"{type(module).__name__}: t must not be negative, got {steps.tolist()}")
    return t.to(torch.int64)
