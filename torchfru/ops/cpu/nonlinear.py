"""The nonlinearities and their slopes, as LLVM code over rows and tiles, and where samples end."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

from .simd import fma, lanewise, llvm_type, pack, splat, unpack


@intrinsic
def relu(typing, a):
    """max(a, 0), and NaN for NaN as torch has it"""
    return a(a), lanewise(_relu)


def _relu(builder: Any, a: Any) -> Any:
    zero = ir.Constant(a.type, None)
    return builder.select(builder.fcmp_ordered("<", a, zero), zero, a)


@intrinsic
def relu_backward(typing, gradient, value):
    """The gradient where the value is above zero"""
    return gradient(gradient, value), lanewise(_relu_backward)


def _relu_backward(builder: Any, gradient: Any, value: Any) -> Any:
    zero = ir.Constant(value.type, None)
    return builder.select(builder.fcmp_ordered("<=", value, zero), zero, gradient)


@intrinsic
def tanh_backward(typing, gradient, value):
    """gradient (1 - value^2), the value being a tanh"""
    return gradient(gradient, value), lanewise(_tanh_backward)


def _tanh_backward(builder: Any, gradient: Any, value: Any) -> Any:
    return builder.fsub(gradient, builder.fmul(gradient, builder.fmul(value, value)))


@intrinsic
def tanh(typing, a):
    """tanh(a), to the last bits of the dtype"""
    return a(a), lanewise(_tanh)


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
        fma(builder, x, _constant(kind, 1 / math.log(2)), _constant(kind, 0.5)), bits
    )
    n = builder.sitofp(whole, kind)
    high = 0.693359375  # log 2 in two parts: n times the first is exact
    r = fma(builder, n, _constant(kind, -high), x)
    r = fma(builder, n, _constant(kind, high - math.log(2)), r)
    degree = 14 if double else 8
    series = _constant(kind, 1 / math.factorial(degree))
    for power in range(degree - 1, 0, -1):
        series = fma(builder, series, r, _constant(kind, 1 / math.factorial(power)))
    series = builder.fmul(series, r)  # exp(r) - 1
    shift, bias = (52, 1023) if double else (23, 127)
    biased = builder.add(whole, ir.Constant(bits, [bias] * kind.count))
    power = builder.bitcast(builder.shl(biased, ir.Constant(bits, [shift] * kind.count)), kind)
    return fma(builder, series, power, builder.fsub(power, _constant(kind, 1.0)))


def _constant(kind: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


@intrinsic
def keep_before(typing, tile, stops, now):
    """The tile in the lanes whose stop is above the number ``now``, and 0 in the others."""
    vector, columns = stops.dtype, stops.count

    def code(context, builder, signature, args):
        limit = splat(builder, args[2], vector)
        zero = ir.Constant(llvm_type(vector), None)
        running = [builder.fcmp_ordered(">", s, limit) for s in unpack(builder, args[1])]
        values = [
            builder.select(running[i % columns], value, zero)
            for i, value in enumerate(unpack(builder, args[0]))
        ]
        return pack(context, builder, vector, values)

    return tile(tile, stops, vector.scalar), code


# Tuple length selects phi at compile time: a kernel is compiled for each, and chooses nothing where
# it runs.
RELU, TANH, IDENTITY = (0,), (0, 0), (0, 0, 0)
KINDS = {"relu": RELU, "tanh": TANH, "identity": IDENTITY}


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
