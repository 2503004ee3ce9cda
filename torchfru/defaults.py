"""The defaults of the layers, written once, without torch.

The layers' signatures, the models and the configurations of runs take them from here, so that a
command line knows them before torch is imported.
"""

from __future__ import annotations

# Layers
GATE_SIZE = 60
NONLINEARITY = "relu"

# FRU
NUM_FREQS = 60
FREQ_DIM = 10
FREQS_PER_BLOCK = 1
MIN_FREQ = 0.25
FREQS = "log"
BASIS = "fourier"

# SRU
ALPHAS = (0.0, 0.25, 0.5, 0.9, 0.99)
STAT_SIZE = 200

# Models
HIDDEN_SIZE = 200
EMBEDDING_SIZE = 128
OUTPUT = "identity"
WINDOW_ACTIVATION = "identity"
SCALE = "none"
NAIVE = "none"

# The layers that a model can have, each with its own options.
LAYER_OPTIONS: dict[str, tuple[str, ...]] = {
    "rnn": (),
    "lstm": (),
    "gru": (),
    "sru": ("gate_size", "nonlinearity", "stat_size", "alphas"),
    "fru": (
        "num_freqs",
        "freq_dim",
        "freqs_per_block",
        "min_freq",
        "max_freq",
        "freqs",
        "basis",
        "gate_size",
        "nonlinearity",
    ),
}

# Layers of a program beside the library; ``nn.model.ADDED_BUILDERS`` has how to build them.
ADDED_LAYERS: dict[str, tuple[str, ...]] = {}


def layers_with(option: str) -> tuple[str, ...]:
    """The layers that have an option of a model: those that list it, or else all of them."""
    having = tuple(layer for layer, options in LAYER_OPTIONS.items() if option in options)
    return having or tuple(LAYER_OPTIONS)


def has_option(layer: str, option: str) -> bool:
    """Whether a layer has an option of a model: one that it lists, or one that no layer lists."""
    every = LAYER_OPTIONS | ADDED_LAYERS
    return option in every[layer] or not any(option in own for own in every.values())
