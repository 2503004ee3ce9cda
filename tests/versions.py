"""Try the layers with the oldest torch that the package promises, and with the newest there is.

``make test-versions`` runs this: a fresh virtual environment for each version under
out/versions, a download of up to 3 GB each (from PyPI, torch brings its CUDA libraries), and the
tests of the layers in it. Other versions: ``python tests/versions.py 2.8.0 2.10.0``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# test_model needs the packages for training.
TESTS = ("tests/nn", "--ignore=tests/nn/test_model.py", "tests/ops", "--ignore=tests/ops/gpu")


def as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0]))


def oldest_and_newest() -> list[str]:
    """Among the versions of the package index: the first that pyproject.toml allows, the last."""
    promised = re.search(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert promised is not None, "pyproject.toml names no minimum for torch"
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Available versions: (.*)", listed)
    assert found is not None, f"pip lists no versions of torch: {listed}"
    versions = {version.partition("+")[0] for version in found[1].split(", ")}
    minimum = as_numbers(promised[1])
    allowed = sorted((v for v in versions if as_numbers(v) >= minimum), key=as_numbers)
    return [allowed[0], allowed[-1]]


def environment(version: str) -> Path:
    """The Python of a virtual environment with this torch and this package in it."""
    folder = ROOT / "out" / "versions" / version
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
        own = ["--editable", f"{ROOT}[cpu]", "hypothesis", "pytest"]
        subprocess.run([*install, f"torch=={version}", *own], check=True)
        (folder / "ready").touch()
    return python


def try_version(version: str) -> bool:
    print(f"torch {version}:", flush=True)
    run = [environment(version), "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *TESTS]
    # Without names in C++ traces, which take minutes to look up in a build with CUDA.
    own = {"PYTHONPATH": str(ROOT), "TORCH_DISABLE_ADDR2LINE": "1"}
    return subprocess.run(run, cwd=ROOT, env=os.environ | own).returncode == 0


def main() -> None:
    versions = sys.argv[1:] or oldest_and_newest()
    failed = [version for version in versions if not try_version(version)]
    print(*(f"torch {v}: {'FAILED' if v in failed else 'passed'}" for v in versions), sep="\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
