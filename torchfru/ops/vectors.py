"""A hardware vector of numbers as a type of Numba, and the LLVM code that handles one."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import models, register_model


def _has(feature: str) -> bool:
    """Whether Numba may use it: NUMBA_CPU_FEATURES, or what this processor has."""
    if config.CPU_FEATURES is not None:
        return f"+{feature}" in config.CPU_FEATURES.split(",")
    return bool(llvm.get_host_cpu_features().get(feature, False))


# 512-bit vectors come with 32 registers, enough for tiles of ten; AVX2 has 16, for tiles of five.
WIDE = _has("avx512f")
VECTOR_BYTES = 64 if WIDE else 32
MAX_TILE = 10 if WIDE else 5


class Vector(types.Type):
    """As many numbers of one dtype as fit into VECTOR_BYTES."""

    def __init__(self, scalar: types.Float) -> None:
        self.scalar = scalar
        self.lanes = lanes(scalar.bitwidth // 8)
        super().__init__(name=f"Vector({scalar}, {self.lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, llvm_type(vector))


def lanes(itemsize: int) -> int:
    """Numbers of this many bytes in a vector."""
    return VECTOR_BYTES // itemsize


@njit(inline="always")
def lanes_of(array):
    """Numbers of this array in a vector, where a kernel asks."""
    return VECTOR_BYTES // array.itemsize


def llvm_type(vector: Vector) -> ir.VectorType:
    number = ir.FloatType() if vector.scalar.bitwidth == 32 else ir.DoubleType()
    return ir.VectorType(number, vector.lanes)


def count_of(kind: Any) -> int:
    """The value of a constant, or the length of a tuple."""
    return int(kind.literal_value if isinstance(kind, types.IntegerLiteral) else kind.count)


def splat(builder: Any, value: Any, vector: Vector) -> Any:
    """One number in every lane."""
    kind = llvm_type(vector)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), [0] * vector.lanes)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, fused where the machine can."""
    kind = a.type
    width = {ir.FloatType(): "f32", ir.DoubleType(): "f64"}[kind.element]
    name = f"llvm.fmuladd.v{kind.count}{width}"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * 3), name
    )
    return builder.call(function, [a, b, c])


def pointer_at(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def load_number(builder: Any, pointer: Any, offset: int) -> Any:
    return builder.load(builder.gep(pointer, [ir.IntType(64)(offset)]))


def load(builder: Any, pointer: Any, vector: Vector) -> Any:
    place = builder.bitcast(pointer, llvm_type(vector).as_pointer())
    return builder.load(place, align=vector.scalar.bitwidth // 8)


def store(builder: Any, value: Any, pointer: Any, vector: Vector) -> None:
    place = builder.bitcast(pointer, llvm_type(vector).as_pointer())
    builder.store(value, place, align=vector.scalar.bitwidth // 8)


def pack(context: Any, builder: Any, vector: Vector, values: list[Any]) -> Any:
    return context.make_tuple(builder, types.UniTuple(vector, len(values)), values)


def unpack(builder: Any, tile: Any) -> list[Any]:
    return cgutils.unpack_tuple(builder, tile)
