"""Where the files of a data set are: a folder of the user's, the cache, the official address."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import io
from .errors import DataError


@dataclass(frozen=True)
class Source:
    """A file that a data set is made from.

    Attributes:
        folder, name: where it lies in a data folder: ``<folder>/<name>``.
        url: the official address.
        check: reads the whole file, raises DataError if it is not what it should be, and
            returns the SHA-256 of its content.
        checksum: of the official download, as pooch writes it (``"md5:..."``), if known.
        member: the file's name in the official download, if that is a zip archive.
    """

    folder: str
    name: str
    url: str
    check: Callable[[Path], str]
    checksum: str | None = None
    member: str | None = None

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"


def find(source: Source, data_dir: Path | None = None) -> Path | None:
    """The file in ``data_dir`` or else TORCHFRU_DATA, or in the cache; None if in neither."""
    folders = [*_data_folders(data_dir), cache_folder() / "downloads"]
    paths = (folder / source.folder / source.name for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def locate(source: Source, data_dir: Path | None = None) -> Path:
    """The file where it is, or else downloaded to the cache."""
    found = find(source, data_dir)
    if found is not None:
        return found
    from .download import download

    return download(source, cache_folder() / "downloads")


def cache_folder() -> Path:
    """TORCHFRU_CACHE, or the folder that the system keeps for a program's cache."""
    if chosen := os.environ.get("TORCHFRU_CACHE"):
        return Path(chosen).expanduser()
    try:
        from platformdirs import user_cache_path
    except ModuleNotFoundError:
        raise DataError(
            "no cache folder: set TORCHFRU_CACHE to a folder, or pip install 'torchfru[train]'"
        ) from None
    return user_cache_path("torchfru", appauthor=False)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place at the end, whole or not at all."""
    try:
        with io.replacing(path) as temporary:
            yield temporary
    except io.WriteError as error:
        raise DataError(f"{error}: set TORCHFRU_CACHE") from error


def _data_folders(data_dir: Path | None) -> list[Path]:
    chosen = data_dir or os.environ.get("TORCHFRU_DATA")
    if not chosen:
        return []
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        named = "the data folder" if data_dir else "TORCHFRU_DATA"
        raise DataError(f"{folder}: {named} is not a folder; name one that exists, or none")
    return [folder]
