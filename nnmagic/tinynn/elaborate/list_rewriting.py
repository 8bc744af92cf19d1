"""Rewrite loops that change lists, with rows of tensors in place of the lists.

Three names stand for a list: its rows, the number of its first item, and of the one behind its last. Where
each round appends one item, the round says which row that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import attr
from synr import ast
from synr.ast import BuiltinOp

from nnmagic.tinynn.analysis.bound_names import bound_names_of, find_mentioned_names, walk
from nnmagic.tinynn.elaborate.context import Elaboration, ListNames
from nnmagic.tinynn.elaborate.list_items import is_minus_one, list_to_change, read_last, sorted_in_place
from nnmagic.tinynn.syntax import tree, tree_building
from nnmagic.tinynn.syntax.tree_building import map_parts, operation, subscript
from nnmagic.tinynn.values import values as v


@dataclass(frozen=True, slots=True)
class LoopLists:
    """The lists that a loop changes.

    ``times``: how many items a round appends at most, of lists that get room for all rounds before the loop;
    nothing else changes these. ``is_stepped``: whether each round appends exactly one. ``are_read``: whether
    rounds read other items of lists than the last, as they do of those in ``times`` only if stepped.
    """

    values: Mapping[str, v.TupleOf | v.ListOfRows]
    times: Mapping[str, int] = field(default_factory=dict)
    is_stepped: bool = False
    are_read: bool = True


def find_lists(ctx: Elaboration, stmt: tree.For | tree.While) -> LoopLists | None:
    """Return the lists of the function that a loop appends to or takes items from; None without any."""
    nodes = list(walk(stmt, into_functions=False))
    names = [node.lhs[0].id.name for node in nodes if isinstance(node, tree.Append | tree.ChangeList)]
    moved = [
        (node.lhs[0].id.name, node.rhs.id.name)
        for node in nodes
        if type(node) is ast.Assign and isinstance(node.rhs, ast.Var)
    ]
    names += [target for target, source in moved if source in names]
    lists: dict[str, v.TupleOf | v.ListOfRows] = {}
    for name in dict.fromkeys(names):
        value = list_to_change(ctx, ast.Var(stmt.span, ast.Id(stmt.span, name)))
        if value is not None:
            lists[name] = value
    if isinstance(stmt, tree.For) and lists and not _reads_outside_of_rounds(stmt, lists):
        reads = _reads(stmt, lists)
        for is_stepped in (True,) if reads else (True, False):
            times = _appended_alone(stmt, lists, is_stepped=is_stepped)
            if times and (not reads or times.keys() == lists.keys()):
                return LoopLists({name: lists[name] for name in times}, times, is_stepped, reads)
    return LoopLists(lists) if lists else None


def _appended_alone(
    stmt: tree.For, lists: Mapping[str, v.TupleOf | v.ListOfRows], *, is_stepped: bool
) -> dict[str, int]:
    """Return how often a round appends to the lists to which nothing else happens."""
    nodes = stmt.body.stmts if is_stepped else list(walk(stmt.body, into_functions=False))
    times = Counter(_appended_value(nodes))
    if not times or (is_stepped and _may_skip(stmt)):
        return {}
    inner = [] if is_stepped else [node for node in nodes if isinstance(node, tree.For | tree.While)]
    in_loops = {name for loop in inner for name in _appended_value(walk(loop, into_functions=False))}
    bound = Counter(name for node in walk(stmt, into_functions=False) for name in bound_names_of(node))
    return {
        name: number
        for name, number in times.items()
        if name not in in_loops
        and bound[name] == (1 if is_stepped else number)
        and isinstance(lists.get(name), v.TupleOf)
    }


def _appended_value(nodes: Iterable[ast.Node]) -> Iterator[str]:
    return (node.lhs[0].id.name for node in nodes if isinstance(node, tree.Append))


def _may_skip(stmt: tree.For) -> bool:
    """Return whether a round may end before its last statement."""
    leaving = ast.Return | tree.Break | tree.Continue
    return any(isinstance(node, leaving) for node in walk(stmt.body, into_functions=False))


def _reads_outside_of_rounds(stmt: tree.For, lists: Mapping[str, v.TupleOf | v.ListOfRows]) -> bool:
    """Return whether the ``else`` of a loop, or a function that a round makes, reads a list."""
    mentions = Counter(_variables(walk(stmt.body)))
    in_rounds = Counter(_variables(walk(stmt.body, into_functions=False)))
    return bool(find_mentioned_names(stmt.orelse) & lists.keys()) or any(
        mentions[name] > in_rounds[name] for name in lists
    )


def _variables(nodes: Iterable[ast.Node]) -> Iterator[str]:
    return (node.id.name for node in nodes if isinstance(node, ast.Var))


def _reads(stmt: tree.For, lists: Mapping[str, v.TupleOf | v.ListOfRows]) -> bool:
    """Return whether rounds read a list that they append to otherwise than its length and its last item."""
    mentions = Counter(_variables(walk(stmt.body)))
    allowed = Counter[str]()
    for node in walk(stmt.body, into_functions=False):
        match node:
            case tree.Append():
                allowed[node.lhs[0].id.name] += 2  # on the left side, and on the right
            case ast.Call(func_name=ast.Var(id=ast.Id(name="len")), params=[ast.Var(id=ast.Id(name=name))]):
                allowed[name] += 1
            case ast.Call() if (name := read_last(node)) in lists and items_before(lists[name]):
                allowed[name] += 1
    return any(mentions[name] > allowed[name] for name in lists)


def items_before(value: v.TupleOf | v.ListOfRows) -> tuple[v.Value, ...]:
    """Return the items of a list that are known one by one."""
    return value.items if isinstance(value, v.TupleOf) else ()


def over_changing_list(ctx: Elaboration, stmt: tree.For) -> tuple[str, tree.While] | None:
    """Return a loop over a list that its rounds change, as one that counts the items; None for other loops.

    As in Python it goes over the items that the list has by then. Also the name of what counts them.
    """
    if not _changes_what_it_goes_over(stmt) or list_to_change(ctx, stmt.iterable) is None:
        return None
    if id(stmt) not in ctx.rewritten:
        name = _free_name(f"{stmt.iterable.id.name}_next", _taken_names(ctx, stmt))
        ctx.rewritten[id(stmt)] = _counting(stmt, name)
        ctx.rewritten_sources += [stmt, ctx.rewritten[id(stmt)]]
    loop = ctx.rewritten[id(stmt)]
    assert isinstance(loop, tree.While)
    return str(loop.condition.params[0].id.name), loop


def _changes_what_it_goes_over(stmt: tree.For) -> bool:
    """Return whether a loop goes over a list that its rounds change."""
    return isinstance(stmt.iterable, ast.Var) and stmt.iterable.id.name in _changed_lists(stmt)


def _changed_lists(stmt: tree.For) -> set[str]:
    return {
        node.lhs[0].id.name
        for node in walk(stmt.body, into_functions=False)
        if isinstance(node, tree.Append | tree.ChangeList)
    }


def check_iterable(ctx: Elaboration, stmt: tree.For) -> None:
    """Refuse a loop that goes over a list beside others while its rounds change it. Raises RefusalError."""
    match stmt.iterable:
        case ast.Call(func_name=ast.Var(id=ast.Id(name="zip" | "enumerate" as word)), params=params):
            for iterable in params:
                if isinstance(iterable, ast.Var) and iterable.id.name in _changed_lists(stmt):
                    name = iterable.id.name
                    message = f"`{name}` changes in this loop, which goes over it by `{word}`"
                    hint = f"go over a copy, as in {word}(list({name})), or count the items in a while loop"
                    raise v.RefusalError(message, ctx.span(iterable.span), hint=hint)


def _counting(stmt: tree.For, name: str) -> tree.While:
    span, place = stmt.iterable.span, tree_building.variable(stmt.iterable.span, name)
    length = ast.Call(span, tree_building.variable(span, "len"), [stmt.iterable], {})
    condition = ast.Call(span, ast.Op(span, BuiltinOp.LT), [place, length], {})
    item = subscript(span, stmt.iterable, [place])
    begin = (
        ast.Assign(span, [stmt.target], None, item)
        if isinstance(stmt.target, ast.Var)
        else tree.Unpack(span, [stmt.target], item)
    )
    count_on = ast.Assign(span, [place], None, operation(place.span, BuiltinOp.Add, place, _number(span, 1)))
    body = ast.Block(stmt.body.span, [begin, count_on, *stmt.body.stmts])
    return tree.While(stmt.span, condition, body, stmt.orelse)


def rewrite(
    ctx: Elaboration, stmt: tree.For | tree.While, lists: LoopLists
) -> tuple[tree.For | tree.While, dict[str, ListNames]]:
    """Return the loop with rows in place of lists, and their names; a stepped one counts its rounds."""
    begun = frozenset(name for name in lists.times if items_before(lists.values[name]))
    key = frozenset(lists.values), frozenset(lists.times), begun, lists.is_stepped
    if ctx.changing_lists.get(id(stmt), (None,))[0] != key:
        taken, counter = _taken_names(ctx, stmt), None
        if lists.is_stepped:
            counter = tree_building.variable(stmt.span, _free_name(f"step{len(ctx.rewritten)}", taken))
        names = dict[str, ListNames]()
        for name in lists.values:
            rows, begin = (_free_name(f"{name}_{word}", taken) for word in ("rows", "begin"))
            # No cell can write the number of items before a loop that counts its rounds.
            end = f"items before {rows}" if lists.is_stepped else ""
            end = end or _free_name(f"{name}_{'count' if lists.times else 'end'}", taken)
            names[name] = ListNames(rows, begin, end)
        rewriter = _Rewriter(names, _queues(stmt), taken, frozenset(lists.times), begun, counter)
        ctx.changing_lists[id(stmt)] = key, names
        ctx.rewritten[id(stmt)] = rewriter.loop(stmt)
        ctx.rewritten_sources += [stmt, ctx.rewritten[id(stmt)]]
    loop = ctx.rewritten[id(stmt)]
    assert isinstance(loop, tree.For | tree.While)
    return loop, dict(ctx.changing_lists[id(stmt)][1])


def _taken_names(ctx: Elaboration, stmt: ast.Stmt) -> set[str]:
    return set(find_mentioned_names(stmt) | ctx.environment.assigned) | {*ctx.environment.names()}


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _queues(stmt: tree.For | tree.While) -> frozenset[str]:
    """Return the lists from whose beginning a loop takes items."""
    return frozenset(
        node.lhs[0].id.name
        for node in walk(stmt, into_functions=False)
        if isinstance(node, tree.ChangeList) and _taken_position(node) == 0
    )


def _taken_position(stmt: tree.ChangeList) -> int | None:
    """Return 0 or -1 where the first or the last item of a list is taken from it; None for other changes."""
    match stmt.rhs:
        case ast.Call(params=[ast.Var(), ast.Tuple(values=[ast.Slice(start=start, end=end)])]):
            if isinstance(start, ast.Constant) and start.value == 1:
                return 0
            if isinstance(end, ast.Call):  # [:-1]; [::-1] has no end
                return -1
    return None


@dataclass(slots=True)
class _Rewriter:
    """Replaces what a loop does with lists by what it does with rows.

    ``queues``: the lists whose first items are taken. ``taken``: the names that are not free. ``roomy``: the
    lists that have room for what the loop at hand appends. ``begun``: those that have items from the first
    round on. ``counter``: counts the rounds if each appends one item to each list; ``appended``: the lists to
    which such a round has appended.
    """

    names: Mapping[str, ListNames]
    queues: frozenset[str]
    taken: set[str]
    roomy: frozenset[str]
    begun: frozenset[str]
    counter: ast.Var | None
    appended: set[str] = field(default_factory=set)

    def loop(self, stmt: tree.For | tree.While) -> tree.For | tree.While:
        """Return a whole loop with all of them replaced."""
        body, orelse = self.replace(stmt.body), self.replace(stmt.orelse)
        if isinstance(stmt, tree.While):
            return tree.While(stmt.span, self.condition(stmt.condition), body, orelse)
        target = stmt.target
        if self.counter is not None:
            target = ast.Tuple(target.span, [self.counter, target])
        return tree.For(stmt.span, target, stmt.iterable, body, orelse)

    def replace(self, node: ast.Node) -> ast.Node:
        """Return a piece of a loop with all of them replaced."""
        if not find_mentioned_names(node) & self.names.keys():
            return node
        match node:
            case ast.Block(stmts=stmts):
                return attr.evolve(
                    node, stmts=[rewritten for item in stmts for rewritten in self._statement(item)]
                )
            case ast.Var(id=ast.Id(name=name)) if name in self.names:
                return self._part("whole", name, node.span, *self._bounds(name, node.span))
            case ast.Call(func_name=ast.Var(id=ast.Id(name="len")), params=[ast.Var(id=ast.Id(name=name))]):
                if name in self.names:
                    return self._length(name, node.span)
            case ast.Call(
                func_name=ast.Op(name=BuiltinOp.Subscript), params=[ast.Var() as owner, ast.Tuple()]
            ):
                index = node.params[1].values
                if owner.id.name not in self.names:
                    indices = attr.evolve(node.params[1], values=[self.replace(item) for item in index])
                    return attr.evolve(node, params=[owner, indices])
                if len(index) == 1 and not isinstance(index[0], ast.Slice):
                    return self._item(owner.id.name, node.span, index[0])
            case ast.Tuple(values=values) | ast.ArrayLiteral(values=values):
                held = [
                    self._hold(item) if isinstance(item, ast.Var) else self.replace(item) for item in values
                ]
                return attr.evolve(node, values=held)
            case ast.Call(func_name=ast.Op(name=BuiltinOp.Not), params=[only]):
                return attr.evolve(node, params=[self.condition(only)])
            case tree.Conditional(condition=condition):
                kept = attr.evolve(node, condition=ast.Constant(node.span, value=True))
                return attr.evolve(map_parts(kept, self.replace), condition=self.condition(condition))
        return map_parts(node, self.replace)

    def condition(self, node: ast.Expr) -> ast.Expr:
        """Return a condition, where a list stands for whether it has items."""
        match node:
            case ast.Var(id=ast.Id(name=name)) if name in self.names:
                greater = ast.Op(node.span, BuiltinOp.GT)
                return ast.Call(
                    node.span, greater, [self._length(name, node.span), _number(node.span, 0)], {}
                )
            case tree.Logical(values=values):
                return attr.evolve(node, values=[self.condition(value) for value in values])
        replaced = self.replace(node)
        assert isinstance(replaced, ast.Expr)
        return replaced

    def _item(self, name: str, span: ast.Span, index: ast.Expr) -> ast.Expr:
        if name in self.begun and is_minus_one(index):  # of a list from which nothing takes items
            place = self._end(name, span, -1)
        else:
            bounds = self._bounds(name, span)
            place = self._part("place", name, span, *bounds, self.replace(index))
        return subscript(span, tree_building.variable(span, self.names[name].rows), [place])

    def _hold(self, variable: ast.Var) -> ast.Expr:
        """Return what an item of a tuple is: no list that changes later, which Python would show there."""
        name = variable.id.name
        return self._part("held", name, variable.span) if name in self.names else variable

    def _part(self, kind: str, name: str, span: ast.Span, *operands: ast.Node) -> tree.ListPart:
        return tree.ListPart(span, kind, name, operands)

    def _bounds(self, name: str, span: ast.Span) -> tuple[ast.Expr, ast.Expr, ast.Expr]:
        names = self.names[name]
        return (
            tree_building.variable(span, names.rows),
            tree_building.variable(span, names.begin),
            self._end(name, span),
        )

    def _end(self, name: str, span: ast.Span, more: int = 0) -> ast.Expr:
        """Return the number of the item behind the last one, or of one some places on."""
        end = tree_building.variable(span, self.names[name].end)
        if self.counter is not None:
            more += name in self.appended
            end = operation(span, BuiltinOp.Add, self.counter, end) if name in self.begun else self.counter
        sign = BuiltinOp.Add if more > 0 else BuiltinOp.Sub
        return operation(span, sign, end, _number(span, abs(more))) if more else end

    def _length(self, name: str, span: ast.Span) -> ast.Expr:
        end = self._end(name, span)
        if name not in self.queues:
            return end
        return operation(end.span, BuiltinOp.Sub, end, tree_building.variable(span, self.names[name].begin))

    def _statement(self, stmt: ast.Stmt) -> Iterator[ast.Stmt]:
        name = stmt.lhs[0].id.name if isinstance(stmt, ast.Assign) and len(stmt.lhs) == 1 else ""
        if isinstance(stmt, tree.For) and _changes_what_it_goes_over(stmt):
            place = _free_name(f"{stmt.iterable.id.name}_next", self.taken)
            yield ast.Assign(
                stmt.span, [tree_building.variable(stmt.span, place)], None, _number(stmt.span, 0)
            )
            yield from self._statement(_counting(stmt, place))
        elif isinstance(stmt, tree.For):
            yield from self._inner_loop(stmt)
        elif isinstance(stmt, ast.If):
            branches = {"true": self.replace(stmt.true), "false": self.replace(stmt.false)}
            yield attr.evolve(stmt, condition=self.condition(stmt.condition), **branches)
        elif isinstance(stmt, tree.While):
            blocks = {"body": self.replace(stmt.body), "orelse": self.replace(stmt.orelse)}
            yield attr.evolve(stmt, condition=self.condition(stmt.condition), **blocks)
        elif isinstance(stmt, ast.Return) and isinstance(stmt.value, ast.Tuple):
            values = [self.replace(value) for value in stmt.value.values]
            yield attr.evolve(stmt, value=attr.evolve(stmt.value, values=values))
        elif isinstance(stmt, tree.Append) and name in self.names:
            yield from self._append(stmt, name)
        elif isinstance(stmt, tree.ChangeList) and name in self.names and _taken_position(stmt) is not None:
            yield from self._drop(stmt, name)
        elif isinstance(stmt, ast.Assign) and name in self.names:
            yield from self._assign(stmt, name)
        elif (sorted_name := sorted_in_place(stmt)) in self.names:
            variable = tree_building.variable(stmt.span, sorted_name)
            call = ast.Call(stmt.span, tree_building.variable(stmt.span, "sorted"), [variable], {})
            yield from self._assign(ast.Assign(stmt.span, [variable], None, call), sorted_name)
        elif isinstance(stmt, tree.ChangeTable) and stmt.name.id.name in self.names:
            yield stmt  # which is refused: no list changes so
        else:
            replaced = (
                map_parts(stmt, self.replace) if find_mentioned_names(stmt) & self.names.keys() else stmt
            )
            assert isinstance(replaced, ast.Stmt)
            yield replaced

    def _inner_loop(self, stmt: tree.For) -> Iterator[ast.Stmt]:
        """Yield a loop inside, before which lists get room for all that its rounds append."""
        appended = Counter(
            node.lhs[0].id.name
            for node in walk(stmt.body, into_functions=False)
            if isinstance(node, tree.Append) and node.lhs[0].id.name in self.names
        )
        loops = [
            node for node in walk(stmt.body, into_functions=False) if isinstance(node, tree.For | tree.While)
        ]
        inside = {
            name
            for loop in loops
            for node in walk(loop, into_functions=False)
            for name in bound_names_of(node)
        }
        given = {
            node.lhs[0].id.name
            for node in walk(stmt.body, into_functions=False)
            if type(node) is ast.Assign
            or (isinstance(node, tree.ChangeList) and _taken_position(node) is None)
        }
        roomy = frozenset(appended) - inside - given - self.roomy
        iterable = self.replace(stmt.iterable)
        for name in sorted(roomy):
            more = ast.Tuple(stmt.span, [iterable, _number(stmt.span, appended[name])])
            yield from self._make_room(name, stmt.span, more)
        inner = replace(self, roomy=self.roomy | roomy)
        yield tree.For(
            stmt.span,
            self.replace(stmt.target),
            iterable,
            inner.replace(stmt.body),
            self.replace(stmt.orelse),
        )

    def _make_room(self, name: str, span: ast.Span, more: ast.Expr) -> Iterator[ast.Stmt]:
        rows, begin, end = self._bounds(name, span)
        larger = self._part("larger", name, span, rows, begin, end, more)
        then: list[ast.Stmt] = [ast.Assign(span, [rows], None, larger)]
        if name in self.queues:
            then.append(ast.Assign(span, [end], None, operation(end.span, BuiltinOp.Sub, end, begin)))
            then.append(ast.Assign(span, [begin], None, _number(span, 0)))
        full_ = self._part("full", name, span, rows, end, more)
        yield ast.If(span, full_, ast.Block(span, then), ast.Block(span, []))

    def _append(self, stmt: tree.Append, name: str) -> Iterator[ast.Stmt]:
        span, names = stmt.span, self.names[name]
        if name not in self.roomy:
            yield from self._make_room(name, span, _number(span, 1))
        end, item = self._end(name, span), self.replace(stmt.item)
        assert isinstance(item, ast.Expr)
        yield tree.Grow(span, tree_building.variable(span, names.rows), end, item, name)
        if self.counter is None:
            yield ast.Assign(span, [end], None, self._end(name, span, 1))
        else:
            self.appended.add(name)

    def _drop(self, stmt: tree.ChangeList, name: str) -> Iterator[ast.Stmt]:
        """Yield what takes the first or the last item away; a list without items is an error."""
        span, names = stmt.span, self.names[name]
        is_empty = ast.Call(
            span, ast.Op(span, BuiltinOp.Eq), [self._length(name, span), _number(span, 0)], {}
        )
        message = tree.Message(span, ["pop from empty list"], 0)
        yield ast.If(
            span, is_empty, ast.Block(span, [tree.Raise(span, "IndexError", message)]), ast.Block(span, [])
        )
        moved, sign = (
            (names.begin, BuiltinOp.Add) if _taken_position(stmt) == 0 else (names.end, BuiltinOp.Sub)
        )
        place = tree_building.variable(span, moved)
        yield ast.Assign(span, [place], None, operation(place.span, sign, place, _number(span, 1)))

    def _assign(self, stmt: ast.Assign, name: str) -> Iterator[ast.Stmt]:
        """Yield what gives a list another value: another list, or what a method leaves of it."""
        span = stmt.span
        rows, begin, end = self._bounds(name, span)
        source = stmt.rhs.id.name if isinstance(stmt.rhs, ast.Var) else ""
        if source == name:
            return
        target = tree_building.variable(span, _free_name(f"{name}_new", self.taken))
        yield ast.Assign(span, [target], None, self.replace(stmt.rhs))
        kind = "left" if isinstance(stmt, tree.ChangeList) else "taken"
        yield ast.Assign(span, [rows], None, self._part(kind, name, span, target))
        length = ast.Call(span, tree_building.variable(span, "len"), [target], {})
        yield ast.Assign(span, [end], None, length)
        yield ast.Assign(span, [begin], None, _number(span, 0))
        if source in self.names:  # Python would change the list by both names
            moved = self._part("moved", source, span, tree_building.variable(span, name))
            yield ast.Assign(span, [tree_building.variable(span, self.names[source].rows)], None, moved)


def _number(span: ast.Span, number: int) -> ast.Constant:
    return ast.Constant(span, number)
