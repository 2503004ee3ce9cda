"""The memory of an FRU: which functions of time it sums against, and how far time may run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..basis import BASES, Basis, check_bounded, check_rows, resolve_basis
from .checks import require_size, values_of
from .recurrent import reset_weights


class FRUMemory(nn.Module):
    """What FRU and FRUCell share: sizes, basis and frequencies. A mixin, without ``__init__``."""

    freqs: Tensor
    hidden_size: int
    gate_size: int
    nonlinearity: str

    def _init_memory(
        self,
        seq_len: int,
        num_freqs: int,
        freq_dim: int,
        freqs_per_block: int,
        freqs: Sequence[float] | Tensor | None,
        basis: str | Basis,
    ) -> None:
        sizes = {"seq_len": seq_len, "num_freqs": num_freqs, "freq_dim": freq_dim}
        for name, size in (sizes | {"freqs_per_block": freqs_per_block}).items():
            require_size(self, name, size)
        if num_freqs % freqs_per_block:
            raise ValueError(
                f"{type(self).__name__}: num_freqs must be divisible by freqs_per_block, got "
                f"num_freqs={num_freqs}, freqs_per_block={freqs_per_block}"
            )
        self.seq_len = seq_len
        self.num_freqs = num_freqs
        self.freq_dim = freq_dim
        self.freqs_per_block = freqs_per_block
        self.state_size = num_freqs * freq_dim
        self.basis = resolve_basis(basis)
        self._first_freqs = tuple(self._choose_freqs(freqs).tolist())

    def _choose_freqs(self, freqs: Sequence[float] | Tensor | None) -> Tensor:
        name = type(self).__name__
        if freqs is None:
            with torch.device("cpu"):  # values are needed, also of a layer that is built on meta
                return self.basis.default_freqs(self.num_freqs, self.seq_len)
        chosen = torch.as_tensor(freqs, dtype=torch.float64, device="cpu").detach()
        if tuple(chosen.shape) != (self.num_freqs,):
            raise ValueError(
                f"{name}: freqs must hold num_freqs={self.num_freqs} values, got the shape "
                f"{tuple(chosen.shape)}; give num_freqs the number of your frequencies"
            )
        if not bool(chosen.isfinite().all()):
            raise ValueError(f"{name}: freqs must be finite, got {chosen.tolist()}")
        self.basis.check_freqs(chosen)
        return chosen

    def _register_freqs(self, device: Any, dtype: Any) -> None:
        self.register_buffer("freqs", torch.empty(self.num_freqs, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Start as the paper's authors did: weights from a normal of deviation 0.1 cut at 0.2,
        biases 0, phases from a normal of 0.1 turns."""
        reset_weights(self)
        with torch.no_grad():
            self.freqs.copy_(torch.tensor(self._first_freqs, dtype=torch.float64, device="cpu"))

    def _check_own_basis(self, suffix: str) -> None:
        """Refuse a user's basis that leaves [-1, 1], on meta with phases of 0."""
        if self.basis in BASES.values():
            return
        freqs, phase = self.freqs, getattr(self, f"phase{suffix}", None)
        if freqs.is_meta:
            freqs = torch.tensor(self._first_freqs, dtype=freqs.dtype, device="cpu")
            phase = None if phase is None else torch.zeros_like(phase, device="cpu")
        with torch.device(freqs.device):
            check_bounded(self.basis, freqs, phase, self.seq_len)

    def _parameter_shapes(self, input_size: int) -> dict[str, tuple[int, ...]]:
        n_g, n_y = self.gate_size, self.hidden_size
        n_u, n_h = self.state_size, self.freqs_per_block * self.freq_dim
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ug": (n_g, n_u),
            "bias_g": (n_g,),
            "weight_gh": (n_h, n_g),
            "weight_xh": (n_h, input_size),
            "bias_h": (n_h,),
            "weight_uy": (n_y, n_u),
            "bias_y": (n_y,),
        }
        return shapes | ({"phase": (self.num_freqs,)} if self.basis.has_phase else {})

    def _basis_rows(self, steps: Tensor, suffix: str) -> Tensor:
        """The basis at ``steps`` (...,), as (..., K), without the factor 1/T."""
        phase = getattr(self, f"phase{suffix}", None)
        rows = self.basis.rows(steps, self.freqs, phase, self.seq_len)
        return check_rows(rows, steps, self.freqs)

    def _check_time(self, last: Tensor | int) -> None:
        """Refuse steps past seq_len, where the basis has no rows."""
        name = type(self).__name__
        if isinstance(last, Tensor):
            steps = values_of(last)
            if steps is None:
                if not last.is_meta:  # traced: the check becomes a part of the program
                    message = f"{name}: a step is past seq_len={self.seq_len}"
                    torch._assert_async((last <= self.seq_len).all(), message)
                return
            last = int(steps.max()) if steps.numel() else 0
        if last > self.seq_len:
            raise ValueError(
                f"{name}: step {last} is past seq_len={self.seq_len}. Build it with "
                f"seq_len={last} or more, or start again without a state"
            )

    def _memory_arguments(self) -> dict[str, Any]:
        """The keyword arguments that make another memory like this one."""
        names = ("seq_len", "num_freqs", "freq_dim", "gate_size", "freqs_per_block")
        own = {name: getattr(self, name) for name in (*names, "basis", "nonlinearity")}
        return own | {"freqs": self._first_freqs}

    def _extra_defaults(self) -> dict[str, Any]:
        sizes = {"num_freqs": 60, "freq_dim": 10, "gate_size": 60, "freqs_per_block": 1}
        return {"seq_len": None, **sizes, "basis": "fourier"}
