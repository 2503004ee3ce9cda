"""A short demonstration: what a layer remembers of the beginning of a long sequence."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from .nn import FRU

CLASSES = 8
CUE = 10  # steps that carry the class
BATCH = 64
TEST = 512
EVERY = 10  # training steps between tests


class Classifier(nn.Module):
    """A recurrent layer, and a linear head on its last output."""

    def __init__(self, layer: nn.Module, hidden_size: int) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(hidden_size, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        output = self.layer(x)[0]
        return self.head(output if output.dim() == 2 else output[-1])


LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "nn.LSTM": lambda length: nn.LSTM(1, 100),
    "FRU": lambda length: FRU(
        1, 100, seq_len=length, num_freqs=30, gate_size=30, return_sequences=False
    ),
}


@dataclass
class DemoRun:
    """How one layer fared."""

    name: str
    parameters: int
    steps: list[int] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    seconds: float = 0.0


def recall_batch(n: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noise (length, n, 1) that starts with one of eight fixed cues, and which one it was."""
    cues = torch.randn(CLASSES, CUE, generator=torch.Generator().manual_seed(8))
    labels = torch.randint(CLASSES, (n,), generator=generator)
    x = torch.randn(length, n, 1, generator=generator)
    x[:CUE, :, 0] = cues[labels].t() + 0.3 * x[:CUE, :, 0]
    return x, labels


def train(
    name: str, length: int, steps: int, seed: int, tick: Callable[[], None] = lambda: None
) -> DemoRun:
    """Train one layer on fresh batches, testing it as it goes; the clock counts training only."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    test = recall_batch(TEST, length, torch.Generator().manual_seed(seed + 1))
    model = Classifier(LAYERS[name](length), 100)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    run = DemoRun(name, sum(p.numel() for p in model.parameters()))
    for step in range(1, steps + 1):
        x, labels = recall_batch(BATCH, length, generator)
        start = time.perf_counter()
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        run.seconds += time.perf_counter() - start
        if step % EVERY == 0 or step == steps:
            run.steps.append(step)
            run.accuracy.append(_accuracy(model, *test))
        tick()
    return run


def _accuracy(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return 100 * (model(x).argmax(1) == labels).float().mean().item()


def draw(runs: list[DemoRun], path: Path) -> None:
    """Test accuracy by training step, a line a layer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for run, style in zip(runs, ("o--", "s-"), strict=False):
        axes.plot(run.steps, run.accuracy, style, markersize=4, label=run.name)
    axes.axhline(100 / CLASSES, color="grey", linewidth=1, linestyle=":", label="chance")
    axes.set(xlabel="training step", ylabel="test accuracy (%)", ylim=(0, 102))
    axes.set_title("Recalling the beginning of a long sequence")
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
