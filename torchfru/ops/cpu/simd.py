"""Kernels, and the vectors and tiles that they compute with, as LLVM code.

Numba vectorises simple loops, but does not keep a tile of sums in registers while a loop runs over
something else. So a kernel here works on tuples of :class:`Vector`, a hardware vector of numbers,
and LLVM holds these tuples in registers. A row is ``width`` vectors side by side, a tile is
``count`` rows, one after another in one tuple.

Arrays are contiguous and come with an offset, counted in numbers. ``count`` and ``width`` are known
when a kernel is compiled: constants, or tuples of any integers, whose length counts, or an array,
for as many as a vector has lanes of its dtype.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils, event
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import populate_array

# Kernels ---------------------------------------------------------------------------------------
#
# A kernel takes arrays, first those that it reads, and knows nothing of torch. Symbols are those of
# :mod:`torchfru.ops.collapsed`; ``d_`` before a name means its gradient. The gradient of h comes in
# as ``d_h``, and that of U x + b2 replaces it. ``kind`` is one of :mod:`.nonlinear`. Sizes are
# padded with zeros.
#
# The backward pass needs g = phi(z) at every step, but z is kept only before every SEGMENT-th step:
# a segment is recomputed from there, with the h that are known, just before it is run backwards.

SEGMENT = 16  # steps between two checkpoints of z


def kernel(function: Callable[..., None]) -> Any:
    """Compiled on the first call for its types, and kept on disk where that is possible."""
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(nogil=True, error_model="numpy")(function)


class _CompileNotice(event.Listener):  # type: ignore[misc]
    """Tells whoever waits for the first call that a kernel is compiled, not loaded from disk."""

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith(__package__):
            _say_compiling()

    def on_end(self, event: Any) -> None:
        pass


@cache  # once in a process, however many kernels it needs
def _say_compiling() -> None:
    message = "torchfru: compiling the CPU kernels for this machine, once (about 20 seconds) ..."
    print(message, file=sys.stderr, flush=True)


event.register("numba:compile", _CompileNotice())

# Vectors ---------------------------------------------------------------------------------------


def _has(feature: str) -> bool:
    """Whether Numba may use it: NUMBA_CPU_FEATURES, or what this processor has."""
    if config.CPU_FEATURES is not None:
        return f"+{feature}" in config.CPU_FEATURES.split(",")
    return bool(llvm.get_host_cpu_features().get(feature, False))


# 512-bit vectors come with 32 registers, enough for tiles of ten; AVX2 has 16, for tiles of five.
WIDE = _has("avx512f")
VECTOR_BYTES = 64 if WIDE else 32
MAX_TILE = 10 if WIDE else 5
# Sums over samples are made in blocks of some entries of g times some of h: 3 times 5 are 15 sums,
# which nearly fill a vector and leave 32 registers enough for their factors; with AVX2's 16 it is
# 2 times 5. Widths are padded accordingly.
G_UNIT, H_UNIT = 3 if WIDE else 2, 5
BLOCK = G_UNIT * H_UNIT


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


@intrinsic
def lanes_of(typing, array):
    """Numbers of this array in a vector, as a constant: a loop by a constant needs no division."""
    count = lanes(array.dtype.bitwidth // 8)

    def code(context, builder, signature, args):
        return context.get_constant(types.intp, count)

    return types.intp(array), code


def llvm_type(vector: Vector) -> ir.VectorType:
    number = ir.FloatType() if vector.scalar.bitwidth == 32 else ir.DoubleType()
    return ir.VectorType(number, vector.lanes)


def count_of(kind: Any) -> int:
    """The value of a constant, the length of a tuple, or the lanes of a vector of an array."""
    if isinstance(kind, types.Array):
        return lanes(kind.dtype.bitwidth // 8)
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


@intrinsic(prefer_literal=True)
def array_at(typing, address, shape, like, writable):
    """The contiguous array of this shape at an address, of the dtype of the array ``like``."""
    array = types.Array(like.dtype, len(shape), "C", readonly=not writable.literal_value)

    def code(context, builder, signature, args):
        made = context.make_array(array)(context, builder)
        itemsize = context.get_constant(types.intp, like.dtype.bitwidth // 8)
        sizes = cgutils.unpack_tuple(builder, args[1])
        strides = [itemsize]
        for size in sizes[:0:-1]:
            strides.insert(0, builder.mul(size, strides[0]))
        data = builder.inttoptr(args[0], made.data.type)
        populate_array(made, data, sizes, strides, itemsize, None)
        return made._getvalue()

    return array(types.intp, shape, like, writable), code


# Loads, stores, constants ------------------------------------------------------------------


@intrinsic(prefer_literal=True)
def load_row(typing, array, index, width):
    """``width`` vectors side by side, from array[index] on."""
    vector = Vector(array.dtype)
    offsets = [v * vector.lanes for v in range(count_of(width))]

    def code(context, builder, signature, args):
        pointer = pointer_at(context, builder, array, args[0], args[1])
        places = [builder.gep(pointer, [ir.IntType(64)(offset)]) for offset in offsets]
        return pack(context, builder, vector, [load(builder, p, vector) for p in places])

    return types.UniTuple(vector, len(offsets))(array, types.intp, width), code


@intrinsic
def store_row(typing, array, index, row):
    """Write vectors side by side, from array[index] on."""
    _require_mutable(array)
    vector = row.dtype

    def code(context, builder, signature, args):
        pointer = pointer_at(context, builder, array, args[0], args[1])
        for v, value in enumerate(unpack(builder, args[2])):
            place = builder.gep(pointer, [ir.IntType(64)(v * vector.lanes)])
            store(builder, value, place, vector)
        return context.get_dummy_value()

    return types.void(array, types.intp, row), code


def _require_mutable(array: types.Array) -> None:
    """As Numba does for ``array[i] = ...``."""
    if not array.mutable:
        raise TypingError(f"cannot store into {array}: the kernel was given it to read")


@intrinsic(prefer_literal=True)
def load_tile(typing, array, index, stride, count, width):
    """``count`` rows of ``width`` vectors, at array[index], array[index + stride], ..."""
    vector = Vector(array.dtype)
    rows, columns = count_of(count), count_of(width)

    def code(context, builder, signature, args):
        pointer = pointer_at(context, builder, array, args[0], args[1])
        values = []
        for _ in range(rows):
            for v in range(columns):
                place = builder.gep(pointer, [ir.IntType(64)(v * vector.lanes)])
                values.append(load(builder, place, vector))
            pointer = builder.gep(pointer, [args[2]])
        return pack(context, builder, vector, values)

    signature = (array, types.intp, types.intp, count, width)
    return types.UniTuple(vector, rows * columns)(*signature), code


@intrinsic(prefer_literal=True)
def store_tile(typing, array, index, stride, tile, width):
    """Write a tile, its rows to array[index], array[index + stride], ..."""
    _require_mutable(array)
    vector, columns = tile.dtype, count_of(width)

    def code(context, builder, signature, args):
        pointer = pointer_at(context, builder, array, args[0], args[1])
        for i, value in enumerate(unpack(builder, args[3])):
            place = builder.gep(pointer, [ir.IntType(64)(i % columns * vector.lanes)])
            store(builder, value, place, vector)
            if i % columns == columns - 1:
                pointer = builder.gep(pointer, [args[2]])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, tile, width), code


@intrinsic(prefer_literal=True)
def splat_tile(typing, array, index, count, width):
    """``count`` rows of ``width`` vectors; array[index + j] in every lane of row j."""
    vector = Vector(array.dtype)
    rows, columns = count_of(count), count_of(width)

    def code(context, builder, signature, args):
        pointer = pointer_at(context, builder, array, args[0], args[1])
        numbers = [load_number(builder, pointer, j) for j in range(rows)]
        values = [splat(builder, number, vector) for number in numbers for _ in range(columns)]
        return pack(context, builder, vector, values)

    return types.UniTuple(vector, rows * columns)(array, types.intp, count, width), code


@intrinsic(prefer_literal=True)
def zeros_tile(typing, array, count, width):
    """``count`` rows of ``width`` vectors of zeros, of the array's dtype."""
    vector = Vector(array.dtype)
    number = count_of(count) * count_of(width)

    def code(context, builder, signature, args):
        zero = ir.Constant(llvm_type(vector), None)
        return pack(context, builder, vector, [zero] * number)

    return types.UniTuple(vector, number)(array, count, width), code


# Products ----------------------------------------------------------------------------------


@intrinsic
def add_dot(typing, row, array, index, tile):
    """row + sum_j array[index + j] tile[j]: numbers times rows of vectors."""
    vector, columns = row.dtype, row.count

    def code(context, builder, signature, args):
        pointer = pointer_at(context, builder, array, args[1], args[2])
        totals = unpack(builder, args[0])
        for i, value in enumerate(unpack(builder, args[3])):
            j, v = divmod(i, columns)
            if v == 0:
                number = splat(builder, load_number(builder, pointer, j), vector)
            totals[v] = fma(builder, number, value, totals[v])
        return pack(context, builder, vector, totals)

    return row(row, array, types.intp, tile), code


@intrinsic(prefer_literal=True)
def add_dots(typing, rows, array, index, stride, tile, width):
    """``add_dot`` for several rows: rows[r] + sum_j array[index + r stride + j] tile[j].

    A sum is a chain of products, each of which waits for the one before; several chains side by
    side keep the processor busy.
    """
    vector, columns = rows.dtype, count_of(width)

    def code(context, builder, signature, args):
        pointer = pointer_at(context, builder, array, args[1], args[2])
        totals, values = unpack(builder, args[0]), unpack(builder, args[4])
        places = [pointer]
        for _ in range(len(totals) // columns - 1):
            places.append(builder.gep(places[-1], [args[3]]))
        for j in range(len(values) // columns):
            for r, place in enumerate(places):
                number = splat(builder, load_number(builder, place, j), vector)
                for v in range(columns):
                    at = r * columns + v
                    totals[at] = fma(builder, number, values[j * columns + v], totals[at])
        return pack(context, builder, vector, totals)

    return rows(rows, array, types.intp, types.intp, tile, width), code


@intrinsic
def add_scaled(typing, tile, array, index, row):
    """tile[j] + array[index + j] row, for each j: one row spread over a tile."""
    vector, columns = row.dtype, row.count

    def code(context, builder, signature, args):
        pointer = pointer_at(context, builder, array, args[1], args[2])
        factors = unpack(builder, args[3])
        values = []
        for i, total in enumerate(unpack(builder, args[0])):
            j, v = divmod(i, columns)
            if v == 0:
                number = splat(builder, load_number(builder, pointer, j), vector)
            values.append(fma(builder, number, factors[v], total))
        return pack(context, builder, vector, values)

    return tile(tile, array, types.intp, row), code


@intrinsic
def add_outer(typing, totals, left, right):
    """totals[i * len(right) + j] + left[i] right[j], lane by lane."""

    def code(context, builder, signature, args):
        a, b = unpack(builder, args[1]), unpack(builder, args[2])
        sums = iter(unpack(builder, args[0]))
        values = [fma(builder, x, y, next(sums)) for x in a for y in b]
        return pack(context, builder, totals.dtype, values)

    return totals(totals, left, right), code


@intrinsic
def lane_sums(typing, tile):
    """The sum over the lanes of each vector, as a row, by a tree of shuffles.

    Whole vectors: the tile counts as filled up with zeros to a multiple of the lanes.
    """
    vector = tile.dtype
    count = -(-tile.count // vector.lanes)

    def code(context, builder, signature, args):
        values = unpack(builder, args[0])
        values += [ir.Constant(llvm_type(vector), None)] * (count * vector.lanes - len(values))
        groups = [values[i * vector.lanes : (i + 1) * vector.lanes] for i in range(count)]
        return pack(context, builder, vector, [_lane_sums(builder, group) for group in groups])

    return types.UniTuple(vector, count)(tile), code


@intrinsic
def transpose_tile(typing, tile):
    """As many vectors as they have lanes: lane i of vector j becomes lane j of vector i."""

    def code(context, builder, signature, args):
        vectors, lanes = unpack(builder, args[0]), range(tile.count)
        step = 1
        while step < tile.count:
            low = [lane if not lane & step else tile.count + lane - step for lane in lanes]
            high = [lane + step if not lane & step else tile.count + lane for lane in lanes]
            for i in lanes:
                if not i & step:
                    a, b = vectors[i], vectors[i + step]
                    vectors[i] = _shuffle(builder, a, b, low)
                    vectors[i + step] = _shuffle(builder, a, b, high)
            step *= 2
        return pack(context, builder, tile.dtype, vectors)

    return tile(tile), code


@njit(inline="always")
def add_store_sums(array, index, tile):
    """array[index + i] += the sum over the lanes of tile[i]; whole vectors, as they are summed."""
    sums = lane_sums(tile)
    store_row(array, index, add(load_row(array, index, sums), sums))


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


# Lane by lane ----------------------------------------------------------------------------------


def lanewise(build: Callable[..., Any]) -> Callable[[Any, Any, Any, list[Any]], Any]:
    """Code that applies ``build(builder, *vectors)`` along rows or tiles of equal length."""

    def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        columns = zip(*(unpack(builder, tile) for tile in args), strict=True)
        values = [build(builder, *column) for column in columns]
        return pack(context, builder, signature.return_type.dtype, values)

    return code


@intrinsic
def add(typing, a, b):
    """a + b"""
    return a(a, b), lanewise(lambda builder, a, b: builder.fadd(a, b))
