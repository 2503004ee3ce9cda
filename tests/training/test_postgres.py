"""A sweep that two processes share through a real PostgreSQL server, and one of them is killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.exc import SQLAlchemyError
from training_helpers import TINY_GRU, finish, numbers, read, torchfru_here

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
WORKER = """
import sys
from torchfru.training import sweep
sweep.ALIVE, sweep.DEAD = 1, 2
from torchfru.cli import run
run()
"""
GRID = ("--lr", "0.001,0.1", "--decay", "0.9,0.8")


def server_user() -> str | None:
    """The server refuses root: another user for it, where the tests run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def server():
    """The address of a database of a server of its own, on loopback, in a temporary folder."""
    if not BINARIES:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    folder, user, port = Path(tempfile.mkdtemp(prefix="torchfru-pg-")), server_user(), free_port()
    if user is not None:
        shutil.chown(folder, user)
    tools, data = BINARIES[-1].parent, folder / "data"
    options = {"user": user, "cwd": folder, "stdout": subprocess.DEVNULL, "umask": 0o077}
    initdb = [tools / "initdb", "-D", data, "-A", "trust", "-U", "tester", "--no-sync"]
    subprocess.run(initdb, check=True, **options)
    settings = ["-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
    process = subprocess.Popen(
        [tools / "postgres", "-D", data, *settings], stderr=subprocess.DEVNULL, **options
    )
    try:
        ready = [tools / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
        for _ in range(300):
            if subprocess.run(ready, stdout=subprocess.DEVNULL).returncode == 0:
                break
            assert process.poll() is None
            time.sleep(0.1)
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGINT)  # a fast end
        process.wait()
        shutil.rmtree(folder)


def arguments(results: Path) -> list[str]:
    changed = [part for setting in TINY_GRU for part in ("--set", setting)]
    fixed = ["sweep", "mix-poly-5", "--model", "gru", "--results", str(results), "--json"]
    return [*fixed, "--epochs", "80", *GRID, *changed, "--threads", "1", "--accelerator", "cpu"]


def start(results: Path, storage: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments(results), "--storage", storage],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trials(server: str) -> list[optuna.trial.FrozenTrial]:
    storage = RDBStorage(server.replace("://", "+psycopg://"))
    try:
        return optuna.load_study(study_name="mix-poly-5/gru-seed0", storage=storage).trials
    finally:
        storage.engine.dispose()


def begun(server: str) -> int:
    """The number of points that are being trained."""
    try:
        found = trials(server)
    except (KeyError, SQLAlchemyError, StorageInternalError):  # there is no study yet
        return 0
    return sum(t.state.name == "RUNNING" and "began" in t.user_attrs for t in found)


def records(results: Path) -> list[Path]:
    folder = results.parent / "checkpoints" / results.name / "sweeps" / "mix-poly-5"
    return list(folder.glob("*.json"))


def kill_while_both_train(first, second, server: str) -> None:
    """Halt the first process, and kill it if it holds a point: a process holds at most one."""
    while True:
        assert first.poll() is None
        assert second.poll() is None
        if begun(server) == 2:
            first.send_signal(signal.SIGSTOP)
            if begun(server) == 2:
                break
            first.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    finish(first)


def test_two_processes_share_a_sweep_and_one_is_killed(tmp_path, server):
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    first, second = (start(shared, server) for _ in range(2))
    kill_while_both_train(first, second, server)
    _, errors = finish(second)
    assert second.returncode == 0, errors
    found = trials(server)
    states = Counter(trial.state.name for trial in found)
    done = [trial for trial in found if trial.state.name == "COMPLETE"]
    points = {(trial.user_attrs["lr"], trial.user_attrs["lr_decay"]) for trial in done}
    assert len(done) == len(points) == 4, states
    assert states["FAIL"] == 1  # that of the process that was killed
    assert states["RUNNING"] == states["WAITING"] == 0
    torchfru_here(*arguments(alone))
    sweeps = [read(path / "mix-poly-5" / "sweep-gru-0.json") for path in (shared, alone)]
    assert sweeps[0]["points"] == sweeps[1]["points"]
    for path in records(alone):
        twin = Path(str(path).replace("/checkpoints/alone/", "/checkpoints/shared/"))
        assert numbers(read(path)) == numbers(read(twin))
