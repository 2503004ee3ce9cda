"""Recurrent layers and cells, and whole models made of them."""

from .fru import FRU, FRUCell
from .model import LAYERS, SequenceModel, StepModel
from .sru import SRU, SRUCell

__all__ = ["FRU", "LAYERS", "SRU", "FRUCell", "SRUCell", "SequenceModel", "StepModel"]
