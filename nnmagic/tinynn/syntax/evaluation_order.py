"""Find what of a statement is computed first, and in which order."""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Iterator, Mapping, Sequence

from nnmagic.tinynn.syntax.name_scopes import placed


def computed_first(stmt: py.stmt) -> py.expr | None:
    """Return the expression of a statement that is computed first."""
    match stmt:
        case py.Assign(value=value) | py.AugAssign(value=value) | py.Expr(value=value):
            return value
        case py.Return(value=py.expr() as value) | py.AnnAssign(value=py.expr() as value):
            return value
        case py.If(test=test) | py.While(test=test):
            return test
        case py.For(iter=items):
            return items
    return None


def with_first(stmt: py.stmt, value: py.expr) -> py.stmt | None:
    """Return a statement with another expression that it computes first; None of a name alone."""
    if isinstance(stmt, py.Expr):
        return None if isinstance(value, py.Name) else placed(stmt, py.Expr(value))
    name = "test" if isinstance(stmt, py.If) else "iter" if isinstance(stmt, py.For) else "value"
    made = copy.copy(stmt)
    setattr(made, name, value)
    return made


def always_computed(expr: py.expr) -> Iterator[py.expr]:
    """Yield the calls by a name and the comprehensions of an expression that it always computes, in order."""
    match expr:
        case py.BoolOp(values=[first, *_]):
            yield from always_computed(first)
            return
        case py.IfExp(test=test):
            yield from always_computed(test)
            return
        case py.Compare(left=left, comparators=[right, *_]):
            yield from always_computed(left)
            yield from always_computed(right)
            return
        case py.ListComp() | py.GeneratorExp():
            yield expr
            return
        case py.Lambda() | py.SetComp() | py.DictComp() | py.JoinedStr():
            return
    for child in py.iter_child_nodes(expr):
        if isinstance(child, py.expr):
            yield from always_computed(child)
        elif isinstance(child, py.keyword):
            yield from always_computed(child.value)
    if isinstance(expr, py.Call) and isinstance(expr.func, py.Name):
        yield expr


def read_before(root: py.AST, call: py.Call, calls: Sequence[py.expr], rebound: set[str]) -> Iterator[str]:
    """Yield the names that an expression reads before one of the calls that stand before its statement.

    ``rebound``: the names that the call assigns, which no name of a container shows.
    """
    place = (getattr(root, "lineno", 0), getattr(root, "col_offset", 0))
    if root is call or place > (call.end_lineno or 0, call.end_col_offset or 0):
        return
    is_written_out = root in calls
    if is_written_out and all(part is not call for part in py.walk(root)):
        return
    if isinstance(root, py.Name):
        yield root.id
    for child in py.iter_child_nodes(root):
        if not (is_written_out and isinstance(child, py.Name) and child.id not in rebound):
            yield from read_before(child, call, calls, rebound)


def with_results(root: py.expr, results: Mapping[int, py.expr]) -> py.expr:
    """Return an expression with names in place of calls."""
    made = _with_results(root, results)
    assert isinstance(made, py.expr)
    return made


def _with_results(root: py.AST, results: Mapping[int, py.expr]) -> py.AST:
    if id(root) in results:
        return results[id(root)]
    made = copy.copy(root)
    for name, value in py.iter_fields(root):
        if isinstance(value, py.expr | py.keyword | py.Slice):
            setattr(made, name, _with_results(value, results))
        elif isinstance(value, list):
            parts = [_with_results(each, results) if isinstance(each, py.AST) else each for each in value]
            setattr(made, name, parts)
    return made
