"""Generated inputs that a command must refuse: one line, nothing written, nothing hung."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import socket
import zipfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

GOOD_CSV = "label,a,b,c\n" + "".join(f"{'xy'[i % 2]},{i},{i}.5,-{i}\n" for i in range(12))
GOOD_NPZ = {
    "sequences": np.arange(36.0).reshape(12, 3),
    "labels": np.arange(12) % 2,
    "lengths": np.full(12, 3),
}
Files = Iterator[tuple[str, bytes]]  # a name that says what is wrong, and a content


class Evil:
    """A pickle that would leave a trace if it were loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("pickle-was-run",))


def csv_files() -> Files:
    """Tables that are no tables of numbers, whatever is tried with them."""
    cells = ["nan", "NaN", "inf", "-inf", "1e39", "1e999", "-1e400", "", " ", "x", "1_0", "0x1F"]
    cells += ["1,5", "1;5", "1\t5", "1e", "--1", "1.2.3", "\x00", "1\x00", "\x1b[31m1", "[red]1[/]"]
    cells += ["\u0661", "\uff11", "\u200b1", "\u202e1", "None", "NULL", "TRUE", "1 2", "$1", "50%"]
    cells += ["2024-01-01", "=1+1", "9" * 400, "1" * 140_000, "'1'", '"', '"1', "\U0001f600", "1j"]
    for number, cell in enumerate(cells):
        text = GOOD_CSV.replace("\nx,2,2.5,", f"\nx,2,{cell},")
        yield f"cell{number}", text.encode()
    for code in ("utf-16", "utf-16-le", "utf-32"):
        yield f"encoding-{code}", GOOD_CSV.encode(code)
    yield "latin1", GOOD_CSV.replace("a,b", "\u00e4,b").encode("latin-1")
    texts = {
        "empty": "",
        "blank": "\n\n\n",
        "spaces": "   \n",
        "bom-only": "\ufeff",
        "header-only": "label,a,b,c\n",
        "semicolons-below": "label,a,b,c\n" + GOOD_CSV.partition("\n")[2].replace(",", ";"),
        "tabs-below": "label,a,b,c\n" + GOOD_CSV.partition("\n")[2].replace(",", "\t"),
        "both-points": GOOD_CSV.replace(",", ";").replace("2.5", "2,5", 1),
        "ragged": GOOD_CSV + "x,1\n",
        "ragged-more": GOOD_CSV + "x,1,2,3,4\n",
        "blank-line": GOOD_CSV.replace("\nx,2", "\n\nx,2"),
        "double-names": GOOD_CSV.replace("a,b,c", "a,a,c"),
        "no-name": GOOD_CSV.replace("a,b,c", "a,,c"),
        "open-quote": GOOD_CSV + '"x,1,2,3\n',
        "bad-quote": GOOD_CSV + '"x"y,1,2,3\n',
        "html": "<html><body>404</body></html>",
        "json": '{"label": [1], "a": [2]}',
        "nul": "\x00" * 5000,
        "no-values": "label,a,b,c\nx,,,\ny,,,\n",
        "gap": GOOD_CSV + "x,,1,2\n",
        "only-commas": ",,,\n,,,\n",
        "control-name": GOOD_CSV.replace("a,b,c", "a\x1b]0;title\x07,b,c").replace("2.5", "bad"),
        "markup-name": GOOD_CSV.replace("a,b,c", "a,[/bold],c").replace("2.5", "bad"),
        "many-columns": ",".join(f"c{i}" for i in range(5000)) + "\n" + "1," * 4999 + "z\n",
    }
    for name, text in texts.items():
        yield name, text.encode()
    make = random.Random(0)
    for number in range(12):
        yield f"noise{number}", bytes(make.randrange(256) for _ in range(make.randrange(1, 4000)))


def label_files() -> Files:
    """Tables whose labels are wrong: for training only."""
    rows = [["1", "1.0"], ["0.5", "1"], ["", "x"], [" ", "x"], ["x", "x"], ["nan", "x x"][:1] * 2]
    for number, (first, second) in enumerate(rows):
        labels = [first, second] * 6
        yield f"labels{number}", "\n".join(["label,a", *(f"{v},1" for v in labels)]).encode()
    yield "Label", GOOD_CSV.replace("label", "Label").encode()
    yield "one-row", b"label,a\nx,1\n"


def npz_bytes(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def with_header(text: str, content: bytes = b"\0" * 80) -> bytes:
    """An archive with one array whose header is this text."""
    header = text.encode("latin-1") + b"\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("sequences.npy", array)
    return file.getvalue()


def npz_files() -> Files:
    """Archives that hold no sequences of finite numbers, whatever is tried with them."""
    x = GOOD_NPZ["sequences"]
    wrong: dict[str, Any] = {
        "nan": np.where(x == 7, np.nan, x),
        "inf": np.where(x == 7, np.inf, x),
        "large": np.where(x == 7, 1e39, x),
        "longdouble": np.where(x == 7, np.longdouble("1e400"), x),
        "text": x.astype(str),
        "bytes": x.astype("S4"),
        "complex": x + 1j,
        "dates": np.full(x.shape, np.datetime64("2020-01-01")),
        "durations": np.full(x.shape, np.timedelta64(1, "s")),
        "record": np.zeros((12, 3), [("a", "f4"), ("b", "f4")]),
        "void": np.zeros((12, 3), "V4"),
        "objects": np.array([[Evil()] * 3] * 12),
        "no-rows": np.zeros((0, 3)),
        "no-steps": np.zeros((12, 0)),
        "no-channels": np.zeros((12, 3, 0)),
        "flat": np.zeros(12),
        "scalar": np.array(1.0),
        "four": np.zeros((12, 3, 1, 1)),
    }
    for name, values in wrong.items():
        yield f"sequences-{name}", npz_bytes(**{**GOOD_NPZ, "sequences": values})
    n = np.full(12, 3)
    lengths: dict[str, Any] = {
        "fractional": n + 0.5,
        "floats": n * 1.0,
        "zero": n * 0,
        "negative": -n,
        "too-long": n + 1,
        "huge": np.full(12, 2**63, np.uint64),
        "few": n[:5],
        "square": np.stack([n, n]),
        "text": n.astype(str),
        "nan": n * np.nan,
        "bool": n > 0,
        "objects": np.array([Evil()] * 12),
    }
    for name, values in lengths.items():
        yield f"lengths-{name}", npz_bytes(**{**GOOD_NPZ, "lengths": values})
    yield "nothing", npz_bytes()
    yield "other-name", npz_bytes(x=x)
    yield "markup-name", npz_bytes(**{"[red]x[/]\x1b[2J": x})
    yield from _headers()
    yield from _not_archives()


def _headers() -> Files:
    shapes = ("(10**9,)", "(99, 3)", "(-1, 3)", "(1000000000, 1000000000)", "('a',)", "(1.5, 2)")
    for number, shape in enumerate(shapes):
        yield (
            f"shape{number}",
            with_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"),
        )
    for number, kind in enumerate(("'|O'", "'<f3'", "'zzz'", "5", "[('a', '<f8')]", "'<U0'")):
        yield (
            f"descr{number}",
            with_header(f"{{'descr': {kind}, 'fortran_order': False, 'shape': (10,), }}"),
        )
    texts = ("", "{}", "__import__('os').mkdir('pickle-was-run')", "[" * 3000, "{'shape': (1,)}")
    for number, text in enumerate(texts):
        yield f"header{number}", with_header(text)
    yield "no-magic", with_header("x").replace(b"NUMPY", b"NUMPI")


def _not_archives() -> Files:
    good = npz_bytes(**GOOD_NPZ)
    yield "empty", b""
    yield "disguised", pickle.dumps(Evil())
    plain = io.BytesIO()
    np.save(plain, GOOD_NPZ["sequences"])
    yield "npy", plain.getvalue()
    yield "text", b"PK but not an archive"
    for part in range(1, 12):
        yield f"cut{part}", good[: len(good) * part // 12]
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }\n"
        start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        archive.writestr("sequences.npy", start + b"\0" * (1 << 24))
    yield "bomb", bomb.getvalue()
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive:
        for name in ("sequences.npy", "sequences"):
            archive.writestr(name, plain.getvalue())
    yield "twice", twice.getvalue()
    locked = bytearray(good)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[good.index(mark) + place] |= 1  # says that it needs a password
    yield "password", bytes(locked)


def flipped(content: bytes, count: int, seed: int) -> Files:
    """The content with a byte changed, and with a piece removed."""
    make = random.Random(seed)
    for number in range(count):
        place = make.randrange(len(content))
        spoiled = bytearray(content)
        spoiled[place] ^= 1 << make.randrange(8)
        yield f"flip{number}", bytes(spoiled)
    for number in range(count // 4):
        first = make.randrange(len(content))
        yield f"hole{number}", content[:first] + content[first + make.randrange(1, 200) :]


def npz_labels() -> Files:
    """Archives whose labels are wrong: for training only."""
    labels: dict[str, Any] = {
        "missing": None,
        "fractional": np.arange(12) / 2,
        "nan": np.full(12, np.nan),
        "infinite": np.full(12, np.inf),
        "one-class": np.zeros(12),
        "few": np.arange(5),
        "square": np.zeros((12, 2)),
        "complex": np.arange(12) * 1j,
        "dates": np.full(12, np.datetime64("2020-01-01")),
        "empty-names": np.array(["", "x"] * 6),
        "not-utf8": np.array([b"\xff", b"x"] * 6),
        "mixed": np.array([1, "x"] * 6, dtype=object),
        "objects": np.array([Evil()] * 12),
    }
    for name, values in labels.items():
        arrays = {**GOOD_NPZ, "labels": values}
        if values is None:
            del arrays["labels"]
        yield f"labels-{name}", npz_bytes(**arrays)


def parquet_files() -> Files:
    import pyarrow
    from pyarrow.parquet import write_table

    def table(**columns: Any) -> bytes:
        file = io.BytesIO()
        write_table(pyarrow.table(columns), file)
        return file.getvalue()

    label, good = ["x", "y"] * 6, list(range(12))
    content = table(label=label, a=good, b=good)
    for part in range(1, 10):
        yield f"cut{part}", content[: len(content) * part // 10]
    yield "empty", b""
    yield "magic-only", b"PAR1" * 4
    yield "csv", GOOD_CSV.encode()
    yield "text-cells", table(label=label, a=["x"] * 12)
    yield "nan", table(label=label, a=[float("nan"), *good[1:]], b=good)
    yield "gap", table(label=label, a=[None, *good[1:]], b=good)
    yield "large", table(label=label, a=[1e39, *map(float, good[1:])])
    yield "dates", table(label=label, a=[date(2020, 1, 1)] * 12)
    yield "structs", table(label=label, a=[{"x": 1}] * 12)
    yield "empty-lists", table(label=label, a=[[]] * 12)
    yield "null-lists", table(label=label, a=[[1.0], None] * 6)
    yield "deep-lists", table(label=label, a=[[[1.0]]] * 12)
    yield "text-lists", table(label=label, a=[["x"]] * 12)
    yield "nan-lists", table(label=label, a=[[float("nan")]] * 12)
    yield "null-in-list", table(label=label, a=[[1.0, None]] * 12)
    yield "no-columns", table(label=label)
    yield "no-rows", table(label=pyarrow.array([], "string"), a=pyarrow.array([], "float64"))


def records(good: dict[str, Any]) -> Files:
    """Records with one field spoiled, and files that are no records at all."""
    values: list[Any] = [None, 1.5, "x", [], {}, [1], {"x": 1}, True, -1, 1e308, "\x1b[2J[red]"]
    for field in ("experiment", "model", "seed", "config", "parameters", "status", "epochs"):
        for number, value in enumerate(values):
            yield f"{field}{number}", json.dumps({**good, field: value}).encode()
    for field in ("seconds", "diverged", "measurements", "split", "data", "hardware", "versions"):
        for number, value in enumerate(("x", [1], 3, {"x": [1]})):
            yield f"{field}{number}", json.dumps({**good, field: value}).encode()
    epoch = [{"epoch": "x"}, {"test_accuracy": [1]}, {"train_loss": "low"}, {"seconds": {}}, "x", 1]
    for number, row in enumerate(epoch):
        yield f"epoch{number}", json.dumps({**good, "epochs": [row]}).encode()
    text = json.dumps(good)
    for part in range(10):
        yield f"cut{part}", text[: len(text) * part // 10].encode()
    yield "infinite", text.replace('"seed": 0', '"seconds": 1e999, "seed": 0').encode()
    yield "nan", text.replace('"seed": 0', '"seconds": NaN, "seed": 0').encode()
    yield from (
        ("deep", b"[" * 200_000),
        ("utf16", text.encode("utf-16")),
        ("latin1", b'{"experiment": "\xff"}'),
        ("list", b"[]"),
        ("number", b"3"),
        ("null", b"null"),
        ("nul", b"\0" * 100),
        ("digits", b"9" * 10_000),
    )


def not_files(folder: Path, suffix: str) -> Iterator[tuple[str, Path]]:
    """Paths that are no regular files; opening some of them would block."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {
        name: folder / f"{name}{suffix}" for name in ("pipe", "folder", "loop", "gone", "socket")
    }
    os.mkfifo(paths["pipe"])
    paths["folder"].mkdir()
    paths["loop"].symlink_to(paths["loop"])
    paths["gone"].symlink_to(folder / "nowhere")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder)  # the name of a socket has at most 108 bytes
        server.bind(paths["socket"].name)
        os.chdir(here)
    paths["zero"] = folder / f"zero{suffix}"
    paths["zero"].symlink_to("/dev/zero")
    paths["pipe-link"] = folder / f"pipe-link{suffix}"
    paths["pipe-link"].symlink_to(paths["pipe"])
    paths["missing"] = folder / f"missing{suffix}"
    paths["long"] = folder / f"{'x' * 300}{suffix}"
    paths["below-a-file"] = Path(__file__) / f"x{suffix}"
    yield from paths.items()
