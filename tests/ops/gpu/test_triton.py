"""The Triton kernels, without a GPU: interpreted for their values, compiled for their needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torchfru

pytest.importorskip("triton", reason="Triton is not installed: pip install 'torchfru[gpu]'")

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
TABLE = ROOT / "docs" / "gpu-resources.md"


def run(*command: str, **environment: str) -> str:
    """Run Python in a process of its own: Triton either interprets or compiles."""
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def interpret(*arguments: str, **environment: str) -> str:
    command = ("-m", "pytest", "-n", "0", "-p", "no:cacheprovider", str(HERE / "interpreted.py"))
    return run(*command, *arguments, TRITON_INTERPRET="1", **environment)


def test_interpreted_kernels():
    output = interpret("-vv")
    assert "test_outputs_states_and_gradients_equal_reference PASSED" in output
    assert "skipped" not in output


@pytest.mark.long
def test_interpreted_kernels_in_many_cases():
    output = interpret("-k", "equal_reference", TORCHFRU_GPU_EXAMPLES="150")
    assert "1 passed" in output


USAGES = """
import json
from torchfru.ops.gpu import resources
rows = [row._asdict() for row in resources.all_usages()]
tanh = [
    "tf32" in resources.compile_loop(loop, "sm_90", 60, 10, kind="tanh").asm["ptx"]
    for loop in resources.LOOPS
]
print(json.dumps({"rows": rows, "tanh": tanh, "page": resources.markdown()}))
"""


@pytest.fixture(scope="module")
def compiled():
    """Every kernel, compiled for every target."""
    return json.loads(run("-W", "error", "-c", USAGES))


def test_no_kernel_spills_registers(compiled):
    targets = {"sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx1100"}
    assert {row["target"] for row in compiled["rows"]} == targets
    assert len(compiled["rows"]) == 4 * 2 * len(targets)
    assert [row for row in compiled["rows"] if row["spills"]] == []


def test_programs_fit_into_every_gpu(compiled):
    assert max(row["shared"] for row in compiled["rows"]) <= 48 * 1024
    assert min(row["registers"] for row in compiled["rows"]) > 0


def test_no_float32_product_uses_tf32(compiled):
    assert [row for row in compiled["rows"] if row["tf32"]] == []
    assert compiled["tanh"] == [False, False]


def test_committed_table_is_the_compilers(compiled):
    import triton

    if f"Triton {triton.__version__}," not in TABLE.read_text():
        pytest.skip(f"the table was made by another Triton than {triton.__version__}")
    assert TABLE.read_text() == compiled["page"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_there_is_no_such_backend():
    assert "triton" not in torchfru.available_backends("cuda")
    assert "triton" not in torchfru.available_backends("cpu")
    with pytest.raises(ValueError, match=r"expected one of .*; got 'triton'"):
        torchfru.use_backend("triton")


def test_documentation_begins_with_what_was_not_tried():
    paragraphs = (ROOT / "docs" / "gpu.md").read_text().split("\n\n")
    assert "compiled and interpreted here, never run on hardware" in paragraphs[1]
    row = next(line for line in (ROOT / "README.md").read_text().splitlines() if "docs/gpu" in line)
    assert "compiled and interpreted but never run on hardware here" in row
