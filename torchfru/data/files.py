"""The files of a data set: looked for in a folder and the cache, or downloaded and checked.

A download shows a progress bar and resumes where the last one stopped. A file gets its name only
when it is complete and checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .. import io
from .arrays import Array, DataError

PACKAGES = ("requests", "tqdm", "filelock")
TIMEOUT = 30  # seconds without a byte
BLOCK = 1 << 16
RANGE_NOT_SATISFIABLE, PARTIAL_CONTENT = 416, 206  # HTTP


@dataclass(frozen=True)
class Source:
    """A file that a data set is made from.

    Attributes:
        folder, name: where it lies in a data folder: ``<folder>/<name>``.
        url: the official address.
        check: reads the whole file, raises DataError if its content is wrong, and
            returns the SHA-256 of its content.
        checksum: of the official download, ``"md5:..."``, if known.
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
    folders = [cache_folder() / "downloads"]
    if chosen := data_dir or os.environ.get("TORCHFRU_DATA"):
        folders.insert(0, Path(chosen).expanduser())
        if not folders[0].is_dir():
            named = "the data folder" if data_dir else "TORCHFRU_DATA"
            raise DataError(f"{folders[0]}: {named} is not a folder; name one that exists, or none")
    paths = (folder / source.folder / source.name for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def locate(source: Source, data_dir: Path | None = None) -> Path:
    """The file where it is, or else downloaded to the cache."""
    return find(source, data_dir) or download(source, cache_folder() / "downloads")


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
    try:
        with io.replacing(path) as temporary, temporary.open("wb") as target:
            np.savez(target, **arrays)  # type: ignore[arg-type]
    except io.WriteError as error:
        raise DataError(f"{error} with TORCHFRU_CACHE") from error
    return arrays


# Download --------------------------------------------------------------------------------


def download(source: Source, folder: Path) -> Path:
    """Download a file into ``folder/<source.folder>/``.

    If the connection breaks, the beginning is kept as ``<name>.part`` and the next call requests
    the rest. Two processes that want the same file take turns.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise DataError(
            f"{source}: to fetch it needs {', '.join(missing)}: pip install 'torchfru[train]'"
        )
    from filelock import FileLock

    target = folder / source.folder / source.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "download.lock"):
            if not target.is_file():  # another process may have been quicker
                _fetch(source, target)
    except io.WriteError as error:
        raise DataError(f"{error} with TORCHFRU_CACHE") from error
    except OSError as error:  # requests' errors are OSErrors, as a full disk is
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = error.strerror or type(error).__name__ if status is None else f"HTTP {status}"
        raise DataError(
            f"{source}: cannot be fetched from {source.url} ({reason}); check the network and run "
            f"again, or put the file into a folder as {source} and name that with --data-dir or "
            "TORCHFRU_DATA"
        ) from error
    return target


def _fetch(source: Source, target: Path) -> None:
    """Download, check and unpack a file; a complete download that is wrong is deleted."""
    part = target.with_name(f"{target.name}{'.zip' if source.member else ''}.part")
    _receive(source.url, part)
    temporary = part
    try:
        kind, _, expected = (source.checksum or "").partition(":")
        if expected and io.file_digest(part, kind) != expected:
            raise DataError("its checksum differs")
        with io.replacing(target) as temporary:
            if source.member is None:
                os.replace(part, temporary)
            else:
                with zipfile.ZipFile(part) as archive:
                    temporary.write_bytes(archive.read(source.member))
            if not expected:
                source.check(temporary)
    except (DataError, zipfile.BadZipFile, KeyError, EOFError) as error:
        problem = f"no zip with {source.member}"
        if isinstance(error, DataError):
            problem = str(error).removeprefix(f"{temporary}: ").split(";")[0]
        raise DataError(
            f"{source}: {source.url} sent another file ({problem}); nothing was kept: run again "
            "later, or find the file elsewhere"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _receive(url: str, part: Path) -> None:
    """Download to ``part``; bytes that are there already are not requested again."""
    import requests
    from tqdm import tqdm

    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}  # the file as it is, so that bytes can be counted
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
        if reply.status_code == RANGE_NOT_SATISFIABLE:  # the server has another file now
            part.unlink()
            return _receive(url, part)
        reply.raise_for_status()
        have = have if reply.status_code == PARTIAL_CONTENT else 0
        size = int(reply.headers.get("Content-Length", 0))
        known = {"initial": have, "total": have + size if size else None}
        shown = {"unit": "B", "unit_scale": True, "disable": None}  # None: only on a terminal
        with tqdm(desc=part.stem, **known, **shown) as bar, part.open("ab" if have else "wb") as f:
            for block in reply.iter_content(BLOCK):
                f.write(block)
                bar.update(len(block))
    return None
