"""Read a stream one value at a time, and get what the layer gives for the whole sequence."""

from __future__ import annotations

import torch

import torchfru


def main() -> None:
    torch.manual_seed(0)
    layer = torchfru.FRU(3, 16, seq_len=100, num_freqs=10)
    x = torch.randn(100, 1, 3)  # (L, N, n_in)
    with torch.no_grad():
        whole, _ = layer(x)
    stream = layer.stream(batch=1)  # with the layer's weights as they are now; keeps its state
    outputs = [stream(value) for value in x]  # each (N, n_in), as it would arrive
    difference = (torch.stack(outputs) - whole).abs().max()
    print(f"largest difference from reading all at once: {difference:.1e}")
    assert difference < 1e-4


if __name__ == "__main__":
    main()
