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
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import (
    Computed,
    Dimension,
    Known,
    ListOfRows,
    NotStaticError,
    Operand,
    RangeOf,
    RefusalError,
    SliceOf,
    TupleOf,
    Value,
    entries_of,
    static_value,
)


def identity(sign: str, left: Operand, right: Operand, span: Span) -> Value:
    """Evaluate ``x is None``, ``x is not None``, and ``is`` of dtypes."""
    for operand, other in ((left, right), (right, left)):
        if isinstance(other.value, Known) and (
            other.value.value is None or isinstance(other.value.value, bool | DType)
        ):
            if isinstance(other.value.value, bool) and isinstance(operand.value, Computed):
                break  # a tensor is never the object True: probably == was meant
            same = isinstance(operand.value, Known) and operand.value.value is other.value.value
            return Known(same if sign == "is" else not same)
    hint = "compare with ==" if sign == "is" else "compare with !="
    raise RefusalError(
        f"`{sign}` is for None: nothing says whether two values are one object", span, hint=hint
    )


def membership(sign: str, left: Operand, right: Operand, span: Span) -> Value:
    """Evaluate ``x in (1, 2)``: at compile time, or a number among numbers at run time."""
    entries = entries_of(right.value)
    keys = right.value if entries is None else TupleOf(tuple(map(Known, entries)))
    left, right = as_number(left), Operand(_numbers(keys), right.span)
    try:
        item, collection = static_value(left.value), static_value(right.value)
    except NotStaticError:
        if (found := _is_among(left, right, span)) is not None:
            return found if sign == "in" else apply("logical_not", span, found)
        hint = "compare with ==, as in (x == 1) | (x == 2)"
        if isinstance(right.value, Computed):
            hint = "write (x == value).any()"
        raise RefusalError(
            f"`{sign}` asks for values known at compile time, not {describe(left.value)} in "
            f"{describe(right.value)}",
            span,
            hint=hint,
        ) from None
    if isinstance(right.value, TupleOf) and isinstance(collection, tuple):
        return Known((item in collection) is (sign == "in"))
    if isinstance(item, str) and isinstance(collection, str):
        return Known((item in collection) is (sign == "in"))
    raise RefusalError(f"`{sign}` of {describe(left.value)} and {describe(right.value)}", span)


def _is_among(item: Operand, among: Operand, span: Span) -> Computed | None:
    """Return whether a number is among others, those of an array too; None where something is no number."""
    if isinstance(item.value, TupleOf) and isinstance(among.value, ListOfRows):
        return _has_row(item.value, among.value.rows, span)
    if not _is_number(item.value):
        return None
    match among.value:
        case ListOfRows(rows=rows):
            return _is_among(item, replace(among, value=rows), span)
        case RangeOf(start=start, stop=stop, step=Known(value=1)):
            above = _compared(BuiltinOp.LE, "<=", replace(among, value=start), item, span)
            below = _compared(BuiltinOp.LT, "<", item, replace(among, value=stop), span)
            return apply("logical_and", span, above, below)
        case Computed(type=TensorType(shape=shape)) if shape:
            equal = _compared(BuiltinOp.Eq, "==", among, item, span)
            return apply("any", span, equal)
        case TupleOf(items=()):
            return number_constant(bool(0), "bool", span)
        case TupleOf(items=items) if all(map(_is_number, items)):
            equals = [_compared(BuiltinOp.Eq, "==", replace(among, value=each), item, span) for each in items]
            return reduce(lambda one, other: apply("logical_or", span, one, other), equals)
    return None


def _has_row(item: TupleOf, rows: Computed, span: Span) -> Computed | None:
    """Return whether a tuple of numbers is a row of a matrix; None where there is no such row."""
    assert isinstance(rows.type, TensorType)
    width = rows.type.shape[1] if len(rows.type.shape) == 2 else None
    if width != len(item.items) or not all(map(_is_number, item.items)):
        return None
    every, equals = SliceOf(Known(None), Known(None), Known(None)), []
    for place, part in enumerate(item.items):
        column = subscript(Operand(rows, span), [Operand(every, span), Operand(Known(place), span)], span)
        equals.append(_compared(BuiltinOp.Eq, "==", Operand(column, span), Operand(part, span), span))
    alike = reduce(lambda one, other: apply("logical_and", span, one, other), equals)
    return apply("any", span, alike)


def _is_number(value: Value) -> bool:
    if isinstance(value, Computed):
        return isinstance(value.type, TensorType) and not value.type.shape
    return isinstance(value, Known) and isinstance(value.value, bool | int | float | complex)


def _compared(operator: BuiltinOp, sign: str, left: Operand, right: Operand, span: Span) -> Computed:
    value = binary(operator, sign, left, right, span)
    if isinstance(value, Known):
        value = number_constant(bool(value.value), "bool", span)
    assert isinstance(value, Computed)
    return value


def _numbers(value: Value) -> Value:
    """Replace the dimensions of a tuple by numbers."""
    if not isinstance(value, TupleOf):
        return value
    items = (item.number if isinstance(item, Dimension) else item for item in value.items)
    return TupleOf(tuple(items), value.whole)
