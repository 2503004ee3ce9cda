"""Compile the kernels for GPUs that are not here, and print what the machine code needs.

    python -m torchfru.ops.gpu.resources > docs/gpu-resources.md

Registers and shared memory decide how many programs a GPU runs at once; a spilled register is
slow. The figures are read from the compiled code, of NVIDIA's and AMD's compilers in Triton.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import is_wide
from .loop import NARROW, WIDE, loop_options

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),  # A100
    "sm_90": GPUTarget("cuda", 90, 32),  # H100
    "sm_100": GPUTarget("cuda", 100, 32),  # B200
    "sm_120": GPUTarget("cuda", 120, 32),  # RTX 50
    "gfx942": GPUTarget("hip", "gfx942", 64),  # MI300
    "gfx1100": GPUTarget("hip", "gfx1100", 32),  # RX 7900
}
LAYERS = {  # n_g, n_h
    "FRU_60,10, gate 60": (60, 10),
    "FRU_400,1, gate 40": (40, 1),
    "FRU_400,1, gate 60": (60, 1),
    "gate 1,000, h of 64": (1_000, 64),  # none of the paper's: the kernels for a wide z
}
LOOPS = ("forward", "backward")
_COMPILER_OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")


class Usage(NamedTuple):
    """The needs of one kernel on one target."""

    layer: str
    kernel: str
    target: str
    registers: int  # a thread
    shared: int  # bytes a program
    spills: int  # bytes of stack on NVIDIA, registers on AMD
    tf32: bool  # an instruction that rounds float32 to 10 bits


def compile_loop(loop: str, target: str, n_g: int, n_h: int, kind: str = "relu") -> Any:
    """The compiled kernel, as the layer would launch it on that GPU, for a ragged batch."""
    function, options = (WIDE if is_wide(n_g) else NARROW)[loop], loop_options(n_g, n_h)
    constants = {k: v for k, v in options.items() if k not in _COMPILER_OPTIONS}
    constants |= {"KIND": kind, "RAGGED": True}
    if n_h == 1:  # a number that is 1 is a constant to Triton
        constants["n_h"] = 1
    integers = ("steps", "samples", "n_h")
    types = {name: "i32" if name in integers else "*fp32" for name in function.arg_names}
    types |= {"lengths": "*i64"} | dict.fromkeys(constants, "constexpr")
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(function.arg_names)
        if types[name].startswith("*")
    }
    source = ASTSource(fn=function, signature=types, constexprs=constants, attrs=aligned)
    compiler_options = {name: options[name] for name in _COMPILER_OPTIONS}
    return triton.compile(source, target=TARGETS[target], options=compiler_options)


def usage(layer: str, loop: str, target: str) -> Usage:
    """Compile one kernel, and read its needs."""
    compiled = compile_loop(loop, target, *LAYERS[layer])
    nvidia = TARGETS[target].backend == "cuda"
    registers, spills = _nvidia(compiled) if nvidia else _amd(compiled.asm["amdgcn"])
    text = compiled.asm["ptx" if nvidia else "amdgcn"]
    tf32 = "tf32" in text or "xf32" in text  # NVIDIA's name and AMD's
    return Usage(layer, loop, target, registers, compiled.metadata.shared, spills, tf32)


def all_usages() -> Iterator[Usage]:
    for layer in LAYERS:
        for loop in LOOPS:
            for target in TARGETS:
                yield usage(layer, loop, target)


def _nvidia(compiled: Any) -> tuple[int, int]:
    """Registers, and bytes of stack: the kernels have no other use of it than spills."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(compiled.asm["cubin"])
        command = [str(tool), "--dump-resource-usage", str(file)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", text)}
    return found["REG"], found["STACK"] + found["LOCAL"]


def _amd(assembly: str) -> tuple[int, int]:
    """Registers, and how many of both kinds were spilled."""

    def read(name: str) -> int:
        match = re.search(rf"\.{name}:\s*(\d+)", assembly)
        if match is None:
            raise ValueError(f"the assembly of AMD's compiler does not say .{name}")
        return int(match[1])

    return read("vgpr_count"), read("vgpr_spill_count") + read("sgpr_spill_count")


def markdown() -> str:
    """The page ``docs/gpu-resources.md``."""
    lines = [
        "# Registers and shared memory of the GPU kernels",
        "",
        f"Compiled ahead of time by Triton {triton.__version__}, never run on hardware here. Read "
        "from the machine code",
        "by `python -m torchfru.ops.gpu.resources > docs/gpu-resources.md`. A program has 8 warps "
        "and takes 16 samples.",
        "",
        "| layer | kernel | target | registers a thread | shared memory a program | spills |",
        "|---|---|---|--:|--:|--:|",
    ]
    lines += [
        f"| {row.layer} | {row.kernel} | {row.target} | {row.registers} | {row.shared:,} B | "
        f"{row.spills} |"
        for row in all_usages()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if os.environ.get("TRITON_INTERPRET", "0") != "0":
        raise SystemExit("Error: unset TRITON_INTERPRET: its interpreter compiles nothing")
    print(markdown(), end="")
