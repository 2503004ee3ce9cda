"""The sections of the report: each takes the records that it shows."""

from __future__ import annotations

from ...published import ACCURACY
from ..content import Section
from ..records import Library
from . import accuracy, bases, beijing, frequencies, gradients, memory, mixtures


def all_sections(library: Library) -> list[Section]:
    """Every part, in the order of the paper, then what it does not have."""
    return [
        mixtures.section(library),
        gradients.section(library),
        *(accuracy.section(library, experiment) for experiment in ACCURACY),
        *(part.section(library) for part in (frequencies, beijing, bases, memory)),
    ]
