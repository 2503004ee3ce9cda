"""Fetching a file from its official address: checked, with a bar, and resumed if it broke off."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import DataError
from .files import Source, replacing

PACKAGES = ("pooch", "tqdm", "filelock")
TIMEOUT = 30  # seconds without a byte
BLOCK = 1 << 16
NOTHING_LEFT = 416  # HTTP: no such range
PART_ONLY = 206  # HTTP: the range that was asked for


def download(source: Source, folder: Path) -> Path:
    """Fetch a file into ``folder/<source.folder>/``; it appears there whole and checked only.

    What has come when a connection breaks is kept beside it as ``<name>.part``, and the next
    call asks for the rest. Two processes that want the same file wait for each other.
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
    """A downloader for pooch that goes on where the last try broke off."""

    def __init__(self, partial: Path) -> None:
        self.partial = partial

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        import requests

        have = self.partial.stat().st_size if self.partial.exists() else 0
        headers = {"Accept-Encoding": "identity"}  # the file as it is, so that bytes can be counted
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
            if reply.status_code == NOTHING_LEFT:  # not a part of what the server has now
                self.partial.unlink()
                return self(url, output_file, pooch)
            reply.raise_for_status()
            self._receive(reply, have if reply.status_code == PART_ONLY else 0)
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


def _unpack(source: Source, came: Path, temporary: Path) -> None:
    """Move what came, or its one member, to ``temporary``, read through if nothing vouches."""
    if source.member is None:
        os.replace(came, temporary)
    else:
        temporary.write_bytes(_member(source, source.member, came))
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


def _member(source: Source, name: str, came: Path) -> bytes:
    try:
        with zipfile.ZipFile(came) as archive:
            return archive.read(name)
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
    """What went wrong, without the layers of a network library around it."""
    text = type(error).__name__ if error.strerror is None else error.strerror
    status = getattr(getattr(error, "response", None), "status_code", None)
    return text if status is None else f"HTTP {status}"
