"""``torchfru data``: tables for people, JSON for programs, exit codes for scripts."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from data_helpers import make_mnist
from typer.testing import CliRunner

from torchfru.cli import app
from torchfru.data import names


@pytest.fixture(autouse=True)
def _own_places(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCHFRU_DATA", raising=False)
    monkeypatch.setenv("TORCHFRU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


def command(*arguments):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def test_list(tmp_path, monkeypatch):
    table = command("list")
    assert table.exit_code == 0
    rows = json.loads(command("list", "--json").stdout)
    assert [row["name"] for row in rows] == names()
    for row in rows:
        assert row["name"] in table.stdout
    found = {row["name"]: row for row in rows}
    assert found["mix-poly"]["options"]["degree"] == 5
    assert found["mix-poly"]["files"] == "generated"
    assert found["imdb"]["files"] == "to fetch"
    assert "data_dir" not in found["imdb"]["options"]

    make_mnist(tmp_path / "data", monkeypatch)
    rows = json.loads(command("list", "--json", "--data-dir", tmp_path / "data").stdout)
    assert {row["name"]: row["files"] for row in rows}["pixel-mnist"] == "here"


def test_fetch(tmp_path, monkeypatch):
    make_mnist(tmp_path, monkeypatch)
    arguments = ("fetch", "pixel-mnist", "copy", "--data-dir", tmp_path)
    assert re.search(r"pixel-mnist .* 12 .* 3 .* 784", command(*arguments).stdout)
    mnist, copy = json.loads(command(*arguments, "--json").stdout)
    assert (mnist["train"], mnist["test"], mnist["seq_len"]) == (12, 3, 784)
    assert len(mnist["checksums"]) == 4
    assert (copy["task"], copy["train"]) == ("tag", 8000)


def test_verify(tmp_path, monkeypatch):
    make_mnist(tmp_path, monkeypatch)
    good = command("verify", "--data-dir", tmp_path)
    assert good.exit_code == 0
    assert good.stdout.count(" ok ") == 4
    assert "not here" in good.stdout
    assert command("verify", "pixel-mnist", "--data-dir", tmp_path).exit_code == 0
    assert command("verify", "imdb", "--data-dir", tmp_path).exit_code == 1

    bad = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    bad.write_bytes(b"")
    result = command("verify", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert f"{bad}: not MNIST's train-labels-idx1-ubyte" in result.stderr
    rows = json.loads(command("verify", "--json", "--data-dir", tmp_path).stdout)
    states = [row["state"] for row in rows]
    assert states == ["ok", "damaged", "ok", "ok", "not here", "not here"]
    assert str(bad) in rows[1]["problem"]


@pytest.mark.parametrize("name", [(), ("list",), ("fetch",), ("verify",)])
def test_help_has_an_example(name):
    shown = command(*name, "--help")
    assert shown.exit_code == 0
    assert "Example: torchfru data" in shown.stdout


def test_an_error_is_one_line():
    program = [sys.executable, "-m", "torchfru", "data", "fetch", "pixel-mist"]
    failed = subprocess.run(program, capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: 'pixel-mist' is neither a data set nor a file")
    assert failed.stderr.count("\n") == 1
