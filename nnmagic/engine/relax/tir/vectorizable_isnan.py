"""Rewrite ``isnan``, for which TVM's vectorizer falls back to one element after the other.

A choice by ``c or isnan(a)`` becomes a comparison of ``a`` with infinity, for which LLVM has an instruction;
elsewhere the bits are tested.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.builders import dtype_of
from nnmagic.engine.relax.tir.types import Call, Node, PrimExpr
from nnmagic.engine.relax.tir.visitors import rewrite

#: By dtype: the integer type of the same size, and how many bits the mantissa has.
_BITS = {"float16": ("int16", 10), "float32": ("int32", 23), "float64": ("int64", 52)}


def make_isnan_vectorizable(expr: PrimExpr) -> PrimExpr:
    """Return an expression of the same value without ``isnan`` of floats."""
    return rewrite(compare_with_infinity(expr), [(tvm.ir.Call, _rewrite_call)])


def compare_with_infinity(expr: PrimExpr) -> PrimExpr:
    """Return an expression of the same value without ``isnan`` where choices of one number ask for it."""
    return rewrite(expr, [(tirx.Select, _rewrite_select)])


def is_nan(value: PrimExpr) -> PrimExpr:
    """Test the bits for NaN: all bits of the exponent, and at least one of the mantissa."""
    integer, mantissa = _BITS[dtype_of(value)]
    bits = tvm.DataType(integer).bits
    infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    magnitude = tirx.bitwise_and(tirx.reinterpret(integer, value), tirx.const((1 << (bits - 1)) - 1, integer))
    return magnitude > tirx.const(infinity, integer)


def _is_isnan(expr: Node) -> bool:
    return isinstance(expr, tvm.ir.Call) and expr.op.name == "tirx.isnan"


def _rewrite_call(node: Call) -> PrimExpr:
    supported = _is_isnan(node) and dtype_of(node.args[0]) in _BITS
    return is_nan(node.args[0]) if supported else node


def _rewrite_select(node: tirx.Select) -> PrimExpr:
    either = node.condition
    if not (isinstance(either, tirx.Or) and _is_isnan(either.b)):
        return node
    value = either.b.args[0]
    # IEEE 754: each comparison with NaN is false.
    is_number = value <= tirx.const(float("inf"), dtype_of(value))
    return tirx.Select(is_number, tirx.Select(either.a, node.true_value, node.false_value), node.true_value)
