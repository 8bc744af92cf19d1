"""Find the names that a function of Python's tree has, captures and changes."""

from __future__ import annotations

import ast as py
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: The methods that change a container.
CHANGING = frozenset(
    (
        *("append", "extend", "insert", "pop", "popleft", "appendleft", "remove", "clear", "add", "discard"),
        *("update", "setdefault", "sort", "reverse", "rotate", "popitem", "extendleft", "__missing__"),
    )
)

#: Functions of `heapq` and `bisect` that change their first argument.
_CHANGING_FIRST = frozenset(
    ["heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort", "insort_left", "insort_right"]
)

FUNCTIONS = py.FunctionDef | py.Lambda

#: Python's hints that say nothing of arrays.
_HINTS = frozenset(
    (
        *("int", "float", "bool", "str", "list", "dict", "set", "tuple", "deque", "List", "Dict", "Set"),
        *("Tuple", "Optional", "Union", "Deque", "DefaultDict", "Sequence", "defaultdict", "Iterable"),
        *("Any", "object"),
    )
)


def own_nodes(node: py.AST | Sequence[py.AST]) -> Iterator[py.AST]:
    """Yield the nodes of a function or of statements without those of functions inside."""
    work = list(py.iter_child_nodes(node)) if isinstance(node, py.AST) else list(node)
    while work:
        inner = work.pop(0)
        yield inner
        if not isinstance(inner, FUNCTIONS):
            work += py.iter_child_nodes(inner)


def is_hint(annotation: py.expr) -> bool:
    """Return whether a type is one of Python's that says nothing of arrays."""
    is_plain = all(not isinstance(part, py.Attribute) for part in py.walk(annotation))
    return is_plain and names_in(annotation) <= _HINTS


def parameter_names(function: py.FunctionDef) -> list[str]:
    """Return the names of a function's parameters, in order."""
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def outer_names(function: py.FunctionDef) -> set[str]:
    """Return the names of functions around that a function assigns, by ``nonlocal``."""
    return {name for node in own_nodes(function) if isinstance(node, py.Nonlocal) for name in node.names}


def bound_names(function: py.FunctionDef) -> set[str]:
    """Return the names that are a function's own, without its parameters."""
    names = {
        node.id
        for node in own_nodes(function.body)
        if isinstance(node, py.Name) and isinstance(node.ctx, py.Store)
    }
    named = py.FunctionDef | py.MatchAs | py.MatchStar
    names |= {node.name for node in own_nodes(function.body) if isinstance(node, named) and node.name}
    return names - outer_names(function)


def inner_names(function: py.FunctionDef) -> set[str]:
    """Return the names that functions inside a function bind."""
    inner = [node for node in own_nodes(function.body) if isinstance(node, FUNCTIONS)]
    parts = [part for node in inner for part in py.walk(node)]
    names = {part.arg for part in parts if isinstance(part, py.arg)}
    return names | {part.id for part in parts if isinstance(part, py.Name) and isinstance(part.ctx, py.Store)}


def changed_names(function: py.FunctionDef) -> set[str]:
    """Return the names whose containers a function changes."""
    assigned = (
        node.target if isinstance(node, py.AugAssign) else node.value
        for node in own_nodes(function.body)
        if (isinstance(node, py.Subscript | py.Attribute) and isinstance(node.ctx, py.Store))
        or (isinstance(node, py.AugAssign) and isinstance(node.target, py.Name))
    )
    return grown_names(function) | _names_of_owners(assigned)


def grown_names(function: py.FunctionDef) -> set[str]:
    """Return the names of containers that a function changes as no array can be."""
    owners = list[py.expr]()
    for node in own_nodes(function.body):
        match node:
            case py.Call(func=py.Attribute(value=owner, attr=method)) if method in CHANGING:
                owners.append(owner)
            case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=[owner, *_]) if (
                word in _CHANGING_FIRST
            ):
                owners.append(owner)
            case py.Subscript(value=owner, ctx=py.Del()):
                owners.append(owner)
    return _names_of_owners(owners)


def _names_of_owners(owners: Iterable[py.expr]) -> set[str]:
    """Return the names that containers are, or are reached by."""
    names = set[str]()
    for owner in owners:
        whole = owner
        while isinstance(whole, py.Subscript | py.Attribute):
            whole = whole.value
        if isinstance(whole, py.Name):
            names.add(whole.id)
    return names


def changes_names(function: py.FunctionDef) -> bool:
    """Return whether a function changes a container, or assigns a name around it."""
    return bool(outer_names(function) or changed_names(function) - bound_names(function))


def is_container(made: py.expr) -> bool:
    """Return whether an expression makes a list, a dictionary or a set."""
    match made:
        case py.List() | py.ListComp() | py.Dict() | py.DictComp() | py.Set() | py.SetComp():
            return True
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word)):
            return word in ("list", "dict", "set", "sorted", "defaultdict", "deque", "Counter", "tolist")
        case py.BinOp(left=left, op=py.Add() | py.Mult(), right=right):
            return is_container(left) or is_container(right)
    return False


def holds_containers(made: py.expr) -> bool:
    """Return whether an expression makes a list or a dictionary of lists."""
    match made:
        case py.ListComp(elt=item) | py.DictComp(value=item):
            return is_container(item) and not isinstance(item, py.BinOp) and not getattr(item, "elts", None)
        case py.Call(
            func=py.Name(id="defaultdict") | py.Attribute(attr="defaultdict"), args=[py.Name(id=kind)]
        ):
            return kind in ("list", "set", "dict")
    return False


def names_of_kind(function: py.FunctionDef, is_list: Callable[[py.expr], bool]) -> set[str]:
    """Return the names that a function lets stand for containers of a kind."""
    names = set[str]()
    for node in own_nodes(function.body):
        match node:
            case py.Assign(targets=[py.Tuple(elts=targets)], value=py.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=False))
            case py.Assign(targets=targets, value=value):
                pairs = [(target, value) for target in targets]
            case _:
                continue
        names |= {target.id for target, value in pairs if isinstance(target, py.Name) and is_list(value)}
    return names


def names_in(node: py.AST) -> set[str]:
    """Return all names that a node mentions."""
    return {part.id for part in py.walk(node) if isinstance(part, py.Name)}


class Renamed(py.NodeTransformer):
    """Gives names other names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: py.Name) -> py.AST:
        """Return a name with its new name."""
        return py.copy_location(py.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_MatchAs(self, node: py.MatchAs) -> py.AST:
        """Return a pattern with the new name of what it binds."""
        node.name = self.names.get(node.name, node.name) if node.name else None
        self.generic_visit(node)
        return node

    def visit_MatchStar(self, node: py.MatchStar) -> py.AST:
        """Return a pattern of remaining items with the new name of their list."""
        node.name = self.names.get(node.name, node.name) if node.name else None
        return node

    def visit_arg(self, node: py.arg) -> py.AST:
        """Return a parameter of a function inside with its new name."""
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_FunctionDef(self, node: py.FunctionDef) -> py.AST:
        """Return a function inside with its new name."""
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node
