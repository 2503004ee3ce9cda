"""The Fourier Recurrent Unit for PyTorch."""

from importlib.metadata import version as _version

from .basis import Basis, log_frequencies
from .nn import FRU, SRU, FRUCell, SRUCell
from .ops import available_backends, use_backend

__version__ = _version("torchfru")

__all__ = [
    "FRU",
    "SRU",
    "Basis",
    "FRUCell",
    "SRUCell",
    "available_backends",
    "log_frequencies",
    "use_backend",
]
