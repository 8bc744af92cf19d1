"""Say what element-wise operators compute, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule, plain
from nnmagic.relay.types import ARRAY_DTYPES


def round_half_away(data: Array) -> Any:
    """Round to whole numbers, halves away from zero."""
    integer_part = np.trunc(data)
    away = np.abs(data - integer_part) >= 0.5
    return np.where(away, integer_part + np.copysign(1, data), integer_part).astype(data.dtype)


def trunc_divide(lhs: Array, rhs: Array) -> Any:
    """Divide integers and round towards zero."""
    quotient = lhs // rhs
    inexact = (quotient * rhs != lhs) & ((lhs < 0) != (rhs < 0))
    return quotient + inexact.astype(quotient.dtype)


def trunc_mod(lhs: Array, rhs: Array) -> Any:
    """Return the remainder of ``trunc_divide``."""
    return lhs - trunc_divide(lhs, rhs) * rhs


def _divide(_given: EvalCall, lhs: Array, rhs: Array) -> Any:
    return trunc_divide(lhs, rhs) if lhs.dtype.kind in "iu" else np.divide(lhs, rhs)


def _mod(_given: EvalCall, lhs: Array, rhs: Array) -> Any:
    return trunc_mod(lhs, rhs) if lhs.dtype.kind in "iu" else np.fmod(lhs, rhs)


def _cast(call: EvalCall, data: Array, *_like: Array) -> Any:
    return data.astype(call.dtype)


def _fixed_point_multiply(call: EvalCall, data: Array) -> Any:
    product = data.astype(object) * call["multiplier"]
    bits = 31 - call["shift"]
    rounded = (product + (1 << (bits - 1))) >> bits if bits > 0 else product << -bits
    half = 1 << (np.iinfo(call.dtype).bits - 1)
    wrapped = (rounded + half) % (2 * half) - half  # machine code keeps the low bits
    return np.asarray(wrapped).astype(call.dtype)


#: NumPy's functions that are operators of their own.
_NUMPY = (np.arctan2, np.cbrt, np.copysign, np.expm1, np.hypot, np.log1p, np.logaddexp, np.rint, np.signbit)

RULES: dict[str, Rule] = {
    "add": lambda _given, a, b: a ^ b if a.dtype == bool else a + b,
    "subtract": lambda _given, a, b: a ^ b if a.dtype == bool else a - b,
    "multiply": plain(np.multiply),
    "divide": _divide,
    "floor_divide": plain(np.floor_divide),
    "trunc_divide": lambda call, a, b: _divide(call, a, b) if a.dtype.kind in "iub" else np.trunc(a / b),
    "mod": _mod,
    "trunc_mod": _mod,
    "floor_mod": plain(np.mod),
    "power": plain(np.power),
    "maximum": plain(np.maximum),
    "minimum": plain(np.minimum),
    "equal": plain(np.equal),
    "not_equal": plain(np.not_equal),
    "less": plain(np.less),
    "less_equal": plain(np.less_equal),
    "greater": plain(np.greater),
    "greater_equal": plain(np.greater_equal),
    "logical_and": plain(np.logical_and),
    "logical_or": plain(np.logical_or),
    "logical_xor": plain(np.logical_xor),
    "logical_not": plain(np.logical_not),
    "bitwise_and": plain(np.bitwise_and),
    "bitwise_or": plain(np.bitwise_or),
    "bitwise_xor": plain(np.bitwise_xor),
    "bitwise_not": plain(np.bitwise_not),
    "left_shift": plain(np.left_shift),
    "right_shift": plain(np.right_shift),
    "where": plain(np.where),
    "abs": plain(lambda data: data if data.dtype.kind == "u" else np.abs(data)),
    "acos": plain(np.arccos),
    "acosh": plain(np.arccosh),
    "asin": plain(np.arcsin),
    "asinh": plain(np.arcsinh),
    "atan": plain(np.arctan),
    "atanh": plain(np.arctanh),
    "ceil": plain(np.ceil),
    "copy": plain(np.copy),
    "cos": plain(np.cos),
    "cosh": plain(np.cosh),
    "erf": plain(np.vectorize(math.erf, otypes=[np.float64])),
    "exp": plain(np.exp),
    "fast_exp": plain(np.exp),
    "fast_tanh": plain(np.tanh),
    "floor": plain(np.floor),
    "log": plain(np.log),
    "log10": plain(np.log10),
    "log2": plain(np.log2),
    "negative": plain(np.negative),
    "round": plain(round_half_away),
    **{f"numpy.{function.__name__}": plain(function) for function in _NUMPY},
    "special.erfc": plain(np.vectorize(math.erfc, otypes=[np.float64])),
    "rsqrt": plain(lambda x: 1 / np.sqrt(x)),
    "sigmoid": plain(lambda x: 1 / (1 + np.exp(-x))),
    "sign": plain(np.sign),
    "sin": plain(np.sin),
    "sinh": plain(np.sinh),
    "sqrt": plain(np.sqrt),
    "tan": plain(np.tan),
    "tanh": plain(np.tanh),
    "trunc": plain(np.trunc),
    "isfinite": plain(np.isfinite),
    "isinf": plain(np.isinf),
    "isnan": plain(np.isnan),
    "cast": _cast,
    "cast_like": _cast,
    "reinterpret": lambda call, x: x.view(ARRAY_DTYPES[call["dtype"]]),
    "clip": lambda call, x: np.maximum(np.minimum(x, call["a_max"]), call["a_min"]),
    "fixed_point_multiply": _fixed_point_multiply,
}
