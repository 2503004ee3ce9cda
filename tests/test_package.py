"""The package as a whole: what it imports, in which direction, and that its documents are true."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from training_helpers import torchfru_command

import torchfru

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "torchfru"

# What each part may import of the package; data flows one way.
ALLOWED = {
    "basis": set(),
    "ops": {"ops", "io"},
    "nn": {"nn", "basis", "ops"},
    "io": set(),
    "data": {"data", "io"},
    "results": {"io"},
    "experiments": {"experiments", "io"},
    "training": {"training", "data", "nn", "experiments", "io", "results"},
    "cli": {"cli", "data", "experiments", "io", "results", "training", "__init__"},
    "__init__": {"basis", "nn", "ops"},
    "__main__": {"cli"},
}


def part_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, relative or absolute, anywhere in it."""
    parts = set()
    package = ["torchfru", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module or "").split(".")]
            module = [name for name in module if name]
            names = [module] if len(module) > 1 else [[*module, a.name] for a in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == "torchfru" and len(name) > 1:
                known = (PACKAGE / name[1]).is_dir() or (PACKAGE / f"{name[1]}.py").exists()
                parts.add(name[1] if known else "__init__")
    return parts


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.name)
def test_imports_go_one_way(path):
    part = part_of(path)
    assert imported_parts(path) <= ALLOWED[part], f"{part} may import {ALLOWED[part]} only"


def test_import_is_light():
    """torch and numpy suffice, and nothing is compiled: everything else is hidden from it."""
    program = """
import sys
for name in ("numba", "llvmlite", "triton", "typer", "rich", "matplotlib", "lightning", "mpmath",
             "pooch", "platformdirs", "tqdm", "pyarrow", "polars"):
    sys.modules[name] = None  # an import of it fails
import torch, torchfru, torchfru.data
torchfru.data.load("mix-sin", size=5)
layer = torchfru.FRU(1, 2, seq_len=5)
layer(torch.zeros(5, 1, 1))[0].sum().backward()
from torchfru.__main__ import main
try:
    main()
except SystemExit as end:
    print(end)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("torchfru: the command needs")
    assert "pip install 'torchfru[cli]'" in run.stdout


def test_public_names():
    for name in torchfru.__all__:
        assert getattr(torchfru, name).__doc__
    assert re.fullmatch(r"\d+\.\d+\.\d+", torchfru.__version__)


def test_readme_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_readme_names_files_that_exist():
    text = (ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target


def test_command_line():
    assert torchfru_command("--version").stdout.strip() == f"torchfru {torchfru.__version__}"


def test_command_line_errors_are_one_line(tmp_path):
    arguments = ("export", "missing", "--onnx", str(tmp_path / "step.onnx"))
    failed = torchfru_command(*arguments)
    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: ")
    assert "Traceback" not in failed.stderr
    assert "Traceback" in torchfru_command("--debug", *arguments).stderr
    assert torchfru_command("no-such-command").returncode == 2


def test_tutorial_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/tutorial.md").read_text(), re.DOTALL)
    exec(compile("\n".join(blocks), "docs/tutorial.md", "exec"), {})
    assert "collapsed" in capsys.readouterr().out
