"""Write lists of lists that grow, and dictionaries of lists, as chains of the items in one list.

``adj = [[] for _ in range(n)]`` and ``groups = defaultdict(list)`` have inner lists that change in loops,
each to a length of its own (ragged_texts).
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nnmagic.tinynn.syntax import ragged_makers as makers
from nnmagic.tinynn.syntax import ragged_texts as texts
from nnmagic.tinynn.syntax.comprehension_loops import COMPREHENSION, as_loop
from nnmagic.tinynn.syntax.names_in_python import AssignedNameError, replace_nodes
from nnmagic.tinynn.syntax.ragged_loops import Loops
from nnmagic.tinynn.syntax.written_code import statements_at

#: Functions to which an inner list is given as it is then; others may keep it.
_READERS = frozenset(
    "sum max min sorted list tuple len any all array asarray set extend print mean fmean median stdev".split()  # noqa: SIM905  # short
)
#: Those that read it later, of which a loop goes over the items.
_LAZY = frozenset(("enumerate", "reversed", "zip"))
#: Methods and functions that change something else in a statement.
_CHANGERS = frozenset(("pop", "popleft", "heappop", "heapreplace", "heappushpop", "setdefault", "update"))
#: The statements that a list of lists may stand in.
_STATEMENTS = (py.Assign, py.AugAssign, py.AnnAssign, py.Expr, py.Return, py.Assert, py.For, py.While, py.If)


def with_chains(stmt: py.FunctionDef) -> py.FunctionDef:
    """Return a function with its lists of lists to which it appends; those that other uses show stay."""
    for name in sorted({makers.appended(node) for node in py.walk(stmt)} - {""}):
        stmt = _with_chains_for(stmt, name) or _with_added_keys(stmt, name) or stmt
    return stmt


def _with_added_keys(stmt: py.FunctionDef, name: str) -> py.FunctionDef | None:
    """Return a function with a dictionary for a ``defaultdict(list)``, whose items nothing else reads by key.

    What is appended to a missing key comes into a list of its own. None where there is another use.
    """
    stmt = copy.deepcopy(stmt)
    try:
        makers.check_uses(stmt, name)
    except makers.OtherUseError:
        return None
    made = next(node for node in py.walk(stmt) if makers.is_made(node, name))
    assert isinstance(made, py.Assign | py.AnnAssign)
    appends = [node for node in py.walk(stmt) if makers.appended(node) == name]
    read = [
        node
        for node in py.walk(stmt)
        if isinstance(node, py.Subscript) and isinstance(node.value, py.Name) and node.value.id == name
    ]
    if (makers.maker(made.value) or ("", ""))[0] != "default" or len(read) != len(appends):
        return None
    taken = makers.Taken(node.id for node in py.walk(stmt) if isinstance(node, py.Name))
    made.value, key = py.copy_location(py.Dict([], []), made), taken.free(f"_key_of_{name}")

    class Added(py.NodeTransformer):
        def visit_Expr(self, node: py.Expr) -> py.AST | list[py.stmt]:
            if node not in appends:
                return node
            place = next(part for part in py.walk(node) if part in read)
            assert isinstance(place, py.Subscript)
            index, place.slice = place.slice, py.copy_location(py.Name(key, py.Load()), place)
            text = f"{key} = {py.unparse(index)}\nif {key} not in {name}:\n    {name}[{key}] = []"
            return [*statements_at(node, text), node]

    changed = Added().visit(stmt)
    assert isinstance(changed, py.FunctionDef)
    return py.fix_missing_locations(changed)


def _with_chains_for(stmt: py.FunctionDef, name: str) -> py.FunctionDef | None:
    """Return a function with chains for a list of lists; None where the list has other uses, too."""
    stmt = copy.deepcopy(stmt)
    try:
        makers.check_uses(stmt, name)
        taken = makers.Taken(node.id for node in py.walk(stmt) if isinstance(node, py.Name))
        stmt.body = list(_Chains(stmt, name, taken).block(stmt.body))
    except (makers.OtherUseError, AssignedNameError):  # an error of the statement that appends
        return None
    return stmt


def _may_change(node: py.AST) -> bool:
    """Return whether a node is a call that may change a list."""
    match node:
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word)):
            return word in _CHANGERS
    return False


@dataclass
class _Chains(Loops):
    """Replaces a list of lists in statements.

    ``before``: what makes the lists that the statement at hand reads; ``changes``: whether it changes others.
    """

    before: list[py.stmt] = field(default_factory=list)
    changes: bool = False
    readers: frozenset[str] = _READERS

    def block(self, statements: Sequence[py.stmt]) -> Iterator[py.stmt]:
        """Yield the statements of a block, written anew."""
        for stmt in statements:
            if not makers.mentions(stmt, self.name):
                yield stmt
                continue
            for made in self._statement(stmt):
                yield py.fix_missing_locations(made)

    def _statement(self, stmt: py.stmt) -> Iterator[py.stmt]:
        if not isinstance(stmt, _STATEMENTS):
            raise makers.OtherUseError
        blocks = {
            id(node)
            for part in ("body", "orelse")
            for each in getattr(stmt, part, ())
            for node in py.walk(each)
        }
        self.readers = _READERS | _LAZY if isinstance(stmt, py.For) else _READERS
        self.changes = any(_may_change(node) for node in py.walk(stmt) if id(node) not in blocks)
        if makers.is_made(stmt, self.name):
            yield from self.begin(stmt)
        elif (changed := self.change(stmt)) is not None:
            yield from self._taken_before()
            yield from changed
        elif isinstance(stmt, py.For):
            yield from self._loop(stmt)
        else:
            stmt = self._take_first(stmt, blocks)
            if isinstance(stmt, py.While | py.If):
                stmt.test = self._condition(stmt.test)
            elif isinstance(stmt, py.Return) and stmt.value is not None:
                stmt.value = self._result(stmt.value)
            else:
                self._read_parts(stmt)
            if isinstance(stmt, py.While) and self.before:
                stmt = self._tested_inside(stmt)
            yield from self._taken_before()
            self._replace_blocks(stmt)
            yield stmt

    def _tested_inside(self, stmt: py.While) -> py.While:
        """Return a loop whose rounds begin with its test, and with what the test reads."""
        if stmt.orelse:
            raise makers.OtherUseError
        leave = py.If(py.UnaryOp(py.Not(), stmt.test), [py.Break()], [])
        stmt.body = [*self._taken_before(), leave, *stmt.body]
        stmt.test = py.Constant(value=True)
        for node in (stmt.test, leave):
            py.fix_missing_locations(py.copy_location(node, stmt))
        return stmt

    def _take_first(self, stmt: py.stmt, blocks: set[int]) -> py.stmt:
        """Return a statement that takes an item of an inner list as one that has taken it before."""
        nodes = [node for node in py.walk(stmt) if id(node) not in blocks]
        pops = [node for node in nodes if isinstance(node, py.Call) and self.popped(node) is not None]
        if not pops:
            return stmt
        names = [node for node in nodes if isinstance(node, py.Name) and node.id == self.name]
        may_not = any(isinstance(node, py.BoolOp | py.IfExp | py.Lambda | COMPREHENSION) for node in nodes)
        if len(pops) > 1 or len(names) > 1 or may_not or isinstance(stmt, py.While):
            raise makers.OtherUseError
        item = self.new("item")
        self.before += self.take(stmt, pops[0], item)
        return replace_nodes({id(pops[0]): py.copy_location(py.Name(item, py.Load()), pops[0])}, stmt)

    def _replace_blocks(self, stmt: py.stmt) -> None:
        if isinstance(stmt, py.For | py.While | py.If):
            stmt.body, stmt.orelse = list(self.block(stmt.body)), list(self.block(stmt.orelse))

    def _taken_before(self) -> Iterator[py.stmt]:
        before, self.before = self.before, []
        yield from before

    # -- loops -----------------------------------------------------------------------------------------

    def _loop(self, stmt: py.For) -> Iterator[py.stmt]:
        stmt = self.by_index(stmt)
        changed = any(self._is_change(node) for each in stmt.body for node in py.walk(each))
        found = self.found_or_none(stmt.iter)
        if found is None and self.index(stmt.iter) is None:
            stmt.iter = self.read(stmt.iter)
            if self.before and changed:
                raise makers.OtherUseError
            yield from self._taken_before()
            self._replace_blocks(stmt)
            yield stmt
            return
        if changed:
            raise makers.OtherUseError  # Python goes over what the rounds append
        find = found or self.find(stmt.iter)
        yield from self._taken_before()
        yield from find
        text = texts.GO_OVER if found is None else texts.GO_OVER_ANY
        *before, loop = self.text(stmt, text, target=py.unparse(stmt.target), at=self.new("at"))
        assert isinstance(loop, py.While)
        self._replace_blocks(stmt)
        loop.body, loop.orelse = [*loop.body, *stmt.body], stmt.orelse
        yield from [*before, loop]

    def _is_change(self, node: py.AST) -> bool:
        return (
            isinstance(node, py.stmt)
            and not isinstance(node, py.For | py.While | py.If)
            and (makers.appended(node) == self.name or self._copied_change(node))
        )

    def _copied_change(self, node: py.stmt) -> bool:
        before, taken = list(self.before), makers.Taken(self.taken)
        try:
            return self.change(copy.deepcopy(node)) is not None
        finally:
            self.before, self.taken = before, taken

    def _in_loop(self, node: COMPREHENSION) -> py.expr:
        """Return the name of what a comprehension makes, which a loop before the statement does."""
        made = self.new("list")
        loop = None if self.changes else as_loop(node, made, lambda name: self.taken.free(f"_{name}"))
        if loop is None:
            raise makers.OtherUseError
        before, readers, changes = self.before, self.readers, self.changes
        self.before = []
        loop = list(self.block(loop))
        self.before, self.readers, self.changes = [*before, *loop], readers, changes
        return py.copy_location(py.Name(made, py.Load()), node)

    # -- expressions -----------------------------------------------------------------------------------

    def _count(self, node: py.expr) -> py.expr:
        """Return how many items an inner list has."""
        index = self.index(node)
        assert index is not None
        if self.is_dictionary and self.kind != "default" and not isinstance(node, py.Call):
            return self.expression(node, f"{{count}}[{{slot}}[{py.unparse(self.read(index))}]]")
        if self.is_dictionary:
            self.before += self.find(node)
            kept = self.new("place")
            self.before += self.text(node, f"{kept} = {{place}}")
            return self.expression(node, f"{{count}}[{kept}]")
        return self.expression(node, f"{{count}}[({py.unparse(self.read(index))}) + 0]")

    def _condition(self, node: py.expr) -> py.expr:
        """Return a condition, where a list stands for whether it has items."""
        if self.index(node) is not None:
            return self.expression(node, f"{py.unparse(self._count(node))} > 0")
        if isinstance(node, py.Name) and node.id == self.name:
            return self.expression(node, "len({count}) > 0")
        match node:
            case py.UnaryOp(op=py.Not(), operand=operand):
                node.operand = self._condition(operand)
                return node
            case py.BoolOp(op=op, values=values):
                return self._logical(node, isinstance(op, py.And), values)
        return self.read(node)

    def _logical(self, node: py.BoolOp, is_and: bool, values: Sequence[py.expr]) -> py.expr:
        """Return ``a and b``, or ``a or b``: the lists that a later part reads are there if it is asked."""
        before, parts = self.before, []
        for value in values:
            self.before = []
            parts.append((self._condition(value), self.before))
        self.before = [*before, *parts[0][1]]
        if not any(made for _, made in parts[1:]):
            node.values = [condition for condition, _ in parts]
            return node
        holds = self.new("item")
        self.before += self.text(node, f"{holds} = bool({py.unparse(parts[0][0])})")
        for condition, made in parts[1:]:
            more = self.text(node, f"{holds} = bool({py.unparse(condition)})")
            test = py.Name(holds, py.Load())
            asked = test if is_and else py.UnaryOp(py.Not(), test)
            self.before.append(
                py.fix_missing_locations(py.copy_location(py.If(asked, [*made, *more], []), node))
            )
        return py.copy_location(py.Name(holds, py.Load()), node)

    def _result(self, node: py.expr) -> py.expr:
        """Return what a function returns, which may be the list of lists."""
        match node:
            case py.Name(id=name) if name == self.name:
                return self._whole(node)
            case py.Call(func=py.Name(id=word), args=[py.Name(id=name)], keywords=[]) if name == self.name:
                if word == ("dict" if self.is_dictionary else "list"):
                    return self._whole(node)
            case py.Tuple(elts=items):
                node.elts = [self._result(item) for item in items]
                return node
        return self.read_list(node)

    def _whole(self, node: py.expr) -> py.expr:
        """Return all lists, as Python gets them."""
        made = self.new("list")
        self.before += self.text(node, texts.ALL, list=made, at=self.new("at"))
        keys = ", {slot}" if self.is_dictionary else ""
        call = self.expression(node, f"{made}.lists(numpy.array({{count}}){keys})")
        assert isinstance(call, py.Call)
        assert isinstance(call.func, py.Attribute)
        call.func.attr = "lists!"
        return call

    def read(self, node: py.expr) -> py.expr:
        """Return an expression that reads the lists. Raises OtherUseError."""
        if not makers.mentions(node, self.name):
            return node
        if isinstance(node, COMPREHENSION):
            return self._in_loop(node)
        match node:
            case py.Call(func=py.Name(id="len"), args=[py.Name(id=name)]) if name == self.name:
                return self.expression(node, "len({count})")
            case py.Call(func=py.Name(id="len"), args=[only]) if self.index(only) is not None:
                return self._count(only)
            case (
                py.Call(func=py.Name(id="list" | "sorted" | "max" | "min"), args=[py.Name(id=name)])
                | py.Call(func=py.Attribute(attr="keys", value=py.Name(id=name)))
            ) if name == self.name and self.is_dictionary:
                return self._of_keys(node)
            case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=args) if (
                word in self.readers or _is_numpy(node.func)
            ):
                node.args = [self.read_list(arg) for arg in args]
            case py.Subscript(value=value, slice=index, ctx=py.Load()) if self.index(value) is not None:
                node.value, node.slice = self.read_list(value), self.read(index)
                return node
            case py.Compare(ops=[py.In() | py.NotIn()], comparators=[py.Name(id=name)]) if name == self.name:
                if not self.is_dictionary:
                    raise makers.OtherUseError
                node.comparators, node.left = [py.Name(self.names["slot"], py.Load())], self.read(node.left)
                return node
            case py.Compare(left=left, comparators=comparators):
                node.left, node.comparators = (
                    self.read_list(left),
                    [self.read_list(each) for each in comparators],
                )
                return node
            case py.BinOp(left=left, op=py.Add(), right=right):
                node.left, node.right = self.read_list(left), self.read_list(right)
                return node
            case py.BoolOp() | py.IfExp():
                before = list(self.before)
                self._read_parts(node)
                if self.before != before:
                    raise makers.OtherUseError  # which may not be computed
                return node
        self._read_parts(node)
        return node

    def _of_keys(self, node: py.expr) -> py.expr:
        slot = py.Name(self.names["slot"], py.Load())
        if isinstance(node, py.Call) and isinstance(node.func, py.Attribute):
            node.func.value = slot
        elif isinstance(node, py.Call):
            node.args = [slot]
        return node

    def _read_parts(self, node: py.expr | py.stmt) -> None:
        if isinstance(node, py.expr) and (isinstance(node, py.Name) or self.index(node) is not None):
            raise makers.OtherUseError
        for part, value in py.iter_fields(node):
            if isinstance(value, py.expr):
                setattr(node, part, self.read(value))
            elif isinstance(value, list) and all(isinstance(each, py.expr) for each in value):
                setattr(node, part, [self.read(each) for each in value])
            elif isinstance(node, py.stmt) and part in ("body", "orelse"):
                continue
            elif isinstance(value, py.AST | list) and any(
                makers.mentions(each, self.name) for each in (value if isinstance(value, list) else [value])
            ):
                raise makers.OtherUseError

    def read_list(self, node: py.expr) -> py.expr:
        """Return the name of a new list with the items of an inner one; other expressions as read."""
        if self.index(node) is None:
            return self.read(node)
        if self.changes:
            raise makers.OtherUseError  # perhaps before Python reads the list
        made = self.new("list")
        find = self.find(node)
        self.before += [*find, *self.text(node, texts.COLLECT, list=made, at=self.new("at"))]
        return py.copy_location(py.Name(made, py.Load()), node)


def _is_numpy(function: py.expr) -> bool:
    """Return whether a function is one of NumPy's own."""
    match function:
        case py.Attribute(value=py.Name(id="np" | "numpy")):
            return True
    return False
