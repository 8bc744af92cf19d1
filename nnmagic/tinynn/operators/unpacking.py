"""Bind the names of ``a, (b, *c) = value`` to the parts of the value."""

from __future__ import annotations

from collections.abc import Callable

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_ITEMS
from nnmagic.tinynn.operators.iteration import items
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.operators.tables import keys_of_entries, keys_of_table
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
from nnmagic.tinynn.values.values import Known, ListOfRows, Operand, RefusalError, TupleOf, Value, Zipped

PublicSpan = Callable[[ast.Span], Span]


def unpack(
    target: ast.Expr, value: Operand, to_span: PublicSpan, bind: Callable[[ast.Expr, Value], None]
) -> None:
    """Bind every part of a target: Vars, and subscripts, whose elements are assigned.

    Before an error is raised, the parts to its left are bound.
    """
    if isinstance(target, ast.Var | ast.Call):
        bind(target, value.value)
        return
    assert isinstance(target, ast.Tuple)
    span = to_span(target.span)
    parts = parts_of(value, span)
    targets = list(target.values)
    starred = [index for index, part in enumerate(targets) if isinstance(part, tree.Starred)]
    fixed = len(targets) - len(starred)
    if len(parts) < fixed or (not starred and len(parts) != fixed):
        wanted = f"at least {fixed}" if starred else str(fixed)
        raise RefusalError(f"{len(parts)} values for {wanted} names", span)
    if starred:
        first = starred[0]
        end = len(parts) - (len(targets) - first - 1)
        gathered = TupleOf(tuple(parts[first:end]))
        targets[first] = targets[first].value
        parts = [*parts[:first], gathered, *parts[end:]]
    for inner, item in zip(targets, parts, strict=True):
        unpack(inner, Operand(item, value.span), to_span, bind)


def parts_of(value: Operand, span: Span) -> list[Value]:
    """Return the items of a tuple or a list, or the rows of a tensor. Raises RefusalError."""
    value = keys_of_entries(keys_of_table(value))
    if isinstance(value.value, TupleOf):
        return list(value.value.items)
    if isinstance(value.value, Zipped):
        return items(value, "an assignment to several names")
    rows = value.value.rows if isinstance(value.value, ListOfRows) else value.value
    if not is_tensor(rows):
        raise RefusalError(f"{describe(value.value)} cannot be unpacked", value.span)
    shape = tensor_type(Operand(rows, value.span)).shape
    if not shape or not isinstance(shape[0], int) or shape[0] > MAX_ITEMS:
        raise RefusalError(f"{describe(value.value)} cannot be unpacked", value.span)
    return [subscript(value, [Operand(Known(row), span)], value.span) for row in range(int(shape[0]))]
