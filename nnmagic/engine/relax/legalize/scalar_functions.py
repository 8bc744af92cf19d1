"""Define element functions that TVM lacks, or that differ there from NumPy and Relay.

TVM leaves integer division by zero and over-long shifts to the machine, where the first kills the process;
its ``max`` and ``min`` drop NaN on one side; its ``!=`` of NaN is false.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import tirx

from nnmagic.engine.relax.legalize.types import ElementFunction, Tensor
from nnmagic.engine.relax.tir import vector_math
from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.relay.types import is_float, is_integer

#: Floating-point dtypes that are accumulated in float32.
NARROW_FLOATS = ("float16", "bfloat16")


def dtype_of(value: PrimExpr | Tensor) -> str:
    """Return the dtype of a TIR expression or a tensor."""
    return str(value.dtype if isinstance(value, tvm.te.Tensor) else value.ty.dtype)


def constant(value: float, like: PrimExpr) -> PrimExpr:
    """Return a constant of the dtype of ``like``; a number beyond what a float holds becomes infinite."""
    dtype = dtype_of(like)
    if dtype in ("float16", "float32"):  # TVM refuses such a number
        with np.errstate(over="ignore"):
            value = float(np.array(value, dtype))
    return tirx.const(value, dtype)


def is_nan(value: PrimExpr) -> PrimExpr:
    """Return whether a floating-point number is NaN. (TVM's simplifier takes ``x != x`` for false.)"""
    return tirx.isnan(_widen_bfloat16(value))


def is_finite(value: PrimExpr) -> PrimExpr:
    """Return whether a floating-point number is neither infinite nor NaN."""
    wide = _widen_bfloat16(value)
    return tirx.abs(wide) < tirx.const(float("inf"), dtype_of(wide))


def is_infinite(value: PrimExpr) -> PrimExpr:
    """Return whether a floating-point number is infinite, of either sign."""
    wide = _widen_bfloat16(value)
    return tirx.abs(wide) >= tirx.const(float("inf"), dtype_of(wide))


def _widen_bfloat16(value: PrimExpr) -> PrimExpr:
    return value.astype("float32") if dtype_of(value) == "bfloat16" else value


def is_true(value: PrimExpr) -> PrimExpr:
    """Return whether a value is true or not zero."""
    return value if dtype_of(value) == "bool" else not_equal(value, constant(0, value))


def logical_or(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return whether one of two truth values holds. (TVM takes ``x < y or x >= y`` for true, even of NaN.)"""
    return tirx.const(0, "int8") < tirx.bitwise_or(lhs.astype("int8"), rhs.astype("int8"))


def logical_not(value: PrimExpr) -> PrimExpr:
    """Negate a truth value. (TVM turns a negated ``<`` into ``>=``, which differs for NaN.)"""
    return value.astype("int8") < tirx.const(1, "int8")


def maximum(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return the larger number, or NaN if either is NaN."""
    if dtype_of(lhs) == "bool":
        return tirx.any(lhs, rhs)
    if not is_float(dtype_of(lhs)):
        return tirx.max(lhs, rhs)
    return tirx.Select(tirx.any(lhs > rhs, is_nan(lhs)), lhs, rhs)


def minimum(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return the smaller number, or NaN if either is NaN."""
    if dtype_of(lhs) == "bool":
        return tirx.all(lhs, rhs)
    if not is_float(dtype_of(lhs)):
        return tirx.min(lhs, rhs)
    return tirx.Select(tirx.any(lhs < rhs, is_nan(lhs)), lhs, rhs)


def not_equal(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return whether two numbers differ; NaN differs from everything."""
    if dtype_of(lhs) == "bool":
        return tirx.any(tirx.all(lhs, logical_not(rhs)), tirx.all(logical_not(lhs), rhs))
    if not is_float(dtype_of(lhs)):
        return lhs != rhs
    # In pairs: LLVM makes one comparison of the four.
    return tirx.any(tirx.any(lhs < rhs, lhs > rhs), tirx.any(is_nan(lhs), is_nan(rhs)))


def equal(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return whether two numbers are equal.

    LLVM refuses TVM's own comparison of truth values, and TVM takes ``x == x`` for true, even of NaN.
    """
    exact = dtype_of(lhs) != "bool" and not is_float(dtype_of(lhs))
    return lhs == rhs if exact else logical_not(not_equal(lhs, rhs))


def less(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return whether ``lhs`` is smaller; False is smaller than True."""
    return tirx.all(logical_not(lhs), rhs) if dtype_of(lhs) == "bool" else lhs < rhs


def less_equal(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return whether ``lhs`` is not larger; False is smaller than True."""
    return tirx.any(logical_not(lhs), rhs) if dtype_of(lhs) == "bool" else lhs <= rhs


#: The dtype to compute in so that overflow wraps; in these dtypes TVM tells LLVM that there is no overflow.
#: LLVM makes plain instructions of the narrow dtype of that.
WRAPPING = {"int32": "int64", "uint32": "int64", "int64": "int128", "uint64": "int64"}


def wrap_constant(value: PrimExpr, dtype: str) -> PrimExpr:
    """Cast an integer constant to an integer dtype; TVM refuses one that is out of the range."""
    if not isinstance(value, tirx.IntImm):
        return value.astype(dtype)
    limits = np.iinfo(dtype)
    wrapped = (int(value.value) - int(limits.min)) % (1 << limits.bits) + int(limits.min)
    return tirx.const(wrapped, dtype)


def wrap_overflow(function: ElementFunction) -> ElementFunction:
    """Let the integer results of an arithmetic function wrap, as NumPy's do."""

    def compute_and_wrap(*operands: PrimExpr) -> PrimExpr:
        dtype = dtype_of(operands[0])
        if is_integer(dtype) and all(isinstance(operand, tirx.IntImm) for operand in operands):
            return wrap_constant(function(*(operand.astype("int128") for operand in operands)), dtype)
        if dtype not in WRAPPING:
            return function(*operands)
        return function(*(operand.astype(WRAPPING[dtype]) for operand in operands)).astype(dtype)

    return compute_and_wrap


negative = wrap_overflow(lambda value: constant(0, value) - value if is_integer(dtype_of(value)) else -value)


def absolute(value: PrimExpr) -> PrimExpr:
    """Return the absolute value; that of the smallest integer is itself."""
    if not is_integer(dtype_of(value)):
        return tirx.abs(value)
    return tirx.Select(value < constant(0, value), negative(value), value)


def multiply_all(factors: Sequence[PrimExpr]) -> PrimExpr:
    """Multiply all factors, from left to right."""
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def guard_division(divide: ElementFunction, by_minus_one: ElementFunction) -> ElementFunction:
    """Return an integer division that cannot trap: by 0 it gives 0, as NumPy does; by -1 ``by_minus_one``."""

    def divide_safely(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
        zero, one = constant(0, rhs), constant(1, rhs)
        if dtype_of(rhs).startswith("uint"):
            safe = tirx.Select(rhs == zero, one, rhs)
            return tirx.Select(rhs == zero, zero, divide(lhs, safe))
        minus = constant(-1, rhs)
        safe = tirx.Select(tirx.any(rhs == zero, rhs == minus), one, rhs)
        quotient = tirx.Select(rhs == minus, by_minus_one(lhs), divide(lhs, safe))
        return tirx.Select(rhs == zero, zero, quotient)

    return divide_safely


def _negate(value: PrimExpr) -> PrimExpr:
    return constant(0, value) - value


def _zero_like(value: PrimExpr) -> PrimExpr:
    return constant(0, value)


_TRUNC_DIVIDE = guard_division(tirx.truncdiv, _negate)
_TRUNC_MOD = guard_division(tirx.truncmod, _zero_like)
_FLOOR_DIVIDE = guard_division(tirx.floordiv, _negate)
_FLOOR_MOD = guard_division(tirx.floormod, _zero_like)


def trunc_divide(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Divide and round towards zero."""
    return tirx.trunc(lhs / rhs) if is_float(dtype_of(lhs)) else _TRUNC_DIVIDE(lhs, rhs)


def trunc_mod(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return the remainder of truncated division, with the sign of ``lhs``; exact, also of floats."""
    return vector_math.fmod(lhs, rhs) if is_float(dtype_of(lhs)) else _TRUNC_MOD(lhs, rhs)


def floor_divide(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Divide and round down; for floats, as NumPy, subtract the exact remainder first."""
    if not is_float(dtype_of(lhs)):
        return _FLOOR_DIVIDE(lhs, rhs)
    remainder, q = (tirx.Var(name, dtype_of(lhs)) for name in ("rest", "quotient"))
    quotient = (lhs - remainder) / rhs
    below = tirx.Select(_differs_in_sign(remainder, rhs), quotient - constant(1, lhs), quotient)
    floor = tirx.floor(q)
    nearest = tirx.Select(q - floor > constant(0.5, lhs), floor + constant(1, lhs), floor)
    signed = tirx.Select(q == constant(0, lhs), _zero_of_quotient(lhs, rhs), nearest)
    floored = tirx.Let(remainder, vector_math.fmod(lhs, rhs), tirx.Let(q, below, signed))
    return tirx.Select(rhs == constant(0, lhs), lhs / rhs, floored)


def _zero_of_quotient(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return 0 with the sign of ``left / right``, by the bits: TVM takes ``0 / x`` for 0, ignoring signs."""
    dtype = dtype_of(lhs)
    bits = {"float32": "int32", "float64": "int64"}[dtype]
    sign = tirx.reinterpret(bits, lhs) ^ tirx.reinterpret(bits, rhs)
    return tirx.reinterpret(dtype, sign & tirx.min_value(bits))


def floor_mod(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return the remainder of floored division, with the sign of ``rhs``; exact, also of floats."""
    if not is_float(dtype_of(lhs)):
        return _FLOOR_MOD(lhs, rhs)
    zero, remainder = constant(0, lhs), tirx.Var("rest", dtype_of(lhs))
    nothing = tirx.Select(rhs < zero, -tirx.abs(remainder), tirx.abs(remainder))
    q = tirx.Select(
        _differs_in_sign(remainder, rhs), remainder + rhs, tirx.Select(remainder == zero, nothing, remainder)
    )
    return tirx.Let(remainder, vector_math.fmod(lhs, rhs), q)


def floor_divide_by(value: PrimExpr, divisor: int) -> PrimExpr:
    """Divide an int64 by a constant of at least 2 and round down; CPUs do not divide vectors of integers.

    The magnitude, less 1 if the value is negative, is multiplied by 2**(63 + length) / divisor, rounded up.
    Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994, theorem 4.2.
    """
    bits = tirx.reinterpret("uint64", value)  # TVM would simplify a shift of ``value`` as if none overflowed
    is_negative = tirx.shift_right(bits, tirx.const(63, "uint64")) > tirx.const(0, "uint64")
    sign = tirx.Select(is_negative, tirx.const(-1, "int64"), tirx.const(0, "int64"))
    magnitude = bits ^ tirx.reinterpret("uint64", sign)
    length = (divisor - 1).bit_length()
    factor = -(-(1 << (63 + length)) // divisor)
    quotient = tirx.shift_right(_high_half(magnitude, factor), tirx.const(length - 1, "uint64"))
    return tirx.reinterpret("int64", quotient) ^ sign


def floor_mod_by(value: PrimExpr, divisor: int) -> PrimExpr:
    """Return the remainder of `floor_divide_by`."""
    return value - floor_divide_by(value, divisor) * tirx.const(divisor, "int64")


def _high_half(value: PrimExpr, factor: int) -> PrimExpr:
    """Return the upper 64 of the 128 bits of an unsigned product, from products of halves."""
    half, low = tirx.const(32, "uint64"), tirx.const(2**32 - 1, "uint64")
    upper, lower = tirx.shift_right(value, half), tirx.bitwise_and(value, low)
    of_upper, of_lower = (tirx.const(part, "uint64") for part in (factor >> 32, factor & (2**32 - 1)))
    middle = lower * of_upper + tirx.shift_right(lower * of_lower, half)
    other = upper * of_lower + tirx.bitwise_and(middle, low)
    return upper * of_upper + tirx.shift_right(middle, half) + tirx.shift_right(other, half)


def _differs_in_sign(remainder: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return whether a remainder other than 0 differs in sign from the divisor; false for NaN."""
    zero = constant(0, right)
    return tirx.any(tirx.all(remainder < zero, right > zero), tirx.all(remainder > zero, right < zero))


def divide(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Divide floats; of integers the quotient is truncated, as in Relay."""
    return lhs / rhs if is_float(dtype_of(lhs)) else _TRUNC_DIVIDE(lhs, rhs)


def shift_left(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return ``left << right``, or 0 where that shifts everything out."""
    return _shift(lhs, rhs, tirx.shift_left, constant(0, lhs))


def shift_right(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return ``left >> right`` with the sign kept; only the sign is left where that shifts everything out."""
    nothing = constant(0, lhs)
    if dtype_of(lhs).startswith("int"):
        nothing = tirx.Select(lhs < nothing, constant(-1, lhs), nothing)
    return _shift(lhs, rhs, tirx.shift_right, nothing)


def _shift(lhs: PrimExpr, rhs: PrimExpr, shift: ElementFunction, beyond: PrimExpr) -> PrimExpr:
    bits = tvm.DataType(dtype_of(lhs)).bits
    outside = tirx.any(rhs < constant(0, rhs), rhs >= constant(bits, rhs))
    return tirx.Select(outside, beyond, shift(lhs, tirx.Select(outside, constant(0, rhs), rhs)))


def round_half_away(value: PrimExpr) -> PrimExpr:
    """Round to the nearest whole number, halves away from zero as in Relay (NumPy: to even)."""
    if not is_float(dtype_of(value)):
        return value
    integer_part = tirx.trunc(value)
    step = tirx.Select(value < constant(0, value), constant(-1, value), constant(1, value))
    return tirx.Select(
        tirx.abs(value - integer_part) >= constant(0.5, value), integer_part + step, integer_part
    )


def sign(value: PrimExpr) -> PrimExpr:
    """Return -1, 0 or 1; of both zeros 0, NaN stays NaN."""
    zero = constant(0, value)
    signed = tirx.Select(is_nan(value), value, zero) if is_float(dtype_of(value)) else zero
    if not dtype_of(value).startswith("uint"):
        signed = tirx.Select(value < zero, constant(-1, value), signed)
    return tirx.Select(value > zero, constant(1, value), signed)


def inverse_square_root(value: PrimExpr) -> PrimExpr:
    """Return ``value ** -0.5``, which is infinite of both zeros, and 0 of both infinities."""
    zero, infinity = constant(0, value), constant(float("inf"), value)
    root = tirx.Select(value == zero, infinity, constant(1, value) / tirx.sqrt(value))
    return tirx.Select(value == -infinity, zero, root)


def three_halves_power(value: PrimExpr) -> PrimExpr:
    """Return ``value ** 1.5``, which is infinite of both infinities."""
    infinity = constant(float("inf"), value)
    return tirx.Select(value == -infinity, infinity, value * tirx.sqrt(value))


def clip(value: PrimExpr, low: float, high: float) -> PrimExpr:
    """Limit to a range; NaN and a zero that is in the range stay, an empty range gives ``low``, as in Relay.

    For integers the limits are first brought into the dtype's range.
    """
    dtype = dtype_of(value)
    if is_integer(dtype):
        info = tirx.min_value(dtype).value, tirx.max_value(dtype).value
        low, high = (int(min(max(limit, info[0]), info[1])) for limit in (low, high))
    least, most = constant(low, value), constant(high, value)
    if is_integer(dtype):
        # TVM simplifies comparisons of integers as if no sum or product of them wrapped around.
        return maximum(minimum(value, most), least)
    below = tirx.Select(value > most, most, value)
    return tirx.Select(below < least, least, below)
