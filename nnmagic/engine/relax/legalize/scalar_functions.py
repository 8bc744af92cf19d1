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


def logical_or(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return whether one of two truth values holds. (TVM takes ``x < y or x >= y`` for true, even of NaN.)"""
    return tirx.const(0, "int8") < tirx.bitwise_or(left.astype("int8"), right.astype("int8"))


def logical_not(value: PrimExpr) -> PrimExpr:
    """Negate a truth value. (TVM turns a negated ``<`` into ``>=``, which differs for NaN.)"""
    return value.astype("int8") < tirx.const(1, "int8")


def maximum(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return the larger number, or NaN if either is NaN."""
    if dtype_of(left) == "bool":
        return tirx.any(left, right)
    if not is_float(dtype_of(left)):
        return tirx.max(left, right)
    return tirx.Select(tirx.any(left > right, is_nan(left)), left, right)


def minimum(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return the smaller number, or NaN if either is NaN."""
    if dtype_of(left) == "bool":
        return tirx.all(left, right)
    if not is_float(dtype_of(left)):
        return tirx.min(left, right)
    return tirx.Select(tirx.any(left < right, is_nan(left)), left, right)


def not_equal(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return whether two numbers differ; NaN differs from everything."""
    if dtype_of(left) == "bool":
        return tirx.any(tirx.all(left, logical_not(right)), tirx.all(logical_not(left), right))
    if not is_float(dtype_of(left)):
        return left != right
    return tirx.any(left < right, left > right, is_nan(left), is_nan(right))


def equal(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return whether two numbers are equal.

    LLVM refuses TVM's own comparison of truth values, and TVM takes ``x == x`` for true, even of NaN.
    """
    exact = dtype_of(left) != "bool" and not is_float(dtype_of(left))
    return left == right if exact else logical_not(not_equal(left, right))


def less(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return whether ``left`` is smaller; False is smaller than True."""
    return tirx.all(logical_not(left), right) if dtype_of(left) == "bool" else left < right


def less_equal(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return whether ``left`` is not larger; False is smaller than True."""
    return tirx.any(logical_not(left), right) if dtype_of(left) == "bool" else left <= right


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

    def divide_safely(left: PrimExpr, right: PrimExpr) -> PrimExpr:
        zero, one = constant(0, right), constant(1, right)
        if dtype_of(right).startswith("uint"):
            safe = tirx.Select(right == zero, one, right)
            return tirx.Select(right == zero, zero, divide(left, safe))
        minus = constant(-1, right)
        safe = tirx.Select(tirx.any(right == zero, right == minus), one, right)
        quotient = tirx.Select(right == minus, by_minus_one(left), divide(left, safe))
        return tirx.Select(right == zero, zero, quotient)

    return divide_safely


def _negate(value: PrimExpr) -> PrimExpr:
    return constant(0, value) - value


def _zero_like(value: PrimExpr) -> PrimExpr:
    return constant(0, value)


_TRUNC_DIVIDE = guard_division(tirx.truncdiv, _negate)
_TRUNC_MOD = guard_division(tirx.truncmod, _zero_like)
_FLOOR_DIVIDE = guard_division(tirx.floordiv, _negate)
_FLOOR_MOD = guard_division(tirx.floormod, _zero_like)


def trunc_divide(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Divide and round towards zero."""
    return tirx.trunc(left / right) if is_float(dtype_of(left)) else _TRUNC_DIVIDE(left, right)


def trunc_mod(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return the remainder of truncated division, with the sign of ``left``; exact, also of floats."""
    return vector_math.fmod(left, right) if is_float(dtype_of(left)) else _TRUNC_MOD(left, right)


def floor_divide(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Divide and round down; for floats, as NumPy, subtract the exact remainder first."""
    if not is_float(dtype_of(left)):
        return _FLOOR_DIVIDE(left, right)
    rest, q = (tirx.Var(name, dtype_of(left)) for name in ("rest", "quotient"))
    quotient = (left - rest) / right
    below = tirx.Select(_differs_in_sign(rest, right), quotient - constant(1, left), quotient)
    floor = tirx.floor(q)
    nearest = tirx.Select(q - floor > constant(0.5, left), floor + constant(1, left), floor)
    signed = tirx.Select(q == constant(0, left), _zero_of_quotient(left, right), nearest)
    floored = tirx.Let(rest, vector_math.fmod(left, right), tirx.Let(q, below, signed))
    return tirx.Select(right == constant(0, left), left / right, floored)


def _zero_of_quotient(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return 0 with the sign of ``left / right``, by the bits: TVM takes ``0 / x`` for 0, ignoring signs."""
    dtype = dtype_of(left)
    bits = {"float32": "int32", "float64": "int64"}[dtype]
    sign = tirx.reinterpret(bits, left) ^ tirx.reinterpret(bits, right)
    return tirx.reinterpret(dtype, sign & tirx.min_value(bits))


def floor_mod(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return the remainder of floored division, with the sign of ``right``; exact, also of floats."""
    if not is_float(dtype_of(left)):
        return _FLOOR_MOD(left, right)
    zero, rest = constant(0, left), tirx.Var("rest", dtype_of(left))
    nothing = tirx.Select(right < zero, -tirx.abs(rest), tirx.abs(rest))
    q = tirx.Select(_differs_in_sign(rest, right), rest + right, tirx.Select(rest == zero, nothing, rest))
    return tirx.Let(rest, vector_math.fmod(left, right), q)


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


def _differs_in_sign(rest: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return whether a remainder other than 0 differs in sign from the divisor; false for NaN."""
    zero = constant(0, right)
    return tirx.any(tirx.all(rest < zero, right > zero), tirx.all(rest > zero, right < zero))


def divide(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Divide floats; of integers the quotient is truncated, as in Relay."""
    return left / right if is_float(dtype_of(left)) else _TRUNC_DIVIDE(left, right)


def shift_left(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return ``left << right``, or 0 where that shifts everything out."""
    return _shift(left, right, tirx.shift_left, constant(0, left))


def shift_right(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """Return ``left >> right`` with the sign kept; only the sign is left where that shifts everything out."""
    nothing = constant(0, left)
    if dtype_of(left).startswith("int"):
        nothing = tirx.Select(left < nothing, constant(-1, left), nothing)
    return _shift(left, right, tirx.shift_right, nothing)


def _shift(left: PrimExpr, right: PrimExpr, shift: ElementFunction, beyond: PrimExpr) -> PrimExpr:
    bits = tvm.DataType(dtype_of(left)).bits
    outside = tirx.any(right < constant(0, right), right >= constant(bits, right))
    return tirx.Select(outside, beyond, shift(left, tirx.Select(outside, constant(0, right), right)))


def round_half_away(value: PrimExpr) -> PrimExpr:
    """Round to the nearest whole number, halves away from zero as in Relay (NumPy: to even)."""
    if not is_float(dtype_of(value)):
        return value
    whole = tirx.trunc(value)
    step = tirx.Select(value < constant(0, value), constant(-1, value), constant(1, value))
    return tirx.Select(tirx.abs(value - whole) >= constant(0.5, value), whole + step, whole)


def sign(value: PrimExpr) -> PrimExpr:
    """Return -1, 0 or 1; of both zeros 0, NaN stays NaN."""
    zero = constant(0, value)
    rest = tirx.Select(is_nan(value), value, zero) if is_float(dtype_of(value)) else zero
    if not dtype_of(value).startswith("uint"):
        rest = tirx.Select(value < zero, constant(-1, value), rest)
    return tirx.Select(value > zero, constant(1, value), rest)


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
        return maximum(minimum(value, most), least)
    below = tirx.Select(value > most, most, value)
    return tirx.Select(below < least, least, below)
