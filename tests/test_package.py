"""The package as a whole: what it imports, in which direction, and that its documents are true."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from training_helpers import torchfru_command

import torchfru

ROOT = Path(__file__).parents[1]

# The rooms of the library in order: each may import those before it, nothing points back.
ROOMS = ("io", "defaults", "basis", "ops", "nn", "data", "records", "training", "estimators")
FRONT = ("__init__", "cli", "__main__")
# Beside the library, and what each of them may import.
BESIDE = {"paper": {"paper", "benchmarks"}, "benchmarks": {"benchmarks"}, "examples": set()}


def modules() -> dict[str, Path]:
    """Every file by the name that imports it."""
    found = {}
    for room in ("torchfru", *BESIDE):
        for path in (ROOT / room).rglob("*.py"):
            name = path.relative_to(ROOT).with_suffix("")
            found[".".join(name.parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imports(name: str) -> set[str]:
    """The files that a file imports, anywhere in it: lazily, or only for types, as well."""
    path, found = MODULES[name], set()
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            wanted = [f"{module}.{alias.name}" for alias in node.names]
            found |= {one if one in MODULES else module for one in wanted}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {one for one in found if one in MODULES} - {name}


def room_of(name: str) -> str:
    """``torchfru.ops.sru`` is in ops; what is not in the library is in its first name."""
    first, *rest = name.split(".")
    return (rest[0] if rest else "__init__") if first == "torchfru" else first


def allowed(room: str) -> set[str]:
    if room in BESIDE:
        return BESIDE[room] | {*ROOMS, *FRONT}
    before = ROOMS if room in FRONT else ROOMS[: ROOMS.index(room)]
    return {*before, room, *({"__init__", "cli"} if room in ("cli", "__main__") else ())}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_rooms_import_one_way(name):
    room = room_of(name)
    wrong = {one for one in imports(name) if room_of(one) not in allowed(room)}
    assert not wrong, f"{room} may import {sorted(allowed(room))} only"


def test_files_import_one_way():
    """No file imports, through others, itself: every idea can be read before what builds on it."""
    graph, cycle = {name: imports(name) for name in MODULES}, []
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        cycle = error.args[1]
    assert not cycle, f"files that import each other: {' -> '.join(cycle)}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    program = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        yield archive


def test_the_wheel_has_the_library_alone(wheel):
    folders = {name.split("/")[0] for name in wheel.namelist()}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"torchfru"}
    for name in ("py.typed", "cli/page.css", "cli/page.js"):
        assert f"torchfru/{name}" in wheel.namelist()


def test_what_the_wheel_needs(wheel):
    (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    lines = re.findall(r"^Requires-Dist: (.*)$", wheel.read(metadata).decode(), re.MULTILINE)
    always = {re.match(r"[\w-]+", line)[0] for line in lines if "extra ==" not in line}
    assert always == {"torch", "numpy"}
    for_users = [line for line in lines if "extra == 'dev'" not in line]
    assert not [line for line in for_users if re.match("matplotlib|mpmath|jinja2", line)]


def test_import_is_light():
    """torch and numpy suffice, and nothing is compiled: everything else is hidden from it."""
    program = """
import sys
for name in ("numba", "llvmlite", "triton", "typer", "rich", "matplotlib", "lightning", "mpmath",
             "jinja2",
             "requests", "platformdirs", "tqdm", "pyarrow"):
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
