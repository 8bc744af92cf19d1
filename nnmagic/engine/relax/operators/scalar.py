"""Element functions that TVM lacks or defines otherwise than NumPy and Relay. Knows TIR expressions only.

TVM leaves integer division by zero and over-long shifts to the machine, where the first kills the process, and its
``max`` and ``min`` drop NaN on one side only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx

from nnmagic.relay.types import is_float, is_integer


def dtype_of(value: Any) -> str:
    """The dtype of a TIR expression or a tensor."""
    return str(value.dtype if isinstance(value, tvm.te.Tensor) else value.ty.dtype)


def constant(value: float, like: Any) -> Any:
    """A constant of the dtype of ``like``."""
    return tirx.const(value, dtype_of(like))


def maximum(left: Any, right: Any) -> Any:
    """The larger; NaN where either is."""
    if not is_float(dtype_of(left)):
        return tirx.max(left, right)
    return tirx.Select(tirx.any(left > right, left != left), left, right)  # noqa: PLR0124 - NaN is not itself


def minimum(left: Any, right: Any) -> Any:
    """The smaller; NaN where either is."""
    if not is_float(dtype_of(left)):
        return tirx.min(left, right)
    return tirx.Select(tirx.any(left < right, left != left), left, right)  # noqa: PLR0124 - NaN is not itself


def guarded(divide: Callable[[Any, Any], Any], by_minus_one: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """An integer division that cannot trap: by zero it gives 0, as NumPy does, by -1 what is said."""

    def divided(left: Any, right: Any) -> Any:
        zero, one = constant(0, right), constant(1, right)
        if dtype_of(right).startswith("uint"):
            safe = tirx.Select(right == zero, one, right)
            return tirx.Select(right == zero, zero, divide(left, safe))
        minus = constant(-1, right)
        safe = tirx.Select(tirx.any(right == zero, right == minus), one, right)
        quotient = tirx.Select(right == minus, by_minus_one(left), divide(left, safe))
        return tirx.Select(right == zero, zero, quotient)

    return divided


def _negated(value: Any) -> Any:
    return constant(0, value) - value


def _nothing(value: Any) -> Any:
    return constant(0, value)


_TRUNCATED_QUOTIENT = guarded(tirx.truncdiv, _negated)
_TRUNCATED_REST = guarded(tirx.truncmod, _nothing)
_FLOORED_QUOTIENT = guarded(tirx.floordiv, _negated)
_FLOORED_REST = guarded(tirx.floormod, _nothing)


def truncated_quotient(left: Any, right: Any) -> Any:
    """Division that rounds to zero."""
    return tirx.trunc(left / right) if is_float(dtype_of(left)) else _TRUNCATED_QUOTIENT(left, right)


def truncated_rest(left: Any, right: Any) -> Any:
    """What truncated division leaves, with the sign of ``left``."""
    if is_float(dtype_of(left)):
        return left - tirx.trunc(left / right) * right
    return _TRUNCATED_REST(left, right)


def floored_quotient(left: Any, right: Any) -> Any:
    """Division that rounds down."""
    return tirx.floor(left / right) if is_float(dtype_of(left)) else _FLOORED_QUOTIENT(left, right)


def floored_rest(left: Any, right: Any) -> Any:
    """What floored division leaves, with the sign of ``right``."""
    if is_float(dtype_of(left)):
        return left - tirx.floor(left / right) * right
    return _FLOORED_REST(left, right)


def divide(left: Any, right: Any) -> Any:
    """True division of floats; integers are truncated, as in Relay."""
    return left / right if is_float(dtype_of(left)) else _TRUNCATED_QUOTIENT(left, right)


def shift_left(left: Any, right: Any) -> Any:
    """``left << right``; 0 where that shifts everything out."""
    return _shifted(left, right, tirx.shift_left, constant(0, left))


def shift_right(left: Any, right: Any) -> Any:
    """``left >> right``, the sign kept; where that shifts everything out, only the sign is left."""
    nothing = constant(0, left)
    if dtype_of(left).startswith("int"):
        nothing = tirx.Select(left < nothing, constant(-1, left), nothing)
    return _shifted(left, right, tirx.shift_right, nothing)


def _shifted(left: Any, right: Any, shift: Callable[[Any, Any], Any], beyond: Any) -> Any:
    bits = tvm.DataType(dtype_of(left)).bits
    outside = tirx.any(right < constant(0, right), right >= constant(bits, right))
    return tirx.Select(outside, beyond, shift(left, tirx.Select(outside, constant(0, right), right)))


def round_half_away(value: Any) -> Any:
    """The nearest whole number, halves away from zero, as Relay rounds (NumPy: to even)."""
    if not is_float(dtype_of(value)):
        return value
    whole = tirx.trunc(value)
    step = tirx.Select(value < constant(0, value), constant(-1, value), constant(1, value))
    return tirx.Select(tirx.abs(value - whole) >= constant(0.5, value), whole + step, whole)


def sign(value: Any) -> Any:
    """-1, 0 or 1; NaN stays NaN."""
    zero = constant(0, value)
    below = value if dtype_of(value).startswith("uint") else tirx.Select(value < zero, constant(-1, value), value)
    return tirx.Select(value > zero, constant(1, value), below)


def clip(value: Any, low: float, high: float) -> Any:
    """Limited to a range; NaN stays NaN. For integers the limits are first brought into the dtype's range."""
    dtype = dtype_of(value)
    if is_integer(dtype):
        info = tirx.min_value(dtype).value, tirx.max_value(dtype).value
        low, high = (int(min(max(limit, info[0]), info[1])) for limit in (low, high))
    return minimum(maximum(value, constant(low, value)), constant(high, value))
