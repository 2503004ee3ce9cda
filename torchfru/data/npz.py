"""A user's .npz file, read without pickle and a block at a time.

Every size that the file claims is checked against the archive before memory is taken for it.
"""

from __future__ import annotations

import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from .arrays import Array, DataError

BLOCK_BYTES = 1 << 22
UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,  # a compression that zipfile does not know
    RuntimeError,  # a password
    OverflowError,
    SyntaxError,
    TypeError,
    MemoryError,
    RecursionError,
    tokenize.TokenError,  # NumPy parses a header as Python
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def open_npz(path: Path) -> Iterator[Npz]:
    """Open an .npz file of plain arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Npz(path, archive)
    except DataError:
        raise
    except UNREADABLE as error:
        raise DataError(
            f"{path}: not an .npz file of plain arrays, or damaged; write it with np.savez, "
            "without objects"
        ) from error


class Npz:
    """The arrays of an archive, by name."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        self.names = list(dict.fromkeys(names))
        if len(self.names) < len(names):
            raise DataError(f"{path}: holds two arrays of the same name; write it again")

    def numbers(self, name: str, dtype: type[np.floating[Any]]) -> Array:
        """An array of real numbers, converted block by block."""
        return self._array(name, dtype, "iufb", "numbers")

    def values(self, name: str, kinds: str, expected: str) -> Array:
        """A small array as it is stored, if its dtype is of one of these kinds."""
        return self._array(name, None, kinds, expected)

    def _array(self, name: str, dtype: Any, kinds: str, expected: str) -> Array:
        with self.archive.open(self._member(name)) as file:
            shape, fortran, stored = self._header(name, file)
            if stored.kind not in kinds or stored.itemsize == 0:
                raise DataError(f"{self.path}: {name} must hold {expected}, got {stored}")
            count = int(np.prod(shape, dtype=object)) if shape else 1
            self._check_size(name, file, count * stored.itemsize, count * 4)
            values = _read(file, count, stored, stored if dtype is None else np.dtype(dtype))
        return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)

    def _member(self, name: str) -> str:
        known = self.archive.namelist()
        return f"{name}.npy" if f"{name}.npy" in known else name

    def _header(self, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        version = npy.read_magic(file)
        if version == (1, 0):
            shape, fortran, stored = npy.read_array_header_1_0(file)
        else:
            shape, fortran, stored = npy.read_array_header_2_0(file)
        if stored.hasobject:
            raise DataError(
                f"{self.path}: {name} holds Python objects; write it with np.savez, without objects"
            )
        return shape, fortran, stored

    def _check_size(self, name: str, file: IO[bytes], claimed: int, needed: int) -> None:
        there = self.archive.getinfo(self._member(name)).file_size - file.tell()
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
            content = file.read(min(size, count - first) * stored.itemsize)
            block = np.frombuffer(content, stored)
            values[first : first + len(block)] = block
            if len(block) < min(size, count - first):
                raise EOFError
    file.read(1)  # to the end, where the checksum is compared
    return values


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # Windows
        return float("inf")
