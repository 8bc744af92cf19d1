"""Find the lists of lists that grow, and the dictionaries of lists, which a function makes."""

from __future__ import annotations

import ast as py
from collections.abc import Iterator

from nnmagic.tinynn.syntax.names_in_python import bound_by


class OtherUseError(Exception):
    """A list of lists is used in a way that cannot be written so."""


class Taken(set[str]):
    """The names of a function."""

    def free(self, name: str) -> str:
        """Return a name that is not taken yet, and take it."""
        while name in self:
            name += "_"
        self.add(name)
        return name


def appended(node: py.AST) -> str:
    """Return the name in ``name[index].append(item)`` or ``name.setdefault(key, []).append(item)``, or ""."""
    match node:
        case py.Expr(value=py.Call(func=py.Attribute(attr="append", value=inner), args=[_], keywords=[])):
            if isinstance(inner, py.Subscript) and isinstance(inner.value, py.Name):
                return inner.value.id
            return setdefault_of(inner)
    return ""


def setdefault_of(node: py.AST) -> str:
    """Return the name in ``name.setdefault(key, [])``; "" for anything else."""
    match node:
        case py.Call(
            func=py.Attribute(attr="setdefault", value=py.Name(id=name)), args=[_, made], keywords=[]
        ) if is_empty_list(made):
            return name
    return ""


def is_empty_list(made: py.AST) -> bool:
    """Return whether an expression is ``[]`` or ``list()``."""
    match made:
        case py.List(elts=[]) | py.Call(func=py.Name(id="list"), args=[], keywords=[]):
            return True
    return False


def maker(made: py.expr | None) -> tuple[str, str] | None:
    """Return of which kind a list of lists is that an expression makes, and how many lists, or which keys.

    The kinds: "sized", "list", "dictionary", "default" (which has a list for every key), "keys"; None for
    anything else.
    """
    match made:
        case py.ListComp(elt=inner, generators=[py.comprehension(target=py.Name(), iter=items, ifs=[])]):
            if is_empty_list(inner):
                return "sized", _size(items)
        case py.DictComp(
            key=key, value=inner, generators=[py.comprehension(target=target, iter=items, ifs=[])]
        ):
            same = isinstance(key, py.Name) and isinstance(target, py.Name) and key.id == target.id
            if same and is_empty_list(inner):
                return "keys", py.unparse(items)
        case py.Dict(keys=[_, *_] as keys, values=values) if (
            all(map(is_empty_list, values)) and None not in keys
        ):
            return "keys", f"({', '.join(py.unparse(key) for key in keys if key is not None)},)"
        case py.Dict(keys=[]) | py.Call(func=py.Name(id="dict"), args=[], keywords=[]):
            return "dictionary", ""
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=[py.Name(id="list")], keywords=[]):
            return ("default", "") if word == "defaultdict" else None
        case py.List(elts=[]):
            return "list", ""
        case py.List(elts=items) if all(map(is_empty_list, items)):
            return "sized", str(len(items))
    return None


def _size(items: py.expr) -> str:
    match items:
        case py.Call(func=py.Name(id="range"), args=[size], keywords=[]):
            return py.unparse(size)
        case py.Call(func=py.Name(id="range"), args=[start, stop], keywords=[]):
            return f"({py.unparse(stop)}) - ({py.unparse(start)})"
    return f"len({py.unparse(items)})"


def is_another(node: py.AST, name: str) -> bool:
    """Return whether a statement appends a new list to a list of lists: ``name.append([a, b])``."""
    match node:
        case py.Expr(
            value=py.Call(
                func=py.Attribute(attr="append", value=py.Name(id=owner)), args=[py.List()], keywords=[]
            )
        ):
            return owner == name
    return False


def mentions(node: py.AST, name: str) -> bool:
    """Return whether a name is in a node."""
    return any(isinstance(each, py.Name) and each.id == name for each in py.walk(node))


def check_uses(stmt: py.FunctionDef, name: str) -> None:
    """Check that a name is a list of lists of a function alone. Raises OtherUseError."""
    written = sum(
        isinstance(node, py.Name) and node.id == name and not isinstance(node.ctx, py.Load)
        for node in py.walk(stmt)
    )
    made = [node for node in py.walk(stmt) if is_made(node, name)]
    inner = (py.FunctionDef, py.Lambda)
    in_function = any(
        isinstance(node, inner) and node is not stmt and mentions(node, name) for node in py.walk(stmt)
    )
    in_expressions = any(isinstance(node, py.NamedExpr) for node in py.walk(stmt))
    if written != 1 or len(made) != 1 or in_function or in_expressions:
        raise OtherUseError


def is_made(node: py.AST, name: str) -> bool:
    """Return whether a statement makes the list of lists of a name."""
    match node:
        case py.Assign(targets=[py.Name(id=target)], value=value) if target == name:
            return maker(value) is not None
        case py.AnnAssign(target=py.Name(id=target), value=value) if target == name:
            return maker(value) is not None
    return False


def read_outside(function: py.AST, loop: py.AST, name: str) -> bool:
    """Return whether a name is read outside a loop, and outside all others that bind it."""

    def walk(node: py.AST) -> Iterator[py.AST]:
        if node is loop or (isinstance(node, py.For) and name in bound_by(node)) or name in bound_by(node):
            return
        yield node
        for child in py.iter_child_nodes(node):
            yield from walk(child)

    return any(
        isinstance(node, py.Name) and node.id == name and isinstance(node.ctx, py.Load)
        for node in walk(function)
    )
