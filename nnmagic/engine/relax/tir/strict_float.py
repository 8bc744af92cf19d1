"""Arithmetic of floats that TVM's passes leave as it is written. Knows TVM only.

They simplify differences as if numbers were real: ``(x + y) - y`` is x to them, and ``x - x`` is 0. Of floats
they are not: sums are rounded, and there are infinities and NaN.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.builders import loads_of, spread
from nnmagic.engine.relax.tir.visitors import rewrite


def keep_float_subtraction(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with sums in the place of differences, which LLVM makes differences again."""
    return function.with_body(rewrite(function.body, [(tirx.Sub, _sum)]))


def _sum(node: tirx.Sub) -> Any:
    """``a - b`` as ``a + b * -1``, the same to the last bit; 0 - b would lose a sign."""
    dtype = tvm.DataType(str(node.a.ty.dtype))
    name = str(dtype).split("x", maxsplit=1)[0]
    if not name.startswith(("float", "bfloat")) or isinstance(node.a, tirx.FloatImm):
        return node
    if not loads_of(node):  # a place, such as that of a pixel in another size: as Relay's TVM has it
        return node
    return tirx.Add(node.a, tirx.Mul(node.b, spread(tirx.const(-1, name), dtype.lanes)))
