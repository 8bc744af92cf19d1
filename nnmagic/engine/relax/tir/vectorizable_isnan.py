"""Expressions without what makes TVM's vectoriser fall back to one element after the other. Knows TIR only.

That is ``isnan``. A choice by ``c or isnan(a)`` becomes a comparison of ``a`` with infinity, as LLVM knows
the instruction for it; elsewhere the bits of a NaN say that it is one.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.visitors import rewrite

#: By dtype: the integers of the same size, how many bits the mantissa has.
_BITS = {"float16": ("int16", 10), "float32": ("int32", 23), "float64": ("int64", 52)}


def make_isnan_vectorizable(expr: Any) -> Any:
    """The same value."""
    expr = rewrite(expr, [(tirx.Select, _select)])
    return rewrite(expr, [(tvm.ir.Call, _call)])


def is_nan(value: Any) -> Any:
    """Whether the bits are a NaN's: those of the exponent, and one of the mantissa."""
    integer, mantissa = _BITS[str(value.ty.dtype)]
    bits = tvm.DataType(integer).bits
    infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    magnitude = tirx.bitwise_and(tirx.reinterpret(integer, value), tirx.const((1 << (bits - 1)) - 1, integer))
    return magnitude > tirx.const(infinity, integer)


def _is_isnan(expr: Any) -> bool:
    return isinstance(expr, tvm.ir.Call) and expr.op.name == "tirx.isnan"


def _call(node: Any) -> Any:
    known = _is_isnan(node) and str(node.args[0].ty.dtype) in _BITS
    return is_nan(node.args[0]) if known else node


def _select(node: Any) -> Any:
    either = node.condition
    if not (isinstance(either, tirx.Or) and _is_isnan(either.b)):
        return node
    value = either.b.args[0]
    number = value <= tirx.const(float("inf"), str(value.ty.dtype))
    return tirx.Select(number, tirx.Select(either.a, node.true_value, node.false_value), node.true_value)
