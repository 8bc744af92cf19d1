"""Evaluate ``is`` and ``in`` at compile time."""

from __future__ import annotations

from nnmagic.diagnostics import Span
from nnmagic.tinynn.types.annotations import DType
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import (
    Computed,
    Dimension,
    Known,
    NotStaticError,
    Operand,
    RefusalError,
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
    """Evaluate ``x in (1, 2)`` of static values."""
    entries = entries_of(right.value)
    keys = right.value if entries is None else TupleOf(tuple(map(Known, entries)))
    left, right = as_number(left), Operand(_numbers(keys), right.span)
    try:
        item, collection = static_value(left.value), static_value(right.value)
    except NotStaticError:
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


def _numbers(value: Value) -> Value:
    """Replace the dimensions of a tuple by numbers."""
    if not isinstance(value, TupleOf):
        return value
    items = (item.number if isinstance(item, Dimension) else item for item in value.items)
    return TupleOf(tuple(items), value.whole)
