"""Evaluate ``is`` at compile time, and ``in``."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.types.annotations import DType
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply


def identity(sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value:
    """Evaluate ``x is None``, ``x is not None``, and ``is`` of dtypes."""
    for operand, other in ((lhs, rhs), (rhs, lhs)):
        if isinstance(other.value, v.Known) and (
            other.value.value is None or isinstance(other.value.value, bool | DType)
        ):
            if isinstance(other.value.value, bool) and isinstance(operand.value, v.Computed):
                break  # a tensor is never the object True: probably == was meant
            same = isinstance(operand.value, v.Known) and operand.value.value is other.value.value
            return v.Known(same if sign == "is" else not same)
    hint = "compare with ==" if sign == "is" else "compare with !="
    raise v.RefusalError(
        f"`{sign}` is for None: nothing says whether two values are one object", span, hint=hint
    )


def membership(sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value:
    """Evaluate ``x in (1, 2)``: at compile time, or a number among numbers at run time."""
    entries = v.entries_of(rhs.value)
    keys = rhs.value if entries is None else v.TupleOf(tuple(map(v.known_value, entries)))
    lhs, rhs = v.Operand(_numbers(lhs.value), lhs.span), v.Operand(_numbers(keys), rhs.span)
    try:
        item, collection = v.static_value(lhs.value), v.static_value(rhs.value)
    except v.NotStaticError:
        if (is_member := _is_among(lhs, rhs, span)) is not None:
            return is_member if sign == "in" else apply("logical_not", span, is_member)
        hint = "compare with ==, as in (x == 1) | (x == 2)"
        if isinstance(rhs.value, v.Computed):
            hint = "write (x == value).any()"
        raise v.RefusalError(
            f"`{sign}` asks for values known at compile time, not {describe(lhs.value)} in "
            f"{describe(rhs.value)}",
            span,
            hint=hint,
        ) from None
    if isinstance(rhs.value, v.TupleOf) and isinstance(collection, tuple):
        return v.Known((item in collection) is (sign == "in"))
    if isinstance(item, str) and isinstance(collection, str):
        return v.Known((item in collection) is (sign == "in"))
    raise v.RefusalError(f"`{sign}` of {describe(lhs.value)} and {describe(rhs.value)}", span)


def _is_among(item: v.Operand, among: v.Operand, span: Span) -> v.Computed | None:
    """Return whether a number is among others, those of an array too; None where something is no number."""
    if isinstance(item.value, v.TupleOf) and isinstance(among.value, v.ListOfRows):
        return _has_row(item.value, among.value.rows, span)
    match among.value:
        case v.Computed(type=TensorType(shape=shape)) if shape and isinstance(item.value, v.Computed):
            equal = _compare(BuiltinOp.Eq, "==", among, item, span)
            return apply("any", span, equal)
        case v.TupleOf(items=items) if isinstance(item.value, v.TupleOf):
            if not all(map(_is_number, [*v.parts_of(item.value), *v.parts_of(among.value)])):
                return None
            others = [replace(among, value=each) for each in items if isinstance(each, v.TupleOf)]
            equals = [_compare(BuiltinOp.Eq, "==", each, item, span) for each in others]
            return _any_of(equals, span)
        case _ if not _is_number(item.value):
            return None
        case v.ListOfRows(rows=rows):
            return _is_among(item, replace(among, value=rows), span)
        case v.RangeOf(start=start, stop=stop, step=v.Known(value=1)):
            above = _compare(BuiltinOp.LE, "<=", replace(among, value=start), item, span)
            below = _compare(BuiltinOp.LT, "<", item, replace(among, value=stop), span)
            return apply("logical_and", span, above, below)
        case v.Computed(type=TensorType(shape=shape)) if shape:
            equal = _compare(BuiltinOp.Eq, "==", among, item, span)
            return apply("any", span, equal)
        case v.TupleOf(items=items) if all(map(_is_number, items)):
            equals = [_compare(BuiltinOp.Eq, "==", replace(among, value=each), item, span) for each in items]
            return _any_of(equals, span)
    return None


def _any_of(truths: list[v.Computed], span: Span) -> v.Computed:
    no = number_constant(bool(0), "bool", span)
    return reduce(lambda one, other: apply("logical_or", span, one, other), truths) if truths else no


def _has_row(item: v.TupleOf, rows: v.Computed, span: Span) -> v.Computed | None:
    """Return whether a tuple of numbers is a row of a matrix; None where there is no such row."""
    width = rows.shape[1] if len(rows.shape) == 2 else None
    if width != len(item.items) or not all(map(_is_number, item.items)):
        return None
    every, equals = v.SliceOf(v.Known(None), v.Known(None), v.Known(None)), []
    for place, part in enumerate(item.items):
        column = subscript(
            v.Operand(rows, span), [v.Operand(every, span), v.Operand(v.Known(place), span)], span
        )
        equals.append(_compare(BuiltinOp.Eq, "==", v.Operand(column, span), v.Operand(part, span), span))
    alike = reduce(lambda one, other: apply("logical_and", span, one, other), equals)
    return apply("any", span, alike)


def _is_number(value: v.Value) -> bool:
    if isinstance(value, v.Computed):
        return isinstance(value.type, TensorType) and not value.type.shape
    return isinstance(value, v.Known) and isinstance(value.value, bool | int | float | complex)


def _compare(operator: BuiltinOp, sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Computed:
    value = binary(operator, sign, lhs, rhs, span)
    if isinstance(value, v.Known):
        value = number_constant(bool(value.value), "bool", span)
    assert isinstance(value, v.Computed)
    return value


def _numbers(value: v.Value) -> v.Value:
    """Replace a dimension, and those of tuples, by numbers."""
    if isinstance(value, v.Dimension):
        return value.number
    return (
        v.TupleOf(tuple(map(_numbers, value.items)), value.whole) if isinstance(value, v.TupleOf) else value
    )
