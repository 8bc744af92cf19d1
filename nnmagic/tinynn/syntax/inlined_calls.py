"""Write out the calls of functions that change lists and names around them, in the place of the calls.

``def push(stack, x): stack.append(x)`` and a nested function that assigns elements of an outer list change
what their callers have. Where such a call stands, its body stands then: with the names of the caller for
parameters that keep what they are given, and with other names for its own. A function that calls itself, or
whose returns stand where no other statement can, stays as it is.
"""

from __future__ import annotations

import ast as py
import copy
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from nnmagic.tinynn.syntax.assigned_results import StaysCallError, arguments_of, without_returns
from nnmagic.tinynn.syntax.comprehension_loops import as_loop
from nnmagic.tinynn.syntax.evaluation_order import (
    always_computed,
    computed_before,
    computed_first,
    with_first,
    with_results,
)
from nnmagic.tinynn.syntax.list_methods import truth
from nnmagic.tinynn.syntax.name_scopes import (
    CHANGING,
    FUNCTIONS,
    Renamed,
    bound_names,
    changed_names,
    changes_names,
    grown_names,
    holds_containers,
    inner_names,
    is_container,
    is_hint,
    names_in,
    names_of_kind,
    outer_names,
    own_nodes,
    parameter_names,
)
from nnmagic.tinynn.syntax.plain_dictionaries import with_single_targets
from nnmagic.tinynn.syntax.written_code import placed

#: How many statements calls become at most.
_MOST = 1000


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
        changes_names(node) or (node is not each and _reads_growing(node, each))
        for each in functions
        for node in py.walk(each)
        if isinstance(node, py.FunctionDef)
    ):
        return body
    body = copy.deepcopy(body)
    table = {node.name: _Function(node, is_nested=False) for node in body if isinstance(node, py.FunctionDef)}
    writer = _Writer(always)
    for each in table.values():
        each.visible = table
        writer.write(each)
    return [stmt for stmt in body if not _is_helper(stmt, table, body)]


def _reads_growing(node: py.FunctionDef, owner: py.FunctionDef) -> bool:
    """Return whether a nested function reads a container around it that grows."""
    return bool((names_in(node) - bound_names(node) - set(parameter_names(node))) & grown_names(owner))


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


def _with(stmt: py.stmt, value: py.expr) -> list[py.stmt]:
    """Return a statement with what it computes first; nothing where that is all of it, and a name."""
    made = with_first(stmt, value)
    return [] if made is None else [made]


def _check_names(callee: _Function, caller: _Function, own: set[str]) -> None:
    """Raise StaysCallError where names around a function stand for something else in its caller."""
    free = names_in(callee.node) - own - set(parameter_names(callee.node))
    if free & (_bound_between(caller, callee) | caller.brought):
        raise StaysCallError


def _bound_between(scope: _Function | None, callee: _Function) -> set[str]:
    """Return the names that are bound in a function and in those around it, up to where another stands."""
    names = set[str]()
    while scope is not None and scope is not callee.owner:
        names |= bound_names(scope.node) | set(parameter_names(scope.node))
        scope = scope.owner
    return names


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
        defined = [each for each in own_nodes(node.body) if isinstance(each, py.FunctionDef)]
        bound = Counter([each.name for each in defined])
        bound.update(
            each.id
            for each in own_nodes(node)
            if isinstance(each, py.Name) and isinstance(each.ctx, py.Store)
        )
        inner = {each.name: _Function(each, is_nested=True) for each in defined if bound[each.name] == 1}
        function.taken |= {each.id for each in py.walk(node) if isinstance(each, py.Name)}
        function.taken |= {each.arg for each in py.walk(node) if isinstance(each, py.arg)}
        function.taken |= bound_names(node)
        function.visible = {**function.visible, **inner}
        for each in inner.values():
            each.visible, each.owner = function.visible, function
        for each in inner.values():
            self.write(each)
        node.body = self._block(node.body, function)
        if function.outer:
            node.body.insert(0, placed(node.body[0], py.Nonlocal(sorted(function.outer))))
        for name, each in inner.items():
            if name not in names_in(node) and changes_names(each.node):
                _remove(node, each.node)
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
        if (steps := self._in_steps(stmt, caller) or self._with_places(stmt, caller)) is not None:
            return steps
        given = stmt
        if self._gives_own(stmt, caller):
            assert isinstance(stmt, py.Assign)
            stmt = placed(stmt, py.Expr(stmt.value))
        root = computed_first(stmt)
        if root is None:
            return [stmt]
        for part in always_computed(root):
            if isinstance(part, py.ListComp | py.GeneratorExp) and self._calls_in(part, caller):
                name = self._new("made", caller.taken)
                loop = as_loop(part, name, lambda word: self._new(word, caller.taken))
                if loop is not None and not isinstance(stmt, py.While | py.AugAssign):
                    results: dict[int, py.expr] = {}
                    first = self._bound_first(root, part, self._rebound_in(part, caller), results, caller)
                    results[id(part)] = placed(stmt, py.Name(name, py.Load()))
                    return self._block([*first, *loop, *_with(stmt, with_results(root, results))], caller)
        try:
            before, changed = self._hoist(root, stmt, caller)
        except StaysCallError:
            return [given]
        if not before:
            return [stmt]
        if isinstance(stmt, py.While):
            leave = placed(stmt, py.If(py.UnaryOp(py.Not(), changed), [py.Break()], []))
            return [placed(stmt, py.While(py.Constant(value=True), [*before, leave, *stmt.body], []))]
        return [*before, *_with(stmt, changed)]

    def _hoist(self, root: py.expr, stmt: py.stmt, caller: _Function) -> tuple[list[py.stmt], py.expr]:
        """Return the statements of the calls in an expression, and the expression with their results."""
        found = always_computed(root)
        calls = [
            each for each in found if isinstance(each, py.Call) and self._callee(each, caller) is not None
        ]
        if not calls or (isinstance(stmt, py.While) and stmt.orelse):
            return [], root
        updated = names_in(stmt.target) if isinstance(stmt, py.AugAssign) else set()
        before: list[py.stmt] = []
        results: dict[int, py.expr] = {}
        for call in calls:
            assert isinstance(call, py.Call)
            callee = self._callee(call, caller)
            assert callee is not None
            is_used = not (isinstance(stmt, py.Expr) and call is stmt.value)
            before += self._bound_first(root, call, outer_names(callee.node), results, caller)
            written_call = with_results(call, {key: each for key, each in results.items() if key != id(call)})
            assert isinstance(written_call, py.Call)
            written, result, changed = self._inlined(written_call, callee, caller, is_used=is_used)
            if changed & updated:
                raise StaysCallError
            before += written
            results[id(call)] = result
        return before, with_results(root, results)

    def _bound_first(
        self,
        root: py.expr,
        call: py.expr,
        rebound: Set[str],
        results: dict[int, py.expr],
        caller: _Function,
    ) -> list[py.stmt]:
        """Return the statements that compute what an expression has computed before a call.

        A name is the same object behind the call, if it is not ``rebound``.
        """
        before: list[py.stmt] = []
        for part in computed_before(root, call):
            is_kept = isinstance(part, py.Name) and part.id not in rebound
            if is_kept or id(part) in results or isinstance(part, py.Constant | py.Slice):
                continue
            name = self._new("_before", caller.taken)
            before.append(placed(part, py.Assign([py.Name(name, py.Store())], with_results(part, results))))
            results[id(part)] = placed(part, py.Name(name, py.Load()))
        return before

    def _gives_own(self, stmt: py.stmt, caller: _Function) -> bool:
        """Return whether a statement lets a name stand for what it stands for: ``p = moved(p)``."""
        match stmt:
            case py.Assign(targets=[py.Name(id=name)], value=py.Call() as call):
                callee = self._callee(call, caller)
                if callee is None:
                    return False
                own = {
                    each
                    for each, given in arguments_of(call, callee.node).items()
                    if getattr(given, "id", "") == name
                }
                rebound = bound_names(callee.node) | outer_names(callee.node)
                own = set() if name in outer_names(callee.node) else own - rebound
                returned = [each.value for each in own_nodes(callee.node.body) if isinstance(each, py.Return)]
                return bool(returned) and all(getattr(each, "id", "") in own for each in returned)
        return False

    def _in_steps(self, stmt: py.stmt, caller: _Function) -> list[py.stmt] | None:
        """Return the statements of one with calls behind ``and``, ``or`` and ``if``; None of any other."""
        match stmt:
            case py.If(test=test) | py.While(test=test, orelse=[]):
                always = [id(part) for part in always_computed(test)]
                late = [
                    each for each in py.walk(test) if isinstance(each, py.BoolOp) and id(each) not in always
                ]
                if not any(self._calls_in(part, caller) for each in late for part in each.values[1:]):
                    return None
                name = self._new("holds", caller.taken)
                found = self._block([placed(stmt, part) for part in truth(test, name)], caller)
                holds = placed(stmt, py.Name(name, py.Load()))
                if isinstance(stmt, py.If):
                    return [*found, placed(stmt, py.If(holds, stmt.body, stmt.orelse))]
                leave = placed(stmt, py.If(py.UnaryOp(py.Not(), holds), [py.Break()], []))
                return [placed(stmt, py.While(py.Constant(value=True), [*found, leave, *stmt.body], []))]
            case py.Assign(value=py.IfExp() as choice) | py.Return(value=py.IfExp() as choice):
                if not any(self._calls_in(part, caller) for part in (choice.body, choice.orelse)):
                    return None
                paths = [made for part in (choice.body, choice.orelse) for made in _with(stmt, part)]
                return self._block([placed(stmt, py.If(choice.test, paths[:1], paths[1:]))], caller)
        return None

    def _with_places(self, stmt: py.stmt, caller: _Function) -> list[py.stmt] | None:
        """Return the statements of an assignment to ``x[f(i)]``, in Python's order; None of any other."""
        match stmt:
            case py.Assign(targets=[py.Subscript(value=py.Name(), slice=index) as target], value=value):
                names = {"_value": value}
            case py.AugAssign(target=py.Subscript(value=py.Name(), slice=index) as target):
                names = {}
            case _:
                return None
        parts = index.elts if isinstance(index, py.Tuple) else [index]
        if not self._calls_in(index, caller) or any(
            isinstance(each, py.Slice | py.Starred) for each in parts
        ):
            return None
        names |= {f"_place{number}": part for number, part in enumerate(parts)}
        new = {word: self._new(word, caller.taken) for word in names}
        before = [py.Assign([py.Name(new[word], py.Store())], part) for word, part in names.items()]
        loaded = {word: py.Name(name, py.Load()) for word, name in new.items()}
        places: list[py.expr] = [loaded[f"_place{number}"] for number in range(len(parts))]
        target.slice = py.Tuple(places, py.Load()) if isinstance(index, py.Tuple) else places[0]
        if isinstance(stmt, py.Assign):
            stmt.value = loaded["_value"]
        placed(stmt, stmt)
        return self._block([*(placed(stmt, each) for each in before), stmt], caller)

    def _rebound_in(self, part: py.AST, caller: _Function) -> set[str]:
        calls = (node for node in py.walk(part) if isinstance(node, py.Call))
        found = (self._callee(call, caller) for call in calls)
        return {name for callee in found if callee is not None for name in outer_names(callee.node)}

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
        if call.func.id in _bound_between(caller, function):
            return None
        taken = function.node.args
        if taken.vararg or taken.kwarg or function.node.decorator_list:
            return None
        hints = [each.annotation for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
        if not all(each is None or is_hint(each) for each in (*hints, function.node.returns)):
            return None
        if not function.is_nested:
            self.write(function)
        node = function.node
        parameters = set(parameter_names(node))
        if (
            outer_names(node)
            or (changed_names(node) - bound_names(node) - parameters)
            or grown_names(node) & parameters
        ):
            return function
        if node.name in self.always:
            return function
        if function.owner is not None and _reads_growing(node, function.owner.node):
            return function
        objects = {
            each.args[0].id
            for each in own_nodes(caller.node.body)
            if isinstance(each, py.Call) and isinstance(each.func, py.Name) and each.func.id in self.always
            if isinstance(each.args[0], py.Name)
        }
        lists, ragged = names_of_kind(caller.node, is_container), names_of_kind(caller.node, holds_containers)
        try:
            arguments = arguments_of(call, node)
        except StaysCallError:
            return None
        given = [(name, each) for name, each in arguments.items() if isinstance(each, py.Name)]
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
            raise StaysCallError
        own, outer = bound_names(node) | inner_names(node), outer_names(node)
        inner = [each for each in own_nodes(node.body) if isinstance(each, FUNCTIONS)]
        kept = {name for each in inner for name in names_in(each)} & set(parameter_names(node))
        _check_names(callee, caller, own)
        if caller.is_nested:
            caller.outer |= outer - bound_names(caller.node) - set(parameter_names(caller.node))
        self.number += 1
        taken = caller.taken
        taken |= names_in(callee.node)
        callee.is_written_out = True
        names: dict[str, str] = {}
        before: list[py.stmt] = []
        rebound = {
            each.id
            for each in own_nodes(node.body)
            if isinstance(each, py.Name) and isinstance(each.ctx, py.Store)
        }
        rebound |= (bound_names(node) & set(parameter_names(node))) | kept
        grown = changed_names(node)
        assigned = {each.target.id for each in py.walk(call) if isinstance(each, py.NamedExpr)}
        for name, argument in arguments_of(call, node).items():
            is_name = isinstance(argument, py.Name) and argument.id not in outer | assigned
            if is_name and (name not in rebound):
                assert isinstance(argument, py.Name)
                names[name] = argument.id
                continue
            if name in grown and is_name and name in rebound:
                raise StaysCallError
            names[name] = self._new(name, taken)
            before.append(placed(call, py.Assign([py.Name(names[name], py.Store())], argument)))
        for name in sorted(own - names.keys()):
            names[name] = self._new(name, taken)
        result = self._new(f"_{node.name.rpartition('__')[2]}_result", taken)
        caller.brought |= {result, *names.values()} - names_in(call)
        body = [stmt for stmt in node.body if not isinstance(stmt, py.Nonlocal)]
        if body and isinstance(body[0], py.Expr) and isinstance(body[0].value, py.Constant):
            body = body[1:]
        ends = without_returns([Renamed(names).visit(stmt) for stmt in body], result if is_used else None)
        if ends.falls and is_used:
            raise StaysCallError
        statements = ends.statements or [placed(call, py.Pass())]
        self.count += sum(1 for stmt in statements for each in py.walk(stmt) if isinstance(each, py.stmt))
        if self.count > _MOST:
            raise StaysCallError
        changed = {names.get(name, name) for name in grown} | outer
        return [*before, *statements], placed(call, py.Name(result, py.Load())), changed

    def _new(self, name: str, taken: set[str]) -> str:
        new = name
        while new in taken:
            new = f"{name}_{self.number}" if new == name else f"{new}_"
        taken.add(new)
        return new


def _remove(function: py.FunctionDef, inner: py.FunctionDef) -> None:
    """Remove a function inside another, which nothing calls any more."""
    for node in py.walk(function):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and inner in block:
                block.remove(inner)
                if not block:
                    block.append(placed(inner, py.Pass()))
