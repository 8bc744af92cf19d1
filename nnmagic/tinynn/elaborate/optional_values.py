"""Merge None with numbers and tensors: a name stands for a value, and for whether it is there.

So it is with a name that only some paths assign, or a loop that may have no rounds. A function without types
is elaborated so where it is refused otherwise (`cell`).
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply

#: What a name stands for before a loop that assigns it first.
UNBOUND = v.Known(type("Unbound", (), {"__repr__": lambda _: "no value"})())
#: The records of such values, by what stands where there is none.
RECORDS = {
    v.Known(None): ty.RecordType((), ty.OPTIONAL, ("given", "value")),
    UNBOUND: ty.RecordType((), ty.OPTIONAL, ("assigned", "value")),
}


@dataclass
class NoneMerges:
    """Whether None merges with other values, and whether it has met one."""

    allowed: bool = False
    met: bool = False


NONE_MERGES: ContextVar[NoneMerges] = ContextVar("none_merges", default=NoneMerges())  # noqa: B039  # read alone


def may_be_none(value: object) -> bool:
    """Return whether only the call knows if a value, or what a plan makes, is there."""
    record = getattr(value, "record", None)
    return record is not None and record.name == ty.OPTIONAL


def is_absent(value: object) -> bool:
    """Return whether a value is None, or none at all."""
    return isinstance(value, v.Known) and (value.value is None or value is UNBOUND)


def read(name: str, value: v.Value, span: Span, *, is_kept: bool) -> v.Value:
    """Return what a name stands for where it is read; ``is_kept``: or None. Raises RefusalError."""
    if value is UNBOUND:
        hint = "assign it before the loop"
        raise v.RefusalError(f"`{name}` may not be assigned here: only a loop assigns it", span, hint=hint)
    if not isinstance(value, v.TupleOf) or not may_be_none(value):
        return value
    if is_kept and not _is_unbound(value):
        return value
    return present(name, value, span)


def zeros_of(type_: ty.Type, *, weak: bool) -> v.Computed:
    """Return what stands for a value that is not there."""
    assert isinstance(type_, ty.TensorType)
    sizes = tuple(size if isinstance(size, int) else 0 for size in type_.shape)
    zeros = ir.constant(np.zeros(sizes, ty.ARRAY_DTYPES[type_.dtype]), type_.dtype)
    return v.Computed(zeros, ty.TensorType(sizes, type_.dtype), weak)


def _is_unbound(value: v.TupleOf) -> bool:
    return value.record is not None and value.record.names == RECORDS[UNBOUND].names


def present(name: str, value: v.TupleOf, span: Span) -> v.Value:
    """Return the value of a name; the program raises ValueError where there is none."""
    given, held = value.items
    message = f"`{name}` is None here: ask before, as in `if {name} is not None`"
    if _is_unbound(value):
        message = f"`{name}` has no value here: nothing has assigned it"
    if isinstance(given, v.Known):
        given = number_constant(bool(given.value), "bool", span)
    return _require(held, given, message, span)


def _require(value: v.Value, given: v.Value, message: str, span: Span) -> v.Value:
    match value:
        case v.TupleOf(items=items):
            parts = tuple(_require(item, given, message, span) for item in items)
            return v.TupleOf(parts, record=value.record, written=value.written)
        case v.Computed(weak=weak):
            assert isinstance(given, v.Computed)
            plain = apply("python.require", span, v.Computed(value.expr, value.type), given, message=message)
            return v.Computed(plain.expr, plain.type, weak)
    return value


def kept(expr: ast.Expr | None) -> dict[int, ast.Expr]:
    """Return an expression and the parts of which it hands on the values as they are, None or not."""
    match expr:
        case None:
            return {}
        case ast.Tuple(values=parts):
            inner = list(parts)
        case tree.Conditional(then=then, other=other):
            inner = [then, other]
        case tree.NamedExpr(value=value):
            inner = [value]
        case _:
            inner = []
    return {id(expr): expr} | {key: node for part in inner for key, node in kept(part).items()}
