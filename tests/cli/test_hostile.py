"""Hostile inputs: no traceback, no hang, no silent acceptance, nothing half-written.

``make test`` runs a fixed sample; ``make test-long`` runs all of them.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import pytest
import torch
from report_helpers import make_results
from typer.testing import CliRunner, Result

from torchfru import cli
from torchfru.cli.common import message_of
from torchfru.data import load
from torchfru.training.checkpoint import Checkpoint

SECONDS = 20  # a case that takes longer hangs
SAMPLE = 150
# What Python and its libraries say, which is not for users.
RAW = re.compile(
    r"Errno|Traceback|object has no attribute|invalid literal|codec can't|NoneType|positional arg"
    r"|unexpected keyword|Expecting value|is a fault of torchfru|could not convert|ArrowInvalid"
    r"|BadZipFile|not supported between|list index|KeyError|pickle|deserializ|state_dict|Header"
    r"|fault of torchfru"
)


@dataclass
class Case:
    """A command that is given a hostile file; ``judge`` may allow other ends than a refusal."""

    name: str
    arguments: list[str]
    path: Path
    content: bytes | None = None  # None: it is there already
    judge: Callable[[Result], str | None] | None = None


@contextmanager
def time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"hangs for {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def tree(folder: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_size for path in sorted(folder.rglob("*"))}


def run(case: Case, folder: Path) -> str | None:
    """The fault in how a command ended, or None."""
    if case.content is not None:
        case.path.parent.mkdir(parents=True, exist_ok=True)
        case.path.write_bytes(case.content)
    before = tree(folder)
    with time_limit():
        result = CliRunner().invoke(cli.app, case.arguments)
    after = tree(folder)
    if case.content is not None:
        case.path.unlink()
    if before != after:
        return f"left behind: {set(after.items()) ^ set(before.items())}"
    if "\x1b" in result.output or "\x07" in result.output:
        return f"control characters reach the terminal: {result.output!r}"
    return (case.judge or refused(case))(result)


def refused(case: Case) -> Callable[[Result], str | None]:
    def judge(result: Result) -> str | None:
        if result.exit_code == 0:
            return f"accepted: {result.output[:200]}"
        if not isinstance(result.exception, Exception):
            return None if result.exit_code == 2 else f"ends with {result.exception!r}"
        message = message_of(result.exception)
        if isinstance(result.exception, TimeoutError) or RAW.search(message):
            return f"says {message[:300]}"
        name = re.sub(r"\W", "", case.path.stem)[:20]
        if name not in re.sub(r"\W", "", message) and case.path.stem not in message:
            return f"does not name the file: {message[:300]}"
        return None

    return judge


def refused_or(case: Case, check: Callable[[Result], bool]) -> Callable[[Result], str | None]:
    """A change that the format does not protect may be harmless: then nothing is different."""

    def judge(result: Result) -> str | None:
        if result.exit_code == 0:
            return None if check(result) else f"accepted: {result.output[:200]}"
        return refused(case)(result)

    return judge


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with models that were trained on good files."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "good.csv").write_text(hostile.GOOD_CSV)
    np.savez(folder / "good.npz", **hostile.GOOD_NPZ)
    for name in ("csv", "npz"):
        small = ["--set", "model.hidden_size=4", "--set", "training.batch_size=6"]
        where = ["--results", str(folder / name / "results"), "--accelerator", "cpu"]
        done = CliRunner().invoke(
            cli.app,
            ["train", str(folder / f"good.{name}"), "--model=gru", "--epochs=1", *where, *small],
        )
        assert done.exit_code == 0, done.exception
    return folder


def checkpoint_of(place: Path, kind: str) -> Path:
    (path,) = (place / kind / "checkpoints").rglob("last.safetensors")
    return path


def training(path: Path, place: Path) -> list[str]:
    fixed = ["--model", "gru", "--epochs", "1", "--accelerator", "cpu"]
    return ["train", str(path), *fixed, "--results", str(place / "none" / "results")]


def predicting(model: Path, path: Path) -> list[str]:
    return ["predict", str(model), "--input", str(path), "--json"]


def file_cases(place: Path) -> Iterator[Case]:
    """Tables and arrays, for training, loading and predicting."""
    bad = place / "bad"
    both = (
        (".csv", hostile.csv_files(), "csv"),
        (".npz", hostile.npz_files(), "npz"),
        (".parquet", hostile.parquet_files(), "csv"),
    )
    for suffix, files, kind in both:
        for name, content in files:
            path = bad / f"{name}{suffix}"
            # an empty last cell is the end of a shorter sequence
            yield Case(f"train {path.name}", training(path, place), path, content)
            yield Case(
                f"predict {path.name}",
                predicting(checkpoint_of(place, kind), path),
                path,
                content,
            )
            yield Case(f"data {path.name}", ["data", "fetch", str(path)], path, content)
    for suffix, files in ((".csv", hostile.label_files()), (".npz", hostile.npz_labels())):
        for name, content in files:
            path = bad / f"{name}{suffix}"
            yield Case(f"train {path.name}", training(path, place), path, content)
    yield from _flipped_arrays(place)


def _flipped_arrays(place: Path) -> Iterator[Case]:
    good = load(str(place / "good.npz"))
    for name, content in hostile.flipped((place / "good.npz").read_bytes(), 60, seed=1):
        path = place / "bad" / f"{name}.npz"
        case = Case(f"data {path.name}", ["data", "fetch", str(path), "--json"], path, content)

        def same(_: Result, path: Path = path, content: bytes = content) -> bool:
            path.write_bytes(content)
            found = load(str(path))
            path.unlink()
            pairs = zip((found.train, found.test), (good.train, good.test), strict=True)
            return all(torch.equal(a.inputs, b.inputs) for a, b in pairs)

        case.judge = refused_or(case, same)
        yield case


def checkpoint_cases(place: Path) -> Iterator[Case]:
    """Checkpoints that are damaged, or describe what cannot be, for predicting and exporting."""
    good = checkpoint_of(place, "csv")
    content, table = good.read_bytes(), place / "good.csv"
    files = [*hostile.flipped(content, 24, seed=2), *_described(place, good)]
    files += [(f"cut{i}", content[: len(content) * i // 8]) for i in range(8)]
    for size in (0, 2**63, 2**40, len(content) * 2):
        files.append((f"header{size}", size.to_bytes(8, "little") + content[8:]))
    for name, spoiled in files:
        path = place / "bad" / f"{name}.safetensors"
        yield Case(f"predict {name}", predicting(path, table), path, spoiled)
        onnx = ["export", str(path), "--onnx", str(place / "bad" / "x.onnx")]
        yield Case(f"export {name}", onnx, path, spoiled)


def _described(place: Path, good: Path) -> Iterator[tuple[str, bytes]]:
    checkpoint, path = Checkpoint.load(good), place / "spoiled.safetensors"
    changes: list[tuple[str, Any, Any]] = []
    for key in ("task", "input_size", "output_size", "seq_len", "classes", "scaling", "reading"):
        changes += [("data", key, value) for value in ("x", [1], {}, -1, 0, True)]
    changes += [("data", "input_size", 7), ("data", "output_size", 9), ("data", "classes", ["x"])]
    changes += [("config", key, value) for key in ("model", "data") for value in ("x", [], {}, 3)]
    for number, (part, key, value) in enumerate(changes):
        if (key, value) == ("reading", {}):
            continue  # an empty one is the default
        before = getattr(checkpoint, part)
        setattr(checkpoint, part, {**before, key: value})
        checkpoint.save(path)
        setattr(checkpoint, part, before)
        yield f"{part}-{key}{number}", path.read_bytes()
    path.unlink()


def path_cases(place: Path) -> Iterator[Case]:
    """Paths that are no regular files."""
    good = checkpoint_of(place, "csv")
    for suffix in (".csv", ".npz", ".parquet"):
        for name, path in hostile.not_files(place / "paths" / suffix[1:], suffix):
            yield Case(f"train {name}{suffix}", training(path, place), path)
            yield Case(f"predict {name}{suffix}", predicting(good, path), path)
    for name, path in hostile.not_files(place / "paths" / "models", ".safetensors"):
        yield Case(f"predict {name}", predicting(path, place / "good.csv"), path)
        onnx = ["export", str(path), "--onnx", str(place / "bad" / "x.onnx")]
        yield Case(f"export {name}", onnx, path)
    for name, path in hostile.not_files(place / "paths" / "records", ".json"):
        yield Case(f"predict record {name}", predicting(path, place / "good.csv"), path)


def record_cases(place: Path) -> Iterator[Case]:
    """Records, one beside a good one: it is listed, or named and skipped."""
    (record,) = (place / "csv" / "results").rglob("*-seed0.json")
    good = json.loads(record.read_text())
    for name, content in hostile.records(good):
        path = record.with_name(f"{name}-seed0.json")
        arguments = ["runs", "--results", str(place / "csv" / "results"), "--json"]
        case = Case(f"runs {name}", arguments, path, content)

        def judge(result: Result, name: str = name) -> str | None:
            if result.exit_code != 0:
                return f"a record stops the list: {result.exception!r}"
            rows = json.loads(result.stdout, parse_constant=lambda text: pytest.fail(text))
            listed = any(f"{name}-seed0" in row["record"] for row in rows)
            named = (
                f"{name}-seed0" in result.stderr and "1 of 2 records were skipped" in result.stderr
            )
            return (
                None if listed != named and len(rows) == 1 + listed else "neither listed nor named"
            )

        case.judge = judge
        yield case
        table = Case(f"runs table {name}", arguments[:-1], path, content)
        table.judge = lambda result: None if result.exit_code == 0 else repr(result.exception)
        yield table


def all_cases(place: Path) -> list[Case]:
    return [
        *file_cases(place),
        *checkpoint_cases(place),
        *path_cases(place),
        *record_cases(place),
    ]


def check(cases: list[Case], place: Path) -> None:
    failures = {case.name: problem for case in cases if (problem := run(case, place))}
    assert not failures, f"{len(failures)} of {len(cases)}:\n" + "\n".join(
        f"{name}: {problem}" for name, problem in failures.items()
    )
    assert not Path("pickle-was-run").exists()


def test_a_sample_of_hostile_inputs(place, monkeypatch):
    monkeypatch.chdir(place)
    cases = all_cases(place)
    check(random.Random(0).sample(cases, SAMPLE), place)


@pytest.mark.long
def test_all_hostile_inputs(place, monkeypatch):
    monkeypatch.chdir(place)
    cases = all_cases(place)
    assert len(cases) >= 600
    print(f"{len(cases)} hostile inputs")
    check(cases, place)


@pytest.mark.long
def test_the_report_of_bad_records(tmp_path, monkeypatch):
    """Each is named and counted, and the report is written from the good ones."""
    from paper.cli import app

    monkeypatch.chdir(tmp_path)
    make_results(Path("results"))
    record = min(Path("results").glob("*/*-seed0.json"))
    folder, good = record.parent, json.loads(record.read_text())
    names = [name for name, _ in hostile.records(good)]
    for name in names:  # a run of its own, so that only the spoiled field is wrong
        content = dict(hostile.records({**good, "model": name, "seed": 7}))[name]
        (folder / f"{name}-seed7.json").write_bytes(content)
    list(hostile.not_files(folder, "-seed8.json"))
    there = len(list(Path("results").glob("*/*-seed*.json")))
    done = CliRunner().invoke(app, ["report", "--html", "out/r.html", "--markdown", "out/r.md"])
    assert done.exit_code == 0, done.exception
    for name in ("cut5", "epochs2", "deep", "pipe", "folder", "loop", "socket", "zero"):
        assert re.search(rf"Not read: .*/{name}-seed[78].json", done.stderr), name
    read, skipped = re.search(r"(\d+) runs read", done.stdout), done.stderr.count("Not read: ")
    assert f"{skipped} files were not read." in done.stderr
    assert int(read[1]) + skipped == there
    assert "\x1b" not in done.output
    page = Path("out/r.html").read_text() + Path("out/r.md").read_text()
    assert "\x1b" not in page


def test_in_a_process_of_its_own(tmp_path):
    name, content = "[red]bad\x1b[31m.csv", b"a\n[bold]x\n"
    (tmp_path / name).write_bytes(content)
    command = [sys.executable, "-m", "torchfru", "train", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
