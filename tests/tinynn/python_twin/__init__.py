"""The same source as ordinary Python over NumPy: what a cell must mean, said by somebody else.

``twin(source, namespace)`` runs a cell's text with Python itself; annotations are never evaluated. Knows
nothing of how nnmagic works: of nnmagic it imports only AdtValue, in which data types go in and out.
"""

from __future__ import annotations
import __future__

import ast
import sys
import types
from collections.abc import Callable, Mapping

import numpy as np

from nnmagic.relay.values import AdtValue
from tests.tinynn.python_twin.names import NAMES
from tests.tinynn.python_twin.tensor import Tensor, lift

__all__ = ["Twin", "plain", "twin"]


class Twin:
    """A cell's text as a Python module."""

    def __init__(self, source: str, namespace: Mapping[str, object]) -> None:
        self.filename = "<twin>"
        self.tree = ast.parse(source)
        _declare_data_types(self.tree)
        code = compile(self.tree, self.filename, "exec", __future__.annotations.compiler_flag, True)
        self.names = {**NAMES, **{name: lift(value) for name, value in namespace.items()}}
        exec(code, self.names)
        self.ran: set[int] = set()

    @property
    def last(self) -> str:
        """The name of the last function, which stands for the cell."""
        return [each.name for each in self.tree.body if isinstance(each, ast.FunctionDef)][-1]

    def call(self, name: str, *args: object, **keywords: object) -> object:
        """The function's result as NumPy has it: arrays, Python numbers, tuples, AdtValue of them."""
        given = [self._argument(each) for each in args]
        named = {keyword: self._argument(each) for keyword, each in keywords.items()}
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            with np.errstate(all="ignore"):
                result = self.names[name](*given, **named)
        finally:
            sys.settrace(before)
        return result

    def _trace(self, frame: types.FrameType, event: str, arg: object) -> Callable[..., object] | None:
        """Remembers the lines that ran."""
        if frame.f_code.co_filename != self.filename:
            return None
        self.ran.add(frame.f_lineno)
        return self._trace

    def never_ran(self) -> list[int]:
        """The lines of plain statements that no call reached: such a case proves little."""
        kinds = (ast.Assign, ast.AugAssign, ast.Return, ast.AnnAssign)
        functions = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        nodes = [node for function in functions for node in ast.walk(function)]
        wanted = {node.lineno for node in nodes if isinstance(node, kinds)}
        return sorted(wanted - self.ran)

    def _argument(self, value: object) -> object:
        match value:
            case AdtValue(constructor=name, fields=fields):
                return self.names[name](*map(self._argument, fields))
            case tuple() | list():
                return tuple(map(self._argument, value))
            case np.ndarray():
                return value.copy().view(Tensor)  # nobody changes the caller's
        return lift(value)


def twin(source: str, namespace: Mapping[str, object]) -> Twin:
    """The cell as Python."""
    return Twin(source, namespace)


def plain(value: object) -> object:
    """A result of the twin as a compiled function gives it: a number alone is an array of rank 0."""
    if isinstance(value, DataType):
        return AdtValue(type(value).__name__, tuple(map(plain, value.fields)))
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if isinstance(value, bool | int | float):
        return np.asarray(value)  # int64, float64, bool
    return np.asarray(value)


# -- data types --------------------------------------------------------------------------------------------


class DataType:
    """A value of a data type: its class is the constructor."""

    __match_args__: tuple[str, ...] = ()

    def __init__(self, *args: object, **keywords: object) -> None:
        names = self.__match_args__
        if len(args) + len(keywords) != len(names) or not {*keywords} <= {*names[len(args) :]}:
            raise TypeError(f"{type(self).__name__} takes {', '.join(names) or 'nothing'}")
        for name, value in [*zip(names, args, strict=False), *keywords.items()]:
            setattr(self, name, value)

    @property
    def fields(self) -> list[object]:
        """In the order of their declaration."""
        return [getattr(self, name) for name in self.__match_args__]


NAMES["__data_type__"] = DataType


def _declare_data_types(tree: ast.Module) -> None:
    """``class List: def Cons(head, tail): ...`` becomes classes List and Cons, a subclass and its member."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            continue  # of __future__
        if not isinstance(statement, ast.ClassDef):
            body.append(statement)
            continue
        name = statement.name
        lines = [f"class {name}(__data_type__): pass"]
        for constructor in statement.body:
            if isinstance(constructor, ast.FunctionDef):
                fields = tuple(argument.arg for argument in constructor.args.args)
                lines += [
                    f"class {constructor.name}({name}): __match_args__ = {fields!r}",
                    f"{name}.{constructor.name} = {constructor.name}",
                ]
        made = ast.parse("\n".join(lines))
        for node in ast.walk(made):
            if isinstance(node, ast.stmt | ast.expr):
                ast.copy_location(node, statement)
        body += made.body
    tree.body = body
