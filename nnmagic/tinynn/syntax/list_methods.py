"""Write methods that change a list as assignments: ``x = s.pop()`` is ``x = s[-1]``, then ``s = s[:-1]``."""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence

#: The methods that change a list as a whole, and what it is then.
_CHANGED = {
    "reverse": (0, "{owner}[::-1]"),
    "clear": (0, "[]"),
    "popleft": (0, "{owner}[1:]"),
    "extend": (1, "{owner} + list({0})"),
}

#: The attribute that marks the statements of Python's tree which change a list.
CHANGES_LIST = "changes_list"


def expand_statements(statements: Sequence[py.stmt], new_name: Callable[[str], str]) -> list[py.stmt]:
    """Return statements with those written out that change lists; ``new_name`` makes a name of another."""
    return [part for stmt in statements for part in _expand(stmt, new_name)]


def _expand(stmt: py.stmt, new_name: Callable[[str], str]) -> Iterator[py.stmt]:
    match stmt:
        case py.Expr(value=py.Call(func=py.Attribute(attr=method, value=py.Name() as owner), args=args)) if (
            method in _CHANGED and len(args) == _CHANGED[method][0]
        ):
            text = _CHANGED[method][1].format(*map(py.unparse, args), owner=owner.id)
            yield _change(stmt, owner.id, text)
            return
        case py.Assign() | py.AugAssign() | py.Expr() | py.Return() | py.If():
            pass
        case _:
            yield stmt
            return
    inside = stmt.test if isinstance(stmt, py.If) else stmt
    pops = list(_pops_in(inside))
    if not pops or not _may_come_first(inside, pops):
        yield stmt
        return
    if isinstance(stmt, py.Expr) and pops[0] is stmt.value:
        yield from _take(pops[0], None)
        return
    taken: dict[int, str] = {}
    for pop in pops:
        taken[id(pop)] = new_name(f"item_of_{_owner(pop)}")
        yield from _take(pop, taken[id(pop)])
    replaced = _Replaced(taken).visit(stmt)
    assert isinstance(replaced, py.stmt)
    yield replaced


def _pops_in(node: py.AST) -> Iterator[py.Call]:
    """Yield the calls of ``pop`` and ``popleft`` in the order in which Python makes them."""
    if isinstance(node, py.Lambda | py.ListComp | py.GeneratorExp | py.SetComp | py.DictComp):
        return
    for child in py.iter_child_nodes(node):
        yield from _pops_in(child)
    match node:
        case py.Call(func=py.Attribute(attr="pop", value=py.Name()), args=args, keywords=[]) if len(
            args
        ) < 2 and all(_is_place(each) for each in args):
            yield node
        case py.Call(func=py.Attribute(attr="popleft", value=py.Name()), args=[], keywords=[]):
            yield node


def _may_come_first(inside: py.AST, pops: Sequence[py.Call]) -> bool:
    """Return whether items may be taken before the rest of a statement is computed."""
    owners = {_owner(pop) for pop in pops}
    inner = {id(part) for pop in pops for part in py.walk(pop)}
    for part in py.walk(inside):
        if isinstance(part, py.BoolOp | py.IfExp) and any(id(pop) in map(id, py.walk(part)) for pop in pops):
            return False
        if not isinstance(part, py.Name) or not isinstance(part.ctx, py.Load) or part.id not in owners:
            continue
        if id(part) not in inner and not _is_appended_to(inside, part):
            return False
    return True


def _is_appended_to(stmt: py.AST, name: py.Name) -> bool:
    """Return whether a statement is ``name.append(...)``."""
    match stmt:
        case py.Expr(value=py.Call(func=py.Attribute(attr="append", value=owner))):
            return owner is name
    return False


def _owner(pop: py.Call) -> str:
    assert isinstance(pop.func, py.Attribute)
    assert isinstance(pop.func.value, py.Name)
    return pop.func.value.id


def _place(index: py.expr) -> int | None:
    """Return the place of the item that ``pop(index)`` takes, if it is an int that is written."""
    match index:
        case py.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case py.UnaryOp(op=py.USub(), operand=py.Constant(value=int() as number)):
            return -number
    return None


def _is_place(index: py.expr) -> bool:
    """Return whether an index is an int or a name, which is computed twice as well as once."""
    return isinstance(index, py.Name) or _place(index) is not None


def _take(pop: py.Call, name: str | None) -> Iterator[py.stmt]:
    """Yield the assignment of the item, and that of the list without it."""
    owner, place = _owner(pop), "-1"
    if isinstance(pop.func, py.Attribute) and pop.func.attr == "popleft":
        place = "0"
    elif pop.args:
        place = py.unparse(pop.args[0])
    if name is not None:
        target = py.Name(name, py.Store())
        yield _at(pop, py.Assign([target], py.parse(f"{owner}[{place}]", mode="eval").body))
    rest = {"-1": f"{owner}[:-1]", "0": f"{owner}[1:]"}.get(place, f"list(numpy.delete({owner}, {place}, 0))")
    yield _change(pop, owner, rest)


def _change(node: py.stmt | py.expr, owner: str, text: str) -> py.stmt:
    assign = _at(node, py.Assign([py.Name(owner, py.Store())], py.parse(text, mode="eval").body))
    setattr(assign, CHANGES_LIST, True)
    return assign


def _at(node: py.stmt | py.expr, made: py.stmt) -> py.stmt:
    """Return a statement whose parts are all at the place of another node."""
    for part in py.walk(made):
        if isinstance(part, py.stmt | py.expr):
            py.copy_location(part, node)
    return made


class _Replaced(py.NodeTransformer):
    """Replaces calls by names, in a copy of a statement. ``names``: by the calls' identities."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names

    def visit(self, node: py.AST) -> py.AST:
        """Return the copy of a node; the blocks of an `if` stay as they are."""
        if id(node) in self.names:
            return py.copy_location(py.Name(self.names[id(node)], py.Load()), node)
        if isinstance(node, py.If):
            test = self.visit(node.test)
            assert isinstance(test, py.expr)
            return py.copy_location(py.If(test, node.body, node.orelse), node)
        return super().generic_visit(copy.copy(node))
