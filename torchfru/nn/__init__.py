"""Recurrent layers and cells, whole models made of them, and networks of many layers."""

from .committee import AnyModel, Committee
from .depth import FourierConv2d, FourierMLP
from .forecast import NaiveForecast
from .fru import FRU, FRUCell
from .head import EnergyReadout
from .model import LAYERS, SequenceModel, spread_of
from .sru import SRU, SRUCell
from .step import ModelStream, StepModel
from .window import CausalWindow

__all__ = [
    "FRU",
    "LAYERS",
    "SRU",
    "AnyModel",
    "CausalWindow",
    "Committee",
    "EnergyReadout",
    "FRUCell",
    "FourierConv2d",
    "FourierMLP",
    "ModelStream",
    "NaiveForecast",
    "SRUCell",
    "SequenceModel",
    "StepModel",
    "spread_of",
]
