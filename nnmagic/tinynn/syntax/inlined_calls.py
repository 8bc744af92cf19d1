"""Write out the calls of functions that change lists and names around them, in the place of the calls.

``def push(stack, x): stack.append(x)`` and a nested function that assigns elements of an outer list change what
their callers have. Where such a call stands, its body stands then: with the names of the caller for parameters
that keep what they are given, and with other names for its own. A function that calls itself, or whose returns
stand where no other statement can, stays as it is.
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeVar

from nnmagic.tinynn.syntax.comprehension_loops import as_loop
from nnmagic.tinynn.syntax.list_methods import truth
from nnmagic.tinynn.syntax.plain_dictionaries import with_single_targets

#: The methods that change a container.
CHANGING = frozenset(
    "append extend insert pop popleft appendleft remove clear add discard update setdefault sort reverse rotate "
    "popitem extendleft".split()
)
#: Functions of `heapq` and `bisect` that change their first argument.
_CHANGING_FIRST = frozenset(
    "heappush heappop heapify heapreplace heappushpop insort insort_left insort_right".split()
)
_FUNCTIONS = py.FunctionDef | py.Lambda
#: How many statements calls become at most.
_MOST = 1000


_Node = TypeVar("_Node", bound=py.AST)


class _StaysError(Exception):
    """A call that stays a call."""


@dataclass
class _Function:
    """A function of the cell, with the functions that it can call by their names."""

    node: py.FunctionDef
    is_nested: bool
    visible: dict[str, _Function] = field(default_factory=dict)
    is_done: bool = False
    is_open: bool = False
    is_written_out: bool = False
    owner: _Function | None = None
    #: All names in it; those that written out calls have brought; those around it that these assign.
    taken: set[str] = field(default_factory=set)
    brought: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)


def with_inlined_calls(body: Sequence[py.stmt], always: Set[str] = frozenset()) -> list[py.stmt]:
    """Return the statements of a cell without calls that change the containers and names of their callers.

    ``always``: the functions of methods, whose calls are written out whatever they do.
    """
    body = [with_single_targets(node) if isinstance(node, py.FunctionDef) else node for node in body]
    functions = [node for node in body if isinstance(node, py.FunctionDef)]
    if not always and not any(
        _changes(node) for each in functions for node in py.walk(each) if isinstance(node, py.FunctionDef)
    ):
        return body
    body = copy.deepcopy(body)
    table = {node.name: _Function(node, is_nested=False) for node in body if isinstance(node, py.FunctionDef)}
    writer = _Writer(always)
    for each in table.values():
        each.visible = table
        writer.write(each)
    return [stmt for stmt in body if not _is_helper(stmt, table, body)]


def _is_helper(stmt: py.stmt, table: Mapping[str, _Function], body: Sequence[py.stmt]) -> bool:
    """Return whether a statement defines a function of lists of lists whose calls are all written out."""
    if not isinstance(stmt, py.FunctionDef) or not table[stmt.name].is_written_out:
        return False
    rest = (node for other in body if other is not stmt for node in py.walk(other))
    if any(isinstance(node, py.Name) and node.id == stmt.name for node in rest):
        return False
    for node in own_nodes(stmt.body):
        match node:
            case py.Call(func=py.Attribute(value=py.Subscript(), attr=method)) if method in CHANGING:
                return True
    return False


def own_nodes(node: py.AST | Sequence[py.AST]) -> Iterator[py.AST]:
    """Yield the nodes of a function or of statements without those of functions inside."""
    work = list(py.iter_child_nodes(node)) if isinstance(node, py.AST) else list(node)
    while work:
        inner = work.pop(0)
        yield inner
        if not isinstance(inner, _FUNCTIONS):
            work += py.iter_child_nodes(inner)


#: Python's hints that say nothing of arrays.
_HINTS = frozenset(
    "int float bool str list dict set tuple deque List Dict Set Tuple Optional Union Deque DefaultDict Sequence "
    "defaultdict Iterable Any object".split()
)


def is_hint(annotation: py.expr) -> bool:
    is_plain = all(not isinstance(part, py.Attribute) for part in py.walk(annotation))
    return is_plain and _names_in(annotation) <= _HINTS


def parameter_names(function: py.FunctionDef) -> list[str]:
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
    names |= {node.name for node in own_nodes(function.body) if isinstance(node, py.FunctionDef)}
    return names - outer_names(function)


def changed_names(function: py.FunctionDef) -> set[str]:
    """Return the names whose containers a function changes."""
    changed = set[str]()
    for node in own_nodes(function.body):
        match node:
            case py.Call(func=py.Attribute(value=owner, attr=method)) if method in CHANGING:
                pass
            case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=[owner, *_]) if (
                word in _CHANGING_FIRST
            ):
                pass
            case py.Subscript(value=owner, ctx=py.Store() | py.Del()):
                pass
            case py.Attribute(value=owner, ctx=py.Store()):
                pass
            case py.AugAssign(target=py.Name() as owner):
                pass
            case _:
                continue
        while isinstance(owner, py.Subscript | py.Attribute):
            owner = owner.value
        if isinstance(owner, py.Name):
            changed.add(owner.id)
    return changed


def grown_names(function: py.FunctionDef) -> set[str]:
    """Return the names of containers that a function changes as no array can be."""
    names = set[str]()
    for node in own_nodes(function.body):
        match node:
            case py.Call(func=py.Attribute(value=owner, attr=method)) if method in CHANGING:
                pass
            case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=[owner, *_]) if (
                word in _CHANGING_FIRST
            ):
                pass
            case py.Subscript(value=owner, ctx=py.Del()):
                pass
            case _:
                continue
        while isinstance(owner, py.Subscript | py.Attribute):
            owner = owner.value
        if isinstance(owner, py.Name):
            names.add(owner.id)
    return names


def _changes(function: py.FunctionDef) -> bool:
    """Return whether a function changes a container, or assigns a name around it."""
    return bool(outer_names(function) or changed_names(function) - bound_names(function))


def _is_list(made: py.expr) -> bool:
    match made:
        case py.List() | py.ListComp() | py.Dict() | py.DictComp() | py.Set() | py.SetComp():
            return True
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word)):
            return word in ("list", "dict", "set", "sorted", "defaultdict", "deque", "Counter", "tolist")
        case py.BinOp(left=left, op=py.Add() | py.Mult(), right=right):
            return _is_list(left) or _is_list(right)
    return False


def _is_ragged(made: py.expr) -> bool:
    """Return whether an expression makes a list or a dictionary of lists."""
    match made:
        case py.ListComp(elt=item) | py.DictComp(value=item):
            return _is_list(item) and not (isinstance(item, py.BinOp) or getattr(item, "elts", ()))
        case py.Call(
            func=py.Name(id="defaultdict") | py.Attribute(attr="defaultdict"), args=[py.Name(id=kind)]
        ):
            return kind in ("list", "set", "dict")
    return False


def _lists_of(function: py.FunctionDef, is_list: Callable[[py.expr], bool]) -> set[str]:
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


def _check_names(callee: _Function, caller: _Function, own: set[str]) -> None:
    """Raise _StaysError where names around a function stand for something else in its caller."""
    free = _names_in(callee.node) - own - set(parameter_names(callee.node))
    around = set() if callee.owner is caller else bound_names(caller.node) | set(parameter_names(caller.node))
    if free & (around | caller.brought):
        raise _StaysError


class _Writer:
    """Writes out calls; ``count``: of the statements that they have become."""

    def __init__(self, always: Set[str]) -> None:
        self.always = always
        self.count = 0
        self.number = 0

    def write(self, function: _Function) -> None:
        """Write out the calls in a function, those in functions inside first."""
        if function.is_done:
            return
        function.is_open = True
        node = function.node
        inner = {
            each.name: _Function(each, is_nested=True)
            for each in own_nodes(node.body)
            if isinstance(each, py.FunctionDef)
        }
        function.visible = {**function.visible, **inner}
        for each in inner.values():
            each.visible, each.owner = function.visible, function
        for each in inner.values():
            self.write(each)
        node.body = self._block(node.body, function)
        if function.outer:
            node.body.insert(0, _at(node.body[0], py.Nonlocal(sorted(function.outer))))
        for name in inner:
            uses = [each for each in py.walk(node) if isinstance(each, py.Name) and each.id == name]
            if not uses and _changes(inner[name].node):
                _remove(node, inner[name].node)
        function.is_done, function.is_open = True, False

    def _block(self, statements: Sequence[py.stmt], caller: _Function) -> list[py.stmt]:
        return [part for stmt in statements for part in self._statement(stmt, caller)]

    def _statement(self, stmt: py.stmt, caller: _Function) -> list[py.stmt]:
        if isinstance(stmt, py.FunctionDef):
            return [stmt]
        for name in ("body", "orelse"):
            if isinstance(getattr(stmt, name, None), list):
                setattr(stmt, name, self._block(getattr(stmt, name), caller))
        for case in getattr(stmt, "cases", ()):
            case.body = self._block(case.body, caller)
        if (steps := self._in_steps(stmt, caller)) is not None:
            return steps
        if self._gives_own(stmt, caller):
            assert isinstance(stmt, py.Assign)
            stmt = _at(stmt, py.Expr(stmt.value))
        root = _header(stmt)
        if root is None:
            return [stmt]
        for part in _always_made(root):
            if isinstance(part, py.ListComp | py.GeneratorExp) and self._calls_in(part, caller):
                name = self._new("made", caller.taken)
                loop = as_loop(part, name, lambda word: self._new(word, caller.taken))
                if loop is not None and not isinstance(stmt, py.While):
                    made = _at(stmt, py.Name(name, py.Load()))
                    last = _with_header(stmt, _with_results(root, {id(part): made}))
                    return self._block([*loop, *([] if last is None else [last])], caller)
        try:
            before, changed = self._hoisted(root, stmt, caller)
        except _StaysError:
            return [stmt]
        if not before:
            return [stmt]
        made = _with_header(stmt, changed)
        if isinstance(stmt, py.While):
            leave = _at(stmt, py.If(py.UnaryOp(py.Not(), changed), [py.Break()], []))
            always = _at(stmt, py.While(py.Constant(value=True), [*before, leave, *stmt.body], []))
            return [always]
        return [*before, *([] if made is None else [made])]

    def _hoisted(self, root: py.expr, stmt: py.stmt, caller: _Function) -> tuple[list[py.stmt], py.expr]:
        """Return the statements of the calls in an expression, and the expression with their results."""
        found = _always_made(root)
        calls = [
            each for each in found if isinstance(each, py.Call) and self._callee(each, caller) is not None
        ]
        if not calls or (isinstance(stmt, py.While) and stmt.orelse):
            return [], root
        updated = _names_in(stmt.target) if isinstance(stmt, py.AugAssign) else set()
        before: list[py.stmt] = []
        results: dict[int, py.expr] = {}
        for call in calls:
            callee = self._callee(call, caller)
            assert callee is not None
            is_used = not (isinstance(stmt, py.Expr) and call is stmt.value)
            written, result, changed = self._inlined(
                _with_results(call, results), callee, caller, is_used=is_used
            )
            rebound = outer_names(callee.node)
            if changed & (updated | set(_read_before(root, call, calls, rebound))):
                raise _StaysError
            before += written
            results[id(call)] = result
        return before, _with_results(root, results)

    def _gives_own(self, stmt: py.stmt, caller: _Function) -> bool:
        """Return whether a statement lets a name stand for what it stands for: ``p = moved(p)``."""
        match stmt:
            case py.Assign(targets=[py.Name(id=name)], value=py.Call() as call):
                callee = self._callee(call, caller)
                if callee is None:
                    return False
                own = {each for each, given in _bind(call, callee.node).items() if getattr(given, "id", "") == name}
                returned = [each.value for each in own_nodes(callee.node.body) if isinstance(each, py.Return)]
                return bool(returned) and all(getattr(each, "id", "") in own for each in returned)
        return False

    def _in_steps(self, stmt: py.stmt, caller: _Function) -> list[py.stmt] | None:
        """Return the statements of one whose calls are behind ``and``, ``or`` and ``if``; None of any other."""
        match stmt:
            case py.If(test=test) | py.While(test=test, orelse=[]):
                always = [id(part) for part in _always_made(test)]
                late = [each for each in py.walk(test) if isinstance(each, py.BoolOp) and id(each) not in always]
                if not any(self._calls_in(part, caller) for each in late for part in each.values[1:]):
                    return None
                name = self._new("holds", caller.taken)
                found = self._block([_at(stmt, part) for part in truth(test, name)], caller)
                holds = _at(stmt, py.Name(name, py.Load()))
                if isinstance(stmt, py.If):
                    return [*found, _at(stmt, py.If(holds, stmt.body, stmt.orelse))]
                leave = _at(stmt, py.If(py.UnaryOp(py.Not(), holds), [py.Break()], []))
                return [_at(stmt, py.While(py.Constant(value=True), [*found, leave, *stmt.body], []))]
            case py.Assign(value=py.IfExp() as choice) | py.Return(value=py.IfExp() as choice):
                if not any(self._calls_in(part, caller) for part in (choice.body, choice.orelse)):
                    return None
                paths = [_with_header(stmt, part) for part in (choice.body, choice.orelse)]
                return self._block([_at(stmt, py.If(choice.test, paths[:1], paths[1:]))], caller)
        return None

    def _calls_in(self, part: py.AST, caller: _Function) -> bool:
        calls = (node for node in py.walk(part) if isinstance(node, py.Call))
        return any(self._callee(call, caller) is not None for call in calls)

    def _callee(self, call: py.Call, caller: _Function) -> _Function | None:
        """Return the function of a call that is written out; None of any other call."""
        if not isinstance(call.func, py.Name):
            return None
        function = caller.visible.get(call.func.id)
        if function is None or function is caller or function.is_open:
            return None
        if call.func.id in bound_names(caller.node) and not function.is_nested:
            return None
        arguments = function.node.args
        if arguments.vararg or arguments.kwarg or function.node.decorator_list:
            return None
        hints = [each.annotation for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        if not all(each is None or is_hint(each) for each in (*hints, function.node.returns)):
            return None
        if not function.is_nested:
            self.write(function)
        node = function.node
        parameters = set(parameter_names(node))
        if outer_names(node) or (changed_names(node) - bound_names(node) - parameters) or grown_names(node) & parameters:
            return function
        if node.name in self.always:
            return function
        objects = {
            each.args[0].id
            for each in own_nodes(caller.node.body)
            if isinstance(each, py.Call) and isinstance(each.func, py.Name) and each.func.id in self.always
            if isinstance(each.args[0], py.Name)
        }
        lists, ragged = _lists_of(caller.node, _is_list), _lists_of(caller.node, _is_ragged)
        given = [
            (name, argument) for name, argument in _bind(call, node).items() if isinstance(argument, py.Name)
        ]
        changed = changed_names(node) & parameters
        if any((name in changed and each.id in lists) or each.id in ragged | objects for name, each in given):
            return function
        return None

    def _inlined(
        self, call: py.Call, callee: _Function, caller: _Function, *, is_used: bool
    ) -> tuple[list[py.stmt], py.expr, set[str]]:
        """Return the statements of a call, its result, and the names of the caller that it changes."""
        node = copy.deepcopy(callee.node)
        if any(isinstance(each, py.Yield | py.YieldFrom | py.Global) for each in own_nodes(node)):
            raise _StaysError
        own, outer = bound_names(node), outer_names(node)
        _check_names(callee, caller, own)
        if caller.is_nested:
            caller.outer |= outer - bound_names(caller.node) - set(parameter_names(caller.node))
        self.number += 1
        taken = caller.taken
        taken |= {each.id for each in py.walk(caller.node) if isinstance(each, py.Name)}
        taken |= {each.arg for each in py.walk(caller.node) if isinstance(each, py.arg)}
        callee.is_written_out = True
        names: dict[str, str] = {}
        before: list[py.stmt] = []
        rebound = {
            each.id
            for each in own_nodes(node.body)
            if isinstance(each, py.Name) and isinstance(each.ctx, py.Store)
        }
        grown = changed_names(node)
        for name, argument in _bind(call, node).items():
            is_name = isinstance(argument, py.Name) and argument.id not in outer
            if is_name and (name not in rebound):
                assert isinstance(argument, py.Name)
                names[name] = argument.id
                continue
            if name in grown and is_name and name in rebound:
                raise _StaysError
            names[name] = self._new(name, taken)
            before.append(_at(call, py.Assign([py.Name(names[name], py.Store())], argument)))
        for name in sorted(own - names.keys()):
            names[name] = self._new(name, taken)
        result = self._new(f"{node.name.rpartition('__')[2]}_result", taken)
        caller.brought |= {result, *names.values()} - _names_in(call)
        body = [stmt for stmt in node.body if not isinstance(stmt, py.Nonlocal)]
        if body and isinstance(body[0], py.Expr) and isinstance(body[0].value, py.Constant):
            body = body[1:]
        ends = _without_returns([_Renamed(names).visit(stmt) for stmt in body], result if is_used else None)
        if ends.falls and is_used:
            raise _StaysError
        statements = ends.statements or [_at(call, py.Pass())]
        self.count += sum(1 for stmt in statements for each in py.walk(stmt) if isinstance(each, py.stmt))
        if self.count > _MOST:
            raise _StaysError
        changed = {names.get(name, name) for name in grown} | outer
        return [*before, *statements], _at(call, py.Name(result, py.Load())), changed

    def _new(self, name: str, taken: set[str]) -> str:
        new = name
        while new in taken:
            new = f"{name}_{self.number}" if new == name else f"{new}_"
        taken.add(new)
        return new


@dataclass
class _Ends:
    """Statements without returns; ``falls``: whether their end may be reached without a return."""

    statements: list[py.stmt]
    falls: bool


def _without_returns(statements: Sequence[py.stmt], result: str | None) -> _Ends:
    """Return statements that assign what they would return. Raises _StaysError where that cannot be written."""
    made: list[py.stmt] = []
    for number, stmt in enumerate(statements):
        rest = statements[number + 1 :]
        match stmt:
            case py.Return():
                return _Ends([*made, *_assigned(stmt, result)], falls=False)
            case py.Raise():
                return _Ends([*made, stmt], falls=False)
            case py.If(test=test, body=body, orelse=orelse) if _returns(stmt):
                first, second = _without_returns(body, result), _without_returns(orelse, result)
                if not first.falls:
                    second = _without_returns([*orelse, *rest], result)
                elif not second.falls:
                    first = _without_returns([*body, *rest], result)
                elif rest:
                    raise _StaysError
                last = py.If(test, first.statements or [py.Pass()], second.statements)
                return _Ends([*made, _at(stmt, last)], falls=first.falls or second.falls)
            case py.For(body=body, orelse=[]) | py.While(body=body, orelse=[]) if _returns(stmt):
                if any(isinstance(each, py.Break) for each in own_nodes(body)):
                    raise _StaysError
                stmt.body = _leaving(body, result)
                is_endless = (
                    isinstance(stmt, py.While)
                    and isinstance(stmt.test, py.Constant)
                    and bool(stmt.test.value)
                )
                after = _Ends([], falls=False) if is_endless else _without_returns(rest, result)
                stmt.orelse = after.statements
                return _Ends([*made, stmt], falls=after.falls)
            case _ if _returns(stmt):
                raise _StaysError
        made.append(stmt)
    return _Ends(made, falls=True)


def _leaving(body: Sequence[py.stmt], result: str | None) -> list[py.stmt]:
    """Return the body of a loop in which a return ends the loop."""
    left: list[py.stmt] = []
    for stmt in body:
        match stmt:
            case py.Return():
                return [*left, *_assigned(stmt, result), _at(stmt, py.Break())]
            case py.If() if _returns(stmt):
                stmt.body, stmt.orelse = _leaving(stmt.body, result), _leaving(stmt.orelse, result)
            case _ if _returns(stmt):
                raise _StaysError
        left.append(stmt)
    return left


def _returns(stmt: py.stmt) -> bool:
    return any(isinstance(each, py.Return) for each in (stmt, *own_nodes(stmt))) and not isinstance(
        stmt, _FUNCTIONS
    )


def _assigned(stmt: py.Return, result: str | None) -> list[py.stmt]:
    if result is None:
        is_simple = stmt.value is None or not any(isinstance(each, py.Call) for each in py.walk(stmt.value))
        if not is_simple:
            raise _StaysError
        return [_at(stmt, py.Pass())]
    value = py.Constant(None) if stmt.value is None else stmt.value
    return [_at(stmt, py.Assign([py.Name(result, py.Store())], value))]


class _Renamed(py.NodeTransformer):
    """Gives names other names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: py.Name) -> py.AST:
        """Return a name with its new name."""
        return py.copy_location(py.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: py.arg) -> py.AST:
        """Return a parameter of a function inside with its new name."""
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_FunctionDef(self, node: py.FunctionDef) -> py.AST:
        """Return a function inside with its new name."""
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node


def _bind(call: py.Call, function: py.FunctionDef) -> dict[str, py.expr]:
    """Return the arguments of a call by parameter. Raises _StaysError for a call that does not fit."""
    arguments = function.args
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if any(isinstance(each, py.Starred) for each in call.args) or len(call.args) > len(positional):
        raise _StaysError
    given: dict[str, py.expr] = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in given or keyword.arg not in parameter_names(function):
            raise _StaysError
        given[keyword.arg] = keyword.value
    last = positional[len(positional) - len(arguments.defaults) :]
    defaults: dict[str, py.expr | None] = dict(zip(last, arguments.defaults, strict=True))
    defaults |= {
        each.arg: default for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    for name in parameter_names(function):
        if name not in given:
            default = defaults.get(name)
            if not isinstance(default, py.Constant):
                raise _StaysError
            given[name] = default
    return given


def _header(stmt: py.stmt) -> py.expr | None:
    """Return the expression of a statement that is computed first."""
    match stmt:
        case py.Assign(value=value) | py.AugAssign(value=value) | py.Expr(value=value):
            return value
        case py.Return(value=py.expr() as value) | py.AnnAssign(value=py.expr() as value):
            return value
        case py.If(test=test) | py.While(test=test):
            return test
        case py.For(iter=items):
            return items
    return None


def _with_header(stmt: py.stmt, value: py.expr) -> py.stmt | None:
    if isinstance(stmt, py.Expr):
        return None if isinstance(value, py.Name) else _at(stmt, py.Expr(value))
    name = "test" if isinstance(stmt, py.If) else "iter" if isinstance(stmt, py.For) else "value"
    made = copy.copy(stmt)
    setattr(made, name, value)
    return made


def _always_made(expr: py.expr) -> Iterator[py.expr]:
    """Yield the calls by a name and the comprehensions of an expression that it always computes, in order."""
    match expr:
        case py.BoolOp(values=[first, *_]):
            yield from _always_made(first)
            return
        case py.IfExp(test=test):
            yield from _always_made(test)
            return
        case py.Compare(left=left, comparators=[right, *_]):
            yield from _always_made(left)
            yield from _always_made(right)
            return
        case py.ListComp() | py.GeneratorExp():
            yield expr
            return
        case py.Lambda() | py.SetComp() | py.DictComp() | py.JoinedStr():
            return
    for child in py.iter_child_nodes(expr):
        if isinstance(child, py.expr):
            yield from _always_made(child)
        elif isinstance(child, py.keyword):
            yield from _always_made(child.value)
    if isinstance(expr, py.Call) and isinstance(expr.func, py.Name):
        yield expr


def _names_in(node: py.AST) -> set[str]:
    return {part.id for part in py.walk(node) if isinstance(part, py.Name)}


def _read_before(
    root: py.AST, call: py.Call, calls: Sequence[py.expr], rebound: set[str]
) -> Iterator[str]:
    """Yield the names that an expression reads before one of the calls that stand before its statement.

    ``rebound``: the names that the call assigns, which no name of a container shows.
    """
    place = (getattr(root, "lineno", 0), getattr(root, "col_offset", 0))
    if root is call or place > (call.end_lineno or 0, call.end_col_offset or 0):
        return
    is_written_out = root in calls
    if is_written_out and all(part is not call for part in py.walk(root)):
        return
    if isinstance(root, py.Name):
        yield root.id
    for child in py.iter_child_nodes(root):
        if not (is_written_out and isinstance(child, py.Name) and child.id not in rebound):
            yield from _read_before(child, call, calls, rebound)


def _with_results(root: py.expr, results: Mapping[int, py.expr]) -> py.expr:
    """Return an expression with names in place of calls."""
    if id(root) in results:
        return results[id(root)]
    made = copy.copy(root)
    for name, value in py.iter_fields(root):
        if isinstance(value, py.expr | py.keyword | py.Slice):
            setattr(made, name, _with_results(value, results))  # type: ignore[arg-type]  # parts of an expression
        elif isinstance(value, list):
            parts = [
                _with_results(each, results) if isinstance(each, py.expr | py.keyword) else each
                for each in value
            ]  # type: ignore[arg-type]
            setattr(made, name, parts)
    return made


def _remove(function: py.FunctionDef, inner: py.FunctionDef) -> None:
    """Remove a function inside another, which nothing calls any more."""
    for node in py.walk(function):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and inner in block:
                block.remove(inner)
                if not block:
                    block.append(_at(inner, py.Pass()))


def _at(place: py.AST, made: _Node) -> _Node:
    """Return a node with all its parts that have no place at a place."""
    for part in py.walk(made):
        if isinstance(part, py.stmt | py.expr) and not hasattr(part, "lineno"):
            py.copy_location(part, place)
    return made
