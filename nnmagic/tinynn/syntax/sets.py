"""Write the sets of a function as lists that hold nothing twice, where only members and size are asked for.

The order in which Python goes over a set is its own; so a set that is gone over, or returned, stays a set.
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Iterator
from typing import TypeVar


def with_lists_for_sets(stmt: py.FunctionDef) -> py.FunctionDef:
    """Return a function whose sets are lists, as far as that makes no difference."""
    if not any(_is_set(part) for part in py.walk(stmt)):
        return stmt
    parents = {id(child): part for part in py.walk(stmt) for child in py.iter_child_nodes(part)}
    bound: dict[str, bool] = {}
    for part in py.walk(stmt):
        if isinstance(part, py.Name) and isinstance(part.ctx, py.Store | py.Del):
            parent = parents[id(part)]
            makes = isinstance(parent, py.Assign) and parent.targets == [part] and _is_set(parent.value)
            bound[part.id] = bound.get(part.id, True) and makes
        elif isinstance(part, py.arg):
            bound[part.arg] = False
    names = {name for name, makes in bound.items() if makes}
    for part in py.walk(stmt):
        is_read = isinstance(part, py.Name) and isinstance(part.ctx, py.Load)
        if is_read and not _is_asked(part, parents):  # type: ignore[arg-type]  # a Name
            names.discard(part.id)  # type: ignore[attr-defined]  # a Name
    made = _Lists(names).visit(copy.deepcopy(stmt))
    assert isinstance(made, py.FunctionDef)
    return made


def _is_set(node: py.AST) -> bool:
    """Return whether an expression makes a set."""
    match node:
        case py.Set() | py.Call(func=py.Name(id="set"), args=[] | [_], keywords=[]):
            return True
    return False


def _is_asked(name: py.Name, parents: dict[int, py.AST]) -> bool:
    """Return whether a set is asked for its members or its size, or gets another member."""
    parent = parents[id(name)]
    match parent:
        case py.Compare(ops=[py.In() | py.NotIn()], comparators=[other]):
            return other is name
        case py.Call(func=py.Name(id="len"), args=[other]):
            return other is name
        case py.UnaryOp(op=py.Not()):
            return True
        case py.If(test=test) | py.While(test=test):
            return test is name
        case py.Attribute(attr="add"):
            call = parents[id(parent)]
            return isinstance(call, py.Call) and isinstance(parents[id(call)], py.Expr)
    return False


class _Lists(py.NodeTransformer):
    """Makes lists of the sets of these names, and of those in tests and in ``len``."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.added = 0

    def visit_Assign(self, node: py.Assign) -> py.AST:
        """Return an assignment of a list for that of a set."""
        self.generic_visit(node)
        target = node.targets[0]
        if isinstance(target, py.Name) and target.id in self.names:
            node.value = _as_list(node.value)
        return node

    def visit_Expr(self, node: py.Expr) -> py.AST | list[py.stmt]:
        """Return what adds a member that is not there yet."""
        self.generic_visit(node)
        match node.value:
            case py.Call(func=py.Attribute(attr="add", value=py.Name(id=name)), args=[member]) if (
                name in self.names
            ):
                return list(self._add(node, name, member))
        return node

    def _add(self, node: py.Expr, name: str, member: py.expr) -> Iterator[py.stmt]:
        owner = py.Name(name, py.Load())
        if not isinstance(member, py.Name | py.Constant):
            self.added += 1
            kept = f"member_of_{name}_{self.added}"
            yield _at(node, py.Assign([py.Name(kept, py.Store())], member))
            member = py.Name(kept, py.Load())
        append = py.Call(py.Attribute(owner, "append", py.Load()), [member], [])
        missing = py.Compare(member, [py.NotIn()], [owner])
        yield _at(node, py.If(missing, [py.Expr(append)], []))

    def visit_Compare(self, node: py.Compare) -> py.AST:
        """Return a comparison with a list for a set that is written in it."""
        self.generic_visit(node)
        if isinstance(node.ops[-1], py.In | py.NotIn) and _is_set(node.comparators[-1]):
            node.comparators[-1] = _as_list(node.comparators[-1])
        return node

    def visit_Call(self, node: py.Call) -> py.AST:
        """Return the length of a list for that of a set."""
        self.generic_visit(node)
        if (
            isinstance(node.func, py.Name)
            and node.func.id == "len"
            and len(node.args) == 1
            and _is_set(node.args[0])
        ):
            node.args = [_as_list(node.args[0])]
        return node


def _as_list(made: py.expr) -> py.expr:
    """Return the list that an expression which makes a set stands for."""
    if isinstance(made, py.Call) and not made.args:
        return _at(made, py.List([], py.Load()))
    unique = py.Attribute(py.Name("numpy", py.Load()), "unique", py.Load())
    given = made.args[0] if isinstance(made, py.Call) else py.List(getattr(made, "elts", []), py.Load())
    if isinstance(given, py.List):
        texts = {py.unparse(each): each for each in given.elts}
        if all(isinstance(each, py.Constant) for each in given.elts):
            return _at(made, py.List(list(texts.values()), py.Load()))
    listed = py.Call(
        unique, [py.Call(py.Attribute(py.Name("numpy", py.Load()), "asarray", py.Load()), [given], [])], []
    )
    return _at(made, py.Call(py.Name("list", py.Load()), [listed], []))


_Made = TypeVar("_Made", bound=py.AST)


def _at(node: py.AST, made: _Made) -> _Made:
    for part in py.walk(made):
        if isinstance(part, py.stmt | py.expr) and not hasattr(part, "lineno"):
            py.copy_location(part, node)
    return made
