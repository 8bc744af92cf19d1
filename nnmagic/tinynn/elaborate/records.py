"""Elaborate records: calls of their classes, and ``tree_map`` over their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.diagnostics import Span
from nnmagic.relay.types import FuncType, RecordType
from nnmagic.tinynn.calls.argument_binding import bind
from nnmagic.tinynn.calls.function_calls import FunctionMaker
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.conversions import convert_declared_value
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.declared_sizes import DeclaredSizes
from nnmagic.tinynn.values.descriptions import describe

#: Calls a value: `calls.apply_value`.
Apply = Callable[[Elaboration, v.Operand, list[v.Operand], Span], v.Value]


def make_record(
    record: RecordType, operands: Sequence[v.Operand], span: Span, make_function: FunctionMaker
) -> v.Value:
    """Return a record of its fields. Raises RefusalError."""
    given = bind(record.name, list(record.names), list(record.names), operands, span)
    sizes = DeclaredSizes({})
    items: list[v.Value] = [
        make_function(given[name], type_)
        if isinstance(type_, FuncType)
        else convert_declared_value(f"the field `{name}`", type_, given[name], None, sizes)
        for name, type_ in zip(record.names, record.fields, strict=True)
    ]
    return v.TupleOf(tuple(items), record=record)


def call_tree_map(ctx: Elaboration, call: v.GradientOf, span: Span, apply: Apply) -> v.Value:
    """Call ``tree_map(f, tree, *rest)``, written out for each tensor."""
    return _map(ctx, call.function, list(call.arguments), span, apply)


def _map(ctx: Elaboration, function: v.Operand, trees: list[v.Operand], span: Span, apply: Apply) -> v.Value:
    first = trees[0].value
    if not isinstance(first, v.TupleOf):
        return apply(ctx, function, trees, span)
    columns = []
    for tree in trees:
        value = tree.value
        if not isinstance(value, v.TupleOf) or len(value.items) != len(first.items):
            message = f"tree_map: {describe(value)} has not the form of {describe(first)}"
            raise v.RefusalError(message, tree.span, hint="give trees of one form")
        columns.append([v.Operand(item, tree.span) for item in value.items])
    items = [_map(ctx, function, list(row), span, apply) for row in zip(*columns, strict=True)]
    if any(map(v.is_failed, items)):
        return v.FAILED
    return v.TupleOf(tuple(items), record=first.record)
