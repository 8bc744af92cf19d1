"""Elaborate loops that change lists, as functions: a list is a tensor with room for more rows.

In a loop that is not unrolled, a list to which every round appends one item is a tensor with a row for each
round: it is made before the loop, and its rows are assigned in it. If only some rounds append, as in
``if x > 0: rows.append(x)``, the tensor has room for all that they can, and a number counts the items. Lists
that change in other ways, as stacks, queues and work lists, have the numbers of their first item and of the
one behind their last; where the room is used up, the tensor is copied to one of twice the size. After the
loop the list is a `ListOfRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

import attr
from synr import ast
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import AnyDim, TensorType, TupleType
from nnmagic.tinynn.analysis.bound_names import find_assigned_names, find_mentioned_names
from nnmagic.tinynn.elaborate import growing_lists
from nnmagic.tinynn.elaborate.context import Elaboration, Growth, ListNames
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, Terminator
from nnmagic.tinynn.elaborate.list_items import check_holders
from nnmagic.tinynn.elaborate.list_rewriting import LoopLists, items_before, rewrite
from nnmagic.tinynn.elaborate.lists_as_rows import with_columns
from nnmagic.tinynn.elaborate.sequencing import run_steps
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.iteration import count
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.symbolic_sizes import as_number, full, number_of, size_along, weak_int

#: The room of a list that begins.
_ROOM = 8

#: Elaborates a loop with rows in place of lists.
Emit = Callable[[tree.For | tree.While], Terminator | None]


def change_in_loop(
    ctx: Elaboration,
    stmt: tree.For | tree.While,
    lists: LoopLists,
    emit: Emit,
    room: Callable[[int], v.Value],
) -> Terminator | None:
    """Elaborate a loop in which lists change, as a function. Raises RefusalError.

    ``room``: returns the number of rows that all rounds need, for the most items of one.
    """
    loop, names = rewrite(ctx, stmt, lists)
    bindings, span = ctx.environment.bindings, ctx.span(stmt.span)
    growths = {
        name: Growth(name, binding.rows, items_before(lists.values[name])) for name, binding in names.items()
    }
    for name, binding in names.items():
        value = lists.values[name]
        check_holders(ctx, name, value, span)
        ctx.growing[ctx.environment, name] = growths[name]
        bindings.bind(binding.rows, _example_of_rows(ctx, growths[name], value, span))
        bindings.bind(binding.begin, v.Known(0))
        bindings.bind(binding.end, _length(value, span))
        bindings.bind(name, growing_lists.unreadable(name, span))
    ctx.live |= {index for binding in names.values() for index in binding}
    # What a list holds is known only after an item was appended, but its tensor must exist before
    # the loop: a trial elaboration finds the type, and its code is thrown away.
    if not _find_types(ctx, loop, growths, emit, may_be_unknown=not lists.are_read):
        for name in (*find_assigned_names(loop), *growths):
            bindings.bind(name, v.FAILED)
        ctx.environment.failed = True
        if not ctx.diagnostics.errors:
            message = f"nothing says of what type the items of `{next(iter(growths))}` are"
            raise v.RefusalError(message, span, hint="append one before the loop")
        return None
    for name, growth in growths.items():
        if growth.type is not None:
            growth.is_tried = False
            if name in lists.times:
                rows = growing_lists.make_rows(ctx, growth, room(lists.times[name]), span)
            else:
                rows = _begin_rows(ctx, growth, lists.values[name], span)
            bindings.bind(growth.rows, rows)

    def leave() -> None:
        for name, binding in names.items():
            value = _leave(ctx, binding, growths[name], span, is_stepped=lists.is_stepped)
            ctx.environment.bindings.bind(name, value, span)
            for index in binding:
                ctx.environment.bindings.forget(index)

    block, live, ctx.block = ctx.block, ctx.live, Block(ctx.block.lets)
    try:
        run_steps(ctx, [lambda: emit(loop), leave])
        return ctx.block.end
    finally:
        ctx.block, ctx.live = block, live


def _find_types(
    ctx: Elaboration,
    loop: tree.For | tree.While,
    growths: Mapping[str, Growth],
    emit: Emit,
    *,
    may_be_unknown: bool,
) -> bool:
    """Find the types of the items of lists by a trial; return whether they are known.

    ``may_be_unknown``: whether a list to which no round appends may stay one without items.
    """
    locals_ = ctx.environment.bindings.locals
    with ctx.trial() as diagnostics:
        emit(loop)
    before = None
    while not may_be_unknown and (unknown := _unknown_rows(ctx, growths)) not in (before, set()):
        before = unknown  # each round finds those that get items of the lists that the last one found
        body = attr.evolve(loop.body, stmts=list(_without_readers(loop.body.stmts, unknown)))
        with ctx.trial():
            emit(attr.evolve(loop, body=body))
    for growth in growths.values():
        rows = v.rows_of_list(locals_[growth.rows])
        if growth.type is None and isinstance(rows, v.Computed) and isinstance(rows.type, TensorType):
            growth.type = TensorType(rows.type.shape[1:], rows.type.dtype)  # no round appends to it
    if all(growth.type is not None for growth in growths.values()):
        return True
    for diagnostic in diagnostics.errors:
        ctx.diagnostics.add(diagnostic)
    return may_be_unknown and not diagnostics.errors


def _unknown_rows(ctx: Elaboration, growths: Mapping[str, Growth]) -> set[str]:
    """Return the rows of which no type is known yet; give the others one that a trial can read."""
    locals_, unknown = ctx.environment.bindings.locals, set()
    for growth in growths.values():
        if isinstance(v.rows_of_list(locals_[growth.rows]), v.Computed):
            continue
        if growth.type is None:
            unknown.add(growth.rows)
        else:
            locals_[growth.rows] = growing_lists.example_of(ctx, growth, growth.type)
    return unknown


def _leave(ctx: Elaboration, names: ListNames, growth: Growth, span: Span, *, is_stepped: bool) -> v.Value:
    """Return what a list is after the loop in which it changed."""
    if growth.type is None:
        return v.TupleOf(())
    rows, begin, end = (ctx.environment.bindings.locals.get(name, v.FAILED) for name in names)
    rows = v.rows_of_list(rows)
    if isinstance(rows, v.Computed) and not is_stepped:
        rows = _first_rows(rows, begin, end, span)
    return growing_lists.grown(ctx, growth, rows)


def _without_readers(statements: Sequence[ast.Stmt], rows: Set[str]) -> Iterator[ast.Stmt]:
    """Yield the statements of a loop that append to lists, and those that read none: they say the types."""
    for stmt in statements:
        if isinstance(stmt, tree.Grow) or not find_mentioned_names(stmt) & rows:
            yield stmt
        elif isinstance(stmt, ast.If):
            yield from _without_readers([*stmt.true.stmts, *stmt.false.stmts], rows)
        elif isinstance(stmt, tree.While):
            yield from _without_readers(stmt.body.stmts, rows)
        elif isinstance(stmt, tree.For) and not find_mentioned_names(stmt.iterable) & rows:
            yield attr.evolve(
                stmt, body=attr.evolve(stmt.body, stmts=list(_without_readers(stmt.body.stmts, rows)))
            )


def _length(value: v.TupleOf | v.ListOfRows, span: Span) -> v.Value:
    """Return the number of the items of a list."""
    if isinstance(value, v.TupleOf):
        return v.Known(len(value.items))
    return as_number(v.Operand(size_along(value.rows, 0, span), span)).value


def _example_of_rows(
    ctx: Elaboration, growth: Growth, value: v.TupleOf | v.ListOfRows, span: Span
) -> v.Value:
    """Return what the rows stand for before a trial, which finds their type."""
    if isinstance(value, v.TupleOf):
        return growing_lists.first_example(ctx, growth, span)
    assert isinstance(value.rows.type, TensorType)
    growth.columns, growth.is_table = growth.columns or value.columns, max(growth.is_table, value.is_table)
    growth.is_shared |= value.is_shared
    return growing_lists.example_of(ctx, growth, TensorType(value.rows.type.shape[1:], value.rows.type.dtype))


def _begin_rows(
    ctx: Elaboration, growth: Growth, value: v.TupleOf | v.ListOfRows, span: Span
) -> v.Computed | v.ListOfRows:
    """Return the tensor of a list before its loop, with some room."""
    if isinstance(value, v.ListOfRows):
        if growth.columns:
            value = with_columns(value, growth.columns, span)
        rows = _with_room(value.rows, v.Known(_ROOM), span)
        ctx.memory.shown[growth.rows] = growth.name
        ctx.memory.hold(rows.expr, ctx.memory.of_expr(value.rows.expr) | {rows.expr})
        return growing_lists.rows_as(growth, rows)
    return growing_lists.make_rows(
        ctx, growth, growing_lists.number_of_rounds(number_constant(_ROOM, "int64", span), span), span
    )


def _with_room(items: v.Computed, more: v.Value, span: Span) -> v.Computed:
    """Return a tensor of items with room for as many again, ``more`` at least."""
    assert isinstance(items.type, TensorType)
    size = number_of(size_along(items, 0, span), span)
    least = apply("maximum", span, _int64(more, span), number_constant(_ROOM, "int64", span))
    # Doubling makes n appends cost O(n) copies of elements altogether (amortized constant time).
    room = weak_int(apply("maximum", span, size, least))
    wide = [size_along(items, axis, span) for axis in range(1, len(items.type.shape))]
    zero = number_constant(False if items.type.dtype == "bool" else 0, items.type.dtype, span)
    zeros = full(zero, [v.Dimension(AnyDim(), room), *wide], span)
    parts = TupleType((items.type, zeros.type))
    both = v.Computed(ir.Tuple((items.expr, zeros.expr), span=span), parts)
    joined = apply("concatenate", span, both, axis=0)
    assert isinstance(joined.type, TensorType)
    return v.Computed(joined.expr, replace(joined.type, shape=(AnyDim(), *items.type.shape[1:])))


def _int64(value: v.Value, span: Span) -> v.Computed:
    number = as_number(v.Operand(value, span)).value
    if isinstance(number, v.Known):
        return number_constant(int(str(number.value)), "int64", span)
    assert isinstance(number, v.Computed)
    return v.Computed(number.expr, number.type)


# -- the parts of lists in a loop ------------------------------------------------------------------------


def elaborate_list_part(ctx: Elaboration, expr: tree.ListPart) -> v.Value:
    """Elaborate a part of a list that changes in a loop. Raises RefusalError."""
    span, growth = ctx.span(expr.span), growing_lists.growth_of(ctx, expr.source)
    if expr.kind == "moved":
        other = source_of(expr)
        message = f"`{expr.source}` and `{other}` are one list here, which Python would change in both"
        return v.Unassigned(message, f"copy it before: {other} = list({expr.source})", ())
    if expr.kind == "held":
        message = f"`{expr.source}` changes in this loop, and what holds it would change, too"
        raise v.RefusalError(message, span, hint=f"hold a copy of it: list({expr.source})")
    values = [ctx.evaluate(part) for part in expr.parts]
    if any(map(v.is_failed, values)):
        return v.FAILED
    if expr.kind in ("taken", "left"):
        (value,) = values
        if expr.kind == "left" and isinstance(value, v.ListOfRows):  # as before, without some
            columns = value.columns or growth.columns
            value = replace(value, is_table=max(value.is_table, growth.is_table), columns=columns)
        return _take(ctx, growth, v.Operand(value, span))
    rows, *others = map(v.rows_of_list, values)
    if not isinstance(rows, v.Computed):  # in a trial, before an item says of what type they are
        if expr.kind == "whole" and not growth.before and growth.is_tried:
            return v.TupleOf((), written="list")
        return v.Known(value=False) if expr.kind == "full" else v.FAILED
    match expr.kind:
        case "full":
            end, more = others
            needed = binary(
                BuiltinOp.Add, "+", v.Operand(end, span), v.Operand(_times(more, span), span), span
            )
            size = as_number(v.Operand(size_along(rows, 0, span), span))
            return binary(BuiltinOp.GT, ">", v.Operand(needed, span), size, span)
        case "larger":
            begin, end, more = others
            live = _first_rows(rows, begin, end, span)
            larger = _with_room(live, _times(more, span), span)
            ctx.memory.hold(larger.expr, ctx.memory.of_expr(rows.expr) | {larger.expr})
            return growing_lists.rows_as(growth, larger)
        case "place":
            begin, end, index = others
            return _place(rows, begin, end, v.Operand(index, span), span)
        case _:
            begin, end = others
            live = _first_rows(rows, begin, end, span)
            ctx.memory.hold(live.expr, ctx.memory.of_expr(rows.expr))
            whole = v.ListOfRows(live, growth.is_table, columns=growth.columns, is_shared=growth.is_shared)
            if expr.kind == "whole":
                own = growing_lists.whole_list(ctx, growth)
                ctx.merged_lists[id(whole)] = (whole,), frozenset((id(whole), own))
            return whole


def source_of(expr: tree.ListPart) -> str:
    """Return the name that a list was given to."""
    (other,) = expr.parts
    assert isinstance(other, ast.Var)
    return str(other.id.name)


def _times(more: v.Value, span: Span) -> v.Value:
    """Return how many items a loop appends at most: of a tuple of what it goes over, and how many a round."""
    if not isinstance(more, v.TupleOf):
        return more
    over, times = more.items
    rounds = count(v.Operand(over, span))
    number: v.Value = v.Known(rounds) if isinstance(rounds, int) else rounds
    return binary(BuiltinOp.Mul, "*", v.Operand(number, span), v.Operand(times, span), span)


def _first_rows(rows: v.Computed, begin: v.Value, end: v.Value, span: Span) -> v.Computed:
    kept = subscript(v.Operand(rows, span), [v.Operand(v.SliceOf(begin, end, v.Known(None)), span)], span)
    assert isinstance(kept, v.Computed)
    return kept


def _place(rows: v.Computed, begin: v.Value, end: v.Value, index: v.Operand, span: Span) -> v.Value:
    """Return where an item of a list is among the rows; behind them all if it is out of range."""
    number = as_number(index).value
    is_number = isinstance(number, v.Known) and isinstance(number.value, int)
    is_computed = (
        isinstance(number, v.Computed) and isinstance(number.type, TensorType) and not number.type.shape
    )
    if not is_number and not is_computed:
        raise v.RefusalError(f"the index of a list that changes is an int, not {describe(number)}", span)

    def add(base: v.Value) -> v.Computed:
        return _int64(binary(BuiltinOp.Add, "+", v.Operand(base, span), v.Operand(number, span), span), span)

    first, last = _int64(begin, span), _int64(end, span)
    if isinstance(number, v.Known):
        place = add(end if int(str(number.value)) < 0 else begin)
    else:
        assert isinstance(number, v.Computed)
        is_negative = apply("less", span, _int64(number, span), number_constant(0, "int64", span))
        place = apply("where", span, is_negative, add(end), add(begin))
    inside = apply(
        "logical_and", span, apply("greater_equal", span, place, first), apply("less", span, place, last)
    )
    # Out of range on purpose: the check of the subscript that follows raises IndexError, as Python
    # does.
    behind = number_of(size_along(rows, 0, span), span)
    return weak_int(apply("where", span, inside, place, behind))


def _take(ctx: Elaboration, growth: Growth, given: v.Operand) -> v.Value:
    """Return the rows of a list that a name is given. Raises RefusalError."""
    value, span = given.value, given.span
    if not isinstance(value, v.ListOfRows | v.TupleOf):
        message = f"`{growth.name}` is a list before this, and {describe(value)} here"
        raise v.RefusalError(message, span, hint="give it another name")
    if growth.is_tried:
        own = replace(growth, before=value.items) if isinstance(value, v.TupleOf) else growth
        example = _example_of_rows(ctx, own, value, span)
        tensor = v.rows_of_list(example)
        if isinstance(tensor, v.Computed) and isinstance(tensor.type, TensorType):
            growth.type = growth.type or TensorType(tensor.type.shape[1:], tensor.type.dtype)
            growth.columns, growth.is_table = own.columns, own.is_table
            growth.is_shared |= own.is_shared
            return example
        return v.FAILED if growth.type is None else growing_lists.example_of(ctx, growth, growth.type)
    if isinstance(value, v.ListOfRows):
        assert growth.type is not None
        return _begin_rows(ctx, growth, value, span)
    return _begin_rows(ctx, replace(growth, before=value.items), value, span)
