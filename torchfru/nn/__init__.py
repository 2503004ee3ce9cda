"""Recurrent layers and cells."""

from .fru import FRU, FRUCell
from .sru import SRU, SRUCell

__all__ = ["FRU", "SRU", "FRUCell", "SRUCell"]
