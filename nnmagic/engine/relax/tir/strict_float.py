"""Protect floating-point sums and differences from TVM's simplifier.

TVM's passes simplify them as if numbers were real: ``(x + y) - y`` becomes x, ``x - x`` becomes 0, and
``0 + x`` becomes x. None holds for floats: sums are rounded, there are infinities and NaN, and 0 + -0 is 0.
"""

from __future__ import annotations

import math

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.builders import broadcast, collect_loads, dtype_of
from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.visitors import rewrite


def keep_float_arithmetic(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace differences by sums, which LLVM turns back into differences, and hide zeros that are added."""
    callbacks = [(tirx.Sub, _subtraction_as_sum), (tirx.Add, _hide_zero)]
    return rewrite(function, callbacks)


#: The integer dtypes of the bits of floats.
_BITS = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}


def hidden_zero(zero: float, dtype: str) -> PrimExpr:
    """Return 0 or -0 of a dtype; of a float from bits, because TVM takes ``0 / x`` and ``0 * x`` for 0."""
    if dtype not in _BITS:
        return tirx.const(zero, dtype)
    negative = tirx.reinterpret(dtype, tirx.min_value(_BITS[dtype]))
    # TVM takes bits that are all 0 for those of a pointer.
    return negative if math.copysign(1, zero) < 0 else tirx.Mul(negative, tirx.const(-1, dtype))


def _hide_zero(node: tirx.Add) -> PrimExpr:
    """Write ``0 + x`` as ``x - -0``, with -0 as its bits, which TVM does not look into."""
    zero, other = (node.a, node.b) if isinstance(node.a, tirx.FloatImm) else (node.b, node.a)
    if not isinstance(zero, tirx.FloatImm) or zero.value != 0 or isinstance(other, tirx.FloatImm):
        return node
    dtype = dtype_of(zero)
    return tirx.Sub(other, hidden_zero(-0.0, dtype))


def _subtraction_as_sum(node: tirx.Sub) -> PrimExpr:
    """Return ``a - b`` as ``a + b * -1``, equal to the last bit; keep ``0 - b``, whose sign would change."""
    dtype = tvm.DataType(dtype_of(node.a))
    name = str(dtype).split("x", maxsplit=1)[0]
    if not name.startswith(("float", "bfloat")) or isinstance(node.a, tirx.FloatImm):
        return node
    if not collect_loads(node):  # an index, such as that of a resized pixel: as Relay's TVM computes it
        return node
    return tirx.Add(node.a, tirx.Mul(node.b, broadcast(tirx.const(-1, name), dtype.lanes)))
