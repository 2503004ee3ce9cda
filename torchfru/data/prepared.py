"""Prepared forms, kept for the next start: arrays in, the same arrays out."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .arrays import Array
from .files import cache_folder, replacing


def prepared(
    name: str, key: Mapping[str, Any], build: Callable[[], dict[str, Array]]
) -> dict[str, Array]:
    """What ``build`` makes, from the cache if it was made before with the same ``key``.

    The key names all that the arrays depend on: checksum of the source, version of the
    preparation, options. The file is written whole or not at all, and read without pickle, so
    that it cannot run code; one that cannot be read is made again.
    """
    text = json.dumps(dict(key), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = cache_folder() / "prepared" / f"{name}-{digest}.npz"
    if path.is_file():
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return dict(archive)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            pass
    arrays = build()
    with replacing(path) as temporary, temporary.open("wb") as target:
        np.savez(target, **arrays)  # type: ignore[arg-type]
    return arrays
