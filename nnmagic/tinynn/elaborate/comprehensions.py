"""Elaborate comprehensions: written out where they are short, and otherwise as a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

import attr
from synr import ast

from nnmagic.limits import MAX_ITEMS
from nnmagic.tinynn.analysis.bound_names import assigns_in_expressions, find_mentioned_names, targets_of, walk
from nnmagic.tinynn.elaborate.assignments import assign_target
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.generators import is_state
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.elaborate.unrolling import MAX_UNROLLED
from nnmagic.tinynn.operators.iteration import count, has_known_items, is_silent, items
from nnmagic.tinynn.syntax import tree, tree_building
from nnmagic.tinynn.syntax.tree_building import operation, subscript
from nnmagic.tinynn.values import values as v


def elaborate_comprehension(ctx: Elaboration, expr: tree.Comprehension) -> v.Value:
    """Elaborate ``[element for target in items if condition]``. Raises RefusalError.

    Its names are its own, as in Python: a lambda in it sees what they stand for last.
    """
    with _drawn_once(ctx, expr) as named:
        return _elaborate(ctx, named)


@contextmanager
def _drawn_once(ctx: Elaboration, expr: tree.Comprehension) -> Iterator[tree.Comprehension]:
    """Give items that a generator of random numbers draws a name: they may be looked at more than once."""
    bindings, states = ctx.environment.bindings, _states(ctx)
    first, *rest = expr.generators
    items_of = ctx.evaluate(first.iterable) if states else None
    if items_of is None or all(bindings.locals[name] is value for name, value in states.items()):
        yield expr
        return
    bindings.bind(_ITEMS, items_of)
    variable = ast.Var(first.iterable.span, ast.Id(first.iterable.span, _ITEMS))
    try:
        yield attr.evolve(expr, generators=[attr.evolve(first, iterable=variable), *rest])
    finally:
        bindings.forget(_ITEMS)


def _states(ctx: Elaboration) -> dict[str, v.Value]:
    """Return the states of the generators of random numbers in scope, by name."""
    return {name: value for name, value in ctx.environment.bindings.locals.items() if is_state(name)}


def _elaborate(ctx: Elaboration, expr: tree.Comprehension) -> v.Value:
    if is_long(ctx, expr) and (grown := _in_loop(ctx, expr)) is not None:
        return grown
    results: list[v.Value] = []
    targets = {element.id.name for generator in expr.generators for element in targets_of(generator.target)}

    def run(generators: Sequence[tree.Generator]) -> None:
        if not generators:
            ctx.count_work()
            results.append(ctx.evaluate(expr.element))
            return
        first, *rest = generators
        iterable = ctx.operand(first.iterable)
        if is_silent(iterable.value):
            results.append(v.FAILED)
            return
        for element in items(iterable, "a comprehension"):
            assign_target(ctx, first.target, v.Operand(element, iterable.span))
            truths = [truth_of(ctx.operand(condition), "if") for condition in first.conditions]
            if None in truths:
                results.append(v.FAILED)
                return
            if any(isinstance(condition_value, v.Computed) for condition_value in truths):
                if not _is_loop(expr):
                    span = ctx.span(first.conditions[0].span)
                    message = "which items a comprehension with := keeps must be known at compile time"
                    raise v.RefusalError(message, span, hint="write it as a loop that appends")
                raise _KeepsSomeError
            if all(truths):
                run(rest)

    states = _states(ctx)
    try:
        with _own_scope(ctx, expr, targets):
            run(list(expr.generators))
    except _KeepsSomeError:
        for name, state in states.items():  # what was drawn so far is drawn again
            ctx.environment.bindings.bind(name, state)
        return run_loop(ctx, expr)
    return v.TupleOf(tuple(results))


class _KeepsSomeError(Exception):
    """Only the call knows which items a comprehension keeps."""


#: The function that a long comprehension is inlined from, and drawn items: names that no cell can write.
_FUNCTION, _ITEMS = "<comprehension>", "<items>"


def _is_loop(expr: tree.Comprehension) -> bool:
    """Return whether a comprehension has the form of loops."""
    return not assigns_in_expressions(expr)


def _rounds(ctx: Elaboration, expr: tree.Comprehension) -> int | v.Computed | None:
    """Return over how many items a comprehension goes; None of a tuple or a list."""
    iterable = ctx.operand(expr.generators[0].iterable)
    known = is_silent(iterable.value) or has_known_items(iterable.value)
    return None if known else count(iterable)


def is_long(ctx: Elaboration, expr: tree.Comprehension) -> bool:
    """Return whether a comprehension is too long to be written out."""
    rounds = _rounds(ctx, expr) if _is_loop(expr) else None
    return rounds is not None and not (isinstance(rounds, int) and rounds <= MAX_UNROLLED)


def _in_loop(ctx: Elaboration, expr: tree.Comprehension) -> v.Value | None:
    """Return the list of a long comprehension; None where it has to be written out."""
    rounds = _rounds(ctx, expr)
    with ctx.trial() as diagnostics:
        run_loop(ctx, expr)
    if diagnostics.errors and isinstance(rounds, int) and rounds <= MAX_ITEMS:
        return None
    return run_loop(ctx, expr)


def run_loop(ctx: Elaboration, expr: tree.Comprehension, *, as_dictionary: bool | None = None) -> v.Value:
    """Return the list that a loop makes, or the dictionary of pairs; False: the set."""
    bindings = ctx.environment.bindings
    mentioned = sorted(find_mentioned_names(expr))
    versions = {name: 0 for name in mentioned if ctx.environment.owner(name) is not None}
    bindings.bind(
        _FUNCTION,
        v.LocalFunction(_FUNCTION, _definition(ctx, expr, as_dictionary), (), ctx.environment, versions),
    )
    try:
        return ctx.evaluate(ast.Call(expr.span, ast.Var(expr.span, ast.Id(expr.span, _FUNCTION)), [], {}))
    finally:
        bindings.forget(_FUNCTION)


def _definition(
    ctx: Elaboration, expr: tree.Comprehension, as_dictionary: bool | None
) -> tree.DefinitionNode:
    """Return the function of a comprehension: a loop that appends to a list, or to what else it makes."""
    key = id(expr), as_dictionary
    if key not in ctx.rewritten:
        span = expr.span
        name = "made"
        while name in find_mentioned_names(expr):
            name += "_"
        variable = tree_building.variable(span, name)
        nothing = ast.Block(span, [])
        append, empty = _adding(expr, variable, as_dictionary)
        body = ast.Block(span, [append])
        for each in reversed(expr.generators):
            for condition in reversed(each.conditions):
                body = ast.Block(span, [ast.If(condition.span, condition, body, nothing)])
            body = ast.Block(span, [tree.For(span, each.target, each.iterable, body, nothing)])
        begin = ast.Assign(span, [variable], None, empty)
        body = ast.Block(span, [begin, *body.stmts, ast.Return(span, variable)])
        ctx.rewritten[key] = tree.DefinitionNode(span, _FUNCTION, [], None, body, [], span, None)
        ctx.rewritten_sources.append(expr)
    definition = ctx.rewritten[key]
    assert isinstance(definition, tree.DefinitionNode)
    return definition


def _adding(
    expr: tree.Comprehension, list_var: ast.Var, as_dictionary: bool | None
) -> tuple[ast.Stmt, ast.Expr]:
    """Return the statement that adds an item, and what is made before the first one."""
    span, element = expr.span, expr.element
    if as_dictionary is None:
        longer = operation(span, ast.BuiltinOp.Add, list_var, ast.Tuple(element.span, [element]))
        return tree.Append(element.span, [list_var], None, longer), ast.ArrayLiteral(span, [])
    if not as_dictionary:
        call = ast.Call(element.span, list_var, [element], {})
        return tree.ChangeTable(element.span, list_var, "add", element, call), tree.MadeSet(
            span, ast.Tuple(span, [])
        )
    assert isinstance(element, ast.Tuple)
    key, value = element.values
    target = subscript(element.span, list_var, [key])
    return tree.Unpack(element.span, [target], value), tree.Dictionary(span, [])


@contextmanager
def _own_scope(ctx: Elaboration, expr: tree.Comprehension, names: Set[str]) -> Iterator[None]:
    """Let a comprehension bind its names; restore what they stood for afterwards."""
    outer, states = ctx.environment, _states(ctx)
    if any(isinstance(node, tree.Lambda) for node in walk(expr)):  # which keeps them
        ctx.environment = v.Environment(outer.name, parent=outer, dimensions=outer.dimensions)
        for name, state in states.items():
            ctx.environment.bindings.bind(name, state)
        try:
            yield
        finally:
            inner, ctx.environment = ctx.environment.bindings.locals, outer
            for name, state in states.items():
                if inner[name] is not state:
                    outer.bindings.bind(name, inner[name])
        return
    bindings = outer.bindings
    saved = {name: bindings.locals.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                bindings.forget(name)
            else:
                bindings.locals[name] = value
