"""Evaluate ``is`` and ``in`` at compile time."""

from __future__ import annotations

from nnmagic.diagnostics import Span
from nnmagic.tinynn.types.annotations import DType
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.symbolic_sizes import as_number


def identity(sign: str, left: v.Operand, right: v.Operand, span: Span) -> v.Value:
    """Evaluate ``x is None``, ``x is not None``, and ``is`` of dtypes."""
    for operand, other in ((left, right), (right, left)):
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


def membership(sign: str, left: v.Operand, right: v.Operand, span: Span) -> v.Value:
    """Evaluate ``x in (1, 2)`` of static values."""
    entries = v.entries_of(right.value)
    keys = right.value if entries is None else v.TupleOf(tuple(map(v.Known, entries)))
    left, right = as_number(left), v.Operand(_numbers(keys), right.span)
    try:
        item, collection = v.static_value(left.value), v.static_value(right.value)
    except v.NotStaticError:
        hint = "compare with ==, as in (x == 1) | (x == 2)"
        if isinstance(right.value, v.Computed):
            hint = "write (x == value).any()"
        raise v.RefusalError(
            f"`{sign}` asks for values known at compile time, not {describe(left.value)} in "
            f"{describe(right.value)}",
            span,
            hint=hint,
        ) from None
    if isinstance(right.value, v.TupleOf) and isinstance(collection, tuple):
        return v.Known((item in collection) is (sign == "in"))
    if isinstance(item, str) and isinstance(collection, str):
        return v.Known((item in collection) is (sign == "in"))
    raise v.RefusalError(f"`{sign}` of {describe(left.value)} and {describe(right.value)}", span)


def _numbers(value: v.Value) -> v.Value:
    """Replace the dimensions of a tuple by numbers."""
    if not isinstance(value, v.TupleOf):
        return value
    items = (item.number if isinstance(item, v.Dimension) else item for item in value.items)
    return v.TupleOf(tuple(items), value.whole)
