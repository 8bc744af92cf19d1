"""Write the dictionaries and sets of Python's library, and of numba's, with those of the language.

``defaultdict(int)`` and ``Counter()`` are dictionaries whose missing keys have a number, with which
``d[k] += x`` begins; a ``deque`` is a list; a set that is written behind ``in`` is a list.
"""

from __future__ import annotations

import ast as py
import copy

#: What a missing key has, by the function that makes it.
_MISSING = {"int": 0, "float": 0.0, "bool": False}


def with_plain_dictionaries(stmt: py.FunctionDef) -> py.FunctionDef:
    """Return a function without dictionaries of other kinds, and without sets behind ``in``."""
    if not any(isinstance(node, py.Set) or _makes_other(node) for node in py.walk(stmt)):
        return stmt
    stmt = copy.deepcopy(stmt)
    made = [
        node for node in py.walk(stmt) if isinstance(node, py.Assign) and _default(node.value) is not None
    ]
    defaults = {
        target.id: _default(node.value)
        for node in made
        for target in node.targets
        if isinstance(target, py.Name)
    }
    changed = _Plain(defaults).visit(stmt)
    assert isinstance(changed, py.FunctionDef)
    return changed


def _makes_other(node: py.AST) -> bool:
    if not isinstance(node, py.Call):
        return False
    return _default(node) is not None or _is_empty(node) or _as_queue(node) is not None


def _name_of(function: py.expr) -> str:
    """Return the last word of a function's name."""
    return function.id if isinstance(function, py.Name) else getattr(function, "attr", "")


def _default(made: py.expr) -> bool | int | float | None:
    """Return what missing keys of a dictionary have that an expression makes; None of any other."""
    match made:
        case py.Call(func=function, args=[] | [_], keywords=[]) if _name_of(function) == "Counter":
            return 0
        case py.Call(func=function, args=[py.Name(id=kind)]) if _name_of(function) == "defaultdict":
            return _MISSING.get(kind)
        case py.Call(
            func=function, args=[py.Lambda(args=py.arguments(args=[]), body=py.Constant(value=value))]
        ):
            if isinstance(value, bool | int | float) and _name_of(function) == "defaultdict":
                return value
    return None


def _as_queue(made: py.expr) -> py.expr | None:
    """Return the list for a ``deque`` of the library; None for any other expression."""
    match made:
        case py.Call(func=function, args=[], keywords=[]) if _name_of(function) == "deque":
            return py.List([], py.Load())
        case py.Call(func=function, args=[py.List() | py.Tuple() as items], keywords=[]):
            return py.List(items.elts, py.Load()) if _name_of(function) == "deque" else None
        case py.Call(func=function, args=[items], keywords=[]) if _name_of(function) == "deque":
            return py.Call(py.Name("list", py.Load()), [items], [])
    return None


def _is_empty(made: py.expr) -> bool:
    """Return whether an expression makes an empty dictionary of numba's."""
    match made:
        case py.Call(func=py.Attribute(attr="empty", value=owner), keywords=[*_]):
            return _name_of(owner) == "Dict"
        case py.Call(func=py.Attribute(attr="Dict"), args=[], keywords=[]):
            return True
        case py.Call(func=py.Name(id="Dict"), args=[], keywords=[]):
            return True
    return False


class _Plain(py.NodeTransformer):
    """Replaces other dictionaries; ``defaults``: what missing keys have, by the dictionary's name."""

    def __init__(self, defaults: dict[str, bool | int | float | None]) -> None:
        self.defaults = defaults

    def visit_Call(self, node: py.Call) -> py.AST:
        """Return an empty dictionary for another one that is empty."""
        self.generic_visit(node)
        counts = _name_of(node.func) == "Counter" and bool(node.args)
        if (_default(node) is not None and not counts) or _is_empty(node):
            return py.copy_location(py.Dict([], []), node)
        if (queue := _as_queue(node)) is not None:
            py.copy_location(queue, node)
            return py.fix_missing_locations(queue)
        return node

    def visit_AugAssign(self, node: py.AugAssign) -> py.AST:
        """Return ``d[k] = d.get(k, 0) + x`` for ``d[k] += x``."""
        self.generic_visit(node)
        match node.target:
            case py.Subscript(value=py.Name(id=name) as owner, slice=key) if (
                self.defaults.get(name) is not None
            ):
                get = py.Attribute(py.Name(name, py.Load()), "get", py.Load())
                before = py.Call(get, [key, py.Constant(self.defaults[name])], [])
                value = py.BinOp(before, node.op, node.value)
                target = py.Subscript(owner, key, py.Store())
                assign = py.Assign([target], value)
                for inner in py.walk(assign):
                    if isinstance(inner, py.stmt | py.expr) and not hasattr(inner, "lineno"):
                        py.copy_location(inner, node)
                return py.copy_location(assign, node)
        return node

    def visit_Compare(self, node: py.Compare) -> py.AST:
        """Return a comparison with a list for a set that is written in it."""
        self.generic_visit(node)
        last = node.comparators[-1]
        if isinstance(node.ops[-1], py.In | py.NotIn) and isinstance(last, py.Set):
            node.comparators[-1] = py.copy_location(py.List(last.elts, py.Load()), last)
        return node
