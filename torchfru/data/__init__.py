"""Data sets by name: ``load("pixel-mnist")``, or from a file: ``load("my.npz")``."""

from .arrays import DataError
from .beijing import temperature
from .imdb import tokenize
from .registry import DATASETS, DataSet, FileCheck, available, load, names, verify
from .sequence import IGNORED, DataSpec, Reading, Scaling, SequenceData, Split, Task

__all__ = [
    "DATASETS",
    "IGNORED",
    "DataError",
    "DataSet",
    "DataSpec",
    "FileCheck",
    "Reading",
    "Scaling",
    "SequenceData",
    "Split",
    "Task",
    "available",
    "load",
    "names",
    "temperature",
    "tokenize",
    "verify",
]
