"""Compile kernels that may broadcast twice: for sizes of which none is repeated, and for the others.

Where two sizes are equal or one of them 1, as far as the compiler knows, an operand is read at the index 0 or
at that of the result. Such an index is no step of a loop in memory, so that nothing would be vectorised.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import ir, s_tir, tirx

from nnmagic.engine.relax.tir.visitors import collect, rewrite

Schedule = Callable[[tirx.PrimFunc], tirx.PrimFunc]


def schedule_versions(function: tirx.PrimFunc, schedule: Schedule) -> tirx.PrimFunc:
    """Return a kernel with its schedule; where it may broadcast, it looks at the sizes first."""
    sizes = _sizes_of(function)

    def reads_repeated(node: tirx.Select) -> bool:
        return _is_index_in(node) and all(hash(var) in sizes for var in collect(ir.Var, node.condition))

    conditions = [node.condition for node in collect(tirx.Select, function.body) if reads_repeated(node)]
    repeated = {tvm_ffi.StructuralKey(condition): condition for condition in conditions}
    general = schedule(function)
    # No operand may be repeated: one version.
    if not repeated:
        return general
    common = rewrite(
        function, [(tirx.Select, lambda node: node.false_value if reads_repeated(node) else node)]
    )
    fast = schedule(common)
    if any(isinstance(version.body, s_tir.SBlockRealize) for version in (fast, general)):
        return general  # its loops are TVM's
    # Both bodies must speak of the same parameters, or the result of one would be lost.
    assert all(param.same_as(other) for param, other in zip(fast.params, general.params, strict=True))
    # The general version is right for all sizes; the other one only where no operand's size is 1,
    # so the test comes first.
    is_common = tirx.all(*(condition.a != condition.b for condition in repeated.values()))
    body = tirx.IfThenElse(is_common, fast.body, general.body)
    return tirx.PrimFunc(general.params, body, general.ret_type, general.attrs)


def _sizes_of(function: tirx.PrimFunc) -> set[int]:
    """Return the hashes, which are addresses, of the dimensions that a kernel is called with."""
    sizes = {hash(param) for param in function.params}
    for param in function.params:
        if isinstance(param.ty, tirx.BufferType):
            sizes |= {hash(var) for dim in param.ty.shape for var in collect(ir.Var, dim)}
    return sizes


def _is_index_in(node: tirx.Select) -> bool:
    """Return whether a node is the index of an operand that may be repeated (``index_in``)."""
    condition = node.condition
    return (
        isinstance(condition, tirx.EQ)
        and isinstance(condition.b, tirx.IntImm)
        and condition.b.value == 1
        and isinstance(node.true_value, tirx.IntImm)
        and node.true_value.value == 0
        and str(node.ty.dtype) == "int64"
    )
