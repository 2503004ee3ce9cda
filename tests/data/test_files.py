"""Where files are found, how they are fetched, and what is left behind when that fails."""

from __future__ import annotations

import errno
import hashlib
import io
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from data_helpers import Server, beijing_rows, make_beijing, make_mnist

from torchfru.data import DataError, available, load, verify
from torchfru.data import beijing as beijing_module
from torchfru.data import mnist as mnist_module
from torchfru.data.files import (
    Source,
    cache_folder,
    download,
    find,
    locate,
    prepared,
)
from torchfru.io import replacing

CONTENT = np.random.default_rng(0).bytes(300_000)


def check(path: Path) -> str:
    if path.read_bytes() != CONTENT:
        raise DataError(f"{path}: not what it should be; delete it")
    return "sum"


@pytest.fixture
def server():
    with Server(CONTENT) as running:
        yield running


@pytest.fixture
def source(server):
    checksum = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    return Source("folder", "file.bin", server.url, check, checksum)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCHFRU_DATA", raising=False)
    monkeypatch.setenv("TORCHFRU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put(folder: Path, content: bytes = b"mine") -> Path:
    path = folder / "folder" / "file.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def files(folder: Path) -> list[str]:
    """All files, but for the lock that keeps two downloads apart."""
    found = (path.name for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if name != "download.lock")


def test_the_order_of_places(tmp_path, monkeypatch, source, server, cache):
    fetched = locate(source)
    assert fetched == cache / "downloads" / "folder" / "file.bin"
    assert fetched.read_bytes() == CONTENT
    assert locate(source) == fetched
    assert len(server.asked) == 1  # once is enough

    from_environment = put(tmp_path / "environment")
    monkeypatch.setenv("TORCHFRU_DATA", str(tmp_path / "environment"))
    assert locate(source) == from_environment
    from_argument = put(tmp_path / "argument")
    assert locate(source, tmp_path / "argument") == from_argument
    (tmp_path / "empty").mkdir()
    assert locate(source, tmp_path / "empty") == fetched  # the argument replaces the variable


def test_find_fetches_nothing(source, server):
    assert find(source) is None
    assert not server.asked


def test_a_data_folder_that_is_none(tmp_path, monkeypatch, source):
    with pytest.raises(DataError, match="nowhere: the data folder is not a folder"):
        find(source, tmp_path / "nowhere")
    monkeypatch.setenv("TORCHFRU_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="nowhere: TORCHFRU_DATA is not a folder"):
        find(source)


def test_the_cache_folder(tmp_path, monkeypatch):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("TORCHFRU_CACHE")
    assert cache_folder().name == "torchfru"
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(DataError, match="set TORCHFRU_CACHE to a folder, or pip install"):
        cache_folder()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_is_resumed(cache, source, server, ranges):
    server.stop_after, server.ranges = 100_000, ranges
    with pytest.raises(DataError, match=r"folder/file\.bin: cannot be fetched from http") as error:
        locate(source)
    assert "run again, or put the file into a folder as folder/file.bin" in str(error.value)
    assert "\n" not in str(error.value)
    assert files(cache) == ["file.bin.part"]  # never taken for the file itself
    assert find(source) is None
    part = cache / "downloads" / "folder" / "file.bin.part"
    have = part.stat().st_size
    assert 0 < have <= 100_000

    server.stop_after = None
    assert locate(source).read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={have}-"]
    assert files(cache) == ["file.bin"]


def test_a_part_longer_than_the_file(cache, source):
    part = cache / "downloads" / "folder" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT + b"more")
    assert locate(source).read_bytes() == CONTENT
    assert files(cache) == ["file.bin"]


def test_a_part_of_another_file(cache, source):
    """The checksum finds it out, nothing is kept, and the next try is a fresh one."""
    part = cache / "downloads" / "folder" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"another file's beginning")
    with pytest.raises(DataError, match=r"sent another file .its checksum differs"):
        locate(source)
    assert files(cache) == []
    assert locate(source).read_bytes() == CONTENT


def test_no_network(cache, source):
    unreachable = replace(source, url="http://127.0.0.1:9/file")
    with pytest.raises(DataError, match=r"127.0.0.1:9/file \(ConnectionError\); check the network"):
        locate(unreachable)
    assert files(cache) == []


def test_an_address_that_is_gone(cache, source, server):
    server.content = b""  # every request is answered with an error
    with pytest.raises(DataError, match=r"\(HTTP 404\); check the network"):
        locate(source)
    assert files(cache) == []


def test_without_the_packages(cache, source, monkeypatch):
    from torchfru.data import files as module

    monkeypatch.setattr(module, "PACKAGES", ("requests", "no_such_package"))
    with pytest.raises(DataError, match=r"needs no_such_package: pip install 'torchfru\[train\]'"):
        locate(source)


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch, source):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCHFRU_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="cannot be fetched"):
        locate(source)
    with pytest.raises(DataError, match=r"cannot be written .* another folder with TORCHFRU_CACHE"):
        prepared("x", {}, lambda: {"a": np.zeros(1)})


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_a_member_of_a_zip(cache, source, server):
    server.content = zipped(inside=CONTENT)
    packed = replace(source, checksum=None, member="inside")
    assert locate(packed).read_bytes() == CONTENT
    assert files(cache) == ["file.bin"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped(other=CONTENT), "no zip with inside.; nothing was kept"),
        (b"<html>Service unavailable</html>", "no zip with inside"),
        (zipped(inside=CONTENT)[:-50], "no zip with inside"),
        (zipped(inside=CONTENT[:-1]), r"sent another file \(not what it should be\)"),
    ],
)
def test_a_download_without_a_known_checksum_is_read_through(
    cache, source, server, content, message
):
    server.content = content
    with pytest.raises(DataError, match=message):
        locate(replace(source, checksum=None, member="inside"))
    assert files(cache) == []


def test_two_at_once_fetch_once(cache, server, source):
    with ThreadPoolExecutor() as pool:
        paths = list(pool.map(partial(download, source), [cache, cache]))
    assert len(server.asked) == 1
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == CONTENT


def test_a_full_disk(cache, source, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match=r"cannot be written \(No space left.* with TORCHFRU_CACHE"):
        locate(source)
    assert files(cache) == []
    with pytest.raises(DataError, match=r"cannot be written \(No space left.* with TORCHFRU_CACHE"):
        prepared("thing", {}, lambda: {"numbers": np.arange(5)})


def test_replacing_is_all_or_nothing(tmp_path):
    path = tmp_path / "new" / "file"
    with replacing(path) as temporary:
        temporary.write_text("first")
        assert not path.exists()
    with pytest.raises(AttributeError), replacing(path) as temporary:
        (temporary.write_text("half"), temporary.no_such_thing())
    assert path.read_text() == "first"
    assert files(tmp_path) == ["file"]


def test_prepared_forms(cache):
    built = []

    def build():
        built.append(1)
        return {"numbers": np.arange(5, dtype=np.uint16), "words": np.array(["a", "bc"])}

    def make(**key):
        return prepared("thing", {"version": 1, **key}, build)

    first, second = make(), make()
    assert len(built) == 1
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array)
        assert second[name].dtype == array.dtype
    make(length=3)
    assert len(built) == 2
    assert len(files(cache)) == 2


@pytest.mark.parametrize("spoil", [lambda b: b[:-30], lambda b: b"", lambda b: b[:200] + b"x" * 99])
def test_a_damaged_prepared_form_is_made_again(cache, spoil):
    def make():
        return prepared("thing", {}, lambda: {"a": np.arange(100)})

    make()
    path = next((cache / "prepared").glob("thing-*.npz"))
    path.write_bytes(spoil(path.read_bytes()))
    np.testing.assert_array_equal(make()["a"], np.arange(100))
    np.testing.assert_array_equal(np.load(path)["a"], np.arange(100))


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


def test_a_prepared_form_cannot_run_code(cache, capsys):
    def make():
        return prepared("thing", {}, lambda: {"a": np.arange(3)})

    make()
    path = next((cache / "prepared").glob("thing-*.npz"))
    np.savez(path, a=np.array([Evil()]))
    np.testing.assert_array_equal(make()["a"], np.arange(3))
    assert "never run" not in capsys.readouterr().out


def test_a_failed_preparation_leaves_nothing(cache):
    def fail():
        raise DataError("bad")

    with pytest.raises(DataError):
        prepared("thing", {}, fail)
    assert not cache.exists() or files(cache) == []


def test_mnist_by_download(tmp_path, monkeypatch, cache):
    """From the official address's checksums to a data set, without a data folder."""
    make_mnist(tmp_path / "there", monkeypatch)
    originals = {path.name: path.read_bytes() for path in (tmp_path / "there").rglob("*.gz")}
    assert not available("pixel-mnist")
    with Server(b"-") as running:
        monkeypatch.setattr(mnist_module, "URL", running.url.removesuffix("file"))
        running.by_name = originals
        data = load("pixel-mnist")
        assert len(running.asked) == 4
        load("permuted-mnist")
        assert len(running.asked) == 4
    assert len(data.train) == 12
    assert available("permuted-mnist")
    assert [found.problem for found in verify("pixel-mnist")] == [None] * 4
    assert files(cache) == sorted(originals)


def test_beijing_by_download(tmp_path, monkeypatch, cache):
    path = make_beijing(tmp_path / "there", monkeypatch, beijing_rows())
    with Server(zipped(**{path.name: path.read_bytes()})) as running:
        monkeypatch.setattr(beijing_module, "URL", running.url)
        assert load("beijing", end=2010).seq_len == 168
    assert files(cache) == [path.name]


def test_verify_says_what_is_wrong(tmp_path, monkeypatch):
    make_mnist(tmp_path, monkeypatch)
    damaged = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    found = {c.source.name: c for c in verify("pixel-mnist", data_dir=tmp_path)}
    assert found["train-images-idx3-ubyte.gz"].sha256 == mnist_module.FILES[0].sha256
    assert found["train-labels-idx1-ubyte.gz"].path is None
    assert found["t10k-labels-idx1-ubyte.gz"].problem.startswith(f"{damaged}: damaged or cut short")
    assert not available("pixel-mnist", data_dir=tmp_path)


def test_verify_of_what_needs_no_files():
    assert verify("mix-sin") == []
    assert available("mix-sin")
    with pytest.raises(ValueError, match="did you mean 'imdb'"):
        verify("imbd")
