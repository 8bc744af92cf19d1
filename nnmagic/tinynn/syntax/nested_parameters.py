"""Write what functions read of nested lists and dictionaries that a call gives.

Such an argument comes as arrays: the items of all inner lists, and where those of each begin and end. A
dictionary has its keys, too, and an inner one its values, as many as it has keys. ``adj[u]`` is a part of the
items then. What would change a list of the caller is refused.
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from nnmagic.tinynn.syntax.name_scopes import changed_names, parameter_names
from nnmagic.tinynn.syntax.names_in_python import AssignedNameError, bound_by, substitute_names
from nnmagic.tinynn.syntax.written_code import expression_at, moved, statements_at

#: Functions that read an iterable and keep nothing of it.
_READERS = frozenset(
    "all any array asarray Counter deque enumerate extend filter len list map max mean min print reversed set"  # noqa: SIM905  # short
    " sorted sum tuple update zip".split()
)
#: Those that go over the outer list, or over the keys, as they do over any.
_OUTER_READERS = frozenset(("len", "list", "sorted", "set", "max", "min", "sum", "enumerate", "tuple"))
_METHODS = frozenset(("index", "count", "copy"))


class NestedUseError(Exception):
    """An argument is used as no part of arrays can be; ``node`` is where; ``changes``: it would change."""

    def __init__(self, name: str, node: py.AST, *, changes: bool = False) -> None:
        super().__init__(name)
        self.name = name
        self.node = node
        self.changes = changes


#: The parts of each nested argument, in order, by the names of functions and of their parameters.
Nested = Mapping[str, Mapping[str, Sequence[str]]]
NOTHING_NESTED: Nested = MappingProxyType({})


def with_nested_parameters(body: Sequence[py.stmt], nested: Nested) -> list[py.stmt]:
    """Return the functions of a cell with what they read of nested arguments. Raises NestedUseError."""
    if not nested:  # a copy would be as deep as the longest sum
        return list(body)
    functions = {stmt.name: copy.deepcopy(stmt) for stmt in body if isinstance(stmt, py.FunctionDef)}
    work = [(name, parameter, tuple(arrays)) for name in nested for parameter, arrays in nested[name].items()]
    done = dict[tuple[str, str], tuple[str, ...]]()
    while work:
        name, parameter, arrays = work.pop()
        if name not in functions or (name, parameter) in done:
            if done.get((name, parameter), arrays) != arrays:
                raise NestedUseError(parameter, functions[name])
            continue
        done[name, parameter] = arrays
        rewriter = _ReadRewriter(functions[name], parameter, arrays, functions)
        rewriter.rewrite()
        work += [(*handed_on, arrays) for handed_on in rewriter.handed if handed_on not in done]
    return [functions.get(getattr(stmt, "name", ""), stmt) for stmt in body]


def _is(node: py.AST, name: str) -> bool:
    return isinstance(node, py.Name) and node.id == name


def _stored(statements: Sequence[py.stmt]) -> set[str]:
    """Return the names that statements assign."""
    nodes = (node for stmt in statements for node in py.walk(stmt))
    return {node.id for node in nodes if isinstance(node, py.Name) and not isinstance(node.ctx, py.Load)}


def _may_be_twice(index: py.expr) -> bool:
    """Return whether an index may be computed twice as well as once."""
    kinds = (py.Name, py.Constant, py.Tuple, py.BinOp, py.UnaryOp, py.Subscript, py.Slice)
    return all(
        isinstance(node, (*kinds, py.operator, py.unaryop, py.expr_context)) for node in py.walk(index)
    )


@dataclass
class _ReadRewriter:
    """Rewrites what one function reads of one parameter.

    ``rows``: the names that stand for inner lists. ``handed``: the parameters of functions of the cell that
    are given the argument, too.
    """

    function: py.FunctionDef
    name: str
    parts: Sequence[str]
    functions: Mapping[str, py.FunctionDef]
    rows: set[str] = field(default_factory=set)
    inner: set[int] = field(default_factory=set)
    handed: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        taken = {node.id for node in py.walk(self.function) if isinstance(node, py.Name)}
        self.prefix = f"_{self.name}"
        while any(other.startswith(f"{self.prefix}_") for other in taken):
            self.prefix += "_"
        self.has_keys = any(part.endswith("keys") for part in self.parts)
        self.is_set = "set items" in self.parts
        self.has_values = "values" in self.parts
        self.has_default = "default keys" in self.parts
        self.asks_for_items = False

    def part(self, name: str) -> str:
        """Return the name of an array."""
        return f"{self.prefix}_{name}"

    def rewrite(self) -> None:
        """Rewrite the function. Raises NestedUseError."""
        for node in py.walk(self.function):
            if (_is(node, self.name) and not isinstance(node.ctx, py.Load)) or (  # type: ignore[attr-defined]  # a name
                node is not self.function
                and isinstance(node, py.FunctionDef | py.Lambda)
                and self.name in {entry.arg for entry in py.walk(node) if isinstance(entry, py.arg)}
            ):
                raise NestedUseError(self.name, node)
        inside = [node for node in py.walk(self.function) if isinstance(node, py.FunctionDef)]
        changed = set[str]().union(*map(changed_names, inside))
        self._check_unchanged({self.name}, changed)
        try:
            self.function.body = self._block(self.function.body)
        except AssignedNameError:
            raise NestedUseError(self.name, self.function) from None
        self._check_rows(changed)
        begin = 1 if py.get_docstring(self.function) is not None else 0
        self.function.body[begin:begin] = self._prologue()
        py.fix_missing_locations(self.function)

    def _prologue(self) -> list[py.stmt]:
        """Return the statements that take the argument apart."""
        names = [self.part(part.rpartition(" ")[2]) for part in self.parts]
        text = f"{', '.join(names)} = {self.name}\n"
        start, keys, number = self.part("start"), self.part("keys"), self.part("number")
        if self.has_keys:
            text += f"{self.part('at')} = {{}}\nfor {number} in range(len({start})):\n"
            text += f"    {self.part('at')}[{keys}[{number}]] = {number}\n"
        if self.has_values and self.asks_for_items:
            outer = f"{keys}[{number}]" if self.has_keys else number
            place = self.part("place")
            text += f"{self.part('of')} = {{}}\nfor {number} in range(len({start})):\n"
            text += f"    for {place} in range({start}[{number}], {self.part('stop')}[{number}]):\n"
            text += f"        {self.part('of')}[{outer}, {self.part('items')}[{place}]] = "
            text += f"{self.part('values')}[{place}]\n"
        place_of = next(argument for argument in self.function.args.args if argument.arg == self.name)
        return statements_at(place_of, text)

    # -- inner lists -----------------------------------------------------------------------------------

    def _index(self, node: py.AST) -> tuple[py.expr, bool] | None:
        """Return the index of an inner list that an expression reads, and whether it may be missing."""
        match node:
            case py.Subscript(value=value, slice=index, ctx=py.Load()) if _is(value, self.name):
                is_several = isinstance(index, py.Slice) or (
                    isinstance(index, py.Tuple) and not self.has_keys
                )
                return None if is_several else (index, self.has_default)
            case py.Call(func=py.Attribute(attr="get", value=value), args=[index, other], keywords=[]) if (
                _is(value, self.name) and self.has_keys
            ):
                empty = (py.List, py.Tuple) if not self.has_values else (py.Dict,)
                is_empty = isinstance(other, empty) and not getattr(other, "elts", getattr(other, "keys", ()))
                return (index, True) if is_empty else None
        return None

    def _inner(self, place: py.AST, index: str, *, may_miss: bool = False, array: str = "items") -> py.expr:
        """Return the expression of an inner list; ``part``: items, which inner dictionaries have as keys."""
        start, stop = self.part("start"), self.part("stop")
        at = f"{self.part('at')}[{index}]" if self.has_keys else index
        bounds = [f"{word}[{at}]" for word in (start, stop)]
        if may_miss:
            bounds = [f"({bound} if {index} in {self.part('at')} else 0)" for bound in bounds]
        rewritten = expression_at(place, f"{self.part(array)}[{':'.join(bounds)}]")
        self.inner.add(id(rewritten))
        return rewritten

    def _read(self, node: py.expr, array: str = "items") -> py.expr | None:
        """Return what stands for an inner list that an expression reads; None for any other expression."""
        access = self._index(node)
        if access is None:
            return None
        if not _may_be_twice(access[0]):
            raise NestedUseError(self.name, node)
        index = self.visit(access[0])
        return self._inner(node, py.unparse(index), may_miss=access[1], array=array)

    # -- statements ------------------------------------------------------------------------------------

    def _block(self, statements: Sequence[py.stmt]) -> list[py.stmt]:
        return [rewritten for stmt in statements for rewritten in self._statement(stmt)]

    def _statement(self, stmt: py.stmt) -> Iterator[py.stmt]:
        match stmt:
            case py.For():
                yield from self._loop(stmt)
                return
            case py.Assign(targets=[py.Name(id=name)], value=value) if self._index(value) is not None:
                yield from self._first(stmt, value)
                if not self.has_values:
                    self.rows.add(name)
        self._visit_parts(stmt)
        yield stmt

    def _first(self, stmt: py.stmt, value: py.expr) -> Iterator[py.stmt]:
        """Yield the assignment of an index that is computed once to a name, which it is then."""
        access = self._index(value)
        if access is None or _may_be_twice(access[0]):
            return
        name = self.part("index")
        rewritten = py.Assign([py.Name(name, py.Store())], self.visit(access[0]))
        yield moved(stmt, rewritten)
        loaded = py.copy_location(py.Name(name, py.Load()), value)
        if isinstance(value, py.Subscript):
            value.slice = loaded
        else:
            assert isinstance(value, py.Call)
            value.args[0] = loaded

    def _loop(self, stmt: py.For) -> Iterator[py.stmt]:
        yield from self._first(stmt, stmt.iter)
        names = dict[str, py.expr]()
        stmt.iter, stmt.target = self._over(stmt.iter, stmt.target, names)
        bound = {bound_node.id for bound_node in py.walk(stmt.target) if isinstance(bound_node, py.Name)}
        if names and bound & _stored(stmt.body):
            raise NestedUseError(self.name, stmt)
        if self.has_values:
            in_place: dict[str, Callable[[], py.expr]] = {
                name: partial(copy.deepcopy, inner) for name, inner in names.items()
            }
            stmt.body = [substitute_names(inner_stmt, in_place) for inner_stmt in stmt.body]  # type: ignore[misc]  # statements
            names = {}
        stmt.iter = self._outer(stmt.iter)
        self._visit_parts(stmt)
        first: list[py.stmt] = []
        for name, inner in names.items():
            read = self._read(inner)
            assert read is not None
            first.append(py.Assign([py.Name(name, py.Store())], read))
            self.rows.add(name)
        stmt.body = [*(moved(stmt, each) for each in first), *stmt.body]
        yield stmt

    def _over(self, iterable: py.expr, target: py.expr, names: dict[str, py.expr]) -> tuple[py.expr, py.expr]:
        """Return what a loop over the outer list goes over, its numbers or keys, and its new target.

        ``names`` gets the inner lists that names of the loop's head stand for.
        """

        def stand_for(inner: py.expr, index: py.expr) -> None:
            if not isinstance(inner, py.Name):
                raise NestedUseError(self.name, iterable)
            names[inner.id] = expression_at(iterable, f"{self.name}[{py.unparse(index)}]")

        number = py.Name(f"{self.part('number')}_{len(names)}", py.Store())
        numbers = f"range(len({self.part('start')}))"
        match iterable, target:
            case py.Name(), _ if _is(iterable, self.name):
                if self.has_keys:
                    return iterable, target
                stand_for(target, number)
                return expression_at(iterable, numbers), number
            case py.Call(func=py.Attribute(attr="values", value=owner), args=[]), _ if _is(owner, self.name):
                stand_for(target, number)
                return owner, number
            case py.Call(func=py.Attribute(attr="items", value=owner), args=[]), py.Tuple(
                elts=[py.Name() as key, inner]
            ) if _is(owner, self.name):
                stand_for(inner, key)
                return owner, key
            case py.Call(func=py.Name(id="enumerate"), args=[only]), py.Tuple(elts=[place, inner]):
                over, new_target = self._over(only, inner, names)
                if over is only:
                    return iterable, target
                both = py.Tuple([place, new_target], py.Store())
                return py.copy_location(py.Call(iterable.func, [over], []), iterable), both
            case py.Call(func=py.Name(id="zip"), args=args), py.Tuple(elts=targets) if len(args) == len(
                targets
            ):
                pairs = [self._over(arg, inner_, names) for arg, inner_ in zip(args, targets, strict=True)]
                if all(over is arg for (over, _), arg in zip(pairs, args, strict=True)):
                    return iterable, target
                new_target = py.Tuple([inner_ for _, inner_ in pairs], py.Store())
                return py.copy_location(
                    py.Call(iterable.func, [over for over, _ in pairs], []), iterable
                ), new_target
        return iterable, target

    # -- expressions -----------------------------------------------------------------------------------

    def _visit_parts(self, node: py.AST) -> None:
        for word, value in py.iter_fields(node):
            if isinstance(value, py.expr):
                setattr(node, word, self.visit(value))
            elif isinstance(value, list):
                if value and all(isinstance(child, py.stmt) for child in value):
                    setattr(node, word, self._block(value))
                    continue
                rewritten = [self.visit(child) if isinstance(child, py.expr) else child for child in value]
                setattr(node, word, rewritten)
                for child in rewritten:
                    if isinstance(child, py.AST) and not isinstance(child, py.expr):
                        self._visit_parts(child)
            elif isinstance(value, py.AST):
                self._visit_parts(value)

    def visit(self, node: py.expr) -> py.expr:
        """Return an expression with arrays for the argument. Raises NestedUseError."""
        outer = self.part("at") if self.has_keys else self.part("start")
        match node:
            case py.Name() if _is(node, self.name):
                raise NestedUseError(self.name, node)
            case py.ListComp() | py.SetComp() | py.GeneratorExp() | py.DictComp():
                return self._comprehension(node)
            case py.Call(func=py.Name(id=word), args=[only]) if (
                _is(only, self.name) and word in _OUTER_READERS and (self.has_keys or word == "len")
            ):
                node.args = [py.copy_location(py.Name(outer, py.Load()), only)]
                for keyword in node.keywords:
                    keyword.value = self.visit(keyword.value)
                return node
            case py.Call(func=py.Attribute(attr="keys", value=owner), args=[]) if (
                _is(owner, self.name) and self.has_keys
            ):
                return expression_at(node, f"{outer}.keys()")
            case py.Call(func=py.Name(id=word)) if word in self.functions and any(
                _is(argument, self.name)
                for argument in (*node.args, *(keyword.value for keyword in node.keywords))
            ):
                return self._handed_on(node, self.functions[word])
            case py.Compare(left=left, ops=[py.In() | py.NotIn()], comparators=[owner]) if (
                _is(owner, self.name) and self.has_keys
            ):
                node.left, node.comparators = self.visit(left), [expression_at(owner, outer)]
                return node
        if self.has_values and (rewritten := self._of_dictionary(node)) is not None:
            return rewritten
        if (rewritten := self._read(node)) is not None:
            return rewritten
        self._visit_parts(node)
        return node

    def _of_dictionary(self, node: py.expr) -> py.expr | None:
        """Return what is read of an inner dictionary; None for any other expression."""
        match node:
            case py.Call(func=py.Attribute(attr="items", value=owner), args=[]):
                if self._index(owner) is not None:
                    keys, values = self._read(copy.deepcopy(owner)), self._read(owner, "values")
                    assert keys is not None
                    assert values is not None
                    zip_ = py.copy_location(py.Name("zip", py.Load()), node)
                    return py.copy_location(py.Call(zip_, [keys, values], []), node)
            case py.Call(func=py.Attribute(attr="keys" | "values" as word, value=owner), args=[]):
                return self._read(owner, "items" if word == "keys" else "values")
            case py.Subscript(value=owner, slice=key, ctx=py.Load()):
                access = self._index(owner)
                if access is not None:
                    if access[1]:
                        raise NestedUseError(self.name, node)
                    self.asks_for_items = True
                    place = py.Tuple([self.visit(access[0]), self.visit(key)], py.Load())
                    name = py.Name(self.part("of"), py.Load())
                    rewritten = py.copy_location(py.Subscript(name, place, py.Load()), node)
                    return py.fix_missing_locations(rewritten)
        return None

    def _comprehension(self, node: py.ListComp | py.SetComp | py.GeneratorExp | py.DictComp) -> py.expr:
        names = dict[str, py.expr]()
        for clause in node.generators:
            clause.iter, clause.target = self._over(clause.iter, clause.target, names)
        if names:
            in_place: dict[str, Callable[[], py.expr]] = {
                name: partial(copy.deepcopy, rewritten) for name, rewritten in names.items()
            }
            keys = {*names, *bound_by(node)}
            inner = [part for part in py.walk(node) if part is not node and bound_by(part) & keys]
            if inner:
                raise NestedUseError(self.name, node)
            changed = substitute_names(node, in_place)
            assert isinstance(changed, py.ListComp | py.SetComp | py.GeneratorExp | py.DictComp)
            node = changed
        for clause in node.generators:
            clause.iter = self._outer(clause.iter)
        self._visit_parts(node)
        return node

    def _outer(self, node: py.expr) -> py.expr:
        """Return what a loop over the keys goes over."""
        if _is(node, self.name) and self.has_keys:
            return py.copy_location(py.Name(self.part("at"), py.Load()), node)
        return node

    def _handed_on(self, call: py.Call, callee: py.FunctionDef) -> py.expr:
        """Return a call of a function of the cell that is given the argument, which is arrays for both."""
        names = parameter_names(callee)
        arguments = [
            *zip(names, call.args, strict=False),
            *((argument.arg, argument.value) for argument in call.keywords),
        ]
        for name, value in arguments:
            if _is(value, self.name) and name is not None:
                self.handed.append((callee.name, name))
        call.args = [argument if _is(argument, self.name) else self.visit(argument) for argument in call.args]
        for keyword in call.keywords:
            if not _is(keyword.value, self.name):
                keyword.value = self.visit(keyword.value)
        return call

    # -- checks ----------------------------------------------------------------------------------------

    def _check_unchanged(self, names: set[str], changed: set[str]) -> None:
        """Check that a function changes none of some containers. Raises NestedUseError."""
        for node in py.walk(self.function) if names & changed else ():
            target = node.func if isinstance(node, py.Call) else node
            if isinstance(target, py.Attribute | py.Subscript | py.AugAssign | py.Call):
                owner = target.target if isinstance(target, py.AugAssign) else target
                is_of = any(
                    isinstance(name_node, py.Name) and name_node.id in names & changed
                    for name_node in py.walk(owner)
                )
                is_change = isinstance(node, py.AugAssign) or not isinstance(
                    getattr(node, "ctx", None), py.Load
                )
                if is_of and is_change:
                    raise NestedUseError(self.name, node, changes=True)
        if names & changed:
            raise NestedUseError(self.name, self.function, changes=True)

    def _check_rows(self, changed: set[str]) -> None:
        """Check that inner lists are read alone. Raises NestedUseError."""
        self._check_unchanged(self.rows, changed)
        parents = {child: node for node in py.walk(self.function) for child in py.iter_child_nodes(node)}
        for node in py.walk(self.function):
            is_row = isinstance(node, py.Name) and node.id in self.rows and isinstance(node.ctx, py.Load)
            if (is_row or id(node) in self.inner) and not self._is_read(node, parents):
                raise NestedUseError(self.name, node)

    def _is_read(self, node: py.AST, parents: Mapping[py.AST, py.AST]) -> bool:
        """Return whether an expression reads a list, and keeps nothing of it but its items."""
        parent = parents[node]
        match parent:
            case py.For() | py.comprehension():
                return parent.iter is node
            case py.Call(func=func, args=args):
                word = func.id if isinstance(func, py.Name) else getattr(func, "attr", "")
                return node in args and word in _READERS
            case py.Subscript(value=value, ctx=py.Load()):
                return value is node
            case py.Attribute(attr=word):
                return word in _METHODS and not self.is_set
            case py.Assign(targets=[py.Name(id=name)]):
                return name in self.rows
            case py.Compare(left=left, ops=ops):
                return not self.is_set or (left is not node and isinstance(ops[-1], py.In | py.NotIn))
            case py.If() | py.While() | py.IfExp():
                return parent.test is node
            case py.UnaryOp(op=py.Not()):
                return True
            case py.Return() | py.BinOp(op=py.Add()):
                return not self.is_set
            case py.Tuple():
                return isinstance(parents[parent], py.Return) and not self.is_set
        return False
