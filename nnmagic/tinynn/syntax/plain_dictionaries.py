"""Write the dictionaries and sets of Python's library, and of numba's, with those of the language.

``defaultdict(int)`` and ``Counter()`` are dictionaries whose missing keys have a number, with which
``d[k] += x`` begins; a ``deque`` is a list, from which an item goes where it holds ``maxlen``; a set that is
written behind ``in`` is a list. ``rows.remove(v)`` of a list takes the item at ``rows.index(v)``, and
``d.popitem()`` that of the last key.
"""

from __future__ import annotations

import ast as py
import copy
from collections import Counter
from collections.abc import Mapping

from nnmagic.tinynn.syntax.name_scopes import changed_names
from nnmagic.tinynn.syntax.written_code import expression_at, statements_at

#: What a missing key has, by the function that makes it.
_MISSING = {"int": 0, "float": 0.0, "bool": False}


def with_plain_dictionaries(stmt: py.FunctionDef) -> py.FunctionDef:
    """Return a function without dictionaries of other kinds, and without sets behind ``in``."""
    stmt = with_single_targets(stmt)
    if not any(isinstance(node, py.Set) or _makes_other(node) or _takes(node) for node in py.walk(stmt)):
        return stmt
    stmt = copy.deepcopy(stmt)
    made = [
        node for node in py.walk(stmt) if isinstance(node, py.Assign) and _default(node.value) is not None
    ]
    defaults: dict[str, bool | int | float | None] = {}
    for node in made:
        for target in node.targets:
            if isinstance(target, py.Name):
                default = _default(node.value)
                defaults[target.id] = default if defaults.get(target.id, default) == default else None
    counters = {
        target.id
        for node in made
        for target in node.targets
        if isinstance(target, py.Name) and isinstance(node.value, py.Call)
        if _name_of(node.value.func) == "Counter"
    }
    changed = _Plain(defaults, _lists_of(stmt), _lengths_of(stmt), counters, _readers(stmt, defaults)).visit(
        stmt
    )
    assert isinstance(changed, py.FunctionDef)
    return changed


def _readers(stmt: py.FunctionDef, defaults: Mapping[str, bool | int | float | None]) -> dict[str, str]:
    """Return the method that reads a key of each ``defaultdict`` of numbers, by the dictionary's name.

    Python adds a key that is missing, which only what looks at the keys can see: ``__missing__`` is
    ``setdefault`` where a statement can add the key before all else, else a plain read.
    """
    nodes = list(py.walk(stmt))
    stored = Counter(
        node.id for node in nodes if isinstance(node, py.Name) and isinstance(node.ctx, py.Store)
    )
    made = Counter(
        target.id
        for node in nodes
        if isinstance(node, py.Assign) and _default(node.value) is not None
        for target in node.targets
        if isinstance(target, py.Name)
    )
    looked_up = {
        id(node.value)
        for node in nodes
        if isinstance(node, py.Subscript) or (isinstance(node, py.Attribute) and node.attr == "get")
    }
    arguments = {node.arg for node in nodes if isinstance(node, py.arg)}
    seen = {
        node.id
        for node in nodes
        if isinstance(node, py.Name) and isinstance(node.ctx, py.Load) and id(node) not in looked_up
    }
    return {
        name: "__missing__" if name in seen else "get"
        for name, default in defaults.items()
        if default is not None and stored[name] == made[name] and name not in arguments
    }


class _SingleTargets(py.NodeTransformer):
    """Writes ``a, b = [], 0`` as two assignments, where one of the values is a container that is made."""

    def visit_AnnAssign(self, node: py.AnnAssign) -> py.AST:
        """Return an assignment without a hint such as ``list[int]``, which no cell has as a type."""
        hint = node.annotation.value if isinstance(node.annotation, py.Subscript) else node.annotation
        if node.value is None or _name_of(hint) not in _HINTS:
            return node
        return py.copy_location(py.Assign([node.target], node.value), node)

    def visit_Assign(self, node: py.Assign) -> py.AST | list[py.stmt]:
        """Return an assignment for each name."""
        match node:
            case py.Assign(targets=[py.Tuple(elts=targets)], value=py.Tuple(elts=values)):
                names = {target.id for target in targets if isinstance(target, py.Name)}
                read = {part.id for value in values for part in py.walk(value) if isinstance(part, py.Name)}
                if (
                    len(names) == len(targets) == len(values)
                    and not names & read
                    and any(map(_is_container, values))
                ):
                    pairs = zip(targets, values, strict=True)
                    return [py.copy_location(py.Assign([target], value), node) for target, value in pairs]
        return node


#: Python's names of containers.
_HINTS = frozenset(
    ("list", "dict", "set", "deque", "defaultdict", "List", "Dict", "Set", "Deque", "DefaultDict")
)


def with_single_targets(stmt: py.FunctionDef) -> py.FunctionDef:
    """Return a function that makes each container in an assignment of its own, without a hint of Python's."""
    if not any(
        isinstance(node, py.AnnAssign) or (isinstance(node, py.Assign) and isinstance(node.value, py.Tuple))
        for node in py.walk(stmt)
    ):
        return stmt
    changed = _SingleTargets().visit(copy.deepcopy(stmt))
    assert isinstance(changed, py.FunctionDef)
    return changed


def _is_container(made: py.expr) -> bool:
    if isinstance(made, py.Call):
        return _name_of(made.func) in ("Counter", "defaultdict", "deque")
    return isinstance(made, py.ListComp | py.DictComp)


def _makes_other(node: py.AST) -> bool:
    if not isinstance(node, py.Call):
        return False
    return (
        _default(node) is not None
        or _is_empty(node)
        or _as_queue(node) is not None
        or _with_length(node) is not None
    )


def _takes(node: py.AST) -> bool:
    """Return whether a call takes an item that is in a list, or the last entry of a dictionary."""
    match node:
        case py.Call(func=py.Attribute(attr="remove" | "popitem" | "move_to_end", value=py.Name())):
            return True
        case py.Call(func=py.Name(id="next"), args=[py.Call(func=py.Name(id="iter"))]):
            return True
    return False


def _lists_of(stmt: py.FunctionDef) -> set[str]:
    """Return the names that stand for lists wherever a function assigns them."""
    lists: dict[str, bool] = {}
    for node in py.walk(stmt):
        match node:
            case py.Assign(targets=[py.Tuple(elts=targets)], value=py.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=False))
            case py.Assign(targets=targets, value=value):
                pairs = [(target, value) for target in targets]
            case py.AnnAssign(target=target, value=py.expr() as value):
                pairs = [(target, value)]
            case py.For(target=target, iter=value):
                pairs = [(target, py.Constant(None))]
            case _:
                continue
        for target, value in pairs:
            for part in py.walk(target):
                if isinstance(part, py.Name) and isinstance(part.ctx, py.Store):
                    lists[part.id] = lists.get(part.id, True) and part is target and _is_list(value)
    return {name for name, is_list in lists.items() if is_list}


def _is_list(made: py.expr) -> bool:
    match made:
        case py.List() | py.ListComp():
            return True
        case py.Call(func=function):
            return _name_of(function) in ("list", "sorted", "deque", "tolist")
        case py.BinOp(left=left, op=py.Add() | py.Mult(), right=right):
            return _is_list(left) or _is_list(right)
        case py.Subscript(slice=py.Slice(), value=py.expr() as value):
            return _is_list(value)
    return False


def _lengths_of(stmt: py.FunctionDef) -> dict[str, str]:
    """Return the names that have the greatest lengths of queues, by the queues' names."""
    assigned = [node for node in py.walk(stmt) if isinstance(node, py.Assign)]
    made = [node for node in assigned if _with_length(node.value)]
    otherwise = {
        target.id
        for node in assigned
        if node not in made
        for target in node.targets
        if isinstance(target, py.Name)
    }
    names = {node.id for node in py.walk(stmt) if isinstance(node, py.Name)}
    lengths: dict[str, str] = {}
    for node in made:
        for target in node.targets:
            if isinstance(target, py.Name) and target.id not in otherwise:
                name = f"_length_of_{target.id}"
                while name in names:
                    name += "_"
                lengths[target.id] = name
    return lengths


def _with_length(made: py.AST) -> tuple[list[py.expr], py.expr] | None:
    """Return the items and the greatest length of a ``deque`` that has one; None of anything else."""
    match made:
        case py.Call(func=function, args=[*items, py.expr() as length], keywords=[]) if len(items) == 1:
            pass
        case py.Call(
            func=function, args=[] | [_] as items, keywords=[py.keyword(arg="maxlen", value=length)]
        ):
            pass
        case _:
            return None
    return (items, length) if _name_of(function) == "deque" else None


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
        case py.Call(
            func=py.Name(id="Dict" | "OrderedDict") | py.Attribute(attr="OrderedDict"), args=[], keywords=[]
        ):
            return True
    return False


class _Plain(py.NodeTransformer):
    """Replaces other dictionaries; ``defaults``: what missing keys have, by the dictionary's name.

    ``lists``: the names that stand for lists alone; ``lengths``: the names of the greatest lengths of queues;
    ``counters``: the names of counters; ``readers``: the methods that read a key of others, which may be
    missing, by the dictionary's name.
    """

    def __init__(
        self,
        defaults: dict[str, bool | int | float | None],
        lists: set[str],
        lengths: dict[str, str],
        counters: set[str],
        readers: Mapping[str, str],
    ) -> None:
        self.defaults = defaults
        self.lists = lists
        self.lengths = lengths
        self.counters = counters
        self.readers = {**readers, **dict.fromkeys(counters, "get")}
        self.depth = 0

    def visit_FunctionDef(self, node: py.FunctionDef) -> py.AST:
        """Return a function; those inside add no keys to a dictionary around them that they do not change."""
        if self.depth:
            return self._inside(node, changed_names(node))
        self.depth += 1
        self.generic_visit(node)
        return node

    def visit_Lambda(self, node: py.Lambda) -> py.AST:
        """Return a lambda, which adds no keys."""
        return self._inside(node, set())

    def _inside(self, node: py.AST, changed: set[str]) -> py.AST:
        outer = self.readers
        self.readers = {name: word for name, word in outer.items() if word == "get" or name in changed}
        self.generic_visit(node)
        self.readers = outer
        return node

    def visit_Assign(self, node: py.Assign) -> py.AST | list[py.stmt]:
        """Return the statements for a queue of a greatest length, and for ``d.popitem()``."""
        match node:
            case py.Assign(targets=[py.Name(id=name)], value=value) if (
                made := _with_length(value)
            ) is not None and name in self.lengths:
                items, length = made
                text = f"{self.lengths[name]} = {py.unparse(length)}\n{name} = []\n"
                if items:
                    text += f"for {name}_item in {py.unparse(items[0])}:\n    {name}.append({name}_item)\n"
                return self._written(text, node)
            case py.Assign(
                targets=[target],
                value=py.Call(
                    func=py.Attribute(attr="popitem", value=py.Name(id=name)),
                    args=[],
                    keywords=[] | [_] as given,
                ),
            ):
                place = "0" if given and py.unparse(given[0].value) == "False" else "-1"
                key = f"_key_of_{name}"
                text = f"{key} = list({name})[{place}]\n{py.unparse(target)} = ({key}, {name}[{key}])\n"
                text += f"del {name}[{key}]"
                return self._written(text, node)
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: py.Expr) -> py.AST | list[py.stmt]:
        """Return the statements for ``rows.remove(v)``, counters' ``update`` and a ``maxlen``."""
        match node.value:
            case py.Call(
                func=py.Attribute(attr="remove", value=py.Name(id=name)), args=[item], keywords=[]
            ) if name in self.lists:
                return self._written(f"{name}.pop({name}.index({py.unparse(item)}))", node)
            case py.Call(func=py.Attribute(attr="popitem", value=py.Name(id=name)), args=[], keywords=given):
                place = "0" if given and py.unparse(given[0].value) == "False" else "-1"
                return self._written(
                    f"_key_of_{name} = list({name})[{place}]\ndel {name}[_key_of_{name}]", node
                )
            case py.Call(
                func=py.Attribute(attr="move_to_end", value=py.Name(id=name)), args=[moved], keywords=[]
            ):
                key_name, held = f"_key_of_{name}", f"_value_of_{name}"
                text = f"{key_name} = {py.unparse(moved)}\n{held} = {name}[{key_name}]\n"
                return self._written(f"{text}del {name}[{key_name}]\n{name}[{key_name}] = {held}", node)
            case py.Call(
                func=py.Attribute(attr="append" | "appendleft" as word, value=py.Name(id=name)), args=[_]
            ) if name in self.lengths:
                taken = "popleft" if word == "append" else "pop"
                text = f"if len({name}) > {self.lengths[name]}:\n    {name}.{taken}()"
                return [node, *self._written(text, node, anew=False)]
            case py.Call(func=py.Attribute(attr="insert", value=py.Name(id=name))) if name in self.lengths:
                full = 'raise IndexError("deque already at its maximum size")'
                text = f"if len({name}) >= {self.lengths[name]}:\n    {full}"
                return [*self._written(text, node, anew=False), node]
            case py.Call(
                func=py.Attribute(attr="extend" | "extendleft" as word, value=py.Name(id=name)), args=[items]
            ) if name in self.lengths:
                return self._appended(name, "append" + word.removeprefix("extend"), items, node)
            case py.Call(
                func=py.Attribute(attr="update" | "subtract" as word, value=py.Name(id=name)), args=[items]
            ) if name in self.counters:
                others, key, sign = f"_others_of_{name}", f"_key_of_{name}", "+" if word == "update" else "-"
                more = f"({others}[{key}] if isinstance({others}, dict) else 1)"
                text = f"{others} = {py.unparse(items)}\nfor {key} in {others}:\n"
                text += f"    {name}[{key}] = {name}.get({key}, 0) {sign} {more}"
                return self._written(text, node)
        self.generic_visit(node)
        return node

    def _appended(self, name: str, word: str, items: py.expr, place: py.stmt) -> list[py.stmt]:
        """Return statements that append items to a queue one by one."""
        text = f"for _item_of_{name} in list({py.unparse(items)}):\n    {name}.{word}(_item_of_{name})"
        return self._written(text, place)

    def _written(self, text: str, place: py.stmt, *, anew: bool = True) -> list[py.stmt]:
        """Return the statements of a text, at the place of another."""
        made: list[py.stmt] = []
        for stmt in statements_at(place, text):
            changed = self.visit(stmt) if anew else stmt
            made += changed if isinstance(changed, list) else [changed]
        return made

    def visit_Call(self, node: py.Call) -> py.AST:
        """Return an empty dictionary for another one that is empty."""
        self.generic_visit(node)
        counts = _name_of(node.func) == "Counter" and bool(node.args)
        if (_default(node) is not None and not counts) or _is_empty(node):
            return py.copy_location(py.Dict([], []), node)
        match node:
            case py.Call(func=py.Name(id="next"), args=[py.Call(func=py.Name(id="iter"), args=[items])]):
                return expression_at(node, f"list({py.unparse(items)})[0]")
        if (queue := _as_queue(node)) is not None:
            py.copy_location(queue, node)
            return py.fix_missing_locations(queue)
        return node

    def visit_Subscript(self, node: py.Subscript) -> py.AST:
        """Return ``c.get(k, 0)`` for what is read of a dictionary whose keys may be missing."""
        self.generic_visit(node)
        match node:
            case py.Subscript(value=py.Name(id=name), slice=key, ctx=py.Load()) if name in self.readers:
                text = f"{name}.{self.readers[name]}({py.unparse(key)}, {self.defaults[name]})"
                return expression_at(node, text)
        return node

    def visit_AugAssign(self, node: py.AugAssign) -> py.AST | list[py.stmt]:
        """Return ``d[k] = d.get(k, 0) + x`` for ``d[k] += x``, a loop of appends for ``queue += items``."""
        self.generic_visit(node)
        match node.target:
            case py.Name(id=name) if name in self.lengths and isinstance(node.op, py.Add):
                return self._appended(name, "append", node.value, node)
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
