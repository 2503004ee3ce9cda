"""How models are called and drawn: always the same name, colour, marker and line."""

from __future__ import annotations

LAYERS = ("rnn", "lstm", "gru", "sru", "fru")
PLACES = {  # in the palette; two that share a place are never in one figure
    **{layer: place for place, layer in enumerate(LAYERS)},
    **{"fru-40-10": 5, "fru-1-10": 5, "fru-60-10": 6, "fru-5-10": 6},
    **{"fourier": 4, "chebyshev": 0, "legendre": 1, "walsh": 2, "exponentials": 3},
}


def label(model: str) -> str:
    """The model's name for a reader.

    >>> label("lstm"), label("fru-60-10"), label("walsh")
    ('LSTM', 'FRU 60,10', 'Walsh')
    """
    layer, *sizes = model.split("-")
    if layer not in LAYERS:
        return model.capitalize()
    return " ".join([layer.upper(), ",".join(sizes)]).strip()


def style(model: str) -> int:
    """The place of a model or a basis in the palette."""
    return PLACES[model.removesuffix("-released")]
