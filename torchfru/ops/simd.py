"""Vectors for Numba: the few operations of which the kernels are made, as LLVM vector code.

Numba vectorises simple loops, but does not keep a tile of sums in registers while a loop
runs over something else. So a kernel here works on tuples of :class:`Vector`, a hardware
vector of numbers, and LLVM holds these tuples in registers. A row is ``width`` vectors side
by side, a tile is ``count`` rows, one after another in one tuple.

Arrays are contiguous and come with an offset, counted in numbers. ``count`` and ``width``
are known when a kernel is compiled: constants, or tuples of any integers, whose length counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

_FEATURES = llvm.get_host_cpu_features()

# 512-bit vectors come with 32 registers, enough for tiles of ten; AVX2 has 16, for tiles of five.
WIDE = bool(_FEATURES.get("avx512f", False))
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
        super().__init__(manager, vector, _llvm_type(vector))


def lanes(itemsize: int) -> int:
    """Numbers of this many bytes in a vector."""
    return VECTOR_BYTES // itemsize


@njit(inline="always")
def lanes_of(array):
    """Numbers of this array in a vector, where a kernel asks."""
    return VECTOR_BYTES // array.itemsize


def _llvm_type(vector: Vector) -> ir.VectorType:
    number = ir.FloatType() if vector.scalar.bitwidth == 32 else ir.DoubleType()
    return ir.VectorType(number, vector.lanes)


def _number(kind: Any) -> int:
    """The value of a constant, or the length of a tuple."""
    return int(kind.literal_value if isinstance(kind, types.IntegerLiteral) else kind.count)


def _splat(builder: Any, value: Any, vector: Vector) -> Any:
    """One number in every lane."""
    kind = _llvm_type(vector)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), [0] * vector.lanes)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, fused where the machine can."""
    kind = a.type
    width = {ir.FloatType(): "f32", ir.DoubleType(): "f64"}[kind.element]
    name = f"llvm.fmuladd.v{kind.count}{width}"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * 3), name
    )
    return builder.call(function, [a, b, c])


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _load_number(builder: Any, pointer: Any, offset: int) -> Any:
    return builder.load(builder.gep(pointer, [ir.IntType(64)(offset)]))


def _load(builder: Any, pointer: Any, vector: Vector) -> Any:
    place = builder.bitcast(pointer, _llvm_type(vector).as_pointer())
    return builder.load(place, align=vector.scalar.bitwidth // 8)


def _store(builder: Any, value: Any, pointer: Any, vector: Vector) -> None:
    place = builder.bitcast(pointer, _llvm_type(vector).as_pointer())
    builder.store(value, place, align=vector.scalar.bitwidth // 8)


def _pack(context: Any, builder: Any, vector: Vector, values: list[Any]) -> Any:
    return context.make_tuple(builder, types.UniTuple(vector, len(values)), values)


def _unpack(builder: Any, tile: Any) -> list[Any]:
    return cgutils.unpack_tuple(builder, tile)


# Loads, stores, constants ------------------------------------------------------------------


@intrinsic(prefer_literal=True)
def load_row(typing, array, index, width):
    """``width`` vectors side by side, from array[index] on."""
    vector = Vector(array.dtype)
    offsets = [v * vector.lanes for v in range(_number(width))]

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[0], args[1])
        places = [builder.gep(pointer, [ir.IntType(64)(offset)]) for offset in offsets]
        return _pack(context, builder, vector, [_load(builder, p, vector) for p in places])

    return types.UniTuple(vector, len(offsets))(array, types.intp, width), code


@intrinsic
def store_row(typing, array, index, row):
    """Write vectors side by side, from array[index] on."""
    vector = row.dtype

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[0], args[1])
        for v, value in enumerate(_unpack(builder, args[2])):
            place = builder.gep(pointer, [ir.IntType(64)(v * vector.lanes)])
            _store(builder, value, place, vector)
        return context.get_dummy_value()

    return types.void(array, types.intp, row), code


@intrinsic(prefer_literal=True)
def load_tile(typing, array, index, stride, count, width):
    """``count`` rows of ``width`` vectors, at array[index], array[index + stride], ..."""
    vector = Vector(array.dtype)
    rows, columns = _number(count), _number(width)

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[0], args[1])
        values = []
        for _ in range(rows):
            for v in range(columns):
                place = builder.gep(pointer, [ir.IntType(64)(v * vector.lanes)])
                values.append(_load(builder, place, vector))
            pointer = builder.gep(pointer, [args[2]])
        return _pack(context, builder, vector, values)

    signature = (array, types.intp, types.intp, count, width)
    return types.UniTuple(vector, rows * columns)(*signature), code


@intrinsic(prefer_literal=True)
def store_tile(typing, array, index, stride, tile, width):
    """Write a tile, its rows to array[index], array[index + stride], ..."""
    vector, columns = tile.dtype, _number(width)

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[0], args[1])
        for i, value in enumerate(_unpack(builder, args[3])):
            place = builder.gep(pointer, [ir.IntType(64)(i % columns * vector.lanes)])
            _store(builder, value, place, vector)
            if i % columns == columns - 1:
                pointer = builder.gep(pointer, [args[2]])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, tile, width), code


@intrinsic(prefer_literal=True)
def splat_tile(typing, array, index, count, width):
    """``count`` rows of ``width`` vectors; array[index + j] in every lane of row j."""
    vector = Vector(array.dtype)
    rows, columns = _number(count), _number(width)

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[0], args[1])
        numbers = [_load_number(builder, pointer, j) for j in range(rows)]
        values = [_splat(builder, number, vector) for number in numbers for _ in range(columns)]
        return _pack(context, builder, vector, values)

    return types.UniTuple(vector, rows * columns)(array, types.intp, count, width), code


@intrinsic(prefer_literal=True)
def zeros_tile(typing, array, count):
    """``count`` vectors of zeros, of the array's dtype."""
    vector = Vector(array.dtype)
    number = _number(count)

    def code(context, builder, signature, args):
        zero = ir.Constant(_llvm_type(vector), None)
        return _pack(context, builder, vector, [zero] * number)

    return types.UniTuple(vector, number)(array, count), code


@intrinsic
def zeros_like(typing, tile):
    """Zeros in the shape of a tile."""

    def code(context, builder, signature, args):
        zero = ir.Constant(_llvm_type(tile.dtype), None)
        return _pack(context, builder, tile.dtype, [zero] * tile.count)

    return tile(tile), code


# Products ----------------------------------------------------------------------------------


@intrinsic
def add_dot(typing, row, array, index, tile):
    """row + sum_j array[index + j] tile[j]: numbers times rows of vectors."""
    vector, columns = row.dtype, row.count

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[1], args[2])
        totals = _unpack(builder, args[0])
        for i, value in enumerate(_unpack(builder, args[3])):
            j, v = divmod(i, columns)
            if v == 0:
                number = _splat(builder, _load_number(builder, pointer, j), vector)
            totals[v] = _fma(builder, number, value, totals[v])
        return _pack(context, builder, vector, totals)

    return row(row, array, types.intp, tile), code


@intrinsic(prefer_literal=True)
def add_dots(typing, rows, array, index, stride, tile, width):
    """``add_dot`` for several rows: rows[r] + sum_j array[index + r stride + j] tile[j].

    A sum is a chain of products, each of which waits for the one before; several chains side by
    side keep the processor busy.
    """
    vector, columns = rows.dtype, _number(width)

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[1], args[2])
        totals, values = _unpack(builder, args[0]), _unpack(builder, args[4])
        places = [pointer]
        for _ in range(len(totals) // columns - 1):
            places.append(builder.gep(places[-1], [args[3]]))
        for j in range(len(values) // columns):
            for r, place in enumerate(places):
                number = _splat(builder, _load_number(builder, place, j), vector)
                for v in range(columns):
                    at = r * columns + v
                    totals[at] = _fma(builder, number, values[j * columns + v], totals[at])
        return _pack(context, builder, vector, totals)

    return rows(rows, array, types.intp, types.intp, tile, width), code


@intrinsic
def add_scaled(typing, tile, array, index, row):
    """tile[j] + array[index + j] row, for each j: one row spread over a tile."""
    vector, columns = row.dtype, row.count

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[1], args[2])
        factors = _unpack(builder, args[3])
        values = []
        for i, total in enumerate(_unpack(builder, args[0])):
            j, v = divmod(i, columns)
            if v == 0:
                number = _splat(builder, _load_number(builder, pointer, j), vector)
            values.append(_fma(builder, number, factors[v], total))
        return _pack(context, builder, vector, values)

    return tile(tile, array, types.intp, row), code


@intrinsic
def add_outer(typing, totals, left, right):
    """totals[i * len(right) + j] + left[i] right[j], lane by lane."""

    def code(context, builder, signature, args):
        a, b = _unpack(builder, args[1]), _unpack(builder, args[2])
        sums = iter(_unpack(builder, args[0]))
        values = [_fma(builder, x, y, next(sums)) for x in a for y in b]
        return _pack(context, builder, totals.dtype, values)

    return totals(totals, left, right), code


@intrinsic
def add_store_sums(typing, array, index, tile):
    """array[index + i] += the sum over the lanes of tile[i], by a tree of shuffles.

    Writes whole vectors: the tile counts as filled up with zeros to a multiple of the lanes.
    """
    vector = tile.dtype

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, array, args[0], args[1])
        values = _unpack(builder, args[2])
        zero = ir.Constant(_llvm_type(vector), None)
        for first in range(0, len(values), vector.lanes):
            group = values[first : first + vector.lanes]
            group += [zero] * (vector.lanes - len(group))
            place = builder.gep(pointer, [ir.IntType(64)(first)])
            before = _load(builder, place, vector)
            _store(builder, builder.fadd(before, _lane_sums(builder, group)), place, vector)
        return context.get_dummy_value()

    return types.void(array, types.intp, tile), code


def _lane_sums(builder: Any, vectors: list[Any]) -> Any:
    """One vector whose lane i is the sum of vectors[i].

    Each round folds two vectors into one: it adds the halves of either, so that the result
    holds twice as many sums with half as many terms to go. Terms of the sums are interleaved.
    """
    count, held = len(vectors), 1  # sums held in each vector
    while len(vectors) > 1:
        places = [divmod(lane, 2 * held) for lane in range(count)]
        low = [term * held + i % held + (count if i >= held else 0) for term, i in places]
        high = [lane + count // 2 for lane in low]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            builder.fadd(_shuffle(builder, a, b, low), _shuffle(builder, a, b, high))
            for a, b in pairs
        ]
        held *= 2
    return vectors[0]


def _shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)
    return builder.shuffle_vector(a, b, mask)


# Lane by lane, over rows and tiles alike -----------------------------------------------------


def _lanewise(build: Callable[..., Any]) -> Callable[[Any, Any, Any, list[Any]], Any]:
    """Code that applies ``build(builder, *vectors)`` along tiles of equal length."""

    def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        columns = zip(*(_unpack(builder, tile) for tile in args), strict=True)
        values = [build(builder, *column) for column in columns]
        return _pack(context, builder, signature.return_type.dtype, values)

    return code


@intrinsic
def add(typing, a, b):
    """a + b"""
    return a(a, b), _lanewise(lambda builder, a, b: builder.fadd(a, b))


@intrinsic
def relu(typing, a):
    """max(a, 0), and NaN for NaN as torch has it"""
    return a(a), _lanewise(_relu)


def _relu(builder: Any, a: Any) -> Any:
    zero = ir.Constant(a.type, None)
    return builder.select(builder.fcmp_ordered("<", a, zero), zero, a)


@intrinsic
def relu_backward(typing, gradient, value):
    """The gradient where the value is above zero"""
    return gradient(gradient, value), _lanewise(_relu_backward)


def _relu_backward(builder: Any, gradient: Any, value: Any) -> Any:
    zero = ir.Constant(value.type, None)
    return builder.select(builder.fcmp_ordered("<=", value, zero), zero, gradient)


@intrinsic
def tanh_backward(typing, gradient, value):
    """gradient (1 - value^2), the value being a tanh"""
    return gradient(gradient, value), _lanewise(_tanh_backward)


def _tanh_backward(builder: Any, gradient: Any, value: Any) -> Any:
    return builder.fsub(gradient, builder.fmul(gradient, builder.fmul(value, value)))


@intrinsic
def tanh(typing, a):
    """tanh(a), to the last bits of the dtype"""
    return a(a), _lanewise(_tanh)


def _tanh(builder: Any, a: Any) -> Any:
    """sign(a) e / (e + 2) with e = exp(2 |a|) - 1: no digits are lost near 0."""
    kind, double = a.type, a.type.element == ir.DoubleType()
    bits = ir.VectorType(ir.IntType(64 if double else 32), kind.count)
    sign_bit = ir.Constant(bits, [1 << (63 if double else 31)] * kind.count)
    raw = builder.bitcast(a, bits)
    sign = builder.and_(raw, sign_bit)
    size = builder.bitcast(builder.xor(raw, sign), kind)
    limit = _constant(kind, 20.0 if double else 10.0)  # tanh is 1 from here on
    size = builder.select(builder.fcmp_ordered(">", size, limit), limit, size)
    e = _expm1(builder, builder.fadd(size, size))
    result = builder.fdiv(e, builder.fadd(e, _constant(kind, 2.0)))
    return builder.bitcast(builder.or_(builder.bitcast(result, bits), sign), kind)


def _expm1(builder: Any, x: Any) -> Any:
    """exp(x) - 1 for 0 <= x <= 40: x = n log 2 + r, a series for r, and a power of two."""
    kind, double = x.type, x.type.element == ir.DoubleType()
    bits = ir.VectorType(ir.IntType(64 if double else 32), kind.count)
    whole = builder.fptosi(
        _fma(builder, x, _constant(kind, 1 / math.log(2)), _constant(kind, 0.5)), bits
    )
    n = builder.sitofp(whole, kind)
    high = 0.693359375  # log 2 in two parts: n times the first is exact
    r = _fma(builder, n, _constant(kind, -high), x)
    r = _fma(builder, n, _constant(kind, high - math.log(2)), r)
    degree = 14 if double else 8
    series = _constant(kind, 1 / math.factorial(degree))
    for power in range(degree - 1, 0, -1):
        series = _fma(builder, series, r, _constant(kind, 1 / math.factorial(power)))
    series = builder.fmul(series, r)  # exp(r) - 1
    shift, bias = (52, 1023) if double else (23, 127)
    biased = builder.add(whole, ir.Constant(bits, [bias] * kind.count))
    power = builder.bitcast(builder.shl(biased, ir.Constant(bits, [shift] * kind.count)), kind)
    return _fma(builder, series, power, builder.fsub(power, _constant(kind, 1.0)))


def _constant(kind: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


@intrinsic
def keep_before(typing, tile, stops, now):
    """The tile in the lanes whose stop is above the number ``now``, and 0 in the others."""
    vector, columns = stops.dtype, stops.count

    def code(context, builder, signature, args):
        limit = _splat(builder, args[2], vector)
        zero = ir.Constant(_llvm_type(vector), None)
        running = [builder.fcmp_ordered(">", s, limit) for s in _unpack(builder, args[1])]
        values = [
            builder.select(running[i % columns], value, zero)
            for i, value in enumerate(_unpack(builder, args[0]))
        ]
        return _pack(context, builder, vector, values)

    return tile(tile, stops, vector.scalar), code


# The nonlinearities, told apart by the lengths of tuples: so a kernel is compiled for each, and
# has no choice left to make where it runs.
RELU, TANH, IDENTITY = (0,), (0, 0), (0, 0, 0)


@njit(inline="always")
def apply(kind, value):
    """phi(value), for a vector or a tile."""
    if len(kind) == len(RELU):
        return relu(value)
    if len(kind) == len(TANH):
        return tanh(value)
    return value


@njit(inline="always")
def apply_backward(kind, gradient, value):
    """gradient times the slope of phi where it took this value."""
    if len(kind) == len(RELU):
        return relu_backward(gradient, value)
    if len(kind) == len(TANH):
        return tanh_backward(gradient, value)
    return gradient
