"""Turn choices that guard a load into branches: a value that is not chosen must not be read.

A ``Select`` of vectors computes both values. Where the index of a load is itself loaded (an index array, a
class), it may lie outside of the data whenever the other value is chosen.
"""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.builders import collect_loads
from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.visitors import collect, rewrite


def guard_loads(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace every ``Select`` that guards a load by a branch."""
    if not any(map(_guards_load, collect(tirx.Select, function.body))):
        return function
    return rewrite(function, [(tirx.Select, _make_branch)])


def _make_branch(select: tirx.Select) -> PrimExpr:
    if not _guards_load(select):
        return select
    return tirx.if_then_else(select.condition, select.true_value, select.false_value)


def _guards_load(select: tirx.Select) -> bool:
    return any(_has_indirect_load(value) for value in (select.true_value, select.false_value))


def _has_indirect_load(value: PrimExpr) -> bool:
    """Return whether an index of a load holds a load."""
    return any(collect_loads(*load.indices) for load in collect_loads(value))
