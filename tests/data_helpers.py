"""Small files in the layouts of the real ones, and a server that can break off."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import struct
import tarfile
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np

from torchfru.data import beijing, imdb, mnist

SMALL_MNIST = {"train": 12, "t10k": 3}
SMALL_IMDB = 3  # reviews of each class in each part
SMALL_HOURS = 24 * 365 + 48  # 2010 and two days more


def idx_bytes(array: np.ndarray, magic: int) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.tobytes()


def make_mnist(folder: Path, monkeypatch) -> dict[str, bytes]:
    """Four small files, their table in the module, and the content of each."""
    rng, contents, table = np.random.default_rng(0), {}, []
    (folder / "mnist").mkdir(parents=True)
    for file in mnist.FILES:
        shape = (SMALL_MNIST[file.name.split("-")[0]], *file.shape[1:])
        array = rng.integers(0, 256 if len(shape) == 3 else 10, shape, dtype=np.uint8)
        contents[file.name] = content = idx_bytes(array, file.magic)
        packed = gzip.compress(content)
        (folder / "mnist" / f"{file.name}.gz").write_bytes(packed)
        sums = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "md5": hashlib.md5(packed).hexdigest(),
        }
        table.append(replace(file, shape=shape, **sums))
    monkeypatch.setattr(mnist, "FILES", tuple(table))
    return contents


def small_reviews() -> dict[str, bytes]:
    texts = {"neg": "A dull film, number {}.<br />Don't!", "pos": "Great film! {} times great"}
    return {
        f"aclImdb/{part}/{label}/{i}_{i + 1}.txt": text.format(i).encode()
        for part in ("train", "test")
        for label, text in texts.items()
        for i in range(SMALL_IMDB)
    }


def make_imdb(folder: Path, monkeypatch, reviews: dict[str, bytes], extra=()) -> Path:
    """An archive of reviews, in the given order, with further members if need be."""
    monkeypatch.setattr(imdb, "PER_CLASS", SMALL_IMDB)
    archive = folder / "imdb" / "aclImdb_v1.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in reviews.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return archive


def beijing_rows() -> list[str]:
    times = np.datetime64("2010-01-01T00") + np.arange(SMALL_HOURS)
    rows = ["No,year,month,day,hour,pm,DEWP,TEMP,PRES,cbwd,Iws,Is,Ir"]
    for i, time in enumerate(times):
        year, month, day, hour = (int(part) for part in re.split(r"[-T]", str(time)))
        rows.append(f"{i + 1},{year},{month},{day},{hour},NA,-21,{i % 24},1021,NW,1.79,0,0")
    return rows


def make_beijing(folder: Path, monkeypatch, rows: list[str]) -> Path:
    monkeypatch.setattr(beijing, "HOURS", SMALL_HOURS)
    path = folder / "beijing" / beijing.NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")
    return path


class Server:
    """Serves one content at any address; ``stop_after`` breaks off after so many bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.stop_after: int | None = None
        self.ranges = True  # whether it knows the Range header
        self.by_name: dict[str, bytes] = {}  # contents for certain names, if any
        self.asked: list[str | None] = []  # the Range header of each request
        handler = partial(_Handler, self)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file"

    def __enter__(self) -> Server:
        Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.shutdown()
        self.http.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server: Server, *arguments) -> None:
        self.state = server
        super().__init__(*arguments)

    def do_GET(self) -> None:
        asked, state = self.headers["Range"], self.state
        state.asked.append(asked)
        content = state.by_name.get(self.path.rpartition("/")[2], state.content)
        first = int(asked[6:-1]) if asked and state.ranges else 0
        if first >= len(content):
            self.send_error(416 if content else 404)
            return
        body = content[first:]
        self.send_response(206 if asked and state.ranges else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: state.stop_after])

    def log_message(self, *arguments) -> None:
        pass
