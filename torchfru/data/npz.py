"""A user's .npz file, read without pickle and a block at a time.

Every size that the file claims is checked against the archive before memory is taken for it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from .arrays import Array, DataError

BLOCK_BYTES = 1 << 22


@contextmanager
def open_npz(path: Path) -> Iterator[Npz]:
    """Open an .npz file of plain arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Npz(path, archive)
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy's parser of headers have many kinds
        raise DataError(
            f"{path}: not an .npz file of plain arrays, or damaged; write it with np.savez, "
            "without objects"
        ) from error


class Npz:
    """The arrays of an archive, by name."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        if len(self.members) < len(archive.namelist()):
            raise DataError(f"{path}: holds two arrays of the same name; write it again")

    def numbers(self, name: str, dtype: type[np.floating[Any]]) -> Array:
        """An array of real numbers, converted block by block."""
        return self.values(name, "iufb", "numbers", dtype)

    def values(self, name: str, kinds: str, expected: str, dtype: Any = None) -> Array:
        """An array, as it is stored or converted, if its dtype is of one of these kinds."""
        with self.archive.open(self.members[name]) as file:
            read_header = npy.read_array_header_2_0
            if npy.read_magic(file) == (1, 0):
                read_header = npy.read_array_header_1_0
            shape, fortran, stored = read_header(file)
            if stored.hasobject:
                raise DataError(
                    f"{self.path}: {name} holds Python objects; write it with np.savez, without "
                    "objects"
                )
            if stored.kind not in kinds or stored.itemsize == 0:
                raise DataError(f"{self.path}: {name} must hold {expected}, got {stored}")
            count = int(np.prod(shape, dtype=object)) if shape else 1
            self._check_size(name, file, count * stored.itemsize, count * 4)
            values = _read(file, count, stored, np.dtype(dtype or stored))
        return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)

    def _check_size(self, name: str, file: IO[bytes], claimed: int, needed: int) -> None:
        there = self.archive.getinfo(self.members[name]).file_size - file.tell()
        if claimed != there:
            raise DataError(
                f"{self.path}: {name} claims {claimed:,} bytes and holds {there:,}; the file is "
                "damaged: write it again"
            )
        if max(claimed, needed) > _physical_memory():
            raise DataError(
                f"{self.path}: {name} needs {max(claimed, needed) / 1e9:.1f} GB, more than this "
                "machine's memory; write a smaller part of it"
            )


def _read(file: IO[bytes], count: int, stored: np.dtype[Any], dtype: np.dtype[Any]) -> Array:
    values = np.empty(count, dtype)
    size = max(1, BLOCK_BYTES // stored.itemsize)
    with np.errstate(over="ignore"):  # an infinite result is refused later
        for first in range(0, count, size):
            part = values[first : first + size]
            part[:] = np.frombuffer(file.read(len(part) * stored.itemsize), stored, len(part))
    file.read(1)  # to the end, where the checksum is compared
    return values


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # Windows
        return float("inf")
