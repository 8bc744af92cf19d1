"""Write functions under ``lru_cache`` that call themselves as loops that fill a table.

A stack holds the arguments whose results are wanted. A step computes the function for the last of them, with
results of the table for its own calls; where one is missing, it gives the arguments of that call instead. So
each result is computed for good once, as Python does, and no recursion is deep.
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

from nnmagic.tinynn.syntax.comprehension_loops import as_loop
from nnmagic.tinynn.syntax.decorators import calls_itself_twice, keeps_results
from nnmagic.tinynn.syntax.name_scopes import (
    Renamed,
    bound_names,
    changed_names,
    outer_names,
    own_nodes,
    parameter_names,
)
from nnmagic.tinynn.syntax.written_code import placed, statements_at

_DRIVER = """
def {name}({params}):
    {memo} = {{}}
    {stack} = [({key})]
    while {stack}:
        {unpacked} = {stack}[-1]
        {done}, {value}, {wanted} = {step}({unpacked}, {memo})
        if {done}:
            {memo}[{unpacked}] = {value}
            {stack}.pop()
        else:
            if len({stack}) > 1000000:
                raise RecursionError("maximum recursion depth exceeded")
            {stack}.append(({wanted}))
    return {memo}[{key}]
"""
_MISSING = """
{keys} = {args}
if ({keys}) not in {memo}:
    return False, {like}, {keys}
{result} = {memo}[{keys}]
"""


class _StaysError(Exception):
    """A function cannot be written so."""


def with_tables(body: Sequence[py.stmt]) -> list[py.stmt]:
    """Return statements with loops for the functions under ``lru_cache`` that call themselves."""
    return [_with_tables(stmt) for stmt in body]


def _with_tables(stmt: py.stmt) -> py.stmt:
    if not any(isinstance(node, py.FunctionDef) and keeps_results(node) for node in py.walk(stmt)):
        return stmt
    return _Tables().visit(copy.deepcopy(stmt))  # type: ignore[no-any-return]


class _Tables(py.NodeTransformer):
    def visit_FunctionDef(self, node: py.FunctionDef) -> py.AST:
        """Return a function with a table for one that keeps its results."""
        self.generic_visit(node)
        if not keeps_results(node) or not calls_itself_twice(node):
            return node
        try:
            return _TableWriter(copy.deepcopy(node)).write()
        except _StaysError:
            return node


@dataclass
class _TableWriter:
    """Writes a function as a loop; ``taken``: the names in it."""

    function: py.FunctionDef
    number: int = 0
    params: list[str] = field(init=False)
    like: str = field(init=False)

    def __post_init__(self) -> None:
        arguments = self.function.args
        self.params = parameter_names(self.function)
        has_others = arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults
        names = [node for node in py.walk(self.function) if isinstance(node, py.Name)]
        mentions = [node for node in names if node.id == self.function.name]
        calls = [node for node in py.walk(self.function) if self._is_own(node)]
        changed = changed_names(self.function) - bound_names(self.function)
        effects = {"print", "random", "rng", "input"} & {
            *(node.id for node in names),
            *(node.attr for node in py.walk(self.function) if isinstance(node, py.Attribute)),
        }
        if has_others or not self.params or len(mentions) != len(calls):
            raise _StaysError
        if changed or effects or outer_names(self.function):
            raise _StaysError  # a step is computed more than once
        self.taken = {node.id for node in names} | set(self.params)
        results = [node.value for node in own_nodes(self.function.body) if isinstance(node, py.Return)]
        sizes = {len(value.elts) if isinstance(value, py.Tuple) else 0 for value in results}
        if None in results or len(sizes) != 1:
            raise _StaysError
        self.like = "0" if sizes == {0} else f"({'0, ' * sizes.pop()})"
        if all(self._is_truth(value) or self._is_own(value) for value in results if value is not None):
            self.like = "False"

    def _is_own(self, node: py.AST) -> bool:
        """Return whether a node is a call of the function, which gives an argument for each parameter."""
        match node:
            case py.Call(func=py.Name(id=name), args=args, keywords=[]) if name == self.function.name:
                return len(args) == len(self.params) and not any(
                    isinstance(argument, py.Starred) for argument in args
                )
        return False

    def _is_truth(self, node: py.expr) -> bool:
        """Return whether an expression is True or False."""
        match node:
            case py.Constant(value=bool()) | py.Compare() | py.UnaryOp(op=py.Not()):
                return True
            case py.Call(func=py.Name(id="any" | "all" | "bool")):
                return True
            case py.BoolOp(values=values):
                return all(self._is_truth(operand) or self._is_own(operand) for operand in values)
        return False

    def new(self, word: str) -> str:
        """Return a name that the function does not mention."""
        while True:
            self.number += 1
            name = f"_{self.function.name}_{word}_{self.number}"
            if name not in self.taken:
                return name

    def write(self) -> py.FunctionDef:
        """Return the function. Raises _StaysError."""
        words = {word: self.new(word) for word in ("memo", "stack", "done", "value", "step")}
        self.memo = words["memo"]
        last = [self.new(name) for name in self.params]
        text = _DRIVER.format(
            name=self.function.name,
            params=", ".join(self.params),
            key=", ".join(self.params),
            unpacked=", ".join(last),
            wanted=", ".join(self.new(name) for name in self.params),
            **words,
        )
        (wrapper,) = statements_at(self.function, text)
        assert isinstance(wrapper, py.FunctionDef)
        step = copy.copy(self.function)
        begin = 1 if py.get_docstring(step) is not None else 0
        step.name, step.decorator_list, step.returns = words["step"], [], None
        step.body = self._block(step.body[begin:])
        memo = py.copy_location(py.arg(self.memo), self.function)
        step.args = py.arguments(
            [], [*map(_without_type, step.args.posonlyargs + step.args.args), memo], None, [], [], None, []
        )
        wrapper.args = self.function.args
        wrapper.returns = self.function.returns
        wrapper.body = [*self.function.body[:begin], step, *wrapper.body]
        return py.fix_missing_locations(wrapper)

    # -- statements ------------------------------------------------------------------------------------

    def _has_own(self, node: py.AST) -> bool:
        return any(map(self._is_own, py.walk(node)))

    def _block(self, statements: Sequence[py.stmt]) -> list[py.stmt]:
        return [rewritten for stmt in statements for rewritten in self._statement(stmt)]

    def _statement(self, stmt: py.stmt) -> list[py.stmt]:
        before: list[py.stmt] = []
        match stmt:
            case py.FunctionDef() if not self._has_own(stmt):
                return [stmt]
            case py.Return(value=py.expr() as value):
                result = self._hoist(value, before)
                keys = [self._key_of(name) for name in self.params]
                state = py.Tuple([py.Constant(value=True), result, *keys], py.Load())
                before.append(placed(stmt, py.Return(state)))
                return before
            case py.While(test=test, orelse=orelse) if self._has_own(test):
                if orelse:
                    raise _StaysError
                leave = py.If(py.UnaryOp(py.Not(), self._hoist(test, before)), [py.Break()], [])
                stmt.test, stmt.body = py.Constant(value=True), [*before, leave, *self._block(stmt.body)]
                return [placed(stmt, stmt)]
            case py.If() | py.While() | py.For():
                word = "iter" if isinstance(stmt, py.For) else "test"
                setattr(stmt, word, self._hoist(getattr(stmt, word), before))
                stmt.body, stmt.orelse = self._block(stmt.body), self._block(stmt.orelse)
                return [*before, placed(stmt, stmt)]
            case py.Assign() | py.AugAssign() | py.AnnAssign() | py.Expr():
                if stmt.value is not None:
                    stmt.value = self._hoist(stmt.value, before)
                if not self._has_own(stmt):
                    return [*before, placed(stmt, stmt)]
        if self._has_own(stmt) or any(isinstance(node, py.Return) for node in py.walk(stmt)):
            raise _StaysError
        return [stmt]

    def _key_of(self, name: str) -> py.expr:
        """Return some value of a parameter's type, which is not used; 0 for one that is assigned."""
        nodes = (node for node in py.walk(self.function) if isinstance(node, py.Name) and node.id == name)
        is_kept = all(isinstance(node.ctx, py.Load) for node in nodes)
        return py.Name(name, py.Load()) if is_kept else py.Constant(0)

    # -- expressions -----------------------------------------------------------------------------------

    def _hoist(self, node: py.expr, before: list[py.stmt]) -> py.expr:
        """Return an expression with names for the function's own calls, which statements ``before`` compute.

        They compute what Python would. Raises _StaysError.
        """
        if not self._has_own(node):
            return node
        match node:
            case py.Call() if self._is_own(node):
                args = [self._hoist(arg, before) for arg in node.args]
                keys, result = [self.new("key") for _ in args], self.new("result")
                shown = ", ".join(map(py.unparse, args))
                words = {"keys": ", ".join(keys), "args": shown, "result": result}
                before += statements_at(node, _MISSING.format(memo=self.memo, like=self.like, **words))
                return py.copy_location(py.Name(result, py.Load()), node)
            case py.Call(
                func=py.Name(id="any" | "all" as word), args=[py.GeneratorExp(generators=[only]) as every]
            ):
                return self._until(node, word == "any", every.elt, only, before)
            case py.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen(node, self._hoist(test, before), [body], [orelse], before)
            case py.BoolOp(op=op, values=[first, *others]):
                name = self._name_for(node, self._hoist(first, before), before)
                for value in others:
                    inside: list[py.stmt] = []
                    hoisted = self._hoist(value, inside)
                    inside.append(placed(node, py.Assign([py.Name(name, py.Store())], hoisted)))
                    asked: py.expr = py.Name(name, py.Load())
                    asked = asked if isinstance(op, py.And) else py.UnaryOp(py.Not(), asked)
                    before.append(placed(node, py.If(asked, inside, [])))
                return py.copy_location(py.Name(name, py.Load()), node)
            case py.ListComp() | py.GeneratorExp():
                name = self.new("items")
                loop = as_loop(node, name, self.new)
                if loop is None:
                    raise _StaysError
                before += self._block([placed(node, inner) for inner in loop])
                return py.copy_location(py.Name(name, py.Load()), node)
            case py.Lambda() | py.NamedExpr() | py.SetComp() | py.DictComp() | py.Compare(ops=[_, _, *_]):
                raise _StaysError
        for attribute, value in py.iter_fields(node):
            if isinstance(value, py.expr):
                setattr(node, attribute, self._hoist(value, before))
            elif isinstance(value, list):
                items = [self._hoist(item, before) if isinstance(item, py.expr) else item for item in value]
                setattr(node, attribute, items)
        if self._has_own(node):  # in a keyword
            raise _StaysError
        return node

    def _name_for(self, place: py.expr, value: py.expr, before: list[py.stmt]) -> str:
        name = self.new("value")
        before.append(placed(place, py.Assign([py.Name(name, py.Store())], value)))
        return name

    def _chosen(
        self, place: py.expr, test: py.expr, body: list[py.expr], orelse: list[py.expr], before: list[py.stmt]
    ) -> py.expr:
        name = self.new("value")
        paths: list[list[py.stmt]] = []
        for (value,) in (body, orelse):
            inside: list[py.stmt] = []
            hoisted = self._hoist(value, inside)
            paths.append([*inside, placed(place, py.Assign([py.Name(name, py.Store())], hoisted))])
        before.append(placed(place, py.If(test, *paths)))
        return py.copy_location(py.Name(name, py.Load()), place)

    def _until(
        self, place: py.expr, is_any: bool, item: py.expr, over: py.comprehension, before: list[py.stmt]
    ) -> py.expr:
        """Return the name of what ``any`` or ``all`` finds: its loop ends where Python's does."""
        names = {node.id for node in py.walk(over.target) if isinstance(node, py.Name)}
        if names & {node.id for node in py.walk(over.iter) if isinstance(node, py.Name)}:
            raise _StaysError
        new = {name: self.new(name) for name in sorted(names)}
        item, over.target, *over.ifs = (Renamed(new).visit(entry) for entry in (item, over.target, *over.ifs))
        name = self._name_for(place, py.Constant(value=not is_any), before)
        inside: list[py.stmt] = []
        condition = self._hoist(item, inside)
        test = condition if is_any else py.UnaryOp(py.Not(), condition)
        answer = py.Assign([py.Name(name, py.Store())], py.Constant(value=is_any))
        inside.append(py.If(test, [answer, py.Break()], []))
        for condition in reversed(over.ifs):
            first: list[py.stmt] = []
            asked = self._hoist(condition, first)
            inside = [*first, py.If(asked, inside, [])]
        iterable = self._hoist(over.iter, before)
        before.append(placed(place, py.For(over.target, iterable, inside, [])))
        return py.copy_location(py.Name(name, py.Load()), place)


def _without_type(argument: py.arg) -> py.arg:
    return py.copy_location(py.arg(argument.arg), argument)
