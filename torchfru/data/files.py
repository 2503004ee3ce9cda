"""The files of a data set: looked for in a folder and the cache, or downloaded and checked.

A download shows a progress bar and resumes where the last one stopped. A file gets its name only
when it is complete and checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .. import io
from .arrays import Array, DataError

PACKAGES = ("pooch", "tqdm", "filelock")
TIMEOUT = 30  # seconds without a byte
BLOCK = 1 << 16
RANGE_NOT_SATISFIABLE, PARTIAL_CONTENT = 416, 206  # HTTP


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


def prepared(
    name: str, key: Mapping[str, Any], build: Callable[[], dict[str, Array]]
) -> dict[str, Array]:
    """The result of ``build``, from the cache if it was built before with the same ``key``.

    The key holds all that the arrays depend on: checksum of the source, version of the
    preparation, options. A file that cannot be read is built again.
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


# Download --------------------------------------------------------------------------------


def download(source: Source, folder: Path) -> Path:
    """Download a file into ``folder/<source.folder>/``.

    If the connection breaks, the beginning is kept as ``<name>.part`` and the next call requests
    the rest. Two processes that want the same file take turns.
    """
    target = folder / source.folder / source.name
    _require_packages(source)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder), _quiet_pooch():
            if not target.is_file():  # another process may have been quicker
                _fetch(source, target)
    except OSError as error:  # requests' errors are OSErrors, as a full disk is
        raise DataError(
            f"{source}: cannot be fetched from {source.url} ({_reason(error)}); check the network "
            f"and run again, or put the file into a folder as {source} and name that with "
            "--data-dir or TORCHFRU_DATA"
        ) from error
    return target


class Resuming:
    """A downloader for pooch that resumes a partial download."""

    def __init__(self, partial: Path) -> None:
        self.partial = partial

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        import requests

        have = self.partial.stat().st_size if self.partial.exists() else 0
        headers = {"Accept-Encoding": "identity"}  # the file as it is, so that bytes can be counted
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
            if reply.status_code == RANGE_NOT_SATISFIABLE:  # not a part of what the server has now
                self.partial.unlink()
                return self(url, output_file, pooch)
            reply.raise_for_status()
            self._receive(reply, have if reply.status_code == PARTIAL_CONTENT else 0)
        os.replace(self.partial, output_file)
        return None

    def _receive(self, reply: Any, have: int) -> None:
        from tqdm import tqdm

        expected = int(reply.headers.get("Content-Length", 0))
        bar = tqdm(
            desc=self.partial.stem,
            initial=have,
            total=have + expected if expected else None,
            unit="B",
            unit_scale=True,
            disable=None,  # no bar where nobody watches
        )
        with bar, self.partial.open("ab" if have else "wb") as file:
            for block in reply.iter_content(BLOCK):
                file.write(block)
                bar.update(len(block))


def _fetch(source: Source, target: Path) -> None:
    import pooch

    name = target.name if source.member is None else f"{target.name}.zip"
    whole = target.with_name(f"{name}.whole")
    try:
        with replacing(target) as temporary:
            pooch.retrieve(
                source.url,
                source.checksum,
                fname=whole.name,
                path=whole.parent,
                downloader=Resuming(target.with_name(f"{name}.part")),
            )
            _unpack(source, whole, temporary)
    except ValueError as error:  # pooch's word for a wrong checksum
        raise DataError(
            f"{source}: what {source.url} sent is not the known file (its checksum differs); "
            "nothing was kept: run again, or find the file elsewhere"
        ) from error
    finally:
        whole.unlink(missing_ok=True)


def _unpack(source: Source, archive: Path, temporary: Path) -> None:
    """Move the download, or its one member, to ``temporary``; without a checksum, read it."""
    if source.member is None:
        os.replace(archive, temporary)
    else:
        temporary.write_bytes(_member(source, source.member, archive))
    if source.checksum is None:
        _read_through(source, temporary)


def _read_through(source: Source, temporary: Path) -> None:
    try:
        source.check(temporary)
    except DataError as error:
        problem = str(error).removeprefix(f"{temporary}: ").split(";")[0]
        raise DataError(
            f"{source}: what {source.url} sent is not the data set ({problem}); nothing was kept: "
            "run again later, or find the file elsewhere"
        ) from error


def _member(source: Source, name: str, archive: Path) -> bytes:
    try:
        with zipfile.ZipFile(archive) as file:
            return file.read(name)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise DataError(
            f"{source}: what {source.url} sent is no zip archive with {name} in it; nothing was "
            "kept: run again later, or find the file elsewhere"
        ) from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One download at a time, over all processes."""
    from filelock import FileLock

    with FileLock(folder / "download.lock"):
        yield


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Without pooch's advice to developers, which the bar replaces."""
    import pooch

    logger = pooch.get_logger()
    before = logger.level
    logger.setLevel("WARNING")
    try:
        yield
    finally:
        logger.setLevel(before)


def _require_packages(source: Source) -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise DataError(
            f"{source}: to fetch it needs {', '.join(missing)}: pip install 'torchfru[train]'"
        )


def _reason(error: OSError) -> str:
    """The system's words for an error, or the status that a server answered with."""
    text = type(error).__name__ if error.strerror is None else error.strerror
    status = getattr(getattr(error, "response", None), "status_code", None)
    return text if status is None else f"HTTP {status}"
