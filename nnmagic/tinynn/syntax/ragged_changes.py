"""Write the statements that change a list of lists as those that change its chains (ragged_texts)."""

from __future__ import annotations

import ast as py
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from nnmagic.tinynn.syntax import ragged_makers as makers
from nnmagic.tinynn.syntax import ragged_texts as texts
from nnmagic.tinynn.syntax.written_code import expression_at, statements_at

#: Methods that change an inner list.
_CHANGING = frozenset(("append", "extend", "clear", "sort", "reverse", "pop", "remove"))
#: Functions whose result is a new list.
_MAKERS = frozenset(("list", "sorted"))
_DICTIONARIES = ("dictionary", "default", "keys")


@dataclass
class RaggedChanges:
    """Rewrites what changes a list of lists of a function, which has a ``name``."""

    function: py.FunctionDef
    name: str
    taken: makers.Taken
    #: What the parts of the list are called.
    names: dict[str, str] = field(init=False)
    #: Of which kind the list is, and how many lists it begins with, or which keys.
    kind: str = field(init=False)
    number: str = field(init=False)

    def __post_init__(self) -> None:
        self.names = {part: self.taken.free(f"_{self.name}_{part}") for part in texts.PARTS}
        made = next(node for node in py.walk(self.function) if makers.is_made(node, self.name))
        self.kind, self.number = makers.maker(made.value) or ("", "")  # type: ignore[attr-defined]  # is_made
        attributes = (node.attr for node in py.walk(self.function) if isinstance(node, py.Attribute))
        takes = not {"pop", "remove"}.isdisjoint(attributes)
        self.append = texts.APPEND if takes else texts.APPEND_ONLY
        self.grows = any(makers.is_another(node, self.name) for node in py.walk(self.function))

    @property
    def is_dictionary(self) -> bool:
        """Return whether the lists have keys."""
        return self.kind in _DICTIONARIES

    @abstractmethod
    def read(self, node: py.expr) -> py.expr:
        """Return an expression that reads the lists. Raises OtherUseError."""

    @abstractmethod
    def read_list(self, node: py.expr) -> py.expr:
        """Return the name of a new list for an inner one; other expressions as read. Raises OtherUseError."""

    def text(self, place: py.AST, text: str, **parts: str) -> list[py.stmt]:
        """Return the statements of a text, at the place of a node."""
        return statements_at(place, text.format(**{**self.names, **parts}))

    def expression(self, place: py.AST, text: str) -> py.expr:
        """Return the expression of a text, at the place of a node."""
        return expression_at(place, text.format(**self.names))

    def new(self, part: str) -> str:
        """Return a new name for a part."""
        return self.taken.free(self.names[part])

    def begin(self, stmt: py.stmt) -> list[py.stmt]:
        """Return what makes the list."""
        if self.kind == "sized" and not self.grows:
            return self.text(stmt, texts.BEGIN, number=self.number)
        made = self.text(stmt, texts.BEGIN_DICTIONARY if self.is_dictionary else texts.BEGIN_LIST)
        if self.kind == "sized":
            made += self.text(stmt, texts.ANOTHER_EACH, number=self.number)
        elif self.kind == "keys":
            made += self.text(stmt, texts.KEY_EACH, number=self.number)
        return made

    def index(self, node: py.AST) -> py.expr | None:
        """Return the index of an inner list; None for anything else."""
        match node:
            case py.Subscript(value=py.Name(id=name), slice=index) if name == self.name:
                several = isinstance(index, py.Slice) or (
                    isinstance(index, py.Tuple) and not self.is_dictionary
                )
                return None if several else index
            case py.Call(args=[key, _]) if makers.setdefault_of(node) == self.name:
                return key if self.is_dictionary else None
        return None

    def find(self, inner: py.expr, *, adds: bool = False) -> list[py.stmt]:
        """Return the statements that find the place of an inner list. ``adds``: whether one may be new."""
        index = self.index(inner)
        assert index is not None
        shown = py.unparse(self.read(index))
        if not self.is_dictionary:
            return self.text(inner, texts.PLACE, index=shown)
        adds = adds or self.kind == "default" or isinstance(inner, py.Call)
        return self.text(inner, texts.ENSURED if adds else texts.FOUND, index=shown)

    def change(self, stmt: py.stmt) -> list[py.stmt] | None:
        """Return what changes an inner list, as a statement does; None for any other statement."""
        match stmt:
            case py.Expr(value=py.Call(args=[py.List(elts=items)])) if makers.is_another(stmt, self.name):
                if self.is_dictionary:
                    raise makers.OtherUseError
                items = [self.read(item) for item in items]
                return [*self.text(stmt, texts.ANOTHER_LAST), *self._append_all(stmt, items)]
            case py.Expr(value=py.Call(func=py.Attribute(attr=word, value=inner), args=args, keywords=given)):
                if word in _CHANGING and self.index(inner) is not None:
                    return self._method(stmt, word, inner, args, given)
            case py.Assign(targets=[target], value=value):
                if self.index(target) is not None:
                    return self._rebind(stmt, target, value)
                if isinstance(target, py.Subscript) and self.index(target.value) is not None:
                    return self._set_item(stmt, target, "=", value)
                if self.popped(value) is not None and not makers.mentions(target, self.name):
                    return self.take(stmt, value, py.unparse(target))
            case py.AugAssign(target=target, op=op, value=value):
                if self.index(target) is not None and isinstance(op, py.Add):
                    return self._method(stmt, "extend", target, [value], [])
                if isinstance(target, py.Subscript) and self.index(target.value) is not None:
                    name = py.Name("x", py.Load())
                    sign = py.unparse(py.AugAssign(py.Name("x", py.Store()), op, name)).split()[1]
                    return self._set_item(stmt, target, sign, value)
        return None

    def _method(
        self, stmt: py.stmt, word: str, inner: py.expr, args: list[py.expr], given: list[py.keyword]
    ) -> list[py.stmt]:
        """Return what a method that changes an inner list does."""
        if word == "pop":
            assert isinstance(stmt, py.Expr)
            return self.take(stmt, stmt.value, "")
        if word == "append" and len(args) == 1 and self.popped(args[0]) is not None:
            if makers.mentions(self.index(inner) or inner, self.name):
                raise makers.OtherUseError
            item = self.new("item")
            more = self._method(stmt, word, inner, [py.Name(item, py.Load())], given)
            return [*self.take(stmt, args[0], item), *more]
        args = [self.read_list(arg) if word == "extend" else self.read(arg) for arg in args]
        find = self.find(inner)
        if word in ("sort", "reverse") and not args:
            options = "".join(f", {py.unparse(each)}" for each in given)
            order = f"sorted({{list}}{options})" if word == "sort" else "{list}[::-1]"
            text = f"{texts.COLLECT}{{list}} = {order}\n{texts.PUT_BACK}"
            return [*find, *self.text(stmt, text, list=self.new("list"), at=self.new("at"))]
        if word == "clear" and not args:
            return [*find, *self.text(stmt, texts.CLEAR)]
        if len(args) != 1 or given:
            raise makers.OtherUseError
        if word == "append":
            return [*find, *self._append_all(stmt, args)]
        if word == "extend":
            return self._extend(stmt, args[0], find)
        if word == "remove":
            return [*find, *self.text(stmt, texts.REMOVE, item=py.unparse(args[0]))]
        raise makers.OtherUseError

    def _append_all(self, stmt: py.stmt, items: Sequence[py.expr]) -> list[py.stmt]:
        """Return what appends items to the inner list at the place."""
        return [part for item in items for part in self.text(stmt, self.append, item=py.unparse(item))]

    def _extend(self, stmt: py.stmt, others: py.expr, find: list[py.stmt]) -> list[py.stmt]:
        """Return what appends the items of others to the inner list that is found."""
        made, item = self.new("list"), self.new("item")
        more = self.text(stmt, texts.each("{item}", "{list}", self.append), list=made, item=item)
        return [*self.text(stmt, f"{made} = list({py.unparse(others)})"), *find, *more]

    def popped(self, node: py.AST) -> py.expr | None:
        """Return the index of the inner list whose first or last item a call takes; None for others."""
        match node:
            case py.Call(
                func=py.Attribute(attr="pop", value=inner), args=[] | [py.Constant(value=0)], keywords=[]
            ):
                return self.index(inner)
        return None

    def take(self, stmt: py.stmt, call: py.expr, target: str) -> list[py.stmt]:
        """Return what takes an item of an inner list, which ``target`` gets."""
        if self.popped(call) is None or not isinstance(call, py.Call):
            raise makers.OtherUseError
        assert isinstance(call.func, py.Attribute)
        text, item = texts.POP["0" if call.args else "-1"], self.new("item")
        made = [*self.find(call.func.value), *self.text(stmt, text, item=item)]
        return [*made, *(self.text(stmt, f"{target} = {item}") if target else [])]

    def _rebind(self, stmt: py.stmt, target: py.expr, value: py.expr) -> list[py.stmt]:
        """Return what ``name[index] = [...]`` does."""
        is_call = isinstance(value, py.Call) and isinstance(value.func, py.Name) and value.func.id in _MAKERS
        if not is_call and not isinstance(value, py.List | py.ListComp):
            raise makers.OtherUseError  # two names may show one list
        find = [*self.find(target, adds=True), *self.text(stmt, texts.CLEAR)]
        if isinstance(value, py.List):
            return [*find, *self._append_all(stmt, [self.read(item) for item in value.elts])]
        return self._extend(stmt, self.read(value), find)

    def _set_item(self, stmt: py.stmt, target: py.Subscript, sign: str, value: py.expr) -> list[py.stmt]:
        """Return what assigns an item of an inner list."""
        if isinstance(target.slice, py.Slice | py.Tuple):
            raise makers.OtherUseError
        item, number = py.unparse(self.read(value)), py.unparse(self.read(target.slice))
        set_item = self.text(stmt, texts.SET_ITEM, number=number, sign=sign, item=item)
        return [*self.find(target.value), *set_item]
