"""The training commands: examples in the help, one-line errors, and the whole path once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from training_helpers import command, finish, read, tiny_arguments
from typer.testing import CliRunner

from torchfru import cli

COMMANDS = ("train", "runs", "sweep", "predict", "export")
DOCUMENT = Path(__file__).parents[2] / "docs" / "training.md"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example(name):
    shown = CliRunner().invoke(cli.app, [name, "--help"], terminal_width=200)
    assert shown.exit_code == 0
    assert f"Example: torchfru {name}" in shown.output


def failing(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["torchfru", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return int(end.value.code), capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("train pixel-mnits", 2, "there is no experiment 'pixel-mnits'"),
        ("train imdb --model fru-9", 2, "imdb has no model 'fru-9'"),
        ("train imdb --set training.lrr=1", 2, "did you mean 'training.lr'?"),
        ("train imdb --set training.epochs=x", 2, "must be a whole number, got 'x'"),
        (
            "train memory --model adding-100-fru --set data.steps=3",
            1,
            "no option is called 'steps'",
        ),
        ("train missing.npz", 1, "missing.npz: no such file"),
        ("sweep imdb --lr 1,b", 2, "--lr must be comma-separated numbers"),
        ("sweep imdb --name a/b", 2, "--name must be letters, digits, dots and hyphens"),
        ("predict a/b-seed0 --input x.npz", 1, "there is no run record"),
        ("export a/b-seed0 --onnx x.onnx", 1, "there is no run record"),
    ],
)
def test_errors_are_one_line(monkeypatch, capsys, tmp_path, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    found, text = failing(monkeypatch, capsys, *arguments.split())
    assert found == code
    assert message in text
    assert len(text.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--accelerator gpu",
            r"--accelerator gpu: torch \S+ finds none on this machine, only cpu; choose "
            "--accelerator cpu, or install torch for your GPU",
        ),
        ("--accelerator gpuu", "must be one of auto, cpu, gpu, cuda, mps, got 'gpuu'"),
        (
            "--results a-file/results",
            r"a-file/results/mix-poly-5: cannot be written \(Not a directory\); choose another "
            r"folder with --results, or change the permissions of \S+/a-file",
        ),
    ],
)
def test_what_a_run_needs_is_looked_at_before_its_data(
    monkeypatch, capsys, tmp_path, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").touch()
    for device in ("torch.cuda", "torch.backends.mps"):
        monkeypatch.setattr(f"{device}.is_available", lambda: False)
    monkeypatch.setattr("torchfru.training.loop.load", lambda *_, **__: pytest.fail("loads"))
    _, text = failing(monkeypatch, capsys, "train", "mix-poly-5", *arguments.split())
    assert re.search(message, text)
    assert len(text.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]


def run(*arguments: str) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def _same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_same_threads")
def test_the_whole_path(tmp_path):
    results = tmp_path / "results"
    output = run(*tiny_arguments(results, "--model", "fru", "--seed", "4", epochs=2))
    assert "epoch 2: train loss" in output
    assert re.search(r"forward.*backward.*step.*test.*other", output)
    (row,) = json.loads(run("runs", "--results", str(results), "--json"))
    assert (row["model"], row["seed"], row["status"], row["epochs"]) == ("fru", 4, "finished", 2)
    (results / "mix-poly-5" / "lstm-seed0.json").write_text("{")
    assert "mix-poly-5" in run("runs", "--results", str(results))
    np.savez(tmp_path / "x.npz", sequences=np.zeros((3, 11)))
    place = ("mix-poly-5/fru-seed4", "--results", str(results))
    found = json.loads(run("predict", *place, "--input", str(tmp_path / "x.npz"), "--json"))
    assert len(found) == 3
    assert "sequence" in run("predict", *place, "--input", str(tmp_path / "x.npz"))


BAD_RECORDS = {
    "cut": "{",
    "list": "[]",
    "text": '{"experiment": "x", "model": "m", "seed": 0, "config": {}, "parameters": "many"}',
    "epochs": '{"experiment": "x", "model": "m", "seed": 0, "config": {}, "parameters": 1, '
    '"epochs": [{"test_mse": "low"}]}',
    "infinite": '{"experiment": "x", "model": "m", "seed": 0, "config": {}, "parameters": 1, '
    '"seconds": 1e999}',
    "config": '{"experiment": "x", "model": "m", "seed": 0, "config": {"training": 3}, '
    '"parameters": 1}',
    "deep": "[" * 100_000,
}
STRANGE = (
    '{"experiment": "[red]x[/red]\\u001b[2J", "model": "[/]", "seed": 0, "config": {}, '
    '"parameters": 1}'
)


def test_bad_records_are_named_counted_and_skipped(tmp_path):
    folder = tmp_path / "results" / "x"
    folder.mkdir(parents=True)
    for name, text in BAD_RECORDS.items():
        (folder / f"{name}-seed0.json").write_text(text)
    (folder / "folder-seed0.json").mkdir()
    os.mkfifo(folder / "pipe-seed0.json")
    (folder / "latin-seed0.json").write_bytes(b'{"experiment": "\xff"}')
    (folder / "good-seed0.json").write_text(STRANGE)
    for form in ((), ("--json",)):
        done = CliRunner().invoke(cli.app, ["runs", "--results", str(tmp_path / "results"), *form])
        assert done.exit_code == 0, done.exception
        assert "\x1b" not in done.output
        for name in (*BAD_RECORDS, "folder", "pipe", "latin"):
            assert f"{name}-seed0.json" in done.stderr
        assert "10 of 11 records were skipped." in done.stderr
    assert "[red]x[/red]\\x1b[2J" in run("runs", "--results", str(tmp_path / "results"))


@pytest.mark.usefixtures("_same_threads")
def test_a_run_that_used_up_its_minutes_says_so(tmp_path):
    limit = ("--set", "training.max_minutes=1e-9")
    output = run(*tiny_arguments(tmp_path / "results", *limit, epochs=4))
    assert (
        "1 of 4 epochs: training.max_minutes=1e-09 are used up; to train on, add --resume --set"
        in output
    )


def test_a_file_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 9))
    np.savez("mine.npz", sequences=x, labels=(x[:, 0] > 0).astype(int))
    (tmp_path / "sub").mkdir()
    np.savez("sub/mine.npz", sequences=x, labels=(x[:, 1] > 0).astype(int))
    for path in ("mine.npz", "sub/mine.npz"):
        run("train", path, "--model", "gru", "--epochs", "2", "--accelerator", "cpu")
    records = [read(path) for path in tmp_path.glob("results/mine-*/gru-seed0.json")]
    assert sorted(record["config"]["data"]["name"] for record in records) == [
        "mine.npz",
        "sub/mine.npz",
    ]


def status(results: Path) -> str:
    (row,) = json.loads(run("runs", str(results), "--json"))
    return row["status"]


def test_started_twice_one_says_so_and_ends(tmp_path):
    arguments = command(*tiny_arguments(tmp_path / "results", epochs=100_000))
    record = tmp_path / "results" / "mix-poly-5" / "fru-seed0.json"
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as first:
        while not record.exists():
            assert first.poll() is None
            time.sleep(0.02)
        second = subprocess.run(arguments, capture_output=True, text=True)
        listed = status(tmp_path / "results")
        still_runs = first.poll() is None
        first.kill()
    assert still_runs
    assert (listed, status(tmp_path / "results")) == ("running", "killed?")
    assert read(record)["status"] == "running"
    assert second.returncode == 1
    assert second.stderr.startswith("Error: mix-poly-5 fru seed 0 is being trained by another")
    assert len(second.stderr.strip().splitlines()) == 1


def test_a_polite_end_says_how_to_go_on(tmp_path):
    arguments = tiny_arguments(tmp_path / "results", epochs=100_000)
    record = tmp_path / "results" / "mix-poly-5" / "fru-seed0.json"
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (record.exists() and read(record)["epochs"]):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, errors = finish(process)
    assert process.returncode == 1
    assert re.search(r"Error: stopped after \d+ of 100000 epochs; continue with --resume", errors)
    assert read(record)["status"] == status(tmp_path / "results") == "stopped"
    done = len(read(record)["epochs"])
    arguments = tiny_arguments(tmp_path / "results", "--resume", epochs=done + 1)
    assert run(*arguments).count("train loss") == 2  # one epoch, and the summary
    assert status(tmp_path / "results") == "finished"


def test_the_document_names_commands_and_fields_that_exist():
    from torchfru.training import EXPERIMENTS
    from torchfru.training.config import field_types

    text = DOCUMENT.read_text()
    for name in re.findall(r"torchfru (?:train|sweep) ([a-z0-9-]+)", text):
        assert name in EXPERIMENTS, name
    for field in re.findall(r"--set ([a-z_.]+)=", text):
        assert field in field_types(), field
    for name in re.findall(r"torchfru ([a-z]+)", text):
        assert name in (*COMMANDS, "data"), name


def test_the_documents_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    exec(compile("\n".join(blocks), str(DOCUMENT), "exec"), {"__name__": "example"})
    assert float(capsys.readouterr().out) > 0
