"""mix-sin and mix-poly: predict the next value of a mixture, at every step (the paper's figures).

The authors' settings. A model's name with ``-released`` has the task of their program instead:
the whole sequence, from the last state.
"""

from __future__ import annotations

from dataclasses import replace

from .config import DataConfig, RunConfig, TrainingConfig
from .models import baselines, fru

MODELS = {**baselines(), "fru": fru(120, 5, max_freq=58.0)}


def _runs(data: DataConfig, lr_decay: float) -> dict[str, RunConfig]:
    training = TrainingConfig(lr=0.001, lr_decay=lr_decay, batch_size=32, epochs=100, clip=5.0)
    released = replace(data, variant="released")
    return {
        **{name: RunConfig(data, model, training) for name, model in MODELS.items()},
        **{
            f"{name}-released": RunConfig(released, model, training)
            for name, model in MODELS.items()
        },
    }


EXPERIMENTS = {
    "mix-sin": _runs(DataConfig("mix-sin"), lr_decay=0.7),
    **{
        f"mix-poly-{degree}": _runs(DataConfig("mix-poly", degree=degree), lr_decay=0.9)
        for degree in (5, 10, 15)
    },
}
