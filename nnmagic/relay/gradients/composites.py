"""Recognise functions that cells write with several operators, and differentiate each as a whole.

What makes such a function accurate, or defined everywhere, has no useful derivative part by part: log1p near
0, hypot and arctan2 at 0, cbrt, which begins with the bits of a number, rounding by adding a large number,
the determinant, of which a singular matrix has no logarithm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from nnmagic.relay.expr import Call, Constant, Expr, OpRef, TupleGetItem, Var
from nnmagic.relay.gradients.place import Place
from nnmagic.relay.gradients.rules.linear_algebra import det_gradient
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.text.parser import parse_expression

#: (the call, its operands by name) -> the contributions by name.
CompositeRule = Callable[[Place, Mapping[str, TensorExpr]], Mapping[str, TensorExpr]]
#: (operands by name, the result, its cotangent) -> the contributions by name, in the shape of the result.
_ElementwiseRule = Callable[[Mapping[str, TensorExpr], TensorExpr, TensorExpr], Mapping[str, TensorExpr]]

_LOG1P = """
%0 = add(1f, %x);
%1 = isfinite(%0);
%2 = equal(%0, 1f);
%3 = logical_not(%1);
%4 = equal(%0, 1f);
%5 = log(%0);
%6 = subtract(%0, 1f);
%7 = log(%0);
%8 = divide(%x, %6);
%9 = logical_or(%2, %3);
%10 = where(%4, %x, %5);
%11 = multiply(%7, %8);
where(%9, %10, %11)
"""
_CBRT = """
%0 = abs(%x);
%1 = less(%0, %a);
%2 = multiply(%x, 1.09951e+12f);
%3 = where(%1, %2, %x);
%4 = multiply(%3, %b);
%5 = multiply(%4, %b);
%6 = multiply(%5, %c);
%7 = add(%5, %6);
%8 = isfinite(%x);
where(%8, %7, %x)
"""
_ROUND = """
%0 = abs(%x);
%1 = add(%0, %a);
%2 = less(%0, %a);
%3 = subtract(%1, %a);
%4 = where(%2, %3, %0);
%5 = greater(%x, 0f);
%6 = less(%x, 0f);
%7 = negative(%4);
%8 = where(%5, %4, %x);
where(%6, %7, %8)
"""
_HYPOT = """
%0 = abs(%x);
%1 = abs(%y);
%2 = equal(%0, inff);
%3 = equal(%1, inff);
%4 = maximum(%0, %1);
%5 = equal(%4, 0f);
%6 = equal(%4, inff);
%7 = minimum(%0, %1);
%8 = logical_or(%5, %6);
%9 = divide(%7, %4);
%10 = where(%8, 0f, %9);
%11 = multiply(%10, %10);
%12 = add(1f, %11);
%13 = sqrt(%12);
%14 = logical_or(%2, %3);
%15 = multiply(%4, %13);
where(%14, inff, %15)
"""
_ARCTAN2 = """
%0 = reinterpret(%x, dtype="int32");
%1 = reinterpret(%y, dtype="int32");
%2 = abs(%x);
%3 = abs(%y);
%4 = equal(%2, inff);
%5 = equal(%3, inff);
%6 = equal(%2, 0f);
%7 = equal(%3, 0f);
%8 = logical_and(%6, %7);
%9 = divide(%2, %3);
%10 = logical_and(%4, %5);
%11 = where(%8, 0f, %9);
%12 = where(%10, 1f, %11);
%13 = atan(%12);
%14 = less(%1, 0);
%15 = subtract(3.14159f, %13);
%16 = where(%14, %15, %13);
%17 = less(%0, 0);
%18 = negative(%16);
where(%17, %18, %16)
"""


_DET = """
%0 = linalg.slogdet(%x);
%1 = %0.1;
%2 = exp(%1);
%3 = %0.0;
multiply(%2, %3)
"""


def _log1p(given: Mapping[str, TensorExpr], y: TensorExpr, d: TensorExpr) -> Mapping[str, TensorExpr]:
    del y
    return {"x": d / (1 + given["x"])}


def _cbrt(given: Mapping[str, TensorExpr], y: TensorExpr, d: TensorExpr) -> Mapping[str, TensorExpr]:
    del given
    return {"x": d / (y * y * 3)}


def _round(given: Mapping[str, TensorExpr], y: TensorExpr, d: TensorExpr) -> Mapping[str, TensorExpr]:
    del given, y, d
    return {}


def _hypot(given: Mapping[str, TensorExpr], y: TensorExpr, d: TensorExpr) -> Mapping[str, TensorExpr]:
    nothing = y.equal(0)
    return {name: nothing.choose(0, d * (given[name] / y)) for name in ("x", "y")}


def _arctan2(given: Mapping[str, TensorExpr], y: TensorExpr, d: TensorExpr) -> Mapping[str, TensorExpr]:
    """Divide by the larger operand first, so that no square overflows."""
    del y
    x, other = given["x"], given["y"]
    scale = x.op("abs").op("maximum", other.op("abs"))
    one, two = x / scale, other / scale
    factor = d / (one * one + two * two) / scale
    nothing = scale.equal(0)
    return {"x": nothing.choose(0, factor * two), "y": nothing.choose(0, -(factor * one))}


def _elementwise(function: _ElementwiseRule) -> CompositeRule:
    def of(p: Place, given: Mapping[str, TensorExpr]) -> Mapping[str, TensorExpr]:
        names = list(given)
        found = function(given, p.y, p.d)
        return {name: p.sum_to(term, p.out_shape, names.index(name)) for name, term in found.items()}

    return of


def _det(p: Place, given: Mapping[str, TensorExpr]) -> Mapping[str, TensorExpr]:
    del given
    return {"x": det_gradient(p)}


_RULES: tuple[tuple[str, CompositeRule], ...] = (
    (_LOG1P, _elementwise(_log1p)),
    (_CBRT, _elementwise(_cbrt)),
    (_ROUND, _elementwise(_round)),
    (_HYPOT, _elementwise(_hypot)),
    (_ARCTAN2, _elementwise(_arctan2)),
    (_DET, _det),
    (_DET.replace("(%2, %3)", "(%3, %2)"), _det),
)

#: The last operators of these functions.
LAST_OPERATORS = frozenset({"where", "multiply"})


@dataclass(frozen=True, slots=True)
class Composite:
    """A recognised function: its operands by name, and its rule."""

    operands: Mapping[str, Expr]
    rule: CompositeRule


def recognise(value: Expr, made: Mapping[Expr, Expr]) -> Composite | None:
    """Return the function whose last operator a binding is; ``made``: the bindings of all names."""
    for pattern, rule in _patterns():
        found: dict[str, Expr] = {}
        if _matches(pattern, value, made, found, {}):
            return Composite({name: expr for name, expr in found.items() if name in ("x", "y")}, rule)
    return None


@cache
def _patterns() -> tuple[tuple[Expr, CompositeRule], ...]:
    free = "".join(f"free_var %{name}: float32;\n" for name in "xyabc")
    return tuple((parse_expression(free + text), rule) for text, rule in _RULES)


def _matches(
    pattern: Expr,
    value: Expr,
    made: Mapping[Expr, Expr],
    found: dict[str, Expr],
    known: dict[tuple[Expr, Expr], bool],
) -> bool:
    """Return whether a value has the form of a pattern, whose variables stand for any names."""
    if isinstance(pattern, Var):
        return _binds(pattern.name_hint, value, made, found)
    value = made.get(value, value)
    if isinstance(pattern, Constant):
        return isinstance(value, Constant) and value.data.ndim == 0 and _same(pattern, value)
    if isinstance(pattern, TupleGetItem):
        return (
            isinstance(value, TupleGetItem)
            and pattern.index == value.index
            and _matches(pattern.tuple_value, value.tuple_value, made, found, known)
        )
    if not isinstance(pattern, Call) or not isinstance(value, Call):
        return False
    if not (
        isinstance(pattern.op, OpRef) and isinstance(value.op, OpRef) and pattern.op.name == value.op.name
    ):
        return False
    key = (pattern, value)
    if key not in known:
        known[key] = all(
            _matches(part, own, made, found, known)
            for part, own in zip(pattern.args, value.args, strict=True)
        )
    return known[key]


def _binds(name: str, value: Expr, made: Mapping[Expr, Expr], found: dict[str, Expr]) -> bool:
    before = found.setdefault(name, value)
    if before is value:
        return True
    first, second = made.get(before, before), made.get(value, value)
    return isinstance(first, Constant) and isinstance(second, Constant) and _same(first, second)


def _same(first: Constant, second: Constant) -> bool:
    """Return whether two numbers are equal as far as a pattern's text says."""
    left, right = (float(np.asarray(each.data, np.float64).reshape(-1)[0]) for each in (first, second))
    return left == right or abs(left - right) <= 1e-5 * abs(left)
