"""Round what is computed of bfloat16: BF16ComputeLegalize computes whole expressions in float32.

It also keeps local arrays of bfloat16 in float32: without this, only what a kernel stores in its results is
rounded, and not what each operator gives.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.builders import broadcast, dtype_of, vector_type
from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.visitors import rewrite

#: What computes a number; other expressions choose one.
_COMPUTED = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Cast)
#: The bits of a float32 that a bfloat16 lacks.
_LACKING = 16


def round_bfloat16(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Round each sum, difference, product, quotient and conversion of the dtype bfloat16, half to even."""
    return rewrite(function, [(_COMPUTED, _round)])


def _round(node: PrimExpr) -> PrimExpr:
    dtype = tvm.DataType(dtype_of(node))
    lanes = dtype.lanes
    if not str(dtype).startswith("bfloat16"):
        return node
    if isinstance(node, tirx.Cast) and isinstance(node.value, tirx.FloatImm | tirx.IntImm):
        return node

    def number(value: int) -> PrimExpr:
        return broadcast(tirx.const(value, "int32"), lanes)

    wide = tirx.Var("wide", vector_type("float32", lanes))
    # Adding just less than half of the last place carries into it if the rest is above the half;
    # its last bit is added for the half itself, which so is rounded to even. Of NaN the carry could
    # leave the mantissa: 0x7FFFFFFF would become -0.
    bits = tirx.reinterpret(vector_type("int32", lanes), wide)
    last = tirx.bitwise_and(tirx.shift_right(bits, number(_LACKING)), number(1))
    rounded = tirx.bitwise_and(bits + last + number((1 << _LACKING - 1) - 1), number(-(1 << _LACKING)))
    kept = tirx.Select(tirx.isnan(wide), wide, tirx.reinterpret(vector_type("float32", lanes), rounded))
    return tirx.Let(wide, node.astype(vector_type("float32", lanes)), kept.astype(str(dtype)))
