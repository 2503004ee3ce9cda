"""Writing files: whole or not at all, and nothing left behind."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from torchfru.io import WriteError, remove_leftovers, replacing, write_atomically


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_writers_of_one_file_do_not_share_a_temporary_one(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the outer block ends last
    assert files(tmp_path) == ["file"]


def test_the_file_can_be_read_by_whom_the_user_allows(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.fixture
def _small_files():
    """No file may grow beyond 1,000 bytes: the kernel cuts a write short, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("_small_files")
def test_a_write_that_is_cut_short_names_the_file_and_leaves_the_old_one(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, "old")
    with pytest.raises(WriteError, match=rf"^{path}: cannot be written \(File too large\); free"):
        write_atomically(path, "new" * 1000)
    assert path.read_text() == "old"
    assert files(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["os.fsync", "os.replace", "pathlib.Path.write_bytes"])
def test_a_full_disk_names_the_file_and_leaves_nothing_behind(tmp_path, monkeypatch, step):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(step, full)
    with pytest.raises(WriteError, match=r"file: cannot be written \(No space left on device"):
        write_atomically(tmp_path / "file", "new")
    assert files(tmp_path) == []


def test_the_folder_is_synced_after_the_rename(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace

    def noted_sync(handle):
        done.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    monkeypatch.setattr("os.fsync", noted_sync)
    monkeypatch.setattr("os.replace", lambda *names: done.append("rename") or replace(*names))
    write_atomically(tmp_path / "file", "new")
    assert done[0].endswith(".tmp")
    assert done[1:] == ["rename", str(tmp_path)]


def test_other_errors_in_the_block_stay_as_they_are(tmp_path):
    with pytest.raises(ConnectionResetError), replacing(tmp_path / "file"):
        raise ConnectionResetError(errno.ECONNRESET, "reset")
    assert files(tmp_path) == []


def test_what_a_killed_writer_left_is_removed(tmp_path):
    for name in (".file-12-ab.tmp", ".other-12-ab.tmp"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "file")
    assert files(tmp_path) == [".other-12-ab.tmp"]
