"""Write ``y[i][j] = value`` as ``y[i, j] = value`` where ``i`` is known to be an int.

With a slice or an array as ``i`` the two differ: ``y[i]`` is then a part of several rows, or a copy.
"""

from __future__ import annotations

import ast as py
from collections.abc import Iterator


def merge_subscripts(target: py.expr, function: py.FunctionDef | None) -> py.Subscript | None:
    """Return a chain of subscripts of a name as one subscript; None where it may mean something else."""
    indices: list[py.expr] = []
    owner = target
    while isinstance(owner, py.Subscript):
        part = owner.slice.elts if isinstance(owner.slice, py.Tuple) else [owner.slice]
        if indices and not all(_is_int(index, _counters(function)) for index in part):
            return None
        indices[:0] = part
        owner = owner.value
    if not isinstance(owner, py.Name) or not isinstance(target, py.Subscript):
        return None
    index = py.copy_location(py.Tuple(indices, py.Load()), target.slice)
    return py.copy_location(py.Subscript(owner, index, target.ctx), target)


def merge_read(expr: py.Subscript, function: py.FunctionDef | None) -> py.Subscript:
    """Return ``y[i][j]`` as ``y[i, j]`` in a function that assigns elements of ``y`` in this form."""
    owner: py.expr = expr
    depth = 0
    while isinstance(owner, py.Subscript):
        owner, depth = owner.value, depth + 1
    if depth < 2 or not isinstance(owner, py.Name) or owner.id not in _assigned(function):
        return expr
    return merge_subscripts(expr, function) or expr


def _is_int(index: py.expr, counters: set[str]) -> bool:
    match index:
        case py.Constant(value=int()):
            return not isinstance(index.value, bool)
        case py.Name(id=name):
            return name in counters
        case py.UnaryOp(op=py.USub(), operand=operand):
            return _is_int(operand, counters)
        case py.BinOp(left=left, op=py.Add() | py.Sub() | py.Mult() | py.FloorDiv() | py.Mod(), right=right):
            return _is_int(left, counters) and _is_int(right, counters)
    return False


def _counters(function: py.FunctionDef | None) -> set[str]:
    """Return the names that only loops over ranges bind."""
    if function is None:
        return set()
    bound = [node.id for node in py.walk(function) if isinstance(node, py.Name) and _is_bound(node)]
    counted = list(_counted(function))
    given = {each.arg for node in py.walk(function) if isinstance(node, py.arguments) for each in node.args}
    return {name for name in counted if bound.count(name) == counted.count(name)} - given


def _is_bound(name: py.Name) -> bool:
    return isinstance(name.ctx, py.Store)


def _counted(function: py.FunctionDef) -> Iterator[str]:
    for loop in py.walk(function):
        match loop:
            case py.For(target=py.Name(id=name), iter=py.Call(func=py.Name(id="range"))):
                yield name
            case py.For(
                target=py.Tuple(elts=[py.Name(id=name), _]), iter=py.Call(func=py.Name(id="enumerate"))
            ):
                yield name


def _assigned(function: py.FunctionDef | None) -> set[str]:
    """Return the names of which elements are assigned by a chain of subscripts."""
    names = set[str]()
    for node in py.walk(function) if function is not None else ():
        match node:
            case py.Subscript(value=py.Subscript(value=py.Name(id=name)), ctx=py.Store()):
                names.add(name)
    return names
