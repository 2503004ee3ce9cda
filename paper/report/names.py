"""How models are called and drawn: always the same name, colour, marker and line."""

from __future__ import annotations

OTHERS = 8
LAYERS = ("rnn", "lstm", "gru", "sru", "fru")
PLACES = {  # in the palette; two that share a place are never in one figure
    **{layer: place for place, layer in enumerate(LAYERS)},
    **{
        "fru-40-10": 5,
        "fru-1-10": 5,
        "fru-60-10": 6,
        "fru-5-10": 6,
        "fru-60-10-tuned": 7,
        "fru-5-10-tuned": 7,
    },
    **{"fourier": 4, "chebyshev": 0, "legendre": 1, "walsh": 2, "exponentials": 3},
}


def label(model: str) -> str:
    """The model's name for a reader.

    >>> label("lstm"), label("fru-60-10-tuned"), label("walsh")
    ('LSTM', 'FRU 60,10 tuned', 'Walsh')
    """
    layer, *rest = model.split("-")
    if layer not in LAYERS:
        return model.capitalize()
    sizes = ",".join(part for part in rest if part.isdigit())
    words = [part for part in rest if not part.isdigit()]
    return " ".join(filter(None, [layer.upper(), sizes, *words]))


def style(model: str) -> int:
    """The place of a model or a basis in the palette; the last one is for all others."""
    return PLACES.get(model.removesuffix("-released"), OTHERS)
