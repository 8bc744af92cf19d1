"""Decide which of two candidates argmax and argmin keep."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from nnmagic.engine.relax.tir.builders import dtype_of
from nnmagic.engine.relax.tir.types import Index, PrimExpr

#: Returns a condition on two values.
Comparison = Callable[[PrimExpr, PrimExpr], PrimExpr]


def _is_float(value: PrimExpr) -> bool:
    return dtype_of(value).startswith(("float", "bfloat"))


def _at_least(*, larger: bool) -> Comparison:
    """Return the comparison that ``a`` is as good as ``b`` or better; NaN is the best."""

    def holds(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if dtype_of(a) == "bool":
            a, b = a.astype("int8"), b.astype("int8")
        better = a >= b if larger else a <= b
        return tirx.any(better, tirx.isnan(a)) if _is_float(a) else better

    return holds


def _better(*, larger: bool) -> Comparison:
    """Return the comparison that ``a`` is better than ``b``.

    The negation of ``_at_least`` would be wrong: TVM turns a negated ``<=`` into ``>``, which differs for
    NaN.
    """

    def holds(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if dtype_of(a) == "bool":
            a, b = a.astype("int8"), b.astype("int8")
        better = a > b if larger else a < b
        return tirx.any(better, tirx.all(tirx.isnan(a), tirx.Not(tirx.isnan(b)))) if _is_float(a) else better

    return holds


#: By name, two conditions on which a value ``a`` is kept and not ``b``: where ``a`` has the smaller index,
#: and where it has the larger one.
TIE_RULES: dict[str, tuple[Comparison, Comparison]] = {
    "max_first": (_at_least(larger=True), _better(larger=True)),
    "max_last": (_better(larger=True), _at_least(larger=True)),
    "min_first": (_at_least(larger=False), _better(larger=False)),
    "min_last": (_better(larger=False), _at_least(larger=False)),
}


def keeps_first(tie_rule: str, i: Index, a: PrimExpr, j: Index, b: PrimExpr) -> PrimExpr:
    """Return the condition on which ``a`` at index ``i`` is kept, and not ``b`` at index ``j``."""
    if_before, if_behind = TIE_RULES[tie_rule]
    return tirx.Select(i < j, if_before(a, b), if_behind(a, b))
