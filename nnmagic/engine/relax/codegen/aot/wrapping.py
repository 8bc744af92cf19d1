"""Make the arithmetic of integers wrap around, as NumPy's does."""

from __future__ import annotations

import operator

from tvm import tirx

from nnmagic.engine.relax.legalize.scalar_functions import WRAPPING, wrap_constant
from nnmagic.engine.relax.tir.builders import dtype_of
from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.visitors import rewrite

#: The dtype that holds the exact sum, difference and product of two integers of a dtype.
_WIDER = {f"{kind}{bits}": "int64" for kind in ("int", "uint") for bits in (8, 16, 32)}
# The product of two integers of 32 bits without sign needs 64 bits without sign, which int64 has
# not.
_WIDER |= {"uint32": "int128", "int64": "int128", "uint64": "int128"}
_INTEGER = frozenset(_WIDER)
_OPERATORS = {tirx.Add: operator.add, tirx.Sub: operator.sub, tirx.Mul: operator.mul}


def wrap_integers(expr: PrimExpr) -> PrimExpr:
    """Return a value whose sums, differences, products and casts of integers wrap around.

    From 32 bits on TVM's simplifier takes it that no integer overflows, signed or not, and TVM tells LLVM the
    same. So the arithmetic is done in a wider dtype and cast back; LLVM makes one plain instruction of that.
    """
    return rewrite(expr, [((tirx.Add, tirx.Sub, tirx.Mul), _widen), (tirx.Cast, _wrap_cast)])


def narrow_integers(expr: PrimExpr) -> PrimExpr:
    """Return a value whose arithmetic is done in the dtypes of its results, as `wrap_integers` takes it.

    In kernels it is done in the wider dtypes of `WRAPPING`.
    """

    def narrow(node: PrimExpr) -> PrimExpr:
        dtype = dtype_of(node)
        narrowed = _narrow(node.value, dtype) if dtype in WRAPPING else None
        return narrowed if isinstance(narrowed, tuple(_OPERATORS)) else node

    return rewrite(expr, [(tirx.Cast, narrow)])


def _narrow(value: PrimExpr, dtype: str) -> PrimExpr | None:
    """Return arithmetic on integers of a dtype that is done in its wider one, in the dtype; else None."""
    if dtype_of(value) != WRAPPING[dtype]:
        return None
    if isinstance(value, tirx.Cast):
        return value.value if dtype_of(value.value) == dtype else None
    if isinstance(value, tirx.IntImm):
        return wrap_constant(value, dtype)
    if not isinstance(value, tirx.Add | tirx.Sub | tirx.Mul):
        return None
    a, b = (_narrow(part, dtype) for part in (value.a, value.b))
    return None if a is None or b is None else type(value)(a, b)


def _widen(node: PrimExpr) -> PrimExpr:
    dtype = dtype_of(node)
    if dtype not in _WIDER:
        return node
    if isinstance(node.a, tirx.IntImm) and isinstance(node.b, tirx.IntImm):
        return wrap_constant(
            _OPERATORS[type(node)](*(operand.astype("int128") for operand in (node.a, node.b))), dtype
        )
    a, b = (_wide(operand, _WIDER[dtype]) for operand in (node.a, node.b))
    return _cast(dtype, type(node)(a, b))


def _wide(value: PrimExpr, dtype: str) -> PrimExpr:
    """Cast an integer; a number that LLVM has no literal for has the bits of one."""
    if not isinstance(value, tirx.IntImm):
        return tirx.Cast(dtype, value)
    return tirx.const(int(wrap_constant(value, "int64").value), dtype)


def _wrap_cast(node: PrimExpr) -> PrimExpr:
    integers = _INTEGER.issuperset((dtype_of(node), dtype_of(node.value)))
    return _cast(dtype_of(node), node.value) if integers else node


def _cast(dtype: str, value: PrimExpr) -> PrimExpr:
    """Cast an integer, hidden from TVM's simplifier, which fails where it finds one out of range."""
    if isinstance(value, tirx.IntImm):
        return wrap_constant(value, dtype)
    value = tirx.Cast("int64", value)
    # TVM does not look into an intrinsic, and LLVM folds umax(x, 0) to x.
    hidden = tirx.call_llvm_pure_intrin("int64", "llvm.umax.i64", value, tirx.const(0, "int64"))  # itself
    return hidden if dtype == "int64" else tirx.Cast(dtype, hidden)
