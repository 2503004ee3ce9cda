"""Files checked before they are read and written as a whole, and text that is safe to print."""

from __future__ import annotations

import difflib
import errno
import hashlib
import json
import math
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

BLOCK = 1 << 20  # bytes read at once

# Errors of a disk that refuses a write; other errors inside the block are not about the file.
_NAMES = ("EACCES", "EDQUOT", "EEXIST", "EFBIG", "EIO", "ENAMETOOLONG", "ENOSPC", "ENOTDIR")
FILE_ERRORS = {getattr(errno, name, 0) for name in (*_NAMES, "EPERM", "EROFS")}


class WriteError(OSError):
    """A file that the disk refuses to take: the message names it."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a crash at any moment leaves either the old or the new content."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place if the block succeeds.

    An error of the file system, such as a full disk, names ``path`` and leaves nothing behind.
    """
    temporary = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        yield temporary
        _sync(temporary, os.O_RDWR)
        os.replace(temporary, path)
        if os.name != "nt":  # Windows cannot open a folder
            with suppress(OSError):  # some network disks cannot sync one
                _sync(path.parent, os.O_RDONLY)  # or a power cut can undo the rename
    except OSError as error:
        if error.errno not in FILE_ERRORS:
            raise
        raise WriteError(
            f"{path}: cannot be written ({error.strerror}); free some space there, or choose "
            "another folder"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def require_writable(name: str, folder: Path) -> None:
    """Refuse a folder in which no file can be made, before any work is done for one.

    A folder that is not there yet is judged by the nearest one above it that is. ``name`` is that
    of the option that chooses another folder.
    """
    there = folder.absolute()
    try:
        while not there.exists():
            there = there.parent
        with tempfile.TemporaryFile(dir=there):
            pass
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise WriteError(
            f"{folder}: cannot be written ({reason(error)}); choose another folder with {name}, or "
            f"change the permissions of {there}"
        ) from None


def file_problem(path: Path) -> str | None:
    """Why a path is not opened, with what to do; None for a regular file.

    Opening a pipe or a device can block for ever, so only regular files are opened.

    >>> file_problem(Path("."))
    'this is a folder, not a file; give the path of a file'
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "no such file; check the path"
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        return f"cannot be opened ({reason(error)}); check the path and its permissions"
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "this is a folder, not a file; give the path of a file"
    return "this is a pipe or a device, not a regular file; copy its content to a file first"


def reason(error: BaseException) -> str:
    """The system's words for an error, without its number."""
    words = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return words or type(error).__name__


def printable(text: object) -> str:
    r"""A text on one line, with control characters shown instead of sent to the terminal.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def from_json(kind: type[T], stored: Any) -> T:
    """A dataclass from a JSON object; a ValueError says which entry is missing or wrong.

    Entries that the class does not have are left out: another version may have written them.
    """
    if not isinstance(stored, dict):
        raise ValueError("it holds no JSON object")
    known: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]
    required = {f.name for f in known if f.default is MISSING and f.default_factory is MISSING}
    if missing := required - set(stored):
        raise ValueError(f"it has no {', '.join(sorted(missing))}")
    hints = get_type_hints(kind)
    return kind(
        **{f.name: _entry(f.name, stored[f.name], hints) for f in known if f.name in stored}
    )


def _entry(name: str, value: Any, hints: dict[str, Any]) -> Any:
    try:
        return typed(value, hints[name])
    except ValueError:
        text = json.dumps(value, default=str)
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise ValueError(f"its {name} cannot be {shown}") from None


def typed(value: Any, hint: Any) -> Any:
    """A value of a JSON file as the type of a field, or a ValueError; numbers must be finite.

    A list may become a tuple, and an object a dataclass.
    """
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        for argument in arguments:
            with suppress(ValueError):
                return typed(value, argument)
        fits = False
    elif is_dataclass(kind):
        return from_json(hint, value)
    elif kind in (list, tuple) and isinstance(value, list | tuple):
        return kind(typed(item, arguments[0]) for item in value)
    elif kind is dict and isinstance(value, dict):
        return {key: typed(item, arguments[1]) for key, item in value.items()}
    elif kind is Literal:
        fits = isinstance(value, str) and value in arguments
    elif kind is not Any:
        fits = isinstance(value, (int, float) if kind is float else kind)
        fits = fits and (kind is bool or not isinstance(value, bool))
    else:
        fits = True
    if not (fits and _is_finite(value)):
        raise ValueError(f"{value!r:.40} is not of the type {hint}")
    return value


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def remove_leftovers(path: Path) -> None:
    """Delete the temporary files of writers that were killed. Only for the one writer of a file."""
    for leftover in path.parent.glob(f".{path.name}-*.tmp"):
        leftover.unlink(missing_ok=True)


def file_digest(path: Path, kind: str = "sha256") -> str:
    """The SHA-256 of a file, or another digest of :mod:`hashlib`."""
    digest = hashlib.new(kind)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message about a wrong name.

    >>> did_you_mean("pixel-mnst", ["imdb", "pixel-mnist"])
    "did you mean 'pixel-mnist'?"
    >>> did_you_mean("x", ["imdb", "pixel-mnist"])
    'choose one of imdb, pixel-mnist'
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
