"""Export a layer with torch.export: the program is saved, loaded and run without this class."""

from __future__ import annotations

import io

import torch

import torchfru


def main() -> None:
    torch.manual_seed(0)
    layer = torchfru.FRU(1, 16, batch_first=True, seq_len=50, num_freqs=10).eval()
    x = torch.randn(4, 50, 1)
    with torchfru.use_backend("collapsed"):  # plain torch operations, for any runtime
        program = torch.export.export(layer, (x,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    difference = (loaded(x)[0] - layer(x)[0]).abs().max()
    print(f"saved {len(file.getvalue()):,} bytes; largest difference {difference:.1e}")
    assert difference < 1e-4


if __name__ == "__main__":
    main()
