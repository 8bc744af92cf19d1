"""Protect floating-point subtraction from TVM's simplifier.

TVM's passes simplify differences as if numbers were real: ``(x + y) - y`` becomes x, and ``x - x`` becomes 0.
Neither holds for floats: sums are rounded, and there are infinities and NaN.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.builders import broadcast, collect_loads, dtype_of
from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.visitors import rewrite


def keep_float_subtraction(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace differences by sums, which LLVM turns back into differences."""
    return function.with_body(rewrite(function.body, [(tirx.Sub, _subtraction_as_sum)]))


def _subtraction_as_sum(node: tirx.Sub) -> PrimExpr:
    """Return ``a - b`` as ``a + b * -1``, equal to the last bit; keep ``0 - b``, whose sign would change."""
    dtype = tvm.DataType(dtype_of(node.a))
    name = str(dtype).split("x", maxsplit=1)[0]
    if not name.startswith(("float", "bfloat")) or isinstance(node.a, tirx.FloatImm):
        return node
    if not collect_loads(node):  # an index, such as that of a resized pixel: as Relay's TVM computes it
        return node
    return tirx.Add(node.a, tirx.Mul(node.b, broadcast(tirx.const(-1, name), dtype.lanes)))
