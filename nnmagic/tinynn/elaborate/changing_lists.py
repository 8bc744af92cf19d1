"""Elaborate lists whose length changes in a loop as no count of its rounds tells: stacks, queues, work lists.

Such a list is a tensor with room for more rows, and the numbers of its first item and of the one behind its
last. A loop is written anew with these three names in place of the list's; where the room is used up, the
tensor is copied to one of twice the size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import attr
from synr import ast
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import AnyDim, TensorType, TupleType
from nnmagic.tinynn.analysis.bound_names import find_assigned_names, find_mentioned_names, names_bound, walk
from nnmagic.tinynn.elaborate.context import Elaboration, Growth
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, Terminator
from nnmagic.tinynn.elaborate.growing_lists import (
    example_of,
    first_example,
    free_name,
    grown,
    make_rows,
    read_last,
    unreadable,
)
from nnmagic.tinynn.elaborate.list_items import list_to_change
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

#: Elaborates a loop: `loops.elaborate_for_over` of one with rows in place of lists.
Emit = Callable[[Elaboration, "tree.For | tree.While"], "Terminator | None"]


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that stand for a list: its tensor, its first item, and the one behind its last."""

    rows: str
    begin: str
    end: str


def find_changing(ctx: Elaboration, stmt: tree.For | tree.While) -> dict[str, v.TupleOf | v.ListOfRows]:
    """Return the lists of the function that a loop appends to or takes items from, by their names."""
    parts = list(walk(stmt, into_functions=False))
    names = [part.lhs[0].id.name for part in parts if isinstance(part, tree.Append | tree.ChangeList)]
    moved = [
        (part.lhs[0].id.name, part.rhs.id.name)
        for part in parts
        if type(part) is ast.Assign and isinstance(part.rhs, ast.Var)
    ]
    names += [target for target, source in moved if source in names]
    found: dict[str, v.TupleOf | v.ListOfRows] = {}
    for name in dict.fromkeys(names):
        value = list_to_change(ctx, ast.Var(stmt.span, ast.Id(stmt.span, name)))
        if value is not None:
            found[name] = value
    return found


def reads_changing(ctx: Elaboration, stmt: tree.For) -> bool:
    """Return whether a loop reads a list that it appends to otherwise than its length and its last item."""
    lists = find_changing(ctx, stmt)
    mentions, allowed = Counter[str](), Counter[str]()
    for part in walk(stmt.body, into_functions=False) if lists else ():
        match part:
            case ast.Var(id=ast.Id(name=name)) if name in lists:
                mentions[name] += 1
            case tree.Append():
                allowed[part.lhs[0].id.name] += 2  # on the left side, and on the right
            case ast.Call(func_name=ast.Var(id=ast.Id(name="len")), params=[ast.Var(id=ast.Id(name=name))]):
                allowed[name] += 1
            case ast.Call() if (name := read_last(part)) in lists and _items_before(lists[name]):
                allowed[name] += 1
    return any(mentions[name] > allowed[name] for name in lists)


def over_changing_list(ctx: Elaboration, stmt: tree.For) -> tuple[str, tree.While] | None:
    """Return a loop over a list that its rounds change, as one that counts the items; None for other loops.

    As in Python it goes over the items that the list has by then. Also the name of what counts them.
    """
    if not _changes_what_it_goes_over(stmt) or list_to_change(ctx, stmt.iterable) is None:
        return None
    if id(stmt) not in ctx.changing_lists:
        taken = set(find_mentioned_names(stmt) | ctx.environment.assigned) | {*ctx.environment.names()}
        ctx.changing_lists[id(stmt)] = _counting(stmt, free_name(f"{stmt.iterable.id.name}_next", taken)), {}
        ctx.rewritten_sources += [stmt, ctx.changing_lists[id(stmt)][0]]
    loop = ctx.changing_lists[id(stmt)][0]
    assert isinstance(loop, tree.While)
    return str(loop.condition.params[0].id.name), loop


def _changes_what_it_goes_over(stmt: tree.For) -> bool:
    """Return whether a loop goes over a list that its rounds change."""
    changed = {
        part.lhs[0].id.name
        for part in walk(stmt.body, into_functions=False)
        if isinstance(part, tree.Append | tree.ChangeList)
    }
    return isinstance(stmt.iterable, ast.Var) and stmt.iterable.id.name in changed


def _counting(stmt: tree.For, name: str) -> tree.While:
    span, place = stmt.iterable.span, tree.variable(stmt.iterable.span, name)
    length = ast.Call(span, tree.variable(span, "len"), [stmt.iterable], {})
    condition = ast.Call(span, ast.Op(span, BuiltinOp.LT), [place, length], {})
    item = tree.subscript(span, stmt.iterable, [place])
    begin = (
        ast.Assign(span, [stmt.target], None, item)
        if isinstance(stmt.target, ast.Var)
        else tree.Unpack(span, [stmt.target], item)
    )
    count_on = ast.Assign(
        span, [place], None, tree.operation(place.span, BuiltinOp.Add, place, _number(span, 1))
    )
    body = ast.Block(stmt.body.span, [begin, count_on, *stmt.body.stmts])
    return tree.While(stmt.span, condition, body, stmt.orelse)


def change_in_loop(ctx: Elaboration, stmt: tree.For | tree.While, emit: Emit) -> Terminator | None:
    """Elaborate a loop in which lists change, as a function. Raises RefusalError."""
    lists = find_changing(ctx, stmt)
    loop, names = _rewrite(ctx, stmt, lists)
    bindings, span = ctx.environment.bindings, ctx.span(stmt.span)
    growths = {name: Growth(name, each.rows, _items_before(lists[name])) for name, each in names.items()}
    for part in walk(loop, into_functions=False):
        if isinstance(part, tree.Grow | tree.ListPart) and part.source in growths:
            ctx.growing[id(part)] = growths[part.source]
    for name, each in names.items():
        _check_holders(ctx, name, lists[name], span)
        value = lists[name]
        example = _example_of_rows(ctx, growths[name], value, span)
        bindings.bind(each.rows, example)
        bindings.bind(each.begin, v.Known(0))
        bindings.bind(each.end, _length(value, span))
        bindings.bind(name, unreadable(name, span))
    ctx.live |= {part for each in names.values() for part in (each.rows, each.begin, each.end)}
    with ctx.trial() as diagnostics:
        emit(ctx, loop)
    unknown = {names[name].rows for name, growth in growths.items() if growth.type is None}
    if unknown and not all(isinstance(bindings.locals[each], v.Computed) for each in unknown):
        body = attr.evolve(loop.body, stmts=list(_without_readers(loop.body.stmts, unknown)))
        with ctx.trial():
            emit(ctx, attr.evolve(loop, body=body))
    for name, growth in growths.items():
        rows = bindings.locals[names[name].rows]
        if growth.type is None and isinstance(rows, v.Computed) and isinstance(rows.type, TensorType):
            growth.type = TensorType(rows.type.shape[1:], rows.type.dtype)
    if any(growth.type is None for growth in growths.values()):
        for diagnostic in diagnostics.errors:
            ctx.diagnostics.add(diagnostic)
        for name in (*find_assigned_names(loop), *growths):
            bindings.bind(name, v.FAILED)
        ctx.environment.failed = True
        if not diagnostics.errors:
            message = f"nothing says of what type the items of `{next(iter(growths))}` are"
            raise v.RefusalError(message, span, hint="append one before the loop")
        return None
    for name, each in names.items():
        growths[name].is_tried = False
        bindings.bind(each.rows, _begin_rows(ctx, growths[name], lists[name], span))

    def leave() -> None:
        bound = ctx.environment.bindings
        for name, each in names.items():
            rows, begin, end = (
                bound.locals.get(part, v.FAILED) for part in (each.rows, each.begin, each.end)
            )
            value: v.Value = rows if isinstance(rows, v.Unassigned) else v.FAILED
            if isinstance(rows, v.Computed):
                kept = subscript(
                    v.Operand(rows, span), [v.Operand(v.SliceOf(begin, end, v.Known(None)), span)], span
                )
                value = grown(ctx, growths[name], kept)
            bound.bind(name, value, span)
            for part in (each.rows, each.begin, each.end):
                bound.forget(part)

    block, live, ctx.block = ctx.block, ctx.live, Block(ctx.block.lets)
    try:
        run_steps(ctx, [lambda: emit(ctx, loop), leave])
        return ctx.block.end
    finally:
        ctx.block, ctx.live = block, live


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


def _check_holders(ctx: Elaboration, name: str, value: v.TupleOf | v.ListOfRows, span: Span) -> None:
    """Check that no other name holds a list that a loop changes. Raises RefusalError."""
    for environment in dict.fromkeys((*ctx.environment.chain(), *ctx.callers)):
        for other, held in environment.bindings.locals.items():
            if held is value and (environment, other) != (ctx.environment, name):
                message = f"`{other}` holds the list `{name}`, which Python would change there, too"
                raise v.RefusalError(message, span, hint=f"make a new list before: {name} = list({name})")


def _items_before(value: v.TupleOf | v.ListOfRows) -> tuple[v.Value, ...]:
    return value.items if isinstance(value, v.TupleOf) else ()


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
        return first_example(ctx, growth, span)
    assert isinstance(value.rows.type, TensorType)
    return example_of(ctx, growth, TensorType(value.rows.type.shape[1:], value.rows.type.dtype))


def _begin_rows(ctx: Elaboration, growth: Growth, value: v.TupleOf | v.ListOfRows, span: Span) -> v.Computed:
    """Return the tensor of a list before its loop, with some room."""
    if isinstance(value, v.ListOfRows):
        rows = _with_room(value.rows, v.Known(_ROOM), span)
        ctx.memory.shown[growth.rows] = growth.name
        ctx.memory.hold(rows.expr, ctx.memory.of_expr(value.rows.expr) | {rows.expr})
        return rows
    room = weak_int(number_constant(_ROOM, "int64", span))
    return make_rows(ctx, growth, 1, room, v.Operand(v.Known(None), span), span)


def _with_room(items: v.Computed, more: v.Value, span: Span) -> v.Computed:
    """Return a tensor of items with room for as many again, ``more`` at least."""
    assert isinstance(items.type, TensorType)
    size = number_of(size_along(items, 0, span), span)
    least = apply("maximum", span, _int64(more, span), number_constant(_ROOM, "int64", span))
    room = weak_int(apply("maximum", span, size, least))
    wide = [size_along(items, axis, span) for axis in range(1, len(items.type.shape))]
    zero = number_constant(False if items.type.dtype == "bool" else 0, items.type.dtype, span)
    zeros = full(zero, [v.Dimension(AnyDim(), room), *wide], span)
    parts = TupleType((items.type, zeros.type))
    both = v.Computed(ir.Tuple((items.expr, zeros.expr), span=span), parts)
    whole = apply("concatenate", span, both, axis=0)
    assert isinstance(whole.type, TensorType)
    return v.Computed(whole.expr, replace(whole.type, shape=(AnyDim(), *items.type.shape[1:])))


def _int64(value: v.Value, span: Span) -> v.Computed:
    number = as_number(v.Operand(value, span)).value
    if isinstance(number, v.Known):
        return number_constant(int(str(number.value)), "int64", span)
    assert isinstance(number, v.Computed)
    return v.Computed(number.expr, number.type)


# -- the parts of lists in a loop ------------------------------------------------------------------------


def elaborate_list_part(ctx: Elaboration, expr: tree.ListPart) -> v.Value:
    """Elaborate a part of a list that changes in a loop. Raises RefusalError."""
    span, growth = ctx.span(expr.span), ctx.growing[id(expr)]
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
    if expr.kind == "taken":
        return _take(ctx, growth, v.Operand(values[0], span))
    rows, *others = values
    if not isinstance(rows, v.Computed):  # in a trial, before an item says of what type they are
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
            return larger
        case "place":
            begin, end, index = others
            return _place(rows, begin, end, v.Operand(index, span), span)
        case _:
            begin, end = others
            live = _first_rows(rows, begin, end, span)
            ctx.memory.hold(live.expr, ctx.memory.of_expr(rows.expr))
            return v.ListOfRows(live)


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

    def added(base: v.Value) -> v.Computed:
        return _int64(binary(BuiltinOp.Add, "+", v.Operand(base, span), v.Operand(number, span), span), span)

    first, last = _int64(begin, span), _int64(end, span)
    if isinstance(number, v.Known):
        place = added(end if int(str(number.value)) < 0 else begin)
    else:
        assert isinstance(number, v.Computed)
        is_negative = apply("less", span, _int64(number, span), number_constant(0, "int64", span))
        place = apply("where", span, is_negative, added(end), added(begin))
    inside = apply(
        "logical_and", span, apply("greater_equal", span, place, first), apply("less", span, place, last)
    )
    behind = number_of(size_along(rows, 0, span), span)
    return weak_int(apply("where", span, inside, place, behind))


def _take(ctx: Elaboration, growth: Growth, given: v.Operand) -> v.Value:
    """Return the rows of a list that a name is given. Raises RefusalError."""
    value, span = given.value, given.span
    if not isinstance(value, v.ListOfRows | v.TupleOf):
        message = f"`{growth.name}` is a list before this, and {describe(value)} here"
        raise v.RefusalError(message, span, hint="give it another name")
    if growth.is_tried:
        example = _example_of_rows(ctx, growth, value, span)
        if isinstance(example, v.Computed) and isinstance(example.type, TensorType):
            growth.type = growth.type or TensorType(example.type.shape[1:], example.type.dtype)
            return example
        return v.FAILED if growth.type is None else example_of(ctx, growth, growth.type)
    if isinstance(value, v.ListOfRows):
        assert growth.type is not None
        return _begin_rows(ctx, growth, value, span)
    return _begin_rows(ctx, replace(growth, before=value.items), value, span)


# -- the loop written anew -------------------------------------------------------------------------------


def _rewrite(
    ctx: Elaboration, stmt: tree.For | tree.While, lists: Mapping[str, object]
) -> tuple[tree.For | tree.While, dict[str, _Names]]:
    """Return the loop with rows in place of lists, and their names."""
    known = ctx.changing_lists.get(id(stmt))
    if known is None or known[1].keys() != lists.keys():
        taken = set(find_mentioned_names(stmt) | ctx.environment.assigned) | {*ctx.environment.names()}
        names = {
            name: _Names(*(free_name(f"{name}_{part}", taken) for part in ("rows", "begin", "end")))
            for name in lists
        }
        rewriter = _Rewriter(names, _queues(stmt), taken)
        body, orelse = rewriter.replace(stmt.body), rewriter.replace(stmt.orelse)
        if isinstance(stmt, tree.While):
            condition = rewriter.condition(stmt.condition)
            loop: tree.For | tree.While = tree.While(stmt.span, condition, body, orelse)
        else:
            loop = tree.For(stmt.span, stmt.target, stmt.iterable, body, orelse)
        known = loop, {name: (each.rows, each.begin, each.end) for name, each in names.items()}
        ctx.changing_lists[id(stmt)] = known
        ctx.rewritten_sources += [stmt, loop]
    return known[0], {name: _Names(*each) for name, each in known[1].items()}


def _queues(stmt: tree.For | tree.While) -> frozenset[str]:
    """Return the lists from whose beginning a loop takes items."""
    return frozenset(
        part.lhs[0].id.name
        for part in walk(stmt, into_functions=False)
        if isinstance(part, tree.ChangeList) and _taken(part) == 0
    )


def _taken(stmt: tree.ChangeList) -> int | None:
    """Return 0 or -1 where the first or the last item of a list is taken from it; None for other changes."""
    match stmt.rhs:
        case ast.Call(params=[ast.Var(), ast.Tuple(values=[ast.Slice(start=start, end=end)])]):
            if isinstance(start, ast.Constant) and start.value == 1:
                return 0
            if isinstance(end, ast.Call):  # [:-1]; [::-1] has no end
                return -1
    return None


@dataclass(slots=True)
class _Rewriter:
    """Replaces what a loop does with lists by what it does with rows.

    ``queues``: the lists whose first items are taken. ``taken``: the names that are not free. ``roomy``: the
    lists that have room for what the loop at hand appends.
    """

    names: Mapping[str, _Names]
    queues: frozenset[str]
    taken: set[str]
    roomy: frozenset[str] = frozenset()

    def replace(self, node: ast.Node) -> ast.Node:
        """Return a piece of a loop with all of them replaced."""
        if not find_mentioned_names(node) & self.names.keys():
            return node
        match node:
            case ast.Block(stmts=stmts):
                return attr.evolve(node, stmts=[part for each in stmts for part in self._statement(each)])
            case ast.Var(id=ast.Id(name=name)) if name in self.names:
                each = self.names[name]
                return self._part("whole", name, node.span, each.rows, each.begin, each.end)
            case ast.Call(func_name=ast.Var(id=ast.Id(name="len")), params=[ast.Var(id=ast.Id(name=name))]):
                if name in self.names:
                    return self._length(name, node.span)
            case ast.Call(
                func_name=ast.Op(name=BuiltinOp.Subscript), params=[ast.Var() as owner, ast.Tuple()]
            ):
                index = node.params[1].values
                if owner.id.name not in self.names:
                    indices = attr.evolve(node.params[1], values=[self.replace(each) for each in index])
                    return attr.evolve(node, params=[owner, indices])
                if len(index) == 1 and not isinstance(index[0], ast.Slice):
                    each = self.names[owner.id.name]
                    span = node.span
                    place = self._part(
                        "place", owner.id.name, span, each.rows, each.begin, each.end, self.replace(index[0])
                    )
                    return tree.subscript(span, tree.variable(span, each.rows), [place])
            case ast.Tuple(values=values) | ast.ArrayLiteral(values=values):
                held = [
                    self._held(each) if isinstance(each, ast.Var) else self.replace(each) for each in values
                ]
                return attr.evolve(node, values=held)
            case ast.Call(func_name=ast.Op(name=BuiltinOp.Not), params=[only]):
                return attr.evolve(node, params=[self.condition(only)])
            case tree.Conditional(condition=condition):
                kept = attr.evolve(node, condition=ast.Constant(node.span, value=True))
                return attr.evolve(tree.map_parts(kept, self.replace), condition=self.condition(condition))
        return tree.map_parts(node, self.replace)

    def condition(self, node: ast.Expr) -> ast.Expr:
        """Return a condition, where a list stands for whether it has items."""
        match node:
            case ast.Var(id=ast.Id(name=name)) if name in self.names:
                greater = ast.Op(node.span, BuiltinOp.GT)
                return ast.Call(
                    node.span, greater, [self._length(name, node.span), _number(node.span, 0)], {}
                )
            case tree.Logical(values=values):
                return attr.evolve(node, values=[self.condition(each) for each in values])
        replaced = self.replace(node)
        assert isinstance(replaced, ast.Expr)
        return replaced

    def _held(self, variable: ast.Var) -> ast.Expr:
        """Return what an item of a tuple is: no list that changes later, which Python would show there."""
        name = variable.id.name
        return self._part("held", name, variable.span) if name in self.names else variable

    def _part(self, kind: str, name: str, span: ast.Span, *parts: object) -> tree.ListPart:
        values = [tree.variable(span, part) if isinstance(part, str) else part for part in parts]
        return tree.ListPart(span, kind, name, values)

    def _length(self, name: str, span: ast.Span) -> ast.Expr:
        each = self.names[name]
        end = tree.variable(span, each.end)
        if name not in self.queues:
            return end
        return tree.operation(end.span, BuiltinOp.Sub, end, tree.variable(span, each.begin))

    def _statement(self, stmt: ast.Stmt) -> Iterator[ast.Stmt]:
        name = stmt.lhs[0].id.name if isinstance(stmt, ast.Assign) and len(stmt.lhs) == 1 else ""
        if isinstance(stmt, tree.For) and _changes_what_it_goes_over(stmt):
            place = free_name(f"{stmt.iterable.id.name}_next", self.taken)
            yield ast.Assign(stmt.span, [tree.variable(stmt.span, place)], None, _number(stmt.span, 0))
            yield from self._statement(_counting(stmt, place))
        elif isinstance(stmt, tree.For):
            yield from self._inner_loop(stmt)
        elif isinstance(stmt, ast.If):
            branches = {"true": self.replace(stmt.true), "false": self.replace(stmt.false)}
            yield attr.evolve(stmt, condition=self.condition(stmt.condition), **branches)
        elif isinstance(stmt, tree.While):
            blocks = {"body": self.replace(stmt.body), "orelse": self.replace(stmt.orelse)}
            yield attr.evolve(stmt, condition=self.condition(stmt.condition), **blocks)
        elif isinstance(stmt, ast.Return) and isinstance(stmt.value, ast.Tuple):
            parts = [self.replace(each) for each in stmt.value.values]
            yield attr.evolve(stmt, value=attr.evolve(stmt.value, values=parts))
        elif isinstance(stmt, tree.Append) and name in self.names:
            yield from self._append(stmt, name)
        elif isinstance(stmt, tree.ChangeList) and name in self.names and _taken(stmt) is not None:
            yield from self._drop(stmt, name)
        elif isinstance(stmt, ast.Assign) and name in self.names:
            yield from self._assign(stmt, name)
        else:
            replaced = (
                tree.map_parts(stmt, self.replace) if find_mentioned_names(stmt) & self.names.keys() else stmt
            )
            assert isinstance(replaced, ast.Stmt)
            yield replaced

    def _inner_loop(self, stmt: tree.For) -> Iterator[ast.Stmt]:
        """Yield a loop inside, before which lists get room for all that its rounds append."""
        appended = Counter(
            part.lhs[0].id.name
            for part in walk(stmt.body, into_functions=False)
            if isinstance(part, tree.Append) and part.lhs[0].id.name in self.names
        )
        loops = [
            part for part in walk(stmt.body, into_functions=False) if isinstance(part, tree.For | tree.While)
        ]
        inside = {
            name for loop in loops for part in walk(loop, into_functions=False) for name in names_bound(part)
        }
        given = {
            part.lhs[0].id.name
            for part in walk(stmt.body, into_functions=False)
            if type(part) is ast.Assign or (isinstance(part, tree.ChangeList) and _taken(part) is None)
        }
        roomy = frozenset(appended) - inside - given - self.roomy
        iterable = self.replace(stmt.iterable)
        for name in sorted(roomy):
            more = ast.Tuple(stmt.span, [iterable, _number(stmt.span, appended[name])])
            yield from self._make_room(name, stmt.span, more)
        inner = replace(self, roomy=self.roomy | roomy)
        yield tree.For(
            stmt.span,
            self.replace(stmt.target),
            iterable,
            inner.replace(stmt.body),
            self.replace(stmt.orelse),
        )

    def _make_room(self, name: str, span: ast.Span, more: ast.Expr) -> Iterator[ast.Stmt]:
        each = self.names[name]
        rows, begin, end = (tree.variable(span, part) for part in (each.rows, each.begin, each.end))
        larger = self._part("larger", name, span, rows, begin, end, more)
        then: list[ast.Stmt] = [ast.Assign(span, [rows], None, larger)]
        if name in self.queues:
            then.append(ast.Assign(span, [end], None, tree.operation(end.span, BuiltinOp.Sub, end, begin)))
            then.append(ast.Assign(span, [begin], None, _number(span, 0)))
        full_ = self._part("full", name, span, rows, end, more)
        yield ast.If(span, full_, ast.Block(span, then), ast.Block(span, []))

    def _append(self, stmt: tree.Append, name: str) -> Iterator[ast.Stmt]:
        span, each = stmt.span, self.names[name]
        if name not in self.roomy:
            yield from self._make_room(name, span, _number(span, 1))
        end = tree.variable(span, each.end)
        item = self.replace(stmt.item)
        assert isinstance(item, ast.Expr)
        yield tree.Grow(span, tree.variable(span, each.rows), end, item, name, each.end)
        yield ast.Assign(span, [end], None, tree.operation(end.span, BuiltinOp.Add, end, _number(span, 1)))

    def _drop(self, stmt: tree.ChangeList, name: str) -> Iterator[ast.Stmt]:
        """Yield what takes the first or the last item away; a list without items is an error."""
        span, each = stmt.span, self.names[name]
        is_empty = ast.Call(
            span, ast.Op(span, BuiltinOp.Eq), [self._length(name, span), _number(span, 0)], {}
        )
        message = tree.Message(span, ["pop from empty list"], 0)
        yield ast.If(
            span, is_empty, ast.Block(span, [tree.Raise(span, "IndexError", message)]), ast.Block(span, [])
        )
        moved, sign = (each.begin, BuiltinOp.Add) if _taken(stmt) == 0 else (each.end, BuiltinOp.Sub)
        place = tree.variable(span, moved)
        yield ast.Assign(span, [place], None, tree.operation(place.span, sign, place, _number(span, 1)))

    def _assign(self, stmt: ast.Assign, name: str) -> Iterator[ast.Stmt]:
        """Yield what gives a list another value: another list, or what a method leaves of it."""
        span, each = stmt.span, self.names[name]
        rows, begin, end = (tree.variable(span, part) for part in (each.rows, each.begin, each.end))
        source = stmt.rhs.id.name if isinstance(stmt.rhs, ast.Var) else ""
        if source == name:
            return
        kept = tree.variable(span, free_name(f"{name}_new", self.taken))
        yield ast.Assign(span, [kept], None, self.replace(stmt.rhs))
        yield ast.Assign(span, [rows], None, self._part("taken", name, span, kept))
        length = ast.Call(span, tree.variable(span, "len"), [kept], {})
        yield ast.Assign(span, [end], None, length)
        yield ast.Assign(span, [begin], None, _number(span, 0))
        if source in self.names:  # Python would change the list by both names
            moved = self._part("moved", source, span, tree.variable(span, name))
            yield ast.Assign(span, [tree.variable(span, self.names[source].rows)], None, moved)


def _number(span: ast.Span, number: int) -> ast.Constant:
    return ast.Constant(span, number)
