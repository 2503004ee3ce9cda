"""The Fourier Recurrent Unit for PyTorch.

The names below are imported when they are first used, so that the command line starts without
torch. A program that has imported torch gets all of them at once: with them come the operators
that an exported model needs.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "torch" in _sys.modules:
    from .basis import Basis, even_frequencies, log_frequencies
    from .nn import (
        FRU,
        SRU,
        CausalWindow,
        EnergyReadout,
        FourierConv2d,
        FourierMLP,
        FRUCell,
        SRUCell,
    )
    from .ops import available_backends, use_backend
if TYPE_CHECKING:
    from .estimators import FRUClassifier as FRUClassifier
    from .estimators import FRUForecaster as FRUForecaster
    from .estimators import FRURegressor as FRURegressor

__all__ = [
    "FRU",
    "SRU",
    "Basis",
    "CausalWindow",
    "EnergyReadout",
    "FRUCell",
    "FourierConv2d",
    "FourierMLP",
    "SRUCell",
    "available_backends",
    "even_frequencies",
    "log_frequencies",
    "use_backend",
]

_HOMES = {
    "basis": ("Basis", "even_frequencies", "log_frequencies"),
    # not in __all__: they need an extra
    "estimators": ("FRUClassifier", "FRUForecaster", "FRURegressor"),
    "nn": (
        "FRU",
        "SRU",
        "CausalWindow",
        "EnergyReadout",
        "FRUCell",
        "FourierConv2d",
        "FourierMLP",
        "SRUCell",
    ),
    "ops": ("available_backends", "use_backend"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("torchfru")
    for home, names in _HOMES.items():
        if name == home:
            return _import_module(f".{home}", __name__)
        if name in names:
            return getattr(_import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, *_HOMES["estimators"], "__version__"})
