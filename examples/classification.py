"""Classify sequences of different lengths: slow waves against fast ones, in noise.

The layer reads a padded batch with ``lengths=`` and gives each sequence's own last output.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import torchfru

LENGTH = 200


def waves(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs (N, L, 1), lengths (N,), and labels (N,): 1 for the faster waves."""
    labels = torch.randint(2, (count,))
    lengths = torch.randint(100, LENGTH + 1, (count,))
    t = torch.arange(LENGTH) / LENGTH
    turns = 3 + 2 * labels
    phase = 6.28 * torch.rand(count, 1)
    x = torch.sin(6.28 * turns.unsqueeze(1) * t + phase) + 0.3 * torch.randn(count, LENGTH)
    return x.unsqueeze(-1), lengths, labels


def main() -> None:
    torch.manual_seed(0)
    layer = torchfru.FRU(
        1, 32, batch_first=True, seq_len=LENGTH, num_freqs=20, return_sequences=False
    )
    head = nn.Linear(32, 2)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
    for _ in range(60):
        x, lengths, labels = waves(64)
        output, _ = layer(x, lengths=lengths)  # (N, 32)
        loss = nn.functional.cross_entropy(head(output), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x, lengths, labels = waves(500)
    right = (head(layer(x, lengths=lengths)[0]).argmax(1) == labels).double().mean()
    print(f"accuracy on new sequences: {100 * right:.1f} %")
    assert right > 0.9


if __name__ == "__main__":
    main()
