"""Elaborate lists to which only some rounds of a loop append, as in ``if x > 0: rows.append(x)``.

The list is a tensor with room for all that the rounds can append, and a number that counts its items. After
the loop it is the first rows of the tensor.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from synr import ast
from synr.ast import BuiltinOp

from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import (
    find_assigned_names,
    find_mentioned_names,
    names_bound,
    walk,
)
from nnmagic.tinynn.elaborate.context import Elaboration, Growth
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, Terminator
from nnmagic.tinynn.elaborate.growing_lists import (
    Over,
    first_example,
    free_name,
    grown,
    make_rows,
    read_last,
    unreadable,
)
from nnmagic.tinynn.elaborate.sequencing import run_steps
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    Dimension,
    Known,
    Operand,
    SliceOf,
    TupleOf,
)


@dataclass(frozen=True, slots=True)
class _Counted:
    """A list that grows, the name that counts its items, and how many a round appends at most."""

    growth: Growth
    count: str
    times: int


def find_counted(ctx: Elaboration, stmt: tree.For) -> Mapping[str, int]:
    """Return the lists that some rounds of a loop append to, with the most items of one round."""
    appends = Counter(_appended(stmt.body))
    if not appends:
        return {}
    inner = [
        part for part in walk(stmt.body, into_functions=False) if isinstance(part, tree.For | tree.While)
    ]
    in_loops = {name for loop in inner for name in _appended(loop)}
    bound = Counter(name for part in walk(stmt, into_functions=False) for name in names_bound(part))
    locals_ = ctx.environment.bindings.locals
    return {
        name: times
        for name, times in appends.items()
        if name not in in_loops and bound[name] == times and isinstance(locals_.get(name), TupleOf)
    }


def _appended(node: ast.Node) -> Iterator[str]:
    for part in walk(node, into_functions=False):
        if isinstance(part, tree.Append):
            yield part.lhs[0].id.name


def grow_and_count(
    ctx: Elaboration, stmt: tree.For, iterable: Operand, rounds: int | Computed, over: Over
) -> Terminator | None:
    """Elaborate a loop of which some rounds append to lists, as a function. Raises RefusalError."""
    loop, lists = _rewrite(ctx, stmt)
    bindings, span = ctx.environment.bindings, ctx.span(stmt.span)
    for each in lists:
        bindings.bind(each.growth.rows, first_example(ctx, each.growth, iterable.span))
        bindings.bind(each.count, Known(len(each.growth.before)))
        bindings.bind(each.growth.name, unreadable(each.growth.name, span))
    ctx.live |= {name for each in lists for name in (each.growth.rows, each.count)}
    with ctx.trial() as diagnostics:
        over(ctx, loop, iterable)
    if diagnostics.errors and any(each.growth.type is None for each in lists):
        for diagnostic in diagnostics.errors:
            ctx.diagnostics.add(diagnostic)
        for name in (*find_assigned_names(loop), *(each.growth.name for each in lists)):
            bindings.bind(name, FAILED)
        ctx.environment.failed = True
        return None
    for each in lists:  # of those that no round appends to
        rows = bindings.locals[each.growth.rows]
        if each.growth.type is None and isinstance(rows, Computed) and isinstance(rows.type, TensorType):
            each.growth.type = TensorType(rows.type.shape[1:], rows.type.dtype)
    empty = [each for each in lists if each.growth.type is None]
    lists = [each for each in lists if each.growth.type is not None]
    for each in lists:
        each.growth.is_tried = False
        room = _times(rounds, each.times, iterable)
        # Only where a round appends at most one item are there as many as what the loop goes over.
        counted = iterable if each.times == 1 else Operand(Known(None), iterable.span)
        bindings.bind(each.growth.rows, make_rows(ctx, each.growth, room, counted, span))

    def leave() -> None:
        bound = ctx.environment.bindings
        for each in lists:
            rows, number = (bound.locals.get(name, FAILED) for name in (each.growth.rows, each.count))
            value = grown(ctx, each.growth, rows)
            if isinstance(rows, Computed) and isinstance(number, Computed | Known | Dimension):
                first = SliceOf(Known(None), number, Known(None))
                kept = subscript(Operand(rows, span), [Operand(first, span)], span)
                value = grown(ctx, each.growth, kept)
            bound.bind(each.growth.name, value, span)
            bound.forget(each.growth.rows)
            bound.forget(each.count)
        for each in empty:
            bound.bind(each.growth.name, TupleOf(()), span)
            bound.forget(each.growth.rows)
            bound.forget(each.count)

    block, live, ctx.block = ctx.block, ctx.live, Block(ctx.block.lets)
    try:
        run_steps(ctx, [lambda: over(ctx, loop, iterable), leave])
        return ctx.block.end
    finally:
        ctx.block, ctx.live = block, live


def _times(rounds: int | Computed, times: int, iterable: Operand) -> int | Computed:
    if times == 1:
        return rounds
    if isinstance(rounds, int):
        return rounds * times
    left, right = Operand(rounds, iterable.span), Operand(Known(times), iterable.span)
    product = binary(BuiltinOp.Mul, "*", left, right, iterable.span)
    assert isinstance(product, Computed)
    return product


def _rewrite(ctx: Elaboration, stmt: tree.For) -> tuple[tree.For, list[_Counted]]:
    """Return the loop with rows in place of items, and its lists."""
    appends = find_counted(ctx, stmt)
    locals_ = ctx.environment.bindings.locals
    begun = frozenset(name for name in appends if getattr(locals_[name], "items", ()))
    if ctx.begun.get(id(stmt)) != (frozenset(appends), begun):
        taken = set(find_mentioned_names(stmt) | ctx.environment.assigned) | {*ctx.environment.names()}
        names = {
            name: (free_name(f"{name}_rows", taken), free_name(f"{name}_count", taken)) for name in appends
        }
        body = _Rewriter(names, begun).replace(stmt.body)
        assert isinstance(body, ast.Block)
        ctx.rewritten[id(stmt)] = tree.For(stmt.span, stmt.target, stmt.iterable, body, stmt.orelse)
        ctx.rewritten_sources += [stmt, ctx.rewritten[id(stmt)]]
        ctx.begun[id(stmt)] = frozenset(appends), begun
    loop = ctx.rewritten[id(stmt)]
    assert isinstance(loop, tree.For)
    lists = dict[str, _Counted]()
    for part in walk(loop.body, into_functions=False):
        if isinstance(part, tree.Grow) and part.source in appends:
            if part.source not in lists:
                before = locals_[part.source]
                assert isinstance(before, TupleOf)
                growth = Growth(part.source, part.rows.id.name, before.items, is_counted=True)
                lists[part.source] = _Counted(growth, part.index.id.name, appends[part.source])
            ctx.growing[id(part)] = lists[part.source].growth
    return loop, list(lists.values())


@dataclass(frozen=True, slots=True)
class _Rewriter:
    """Replaces appends by assignments to rows, ``len(rows)`` by the count, ``rows[-1]`` by the last row.

    ``names``: of the tensor and of the count of each list. ``begun``: the lists that never are empty.
    """

    names: Mapping[str, tuple[str, str]]
    begun: frozenset[str]

    def replace(self, node: object) -> object:
        """Return a piece of a loop with all of them replaced."""
        if isinstance(node, list | tuple):
            return type(node)(self.replace(part) for part in node)
        if isinstance(node, dict):
            return {key: self.replace(part) for key, part in node.items()}
        if not isinstance(node, ast.Node) or not find_mentioned_names(node) & self.names.keys():
            return node
        match node:
            case ast.Block(stmts=stmts):
                changed = copy.copy(node)
                object.__setattr__(
                    changed, "stmts", [part for each in stmts for part in self._statement(each)]
                )
                return changed
            case ast.Call(func_name=ast.Var(id=ast.Id(name="len")), params=[ast.Var(id=ast.Id(name=name))]):
                if name in self.names:
                    return _variable(node.span, self.names[name][1])
            case ast.Call() if read_last(node) in self.begun:
                rows, count = (_variable(node.span, name) for name in self.names[read_last(node)])
                last = ast.Call(node.span, ast.Op(node.span, BuiltinOp.Sub), [count, _one(node.span)], {})
                return tree.subscript(node.span, rows, [last])
        changed = copy.copy(node)
        for field, part in vars(node).items():
            object.__setattr__(changed, field, self.replace(part))
        return changed

    def _statement(self, stmt: ast.Stmt) -> Iterator[ast.Stmt]:
        name = stmt.lhs[0].id.name if isinstance(stmt, tree.Append) else ""
        if name not in self.names:
            replaced = self.replace(stmt)
            assert isinstance(replaced, ast.Stmt)
            yield replaced
            return
        rows, count = (_variable(stmt.span, each) for each in self.names[name])
        item = self.replace(stmt.item)
        assert isinstance(item, ast.Expr)
        yield tree.Grow(stmt.span, rows, count, item, name)
        plus = ast.Op(stmt.span, BuiltinOp.Add)
        more = ast.Call(stmt.span, plus, [count, _one(stmt.span)], {})
        yield ast.Assign(stmt.span, [count], None, more)


def _variable(span: ast.Span, name: str) -> ast.Var:
    return ast.Var(span, ast.Id(span, name))


def _one(span: ast.Span) -> ast.Constant:
    return ast.Constant(span, 1)
