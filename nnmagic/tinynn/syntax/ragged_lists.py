"""Write lists of lists that grow, ``adj = [[] for _ in range(n)]``, as chains of the items in one list.

A list has all items in the order in which they were appended, another the place of the item behind each in
its inner list, or -1. Arrays hold the places of the first and the last item, and how many there are.
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_PARTS = ("size", "items", "next", "first", "last", "count", "place", "at", "list")

_BEGIN = """
{items} = []
{next} = []
{size} = max({number}, 0)
{first} = numpy.full({size}, -1)
{last} = numpy.full({size}, -1)
{count} = numpy.zeros({size}, dtype=int)
"""
_APPEND = """
{place} = ({index}) + 0
{items}.append({item})
{next}.append(-1)
if {count}[{place}] == 0:
    {first}[{place}] = len({next}) - 1
else:
    {next}[{last}[{place}]] = len({next}) - 1
{last}[{place}] = len({next}) - 1
{count}[{place}] += 1
"""
_COLLECT = """
{list} = []
{at} = {first}[({index}) + 0]
while {at} >= 0:
    {list}.append({items}[{at}])
    {at} = {next}[{at}]
"""
_GO_OVER = """
{at} = {first}[({index}) + 0]
while {at} >= 0:
    {target} = {items}[{at}]
    {at} = {next}[{at}]
"""
#: Functions to which an inner list is given as it is then; others may keep it.
_READERS = frozenset("sum max min sorted list tuple len any all array asarray".split())  # noqa: SIM905  # short
#: Those that read it later, of which a loop goes over the items.
_LAZY = frozenset(("enumerate", "reversed", "zip"))
#: Methods and functions that change something else in a statement.
_CHANGERS = frozenset(("pop", "popleft", "heappop", "heapreplace", "heappushpop", "setdefault", "update"))
#: The statements that a list of lists may stand in.
_STATEMENTS = (py.Assign, py.AugAssign, py.AnnAssign, py.Expr, py.Return, py.Assert, py.For, py.While, py.If)


class _OtherUseError(Exception):
    """A list of lists is used in a way that cannot be written so."""


def with_chains(stmt: py.FunctionDef) -> py.FunctionDef:
    """Return a function with its lists of lists to which it appends; those that other uses show stay."""
    for name in sorted({_appended(node) for node in py.walk(stmt)} - {""}):
        stmt = _with_chains_for(stmt, name) or stmt
    return stmt


def _appended(node: py.AST) -> str:
    """Return the name in ``name[index].append(item)``; "" for anything else."""
    match node:
        case py.Expr(
            value=py.Call(
                func=py.Attribute(attr="append", value=py.Subscript(value=py.Name(id=name))),
                args=[_],
                keywords=[],
            )
        ):
            return name
    return ""


def _changes(node: py.AST) -> bool:
    """Return whether a node is a call that may change a list."""
    match node:
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word)):
            return word in _CHANGERS
    return False


def _size(made: py.expr) -> str:
    """Return how many lists ``[[] for _ in range(n)]`` has; "" for anything else."""
    match made:
        case py.ListComp(
            elt=py.List(elts=[]), generators=[py.comprehension(target=py.Name(), iter=items, ifs=[])]
        ):
            match items:
                case py.Call(func=py.Name(id="range"), args=[size], keywords=[]):
                    return py.unparse(size)
                case py.Name(id=name):
                    return f"len({name})"
    return ""


def _with_chains_for(stmt: py.FunctionDef, name: str) -> py.FunctionDef | None:
    """Return a function with chains for a list of lists; None where the list has other uses, too."""
    stmt = copy.deepcopy(stmt)
    try:
        _check_uses(stmt, name)
        taken = {node.id for node in py.walk(stmt) if isinstance(node, py.Name)}
        names = {part: _free(f"_{name}_{part}", taken) for part in _PARTS}
        stmt.body = list(_Chains(name, names, taken).block(stmt.body))
    except _OtherUseError:  # an error of the statement that appends
        return None
    return stmt


def _check_uses(stmt: py.FunctionDef, name: str) -> None:
    """Check that a name is a list of lists of a function alone. Raises _OtherUseError."""
    stores = [node for node in py.walk(stmt) if isinstance(node, py.Name) and node.id == name]
    written = sum(not isinstance(node.ctx, py.Load) for node in stores)
    made = [node for node in py.walk(stmt) if _is_made(node, name)]
    inner = (py.FunctionDef, py.Lambda, py.ListComp, py.GeneratorExp, py.SetComp, py.DictComp)
    mentions = {id(node) for node in stores}
    for node in py.walk(stmt):
        if (
            isinstance(node, inner)
            and node is not stmt
            and any(id(each) in mentions for each in py.walk(node))
        ):
            raise _OtherUseError
    names_in_expressions = any(isinstance(node, py.NamedExpr) for node in py.walk(stmt))
    if written != 1 or len(made) != 1 or names_in_expressions:
        raise _OtherUseError


def _is_made(node: py.AST, name: str) -> bool:
    match node:
        case py.Assign(targets=[py.Name(id=target)], value=value) if target == name:
            return bool(_size(value))
    return False


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


@dataclass
class _Chains:
    """Replaces a list of lists in statements. ``names``: what its parts are called.

    ``before``: what makes the lists that the statement at hand reads; ``changes``: whether it changes others.
    """

    name: str
    names: dict[str, str]
    taken: set[str]
    before: list[py.stmt] = field(default_factory=list)
    changes: bool = False
    readers: frozenset[str] = _READERS

    def block(self, statements: Sequence[py.stmt]) -> Iterator[py.stmt]:
        """Yield the statements of a block, written anew."""
        for stmt in statements:
            if not self._mentioned(stmt):
                yield stmt
                continue
            for made in self._statement(stmt):
                yield py.fix_missing_locations(made)

    def _mentioned(self, node: py.AST) -> bool:
        return any(isinstance(each, py.Name) and each.id == self.name for each in py.walk(node))

    def _statement(self, stmt: py.stmt) -> Iterator[py.stmt]:
        if not isinstance(stmt, _STATEMENTS):
            raise _OtherUseError
        blocks = {
            id(node)
            for field_name in ("body", "orelse")
            for each in getattr(stmt, field_name, ())
            for node in py.walk(each)
        }
        self.readers = _READERS | _LAZY if isinstance(stmt, py.For) else _READERS
        self.changes = any(_changes(node) for node in py.walk(stmt) if id(node) not in blocks)
        match stmt:
            case py.Assign(value=made) if _is_made(stmt, self.name):
                yield from self._text(stmt, _BEGIN, number=_size(made))
                return
            case py.Expr(value=py.Call(func=py.Attribute(value=py.Subscript(slice=place)), args=[item])) if (
                _appended(stmt) == self.name
            ):
                index, item = self._read(place), self._read(item)
                yield from self._taken_before()
                yield from self._text(stmt, _APPEND, index=py.unparse(index), item=py.unparse(item))
                return
        if isinstance(stmt, py.For):
            yield from self._loop(stmt)
            return
        if isinstance(stmt, py.While):
            stmt.test = self._condition(stmt.test)
            if self.before:
                raise _OtherUseError  # which each round would read anew
        elif isinstance(stmt, py.If):
            stmt.test = self._condition(stmt.test)
        else:
            for field_name, value in py.iter_fields(stmt):
                if isinstance(value, py.expr):
                    setattr(stmt, field_name, self._read(value))
                elif isinstance(value, list):
                    setattr(stmt, field_name, [self._read(each) for each in value])
        yield from self._taken_before()
        self._replace_blocks(stmt)
        yield stmt

    def _replace_blocks(self, stmt: py.stmt) -> None:
        if isinstance(stmt, py.For | py.While | py.If):
            stmt.body, stmt.orelse = list(self.block(stmt.body)), list(self.block(stmt.orelse))

    def _loop(self, stmt: py.For) -> Iterator[py.stmt]:
        index = self._index(stmt.iter)
        if index is None:
            stmt.iter = self._read(stmt.iter)
            if self.before and any(_appended(node) == self.name for node in py.walk(stmt)):
                raise _OtherUseError
            yield from self._taken_before()
            self._replace_blocks(stmt)
            yield stmt
            return
        if any(_appended(node) == self.name for node in py.walk(stmt)):
            raise _OtherUseError  # Python goes over what the rounds append
        index = self._read(index)
        yield from self._taken_before()
        at = _free(self.names["at"], self.taken)
        target = py.unparse(stmt.target)
        *before, loop = self._text(stmt, _GO_OVER, index=py.unparse(index), target=target, at=at)
        assert isinstance(loop, py.While)
        self._replace_blocks(stmt)
        loop.body, loop.orelse = [*loop.body, *stmt.body], stmt.orelse
        yield from [*before, loop]

    def _taken_before(self) -> Iterator[py.stmt]:
        before, self.before = self.before, []
        yield from before

    def _text(self, place: py.AST, text: str, **parts: str) -> list[py.stmt]:
        """Return the statements of a text, at the place of a node."""
        statements = py.parse(text.format(**{**self.names, **parts})).body
        for stmt in statements:
            for node in py.walk(stmt):
                if isinstance(node, py.stmt | py.expr | py.keyword):
                    py.copy_location(node, place)
        return statements

    def _index(self, node: py.AST) -> py.expr | None:
        """Return the index of an inner list; None for anything else."""
        match node:
            case py.Subscript(value=py.Name(id=name), slice=index) if name == self.name:
                return None if isinstance(index, py.Slice | py.Tuple) else index
        return None

    def _count(self, node: py.AST, index: py.expr) -> py.expr:
        return self._expression(node, f"{self.names['count']}[({py.unparse(self._read(index))}) + 0]")

    def _expression(self, place: py.AST, text: str) -> py.expr:
        (stmt,) = self._text(place, text)
        assert isinstance(stmt, py.Expr)
        return stmt.value

    def _condition(self, node: py.expr) -> py.expr:
        """Return a condition, where a list stands for whether it has items."""
        if (index := self._index(node)) is not None:
            count = self._count(node, index)
            return self._expression(node, f"{py.unparse(count)} > 0")
        match node:
            case py.UnaryOp(op=py.Not(), operand=operand):
                node.operand = self._condition(operand)
                return node
            case py.BoolOp(values=values):
                node.values = [self._condition(value) for value in values]
                if self.before:
                    raise _OtherUseError  # which may not be computed
                return node
        return self._read(node)

    def _read(self, node: py.expr) -> py.expr:
        """Return an expression that reads the lists."""
        if not self._mentioned(node):
            return node
        match node:
            case py.Call(func=py.Name(id="len"), args=[py.Name(id=name)]) if name == self.name:
                return self._expression(node, f"len({self.names['count']})")
            case py.Call(func=py.Name(id="len"), args=[only]) if (index := self._index(only)) is not None:
                return self._count(node, index)
            case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=args) if word in self.readers:
                node.args = [self._list(arg) for arg in args]
            case py.Subscript(value=value, slice=index, ctx=py.Load()) if self._index(value) is not None:
                node.value, node.slice = self._list(value), self._read(index)
                return node
            case py.Compare(ops=[py.In() | py.NotIn()], comparators=[among]):
                node.comparators = [self._list(among)]
            case py.BoolOp() | py.IfExp():
                before = list(self.before)
                self._read_parts(node)
                if self.before != before:
                    raise _OtherUseError  # which may not be computed
                return node
        self._read_parts(node)
        return node

    def _read_parts(self, node: py.expr) -> None:
        if isinstance(node, py.Name) or self._index(node) is not None:
            raise _OtherUseError
        for field_name, value in py.iter_fields(node):
            if isinstance(value, py.expr):
                setattr(node, field_name, self._read(value))
            elif isinstance(value, list) and all(isinstance(item, py.expr) for item in value):
                setattr(node, field_name, [self._read(item) for item in value])
            elif isinstance(value, py.AST | list) and any(
                self._mentioned(item) for item in (value if isinstance(value, list) else [value])
            ):
                raise _OtherUseError

    def _list(self, node: py.expr) -> py.expr:
        """Return the name of a new list with the items of an inner one; other expressions as read."""
        index = self._index(node)
        if index is None:
            return self._read(node)
        if self.changes:
            raise _OtherUseError  # perhaps before Python reads the list
        list_name = _free(self.names["list"], self.taken)
        index = self._read(index)
        self.before += self._text(node, _COLLECT, index=py.unparse(index), list=list_name)
        return py.copy_location(py.Name(list_name, py.Load()), node)
