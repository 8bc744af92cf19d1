"""Repetition that is known while compiling: loops written out round by round, comprehensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any

from synr import ast

from nnmagic.tinynn.analysis.bound_names import mentioned_names, targets_of, walk
from nnmagic.tinynn.elaborate.conditions import Conditions
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind, Terminator, exits_of
from nnmagic.tinynn.operators.iteration import is_silent, items
from nnmagic.tinynn.operators.unpacking import fail_all, unpack
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.environments import Environment
from nnmagic.tinynn.values.values import FAILED, Computed, Operand, RefusalError, TupleOf, Value, is_failed

#: A loop of at most so many rounds, all known while compiling, is written out; a longer one is a function.
MAX_UNROLLED = 64
#: Statements that one loop, with those inside it, may be written out to.
MAX_UNROLLED_STATEMENTS = 2000
#: Stands for an attempt to write a loop out that was given up.
GIVEN_UP: Any = object()


_IN_ELSE = {ExitKind.BREAKS: ExitKind.BREAKS_OUTER, ExitKind.CONTINUES: ExitKind.CONTINUES_OUTER}
_SEEN_OUTSIDE = {
    ExitKind.BREAKS: ExitKind.GOES_ON,
    ExitKind.BREAKS_OUTER: ExitKind.BREAKS,
    ExitKind.CONTINUES_OUTER: ExitKind.CONTINUES,
}


class UnrollError(Exception):  # an attempt given up
    """A loop that is better a function."""


class Unrolling(Conditions):
    """Loops written out."""

    def assign(self, target: ast.Expr, value: Operand) -> None:
        """Binds the names of a target. Raises Refusal."""
        places = {variable.id.name: self.place(variable.span) for variable in targets_of(target)}

        def bind(name: str, part: Value) -> None:
            self.frame.env.bind(name, part, places.get(name))

        if is_failed(value.value):
            fail_all(target, bind)
        else:
            unpack(target, value, self.place, bind)

    def unrolled(
        self, stmt: tree.For | tree.While, rounds: Callable[[], Iterator[Callable[[], None]]]
    ) -> Terminator | None:
        """The loop, round after round; GIVEN_UP, and nothing done, where it is better a function."""
        outermost = self.unroll_budget is None
        if outermost:
            self.unroll_budget = self.work + MAX_UNROLLED_STATEMENTS
        kept = [(each.env, each.env.copy()) for each in self.frame.chain()]
        lets, silent = len(self.block.lets), (self.frame.failed, set(self.told))
        found, self.found = self.found, type(self.found)()
        try:
            end = self._rounds(stmt, rounds())
        except UnrollError:
            if not outermost:
                raise
            for env, copy in kept:
                env.become(copy)
            del self.block.lets[lets:]
            self.frame.failed, self.told = silent
            self.found = found
            return GIVEN_UP  # type: ignore[no-any-return]  # a mark
        except BaseException:
            self.found = found
            raise
        finally:
            if outermost:
                self.unroll_budget = None
        errors, self.found = self.found, found
        for diagnostic in errors.found:
            self.found.add(diagnostic)
        return end

    def _rounds(self, stmt: tree.For | tree.While, rounds: Iterator[Callable[[], None]]) -> Terminator | None:
        live = self.live | mentioned_names(stmt)
        after, self.live = self.live, live

        def steps() -> Iterator[Callable[[], Terminator | None]]:
            for number, begin in enumerate(rounds):
                if number >= MAX_UNROLLED and isinstance(stmt, tree.While):
                    raise UnrollError
                self.live = live
                yield lambda begin=begin: self._round(stmt.body.stmts, begin)  # type: ignore[misc]  # one a round
            self.live = after
            if stmt.orelse.stmts:
                yield lambda: self._after(self.within(stmt.orelse.stmts))

        block, self.block = self.block, Block(self.block.lets)
        try:
            self.sequence(steps())
            end = self.block.end
        finally:
            self.block, self.live = block, after
        return self._left(end)

    def _round(self, body: Sequence[ast.Stmt], begin: Callable[[], None]) -> Terminator | None:
        if self.unroll_budget is not None and self.work > self.unroll_budget:
            raise UnrollError
        begin()
        end = self.within(body)
        for leaf, _ in exits_of(end):
            if leaf.exit is ExitKind.CONTINUES:
                leaf.exit = ExitKind.GOES_ON
        return self.settled_end(end)

    def _left(self, end: Terminator | None) -> Terminator | None:
        """The end of a loop, seen from outside: its breaks go on."""
        for leaf, _ in exits_of(end):
            leaf.exit = _SEEN_OUTSIDE.get(leaf.exit, leaf.exit)
        return self.settled_end(end)

    def _after(self, end: Terminator | None) -> Terminator | None:
        """The end of a loop's ``else``: where it leaves a loop, that is the one around."""
        for leaf, _ in exits_of(end):
            leaf.exit = _IN_ELSE.get(leaf.exit, leaf.exit)
        return end

    def settled_end(self, end: Terminator | None) -> Terminator | None:
        """An end, or None where it only goes on: its names are then those of the block."""
        if isinstance(end, BlockExit) and end.exit is ExitKind.GOES_ON:
            self.frame.env.become(end.env)
            return None
        return end if end is None else self.merged(end)

    # -- comprehensions ------------------------------------------------------------------------------

    def comprehension(self, expr: tree.Comprehension) -> Value:
        """``[element for target in items if condition]`` over items that are known now. Raises Refusal.

        Its names are its own, as in Python: a lambda in it sees what they stand for last.
        """
        gathered: list[Value] = []
        targets = {each.id.name for part in expr.generators for each in targets_of(part.target)}

        def go(generators: Sequence[tree.Generator]) -> None:
            if not generators:
                self.count_work()
                gathered.append(self.transform_expr(expr.element))
                return
            first, *rest = generators
            over = self.operand(first.iterable)
            if is_silent(over.value):
                gathered.append(FAILED)
                return
            for each in items(over, "a comprehension"):
                self.assign(first.target, Operand(each, over.span))
                held = [self.truth(self.operand(condition), "if") for condition in first.conditions]
                if None in held:
                    gathered.append(FAILED)
                    return
                if any(isinstance(each_, Computed) for each_ in held):
                    place = self.place(first.conditions[0].span)
                    message = "what a comprehension keeps must be known while compiling"
                    raise RefusalError(
                        message, place, hint="keep all, and choose with where(condition, x, y)"
                    )
                if all(held):
                    go(rest)

        with self._own_names(expr, targets):
            go(list(expr.generators))
        return TupleOf(tuple(gathered))

    @contextmanager
    def _own_names(self, expr: tree.Comprehension, names: Set[str]) -> Iterator[None]:
        """Lets a comprehension bind its names; what they stood for is as before afterwards."""
        outer = self.frame
        if any(isinstance(part, tree.Lambda) for part in walk(expr)):  # which keeps them
            self.frame = Environment(outer.name, parent=outer, dimensions=outer.dimensions)
            try:
                yield
            finally:
                self.frame = outer
            return
        env = outer.env
        kept = {name: env.locals.get(name) for name in names}
        try:
            yield
        finally:
            for name, value in kept.items():
                if value is None:
                    env.forget(name)
                else:
                    env.locals[name] = value
