"""Write ``y[i][j] = value`` as ``y[i, j] = value`` where ``i`` is known to be an int.

With a slice or an array as ``i`` the two differ: ``y[i]`` is then a part of several rows, or a copy. Such a
part gets a name.
"""

from __future__ import annotations

import ast as py
from collections.abc import Iterator
from itertools import count


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


def split_assignment(stmt: py.stmt, function: py.FunctionDef | None) -> list[py.stmt]:
    """Return ``part = y[1:]``, ``part[mask] = v`` for ``y[1:][mask] = v``; other statements as they are."""
    targets = stmt.targets if isinstance(stmt, py.Assign) else [getattr(stmt, "target", None)]
    target = targets[0]
    if len(targets) > 1 or not isinstance(target, py.Subscript) or merge_subscripts(target, function):
        return [stmt]
    chain = [target]
    while isinstance(chain[-1].value, py.Subscript):
        chain.append(chain[-1].value)
    first, owner = chain[-1], chain[-1].value
    if len(chain) == 1 or not isinstance(owner, py.Name):
        return [stmt]
    taken = {node.id for node in py.walk(function or stmt) if isinstance(node, py.Name)}
    names = (f"{owner.id}_{stmt.lineno}{'_' * more}" for more in count())
    name = next(each for each in names if each not in taken)
    read = py.copy_location(py.Subscript(owner, first.slice, py.Load()), first)
    part = py.Assign([py.copy_location(py.Name(name, py.Store()), first)], read)
    place: py.expr = py.copy_location(py.Name(name, py.Load()), first)
    for each in chain[-2::-1]:
        place = py.copy_location(py.Subscript(place, each.slice, each.ctx), each)
    changed = {"target": place} if isinstance(stmt, py.AugAssign) else {"targets": [place]}
    change = type(stmt)(**{**dict(py.iter_fields(stmt)), **changed})
    return [py.copy_location(each, stmt) for each in (part, change)]


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
