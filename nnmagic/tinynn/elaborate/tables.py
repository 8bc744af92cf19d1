"""Elaborate changes of dictionaries and sets whose keys only the call knows: entries are added and deleted.

A table has room for one entry more at least: where an entry takes the last, it is copied to a larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import types as ty
from nnmagic.relay.ops.tables import DELETED
from nnmagic.tinynn.analysis.bound_names import deletes_entries
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.let_bindings import atomize, let_bind, let_bind_names
from nnmagic.tinynn.elaborate.merge_conversions import convert
from nnmagic.tinynn.elaborate.merge_plans import Expression
from nnmagic.tinynn.elaborate.merging import widen
from nnmagic.tinynn.elaborate.shared_memory import forget_shared_names
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.operators.element_assignment import set_elements
from nnmagic.tinynn.syntax import tree, tree_building
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast
from nnmagic.tinynn.values.symbolic_sizes import weak_int


def put(ctx: Elaboration, name: str, held: v.Value, key: v.Operand, value: v.Operand, span: Span) -> None:
    """Let a name stand for a dictionary with another entry, or a set with another member.

    ``value``: None for a set. Raises RefusalError.
    """
    table = tables.as_table(held, span)
    if table is None:
        if not tables.is_empty(held):
            message = f"the keys of {describe(held)} are known at compile time, and this one is not"
            raise v.RefusalError(message, key.span, hint="begin with {}, or with keys that are numbers")
        table = tables.empty_table(tables.as_key(key), value.value, span)
    let_bind_names(ctx, list(ctx.environment.bindings.locals))
    value = replace(value, value=atomize(ctx, value.value, f"{name}_value", set()))
    fitted = let_bind(ctx, tables.fit_key(table, key), f"{name}_key")
    slot, entry = _found(ctx, table, fitted, name, span)
    is_new = apply("less", span, entry, number_constant(0, "int64", span))
    place = let_bind(ctx, apply("where", span, is_new, table.used, entry), f"{name}_entry")
    more = let_bind(ctx, cast(is_new, "int64", span), f"{name}_more")
    if fitted.type.dtype == "float64":  # type: ignore[union-attr]  # 0.0 and -0.0 are one key: the first one stays
        first = apply("take", span, table.keys, entry, axis=0, mode="clip")
        fitted = apply("where", span, is_new, fitted, first)
    changed = v.TableOf(
        _with(table.slots, slot, place, span),
        _with(table.keys, place, fitted, span),
        weak_int(apply("add", span, table.used, more)),
        weak_int(apply("add", span, table.size, more)),
        _with_values(table.values, place, value, span),
    )
    _bind(ctx, name, changed, held, value.value, span)
    if name in ctx.live.to_set():
        _keep_room(ctx, name, span)


def update(
    ctx: Elaboration,
    name: str,
    held: v.Value,
    key: v.Operand,
    change: Callable[[v.Operand], v.Operand],
    span: Span,
) -> None:
    """Let a name stand for a dictionary with an entry changed, which it must have. Raises RefusalError."""
    table = tables.as_table(held, span)
    if table is None or table.is_set:
        raise v.RefusalError(f"{describe(held)} has no such key", key.span)
    let_bind_names(ctx, list(ctx.environment.bindings.locals))
    _, entry = _found(ctx, table, tables.fit_key(table, key), name, span)
    entry = let_bind(ctx, apply("table.found", span, entry), f"{name}_entry")
    value = change(v.Operand(tables.values_at(table, entry, span), span))
    if v.is_failed(value.value):
        ctx.environment.bindings.bind(name, v.FAILED)
        return
    changed = replace(table, values=_with_values(table.values, entry, value, span))
    _bind(ctx, name, changed, held, value.value, span)


def remove(ctx: Elaboration, name: str, held: v.Value, key: v.Operand, span: Span, *, must: bool) -> None:
    """Let a name stand for a dictionary without an entry, which it ``must`` have. Raises RefusalError."""
    table = tables.as_table(held, span)
    if table is None and tables.is_empty(held) and not must:
        return
    if table is None:
        raise v.RefusalError(f"{describe(held)} has no such key", key.span)
    let_bind_names(ctx, list(ctx.environment.bindings.locals))
    slot, entry = _found(ctx, table, tables.fit_key(table, key), name, span)
    if must:
        entry = let_bind(ctx, apply("table.found", span, entry), f"{name}_entry")
    is_there = let_bind(ctx, tables.is_entry(entry, span), f"{name}_has")
    left = apply("where", span, is_there, number_constant(DELETED, "int64", span), entry)
    size = weak_int(apply("subtract", span, table.size, cast(is_there, "int64", span)))
    changed = replace(table, slots=_with(table.slots, slot, left, span), size=size)
    _bind(ctx, name, changed, held, None, span)


def _found(
    ctx: Elaboration, table: v.TableOf, key: v.Computed, name: str, span: Span
) -> tuple[v.Computed, v.Computed]:
    slot, entry = tables.find(table, key, span)
    return let_bind(ctx, slot, f"{name}_slot"), let_bind(ctx, entry, f"{name}_found")


def _with(rows: v.Computed, place: v.Computed, row: v.Computed, span: Span) -> v.Computed:
    """Return rows of which one is another."""
    index = [v.Operand(replace(weak_int(place), least=0), span)]
    changed = set_elements(v.Operand(rows, span), index, v.Operand(row, span), span)
    return replace(changed, weak=rows.weak)


def _with_values(rows: v.Value, place: v.Computed, value: v.Operand, span: Span) -> v.Value:
    """Return the values of entries with another one at a place. Raises RefusalError."""
    if rows == v.Known(None):
        return rows
    if isinstance(rows, v.TupleOf):
        given = value.value.items if isinstance(value.value, v.TupleOf) else ()
        if len(given) != len(rows.items):
            message = (
                f"the values of this dictionary are tuples of {len(rows.items)}, not {describe(value.value)}"
            )
            raise v.RefusalError(message, value.span)
        pairs = zip(rows.items, given, strict=True)
        parts = (_with_values(own, place, replace(value, value=each), span) for own, each in pairs)
        return v.TupleOf(tuple(parts), written=rows.written)
    assert isinstance(rows, v.Computed)
    assert isinstance(rows.type, ty.TensorType)
    row = tables.as_row(value.value, value.span)
    cell = Expression(ty.TensorType(rows.type.shape[1:], rows.type.dtype), rows.weak)
    common = widen(cell, row)
    if not isinstance(common, Expression) or not isinstance(common.type, ty.TensorType):
        message = f"the values of this dictionary are not of the type of {describe(value.value)}"
        raise v.RefusalError(message, value.span, hint="give all of them one shape and one dtype")
    rows = replace(cast(rows, common.type.dtype, span), weak=common.weak)
    converted = convert(value.value, common.type, value.span)
    return _with(rows, place, v.Computed(converted, common.type), span)


def _bind(
    ctx: Elaboration, name: str, table: v.TableOf, held: v.Value, value: v.Value | None, span: Span
) -> None:
    """Let a name stand for a changed table, which holds the arrays of ``value``, too.

    The other names of the dictionary do not see the change, and lose their values.
    """
    chain = ctx.environment.chain()
    before = ctx.memory.of_value(held, chain)
    arrays = ctx.memory.of_rows(held.values) if isinstance(held, v.TableOf) else before
    if value is not None:
        arrays |= ctx.memory.of_value(value, chain)
    ctx.hold_lists(held)
    if value is not None:
        ctx.hold_lists(value)
    bound = atomize(ctx, table, name, set())
    assert isinstance(bound, v.TableOf)
    own = frozenset(part.expr for part in v.parts_of(bound.values) if isinstance(part, v.Computed))
    ctx.memory.hold_rows(bound.values, arrays | own)
    ctx.environment.bindings.bind(name, bound, span)
    forget_shared_names(ctx.memory, chain, name, before, span)


# -- room ----------------------------------------------------------------------------------------------


def _keep_room(ctx: Elaboration, name: str, span: Span) -> None:
    """Let a table have room for another entry."""
    place = ast.Span(span.filename, span.line, span.column, span.end_line, span.end_column)
    variable = tree_building.variable(place, name)

    def part(kind: str) -> tree.TablePart:
        return tree.TablePart(place, kind, variable)

    def become(kind: str) -> ast.Block:
        return ast.Block(place, [ast.Assign(place, [variable], None, part(kind))])

    grown = become("larger")
    if ctx.deletes_entries or any(deletes_entries(each.definition) for each in ctx.inlining):
        grown = ast.Block(place, [ast.If(place, part("sparse"), become("packed"), grown)])
    end = ctx.execute(ast.If(place, part("full"), grown, ast.Block(place, [])))
    assert end is None, "both branches go on"


def elaborate_table_part(ctx: Elaboration, expr: tree.TablePart) -> v.Value:
    """Elaborate whether a table is full, or has deleted entries, or a copy of it with more room."""
    table, span = ctx.environment.bindings.locals[expr.table.id.name], ctx.span(expr.span)
    assert isinstance(table, v.TableOf)
    if expr.kind == "full":
        return apply("greater_equal", span, table.used, tables.room_of(table, span))
    if expr.kind == "sparse":
        return apply("less", span, table.size, table.used)
    return tables.with_room(table, span) if expr.kind == "packed" else tables.larger(table, span)
