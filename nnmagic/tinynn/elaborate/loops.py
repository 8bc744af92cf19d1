"""``for`` and ``while``: written out where all is known while compiling, else functions that recur."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from synr.ast import BuiltinOp

from nnmagic.diagnostics import Diagnostics, Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import assigned_names, mentioned_names, targets_of, walk
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    Block,
    BlockExit,
    CondBranch,
    ExitKind,
    Loop,
    Terminator,
    exits_of,
)
from nnmagic.tinynn.elaborate.merging import (
    MergeConflictError,
    Plan,
    Same,
    atomize,
    expressions,
    merge_conflict,
    rebuild,
    types_of,
    widened,
)
from nnmagic.tinynn.elaborate.unrolling import GIVEN_UP, MAX_UNROLLED, UnrollError, Unrolling
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.iteration import count, has_known_items, is_silent, item
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.environments import Env
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    Known,
    Operand,
    RefusalError,
    Unassigned,
    Value,
    described,
    is_failed,
)

_INT64 = TensorType((), "int64")


@dataclass(slots=True)
class _Carried:
    """What a loop hands from round to round."""

    plans: dict[str, Plan]
    variable: ir.Var
    params: tuple[ir.Var, ...]
    counter: ir.Var | None


class Loops(Unrolling):
    """Repetition."""

    # -- while -----------------------------------------------------------------------------------------

    def while_loop(self, stmt: tree.While) -> Terminator | None:
        """``while``. Raises Refusal."""
        with self.trial():
            condition = self.truth(self.operand(stmt.condition), "while")
        if condition is False:
            self.truth(self.operand(stmt.condition), "while")
            return self.within(stmt.orelse.stmts)
        if (
            condition is True
            and not self.compact
            and (end := self.unrolled(stmt, lambda: self._while_rounds(stmt))) is not GIVEN_UP
        ):
            return end
        return self._recurring(stmt, lambda: self._while_test(stmt), lambda _counter: None, None)

    def _while_rounds(self, stmt: tree.While) -> Iterator[Callable[[], None]]:
        """One entry a round, as long as the condition is known to hold."""
        while True:
            condition = self.truth(self.operand(stmt.condition), "while")
            if condition is False:
                return
            if condition is not True:
                raise UnrollError
            yield lambda: None

    def _while_test(self, stmt: tree.While) -> Computed | bool | None:
        return self.truth(self.operand(stmt.condition), "while")

    # -- for -------------------------------------------------------------------------------------------

    def for_loop(self, stmt: tree.For) -> Terminator | None:
        """``for``. Raises Refusal."""
        over = self.operand(stmt.iterable)
        if is_silent(over.value):
            for target in targets_of(stmt.target):
                self.frame.env.bind(target.id.name, FAILED)
            return self.both_for_errors(stmt, [stmt.body.stmts, stmt.orelse.stmts])
        number = count(over)
        if isinstance(number, int):
            known_items = has_known_items(over.value)
            if number == 0 or (number <= MAX_UNROLLED and not self.compact) or known_items:
                end = self.unrolled(stmt, lambda: self._for_rounds(stmt, over, number))
                if end is GIVEN_UP and known_items and not self.compact:
                    self.compact = True  # the loops inside it may be functions
                    try:
                        end = self.unrolled(stmt, lambda: self._for_rounds(stmt, over, number))
                    finally:
                        self.compact = False
                if end is not GIVEN_UP:
                    return end
            if known_items:
                message = f"this loop over {described(over.value)} is too long to be written out"
                raise RefusalError(
                    message, over.span, hint="stack the items into one tensor, and go over its rows"
                )
        elif has_known_items(over.value):
            message = "tuples can be gone over only as many times as is known while compiling"
            raise RefusalError(message, over.span, hint="stack the items into one tensor")
        if isinstance(number, int):
            targets = {target.id.name for target in targets_of(stmt.target)}
            if targets & assigned_names(stmt.body).keys():
                self._bind_item(stmt, over, Known(0))  # so that it is handed from round to round
            else:
                for name in targets:
                    self.frame.env.forget(name)
        self.settle(sorted(mentioned_names(stmt.iterable)))
        over = Operand(self.settled(over.value, "items", set()), over.span)
        limit = self.settled(number, "count", set()) if isinstance(number, Computed) else Known(number)
        return self._recurring(
            stmt,
            None,
            lambda counter: self._bind_item(stmt, over, counter),
            Operand(limit, over.span),
        )

    def _for_rounds(self, stmt: tree.For, over: Operand, number: int) -> Iterator[Callable[[], None]]:
        for index in range(number):
            yield lambda index=index: self._bind_item(stmt, over, Known(index))  # type: ignore[misc]  # one a round

    def _bind_item(self, stmt: tree.For, over: Operand, index: Value | None) -> None:
        assert index is not None
        self.assign(stmt.target, Operand(item(over, index, over.span), over.span))

    # -- functions that recur --------------------------------------------------------------------------

    def _recurring(
        self,
        stmt: tree.For | tree.While,
        test: Callable[[], Computed | bool | None] | None,
        begin: Callable[[Value | None], None],
        limit: Operand | None,
    ) -> Terminator | None:
        """The loop as a function that calls itself with what changes."""
        self.settle_for(stmt)
        env = self.frame.env
        names = [name for name in assigned_names(stmt) if name in env.locals]
        plans: dict[str, Plan] = {name: atomize(env.locals[name], keep=False) for name in names}
        counted = limit is not None
        while True:  # until a round asks for no other types than those that it began with
            carried = self._carried(stmt, plans, counted)
            before, failed, told = self.found, self.frame.failed, set(self.told)
            self.found = Diagnostics()
            try:
                body, wider = self._one_round(stmt, carried, test, begin, limit)
            finally:
                errors, self.found = self.found.found, before
            if wider == plans:
                break
            self.frame.failed, self.told = failed, told
            plans = wider
        for diagnostic in errors:
            self.found.add(diagnostic)
        start = self._start(carried, env)
        self._may_not_run(stmt, env)
        end = self._left(Loop(carried.variable, carried.params, start, body, self.place(stmt.span)))
        for part in walk(stmt.body):
            for name in part.names if isinstance(part, tree.InvalidStatement) else ():
                self.frame.env.bind(name, FAILED)  # its error is reported
        return end

    def _may_not_run(self, stmt: tree.For | tree.While, env: Env) -> None:
        """Says of names that only the loop assigns why they cannot be used after it."""
        place = self.place(stmt.span)
        notes = (Note("the loop may have no rounds", place),)
        for name in assigned_names(stmt):
            if name not in env.locals:
                message = f"`{name}` may not be assigned here: only a loop assigns it"
                env.locals[name] = Unassigned(message, "assign it before the loop", notes)

    def _carries_target(self, stmt: tree.For | tree.While, carried: _Carried) -> bool:
        assert isinstance(stmt, tree.For)
        return all(target.id.name in carried.plans for target in targets_of(stmt.target))

    def _carried(self, stmt: tree.For | tree.While, plans: dict[str, Plan], counted: bool) -> _Carried:
        place = self.place(stmt.span)
        word = "for" if isinstance(stmt, tree.For) else "while"
        counter = ir.Var("step", _INT64, span=place) if counted else None
        params = [] if counter is None else [counter]
        for name, plan in plans.items():
            params += [ir.Var(name, one.type, span=place) for one in types_of(plan)]
        return _Carried(plans, ir.Var(f"{word}_loop", span=place), tuple(params), counter)

    def _start(self, carried: _Carried, env: Env) -> tuple[ir.Expr, ...]:
        start: list[ir.Expr] = []
        if carried.counter is not None:
            start.append(ir.constant(0, "int64", span=carried.counter.span))
        for name, plan in carried.plans.items():
            if list(types_of(plan)):
                place = env.places.get(name) or carried.variable.span
                assert place is not None
                start += expressions(plan, env.locals[name], place)
        return tuple(start)

    def _one_round(
        self,
        stmt: tree.For | tree.While,
        carried: _Carried,
        test: Callable[[], Computed | bool | None] | None,
        begin: Callable[[Value | None], None],
        limit: Operand | None,
    ) -> tuple[Block, dict[str, Plan]]:
        """The function's body, and the plans that its rounds ask for."""
        outer = self.frame.env
        place = self.place(stmt.span)
        live, self.live = self.live, self.live | mentioned_names(stmt)
        body = Block()
        with self.inside(body, self._entry(carried, outer)) as env:
            counter = None if carried.counter is None else Computed(carried.counter, _INT64, weak=True)
            condition: Computed | bool | None
            if counter is None:
                assert test is not None
                condition = test()
            else:
                assert limit is not None
                less = binary(BuiltinOp.LT, "<", Operand(counter, limit.span), limit, limit.span)
                assert isinstance(less, Computed)
                condition = less
            again, leave = Block(), Block()
            with self.inside(again, env.copy()):
                self.fill(again, self._loop_steps(stmt, begin, counter), place)
            with self.inside(leave, env.copy()):
                self.live = live
                if (
                    limit is not None
                    and isinstance(limit.value, Known)
                    and not self._carries_target(stmt, carried)
                ):
                    assert isinstance(limit.value.value, int)
                    begin(Known(limit.value.value - 1))  # after all rounds its names are those of the last
                self.fill(leave, self.steps(stmt.orelse.stmts), place)
                self._after(leave.end)
            self.live = live
            if isinstance(condition, Computed):
                body.end = CondBranch(condition.expr, again, leave, place)
            else:  # it goes on until something in it leaves
                self.frame.failed = self.frame.failed or condition is None
                body.lets += again.lets
                body.end = again.end
        rounds = [
            leaf for leaf, _ in exits_of(again.end) if leaf.exit in (ExitKind.GOES_ON, ExitKind.CONTINUES)
        ]
        plans = self._widened(carried, outer, rounds, place)
        for leaf in rounds:
            leaf.exit, leaf.target = ExitKind.JUMPS, carried.variable
            leaf.args = self._next(carried, leaf, plans == carried.plans)
        return body, plans

    def _loop_steps(
        self, stmt: tree.For | tree.While, begin: Callable[[Value | None], None], counter: Value | None
    ) -> list[Callable[[], Terminator | None]]:
        def first() -> None:
            begin(counter)

        return [first, *self.steps(stmt.body.stmts)]

    def _entry(self, carried: _Carried, outer: Env) -> Env:
        """The names at the beginning of a round."""
        env = outer.copy()
        params = iter(carried.params[1:] if carried.counter is not None else carried.params)
        for name, plan in carried.plans.items():
            env.locals[name] = rebuild(plan, params)
            env.versions[name] = env.versions.get(name, 0) + 1
        return env

    def _widened(
        self, carried: _Carried, outer: Env, rounds: Sequence[BlockExit], place: Span
    ) -> dict[str, Plan]:
        """The plans that take what the rounds leave, too; a name that none takes has no usable value."""
        plans: dict[str, Plan] = {}
        for name, plan in carried.plans.items():
            plans[name] = plan
            values: list[tuple[Value, Span]] = [(outer.locals[name], outer.places.get(name, place))]
            for leaf in rounds:
                value = leaf.env.locals.get(name, FAILED)
                values.append((value, leaf.env.places.get(name, place)))
                if is_failed(value):
                    continue  # the error shows when the round is carried out for good
                if isinstance(plans[name], Same) and isinstance(plans[name].value, Unassigned):  # type: ignore[union-attr]  # Same has one
                    continue
                wider = widened(plans[name], value)
                if wider is None:
                    found = merge_conflict(
                        name, values, MergeConflictError(0, len(values) - 1), "it changes from round to round"
                    )
                    wider = Same(found)
                plans[name] = wider
        return plans

    def _next(self, carried: _Carried, leaf: BlockExit, final: bool) -> tuple[ir.Expr, ...]:
        """The arguments of the next round."""
        if not final:
            return ()
        args: list[ir.Expr] = []
        if carried.counter is not None:
            one = ir.constant(1, "int64", span=leaf.span)
            counter = Operand(Computed(carried.counter, _INT64), leaf.span)
            stepped = binary(
                BuiltinOp.Add, "+", counter, Operand(Computed(one, _INT64), leaf.span), leaf.span
            )
            assert isinstance(stepped, Computed)
            args.append(stepped.expr)
        kept = {name: plan for name, plan in carried.plans.items() if list(types_of(plan))}
        return (*args, *self.leaf_expressions(leaf, kept))
