"""Write calls that change an array in place, and ``y.flat``, as assignments to its elements."""

from __future__ import annotations

import ast as py
from collections.abc import Callable

from nnmagic.tinynn.syntax.written_code import placed

#: The method of universal functions that gives the changed array; no cell can write the name.
CHANGED_AT = "at!"

#: What is behind the names of the methods that give what a call leaves of an array, as ``sort!``.
LEFT = "!"


def as_assignment(call: py.Call) -> py.Assign | None:
    """Return ``y[...] = value`` for ``y.fill(value)``, ``np.add.at(y, i, v)`` and the like, else None."""
    match call:
        case py.Call(func=py.Attribute(attr="fill", value=py.Name() as owner), args=[value], keywords=[]):
            return _assign(call, owner, value)
        case py.Call(
            func=py.Attribute(attr=name, value=py.Name() as module),
            args=[py.Name() as owner, *rest],
            keywords=[],
        ) if name in _FUNCTIONS and len(rest) == _FUNCTIONS[name][0]:
            return _assign(call, owner, _FUNCTIONS[name][1](module, owner, rest))
        case py.Call(
            func=py.Attribute(attr="at", value=py.Attribute() as function),
            args=[py.Name() as owner, *rest],
            keywords=[],
        ):
            method = py.Attribute(function, CHANGED_AT, py.Load())
            return _assign(call, owner, py.Call(method, [owner, *rest], []))
        case py.Call(
            func=py.Attribute(attr="shuffle", value=py.Name() as generator),
            args=[py.Name() as owner, *rest],
            keywords=keywords,
        ):
            method = py.Attribute(generator, "permutation", py.Load())
            return _assign(call, owner, py.Call(method, [owner, *rest], keywords))
        case py.Call(
            func=py.Attribute(attr="sort", value=py.Name() as owner), args=args, keywords=keywords
        ) if len(args) <= 1 and all(keyword.arg in _OF_SORT for keyword in keywords):
            return _left_by(call, "sort", owner, args, keywords)
        case py.Call(
            func=py.Attribute(attr="put" | "partition" as name, value=py.Name() as owner),
            args=args,
            keywords=keywords,
        ) if len(args) == (2 if name == "put" else 1):
            return _left_by(call, name, owner, args, keywords)
        case py.Call(
            func=py.Attribute(attr="put" | "place" | "put_along_axis" as name, value=py.Name()),
            args=[py.Name() as owner, *args],
            keywords=keywords,
        ):
            return _left_by(call, name, owner, args, keywords)
    return None


def by_places(target: py.Subscript) -> py.Subscript:
    """Return ``y[indices]`` for ``y.flat[place]``, else the subscript."""
    match target:
        case py.Subscript(value=py.Attribute(attr="flat", value=py.Name() as owner), slice=place, ctx=ctx):
            numpy = py.Name("numpy", py.Load())
            size, shape = (py.Attribute(owner, name, py.Load()) for name in ("size", "shape"))
            every = py.Call(py.Attribute(numpy, "arange", py.Load()), [size], [])
            chosen = py.Subscript(every, place, py.Load())
            indices = py.Call(py.Attribute(numpy, "unravel_index", py.Load()), [chosen, shape], [])
            return placed(target, py.Subscript(owner, indices, ctx))
    return target


def _left_by(
    call: py.Call, name: str, owner: py.Name, args: list[py.expr], keywords: list[py.keyword]
) -> py.Assign:
    """Return ``y[...] = y.name!(...)``."""
    method = py.Attribute(owner, f"{name}{LEFT}", py.Load())
    return _assign(call, owner, py.Call(method, args, keywords))


def _assign(call: py.Call, owner: py.Name, value: py.expr) -> py.Assign:
    target = py.Subscript(owner, py.Constant(...), py.Store())
    for part in (target, target.slice, value):
        if not hasattr(part, "lineno"):
            py.copy_location(part, call)
    return py.fix_missing_locations(py.copy_location(py.Assign([target], value), call))


def _call(call: py.expr, name: str, *args: py.expr) -> py.expr:
    """Return a call of a function of a module, at the place of the module's name."""
    function = py.Attribute(call, name, py.Load())
    return py.fix_missing_locations(py.copy_location(py.Call(function, list(args), []), call))


def _on_diagonal(module: py.Name, owner: py.Name, rest: list[py.expr]) -> py.expr:
    shape = py.Attribute(owner, "shape", py.Load())
    rows, columns = (py.Subscript(shape, py.Constant(axis), py.Load()) for axis in (0, 1))
    unit = _call(module, "eye", rows, columns)
    return _call(module, "where", py.Compare(unit, [py.NotEq()], [py.Constant(0)]), rest[0], owner)


#: The parameters of an array's method `sort`, which changes it.
_OF_SORT = ("axis", "kind", "stable")

#: NumPy's functions that change their first argument: how many others they take, and what it then holds.
_FUNCTIONS: dict[str, tuple[int, Callable[[py.Name, py.Name, list[py.expr]], py.expr]]] = {
    "copyto": (1, lambda _module, _owner, rest: rest[0]),
    "putmask": (2, lambda module, owner, rest: _call(module, "where", rest[0], rest[1], owner)),
    "fill_diagonal": (1, _on_diagonal),
}
