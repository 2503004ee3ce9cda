"""The experiments of the paper by name: those of the library, and three for the paper only.

``gradients``
    Gradients to the initial state while training on mix-poly of degree 5: settings as for
    mix-poly-5, with the decays of SRU that the figure's caption names. They are measured before
    training and after every tenth epoch.
``frequencies``
    Which frequencies an FRU needs: pixel-MNIST by rows (28 steps) and by pixels (784 steps). A
    model is called ``steps<T>-<K>-<min>-<max>``: frequency 0 and K - 1 more, log-spaced from min
    to max. The paper's legends name the ranges for 784 steps; those for 28 are ours: all
    frequencies, the low half and the high half of them on a log scale.
``bases``
    Other bounded bases in the place of the Fourier basis: the paper's theorem allows any. Ours.
``ablation``
    The recipe with each of its changes left out alone. A model is called ``<task>-<change>``, and
    ``<task>-full`` has all of them; ten epochs each.
``depth``
    The Fourier basis over depth, in the paper's last words: MLPs and CNNs on MNIST. A model is
    called ``<kind>-<mlp or conv>-<layers>``; the kinds are in :mod:`paper.networks`.
``time-to-accuracy``
    The recipe once more on pixel-MNIST and permuted MNIST, for its time: run it alone on a quiet
    machine, ``python -m paper reproduce time-to-accuracy --jobs 1``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torchfru.defaults import ADDED_LAYERS
from torchfru.training import recipes as library
from torchfru.training.config import DataConfig, ModelConfig, RunConfig, TrainingConfig
from torchfru.training.recipes import fru, one_cycle

BASES = ("fourier", "chebyshev", "legendre", "walsh")

RANGES = {28: ((0.25, 28.0), (0.25, 2.5), (2.5, 28.0)), 784: ((0.25, 784.0), (0.25, 25.0))}
COUNTS = {28: (5, 10, 20), 784: (20, 40, 60)}
FREQUENCY_TRAINING = {
    28: TrainingConfig(lr=0.001, lr_decay=0.9, batch_size=256, epochs=50, clip=1.0),  # ours
    784: TrainingConfig(lr=0.005, lr_decay=0.9, batch_size=256, epochs=100),  # FRU_60,10's
}

_MIX_POLY = library.EXPERIMENTS["mix-poly-5"]
_OTHER_BASES = {
    "permuted": library.EXPERIMENTS["permuted-mnist"]["fru-60-10"],
    "mix-poly-5": _MIX_POLY["fru"],
}


def _gradients(model: str) -> RunConfig:
    layer = _MIX_POLY[model].model
    if model == "sru":
        layer = replace(layer, alphas=(0.0, 0.25, 0.5, 0.9, 0.95))
    training = replace(_MIX_POLY["fru"].training, epochs=90, probe_every=10)
    return replace(_MIX_POLY[model], model=layer, training=training)


def _frequencies(steps: int, count: int, low: float, high: float) -> RunConfig:
    image_rows = None if steps == 784 else steps  # a pixel per step is the data set's default
    data = DataConfig("pixel-mnist", steps=image_rows, pixels="standard")
    return RunConfig(data, fru(count, 10, max_freq=high, min_freq=low), FREQUENCY_TRAINING[steps])


# By task: the recipe's run, and what to set to leave out a change.
ABLATED: dict[str, tuple[RunConfig, dict[str, dict[str, Any]]]] = {
    "permuted": (
        library.EXPERIMENTS["permuted-mnist"]["fru-recipe"],
        {
            "full": {},
            "even-frequencies": {"freqs": "log"},
            "many-frequencies": {"num_freqs": 40, "freq_dim": 10},
            "pairs": {"basis": "fourier"},
            "norm": {"norm": False},
            "hidden-layer": {"head_sizes": ()},
            "dropout": {"dropout": 0.0},
        },
    ),
    "pixel": (
        library.EXPERIMENTS["pixel-mnist"]["fru-recipe"],
        {
            "full": {},
            "window": {"window": 1},
            "energy": {"energy": 0},
            "even-frequencies": {"freqs": "log"},
            "norm": {"norm": False},
            "hidden-layer": {"head_sizes": ()},
            "dropout": {"dropout": 0.0},
        },
    ),
    "mix-poly-5": (
        _MIX_POLY["fru-recipe"],
        {
            "full": {},
            "naive-start": {"naive": "none"},
            "window": {"window": 1},
            "skip": {"skip": False},
            "even-frequencies": {"freqs": "log"},
            "time": {"time_freqs": 0},
            "norm": {"norm": False},
            "hidden-layer": {"head_sizes": ()},
        },
    ),
}


def _ablated(run: RunConfig, change: dict[str, Any]) -> RunConfig:
    training = replace(run.training, epochs=10)
    return replace(run, model=replace(run.model, **change), training=training)


# Depth. All networks of a shape have the same state, 128 numbers or 32 channels, and a gate that
# gives them the same number of parameters within 3 %: the Fourier ones have fewer features h than
# state, and so a wider gate.
KINDS = ("plain", "residual", "prenorm", "mean", "fourier")
CONVOLUTIONAL = "conv"
DEPTHS = {"mlp": (10, 30, 100, 300, 1000), CONVOLUTIONAL: (10, 50, 200)}
NETWORKS = tuple(f"{kind}-{shape}" for shape in DEPTHS for kind in KINDS)
DEPTH_EPOCHS = {"mlp": 10, CONVOLUTIONAL: 3}
STATES = {"mlp": 128, CONVOLUTIONAL: 32}
GATES = {"mlp": 18, CONVOLUTIONAL: 5}
FOURIER: dict[str, dict[str, int]] = {
    "mlp": {"num_freqs": 8, "freq_dim": 16, "gate_size": 32},
    CONVOLUTIONAL: {"num_freqs": 4, "freq_dim": 8, "gate_size": 8},
}
# The learning rates of a network and of all deeper ones, up to the next entry: the best of those
# that `python -m paper rates` tries on images held back from training.
DEPTH_RATES: dict[str, dict[int, dict[str, float]]] = {
    "mlp": {
        10: {"plain": 0.001, "residual": 0.003, "prenorm": 0.003, "mean": 0.03, "fourier": 0.01},
        300: {"plain": 0.001, "residual": 0.003, "prenorm": 0.001, "mean": 0.03, "fourier": 0.01},
    },
    CONVOLUTIONAL: {
        10: {"plain": 0.01, "residual": 0.01, "prenorm": 0.01, "mean": 0.03, "fourier": 0.03},
        50: {"plain": 0.01, "residual": 0.01, "prenorm": 0.003, "mean": 0.1, "fourier": 0.1},
    },
}

ADDED_LAYERS |= dict.fromkeys(NETWORKS, ("gate_size",))
ADDED_LAYERS |= {f"fourier-{shape}": tuple(own) for shape, own in FOURIER.items()}


def _deep(kind: str, shape: str, depth: int) -> RunConfig:
    own = FOURIER[shape] if kind == "fourier" else {"gate_size": GATES[shape]}
    name, epochs = f"{kind}-{shape}", DEPTH_EPOCHS[shape]
    sizes: dict[str, Any] = {"hidden_size": STATES[shape], "num_layers": depth, **own}
    model = ModelConfig(name, norm=kind == "prenorm", **sizes)  # its sum over layers is not bounded
    rates = DEPTH_RATES[shape][max(least for least in DEPTH_RATES[shape] if least <= depth)]
    training = one_cycle(lr=rates[kind], batch_size=256, epochs=epochs, weight_decay=0.01)
    training = replace(training, probe_every=epochs)  # before and after
    return RunConfig(DataConfig("pixel-mnist", steps=1, pixels="standard"), model, training)


EXPERIMENTS: dict[str, dict[str, RunConfig]] = {
    **library.EXPERIMENTS,
    "gradients": {model: _gradients(model) for model in ("rnn", "lstm", "sru", "fru")},
    "frequencies": {
        f"steps{steps}-{count}-{low:g}-{high:g}": _frequencies(steps, count, low, high)
        for steps in RANGES
        for count in COUNTS[steps]
        for low, high in RANGES[steps]
    },
    "bases": {
        f"{task}-{basis}": replace(run, model=replace(run.model, basis=basis))
        for task, run in _OTHER_BASES.items()
        for basis in BASES
    },
    "ablation": {
        f"{task}-{name}": _ablated(run, change)
        for task, (run, changes) in ABLATED.items()
        for name, change in changes.items()
    },
    "depth": {
        f"{kind}-{shape}-{depth}": _deep(kind, shape, depth)
        for shape, depths in DEPTHS.items()
        for depth in depths
        for kind in KINDS
    },
    "time-to-accuracy": {
        task: library.EXPERIMENTS[task]["fru-recipe"] for task in ("permuted-mnist", "pixel-mnist")
    },
}


def frequency_name(model: str) -> tuple[int, int, float, float]:
    """Steps, number of frequencies, smallest, largest.

    >>> frequency_name("steps28-20-0.25-28")
    (28, 20, 0.25, 28.0)
    """
    steps, count, low, high = model.removeprefix("steps").split("-")
    return int(steps), int(count), float(low), float(high)


def network_name(model: str) -> tuple[str, str, int]:
    """Kind, shape, and number of layers.

    >>> network_name("fourier-mlp-1000")
    ('fourier', 'mlp', 1000)
    """
    kind, shape, depth = model.split("-")
    return kind, shape, int(depth)
