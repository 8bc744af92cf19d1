"""Elaborate comprehensions over items that are known at compile time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

from nnmagic.tinynn.analysis.bound_names import targets_of, walk
from nnmagic.tinynn.elaborate.assignments import assign_target
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.operators.iteration import is_silent, items
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import FAILED, Computed, Environment, Operand, RefusalError, TupleOf, Value


def elaborate_comprehension(ctx: Elaboration, expr: tree.Comprehension) -> Value:
    """Elaborate ``[element for target in items if condition]`` over static items. Raises RefusalError.

    Its names are its own, as in Python: a lambda in it sees what they stand for last.
    """
    results: list[Value] = []
    targets = {element.id.name for part in expr.generators for element in targets_of(part.target)}

    def run(generators: Sequence[tree.Generator]) -> None:
        if not generators:
            ctx.count_work()
            results.append(ctx.evaluate(expr.element))
            return
        first, *rest = generators
        iterable = ctx.operand(first.iterable)
        if is_silent(iterable.value):
            results.append(FAILED)
            return
        for element in items(iterable, "a comprehension"):
            assign_target(ctx, first.target, Operand(element, iterable.span))
            truths = [truth_of(ctx.operand(condition), "if") for condition in first.conditions]
            if None in truths:
                results.append(FAILED)
                return
            if any(isinstance(condition_value, Computed) for condition_value in truths):
                span = ctx.span(first.conditions[0].span)
                message = "what a comprehension keeps must be known at compile time"
                raise RefusalError(message, span, hint="keep all, and choose with where(condition, x, y)")
            if all(truths):
                run(rest)

    with _own_scope(ctx, expr, targets):
        run(list(expr.generators))
    return TupleOf(tuple(results))


@contextmanager
def _own_scope(ctx: Elaboration, expr: tree.Comprehension, names: Set[str]) -> Iterator[None]:
    """Let a comprehension bind its names; restore what they stood for afterwards."""
    outer = ctx.environment
    if any(isinstance(part, tree.Lambda) for part in walk(expr)):  # which keeps them
        ctx.environment = Environment(outer.name, parent=outer, dimensions=outer.dimensions)
        try:
            yield
        finally:
            ctx.environment = outer
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
