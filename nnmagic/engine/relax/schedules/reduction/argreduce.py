"""Which of two candidates argmax and argmin keep. Knows TIR expressions only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx


def _is_float(value: Any) -> bool:
    return str(value.ty.dtype).startswith(("float", "bfloat"))


def _at_least(*, larger: bool) -> Callable[[Any, Any], Any]:
    """Whether ``a`` is as good as ``b`` or better: NaN is the best."""

    def holds(a: Any, b: Any) -> Any:
        if str(a.ty.dtype) == "bool":
            a, b = a.astype("int8"), b.astype("int8")
        better = a >= b if larger else a <= b
        return tirx.any(better, tirx.isnan(a)) if _is_float(a) else better

    return holds


def _better(*, larger: bool) -> Callable[[Any, Any], Any]:
    """Whether ``a`` is better than ``b``. (The negation of the other would not do: TVM turns a negated
    ``<=`` into ``>``, which is not the same of NaN.)
    """

    def holds(a: Any, b: Any) -> Any:
        if str(a.ty.dtype) == "bool":
            a, b = a.astype("int8"), b.astype("int8")
        better = a > b if larger else a < b
        return tirx.any(better, tirx.all(tirx.isnan(a), tirx.Not(tirx.isnan(b)))) if _is_float(a) else better

    return holds


#: By name, of values ``a`` and ``b``, where ``a`` stands before ``b``: whether ``a`` is kept; and whether it
#: is where it stands behind.
TIE_RULES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "max_first": (_at_least(larger=True), _better(larger=True)),
    "max_last": (_better(larger=True), _at_least(larger=True)),
    "min_first": (_at_least(larger=False), _better(larger=False)),
    "min_last": (_better(larger=False), _at_least(larger=False)),
}


def keeps_first(place: str, i: Any, a: Any, j: Any, b: Any) -> Any:
    """Whether of two values, at the places ``i`` and ``j``, the first is kept."""
    before, behind = TIE_RULES[place]
    return tirx.Select(i < j, before(a, b), behind(a, b))
