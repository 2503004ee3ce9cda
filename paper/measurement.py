"""The record of a measurement without training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from torchfru.records import JsonFile


@dataclass
class Measurement(JsonFile):
    """A measurement without training: its numbers and their origin."""

    kind: ClassVar = "measurement"
    experiment: str
    name: str
    values: dict[str, Any]
    seconds: float = 0.0
    commit: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)  # checksums
    hardware: dict[str, Any] = field(default_factory=dict)


def measurement_path(results: Path, experiment: str, name: str) -> Path:
    """Where a measurement without training is: ``results/<experiment>/<name>.json``."""
    return results / experiment / f"{name}.json"
