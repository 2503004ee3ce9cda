"""``torchfru doctor`` says what is installed, and fails where a backend fails."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from torchfru.cli import app
from torchfru.ops.gpu import check


def doctor(*arguments: str):
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_every_backend_proves_itself():
    done = doctor("--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"python", "torchfru", "torch", "numba", "triton"} <= set(found["versions"])
    states = {row["name"]: row["state"] for row in found["backends"]}
    assert list(states) == ["reference", "collapsed", "numba", "triton"]
    assert states["reference"] == states["collapsed"] == "proved"
    assert states["numba"] in ("proved", "unavailable")


def test_table_and_exit_code_show_a_failure(monkeypatch):
    def run(device, wide=False, scan=None):
        return check.Verdict(False, "relative difference 1.0e-01 [not markup]")

    monkeypatch.setattr(check, "run", run)
    done = doctor()
    assert done.exit_code == 1
    assert "failed" in done.output
    assert "relative difference 1.0e-01 [not markup]" in done.output


@pytest.mark.parametrize("package", ["numba", "triton"])
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, package):
    from torchfru.ops import doctor as examination

    extra = {"numba": "cpu", "triton": "gpu"}[package]
    monkeypatch.setattr(examination, "find_spec", lambda name: None)
    monkeypatch.setattr(check, "run", lambda *_, **__: check.Verdict(True, "agree"))
    reasons = {row["name"]: row["reason"] for row in examination.examine()["backends"]}
    assert f"pip install 'torchfru[{extra}]'" in reasons[package]
