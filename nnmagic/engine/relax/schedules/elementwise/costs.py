"""Estimate the cost of an element: its instructions and bytes."""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import DataType, ir, tirx

from nnmagic.engine.relax.tir.builders import dtype_of
from nnmagic.engine.relax.tir.types import Buffer, Node, PrimExpr
from nnmagic.engine.relax.tir.visitors import visit

#: The instructions of an element up to which it is cheaper to compute it again than to store it.
CHEAP = 4

_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min, tirx.Select, tirx.Cast)
_SLOW_OPERATIONS = (tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.Mod, ir.Call)

#: The instructions that a slow operation counts as.
_SLOW = 3


def count_instructions(value: PrimExpr) -> int:
    """Estimate the instructions of a value, without its loads."""
    total = 0

    def add(instructions: int) -> Callable[[Node], None]:
        def count(_: Node) -> None:
            nonlocal total
            total += instructions

        return count

    skip = (ir.expr.TensorLoad, lambda _: tvm_ffi.WalkResult.SKIP)
    visit(value, [skip, (_OPERATIONS, add(1)), (_SLOW_OPERATIONS, add(_SLOW))], before_parts=True)
    return total


def bytes_in_memory(buffer: Buffer) -> int:
    """Return the size of an element in memory: 0 for an array that stays in registers."""
    return 0 if buffer.ty.storage_scope == "local" else DataType(dtype_of(buffer)).bits // 8
