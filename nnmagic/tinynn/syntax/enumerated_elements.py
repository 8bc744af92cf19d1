"""Write loops over NumPy's ndindex and ndenumerate as loops over the indices of a grid."""

from __future__ import annotations

import ast as py
from typing import TypeVar

_Node = TypeVar("_Node", bound=py.AST)


def over_indices(stmt: py.For) -> py.For:
    """Return a loop over ``ndindex(x.shape)`` for one over ``np.ndenumerate(x)``, else the loop."""
    match stmt:
        case py.For(
            target=py.Tuple(elts=[py.Tuple(elts=indices) as target, value]),
            iter=py.Call(
                func=py.Attribute(attr="ndenumerate") as function, args=[py.Name() as owner], keywords=[]
            ),
        ):
            names = [py.Name(index.id, py.Load()) for index in indices if isinstance(index, py.Name)]
            shape = py.Attribute(owner, "shape", py.Load())
            read = py.Assign([value], py.Subscript(owner, py.Tuple([*names], py.Load()), py.Load()))
            rounds = py.Call(_ndindex(function), [shape], [])
            return _place(py.For(target, rounds, [_place(read, value), *stmt.body], stmt.orelse), stmt)
        case py.For(iter=py.Call(func=py.Attribute(attr="ndindex") as function, args=args, keywords=[])):
            rounds = py.Call(_ndindex(function), args, [])
            return _place(py.For(stmt.target, _place(rounds, stmt.iter), stmt.body, stmt.orelse), stmt)
    return stmt


def _ndindex(function: py.Attribute) -> py.Name:
    return py.copy_location(py.Name("ndindex", py.Load()), function)


def _place(node: _Node, like: py.AST) -> _Node:
    """Give a node, and its parts that have no place, that of another."""
    py.copy_location(node, like)
    return py.fix_missing_locations(node)
