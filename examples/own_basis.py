"""A basis of your own: bumps that each remember one stretch of time.

Any functions within [-1, 1] keep the paper's bound on the gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

import torchfru


class Bumps(torchfru.Basis):
    """Bells of width T/K, the k-th around the step (k + 1/2) T/K."""

    def rows(self, steps: Tensor, freqs: Tensor, phase: Tensor | None, seq_len: int) -> Tensor:
        count = freqs.numel()
        place = steps.unsqueeze(-1) / seq_len * count  # (..., 1)
        return torch.exp(-((place - freqs - 0.5) ** 2))  # (..., K)


def main() -> None:
    torch.manual_seed(0)
    layer = torchfru.FRU(2, 8, seq_len=60, num_freqs=6, basis=Bumps())
    output, _ = layer(torch.randn(60, 4, 2))
    output.sum().backward()
    matrix = layer.basis_matrix()  # (T, K)
    print(f"basis {tuple(matrix.shape)}, the bumps peak at steps {(matrix.argmax(0) + 1).tolist()}")
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


if __name__ == "__main__":
    main()
