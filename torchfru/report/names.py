"""How models are called and drawn: always the same name, colour, marker and line."""

from __future__ import annotations

LAYERS = {"rnn": 0, "lstm": 1, "gru": 2, "sru": 3, "fru": 4}
BASES = {"fourier": 4, "chebyshev": 0, "legendre": 1, "walsh": 2, "exponentials": 3}


def label(model: str) -> str:
    """The model's name for a reader.

    >>> label("lstm"), label("fru-60-10"), label("walsh")
    ('LSTM', 'FRU 60,10', 'Walsh')
    """
    layer, *sizes = model.split("-")
    if layer not in LAYERS:
        return model.capitalize()
    return " ".join([layer.upper(), ",".join(sizes)]).strip()


def style(model: str, others: int = 0) -> int:
    """The place of a model in the palette; ``others`` of its layer come before it."""
    layer = model.partition("-")[0]
    place = LAYERS.get(layer, BASES.get(layer, 0))
    return place if others == 0 else len(LAYERS) - 1 + others
