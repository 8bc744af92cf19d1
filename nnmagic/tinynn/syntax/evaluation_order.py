"""Find what of a statement is computed first, and in which order."""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Iterator, Mapping

from nnmagic.tinynn.syntax.written_code import placed


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
    made = copy.deepcopy(stmt)  # two paths of a choice share no part
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
        case py.Call(func=py.Name(id="any" | "all" | "next"), args=[py.GeneratorExp(), *_]):
            return  # which takes no more items than it needs
        case py.ListComp() | py.GeneratorExp():
            yield expr
            return
        case py.Lambda() | py.SetComp() | py.DictComp() | py.JoinedStr():
            return
    for child in operands(expr):
        yield from always_computed(child)
    if isinstance(expr, py.Call) and isinstance(expr.func, py.Name):
        yield expr


def operands(expr: py.expr) -> Iterator[py.expr]:
    """Yield the parts of an expression that Python computes, in order."""
    match expr:
        case py.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield from (value,) if key is None else (key, value)
        case py.NamedExpr(value=value) | py.Starred(value=value):
            yield value
        case py.Call(func=function, args=args, keywords=keywords):
            yield from () if isinstance(function, py.Name) else operands(function)
            for each in args:
                yield each.value if isinstance(each, py.Starred) else each
            yield from (each.value for each in keywords)
        case _:
            for child in py.iter_child_nodes(expr):
                if isinstance(child, py.expr):
                    yield child.value if isinstance(child, py.Starred) else child


def computed_before(root: py.expr, call: py.expr) -> Iterator[py.expr]:
    """Yield the parts of an expression that Python has computed where it begins with one of its calls."""
    if root is call:
        return
    for part in operands(root):
        if any(each is call for each in py.walk(part)):
            yield from computed_before(part, call)
            return
        yield part


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
