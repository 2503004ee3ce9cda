"""The learning rates that `python -m paper rates` tries for the experiment ``depth``.

Networks of some depths are trained for one epoch on nine tenths of the training images with each
rate of a grid by factors of about 3, and judged on the last tenth. A rate at an end of a grid that
does best calls for a further one. The best are in :data:`paper.experiments.DEPTH_RATES`. Where a
kind does not learn at a depth, whatever the rate, the one of ten layers is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from torchfru.io import did_you_mean
from torchfru.training.sweep import Sweep

from .experiments import EXPERIMENTS

HELD_BACK = 0.1
TRIED = {
    "plain-mlp-10": (0.0003, 0.001, 0.003, 0.01, 0.03),
    "residual-mlp-10": (0.001, 0.003, 0.01, 0.03),
    **dict.fromkeys(
        ("plain-mlp-100", "residual-mlp-100", "prenorm-mlp-100"), (0.001, 0.003, 0.01, 0.03)
    ),
    "mean-mlp-100": (0.001, 0.003, 0.01, 0.03, 0.1),
    "fourier-mlp-100": (0.001, 0.003, 0.01, 0.03),
    "plain-mlp-1000": (0.001,),
    "prenorm-mlp-1000": (0.0003, 0.001, 0.003, 0.01),
    "mean-mlp-1000": (0.01, 0.03, 0.1),
    "fourier-mlp-1000": (0.003, 0.01, 0.03),
    **dict.fromkeys(
        ("plain-conv-10", "residual-conv-10", "prenorm-conv-10"), (0.001, 0.003, 0.01, 0.03)
    ),
    **dict.fromkeys(("mean-conv-10", "fourier-conv-10"), (0.001, 0.003, 0.01, 0.03, 0.1)),
    **dict.fromkeys(
        ("plain-conv-50", "residual-conv-50", "prenorm-conv-50"), (0.001, 0.003, 0.01, 0.03)
    ),
    **dict.fromkeys(("mean-conv-50", "fourier-conv-50"), (0.01, 0.03, 0.1, 0.3)),
}


def sweeps(names: Iterable[str], results: Path) -> Iterator[Sweep]:
    """The sweeps of the networks with these names."""
    for name in names:
        if name not in TRIED:
            raise ValueError(f"no rates are tried for {name!r}; {did_you_mean(name, TRIED)}")
        config = EXPERIMENTS["depth"][name]
        config = replace(
            config,
            data=replace(config.data, validation=HELD_BACK),
            training=replace(config.training, epochs=1, probe_every=None),
        )
        yield Sweep("depth", name, 0, config, results, TRIED[name], (1.0,))
