"""Recurrent layers and cells, and whole models made of them."""

from .forecast import NaiveForecast
from .fru import FRU, FRUCell
from .head import EnergyReadout
from .model import LAYERS, SequenceModel, StepModel
from .sru import SRU, SRUCell
from .window import CausalWindow

__all__ = [
    "FRU",
    "LAYERS",
    "SRU",
    "CausalWindow",
    "EnergyReadout",
    "FRUCell",
    "NaiveForecast",
    "SRUCell",
    "SequenceModel",
    "StepModel",
]
