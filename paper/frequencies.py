"""Which frequencies an FRU needs: pixel-MNIST by rows (28 steps) and by pixels (784 steps).

The figures of the paper's appendix, by ``steps<T>-<K>-<min>-<max>``: frequency 0 and K - 1 more,
log-spaced from min to max. The paper's legends name the ranges for 784 steps; those for 28 are
ours: everything, the low half and the high half of it on a log scale.
"""

from __future__ import annotations

from torchfru.experiments.config import DataConfig, RunConfig, TrainingConfig
from torchfru.experiments.models import fru

RANGES = {28: ((0.25, 28.0), (0.25, 2.5), (2.5, 28.0)), 784: ((0.25, 784.0), (0.25, 25.0))}
COUNTS = {28: (5, 10, 20), 784: (20, 40, 60)}
TRAINING = {
    28: TrainingConfig(lr=0.001, lr_decay=0.9, batch_size=256, epochs=50, clip=1.0),  # ours
    784: TrainingConfig(lr=0.005, lr_decay=0.9, batch_size=256, epochs=100),  # FRU_60,10's
}


def _run(steps: int, count: int, low: float, high: float) -> RunConfig:
    model = fru(count, 10, max_freq=high, min_freq=low)
    rows = None if steps == 784 else steps  # a step a pixel is what pixel-mnist has anyway
    return RunConfig(
        DataConfig("pixel-mnist", steps=rows, pixels="standard"), model, TRAINING[steps]
    )


EXPERIMENTS = {
    "frequencies": {
        f"steps{steps}-{count}-{low:g}-{high:g}": _run(steps, count, low, high)
        for steps in RANGES
        for count in COUNTS[steps]
        for low, high in RANGES[steps]
    }
}
