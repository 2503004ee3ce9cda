"""Forecast a series: from 200 known values, the next 20 at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import torchfru

KNOWN, FORECAST = 200, 20


class Forecaster(nn.Module):
    """The memory after the last known value, and a linear head for all values to come."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torchfru.FRU(
            1, 64, batch_first=True, seq_len=KNOWN, num_freqs=20, return_sequences=False
        )
        self.head = nn.Linear(64, FORECAST)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0])  # (N, L, 1) -> (N, 64) -> (N, FORECAST)


def make_series(count: int) -> tuple[Tensor, Tensor]:
    """Known values (N, L, 1) and those to come (N, FORECAST): two waves with random phases."""
    t = torch.arange(KNOWN + FORECAST) / 25.0
    phase = 6.28 * torch.rand(2, count, 1)
    waves = torch.sin(2 * t + phase[0]) + 0.5 * torch.sin(5 * t + phase[1])
    return waves[:, :KNOWN].unsqueeze(-1), waves[:, KNOWN:]


def main() -> None:
    torch.manual_seed(0)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        known, future = make_series(64)
        loss = (model(known) - future).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    known, future = make_series(500)
    with torch.no_grad():
        error = (model(known) - future).square().mean().sqrt()
        repeat = (known[:, -1] - future).square().mean().sqrt()
    print(f"root mean squared error {error:.3f}; repeating the last value has {repeat:.3f}")
    assert error < repeat / 4


if __name__ == "__main__":
    main()
