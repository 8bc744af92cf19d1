"""Unroll loops whose rounds are known at compile time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from synr import ast

from nnmagic.tinynn.analysis.bound_names import find_assigned_names
from nnmagic.tinynn.analysis.liveness import flow_of
from nnmagic.tinynn.elaborate.attempts import GivenUp, GiveUpError, attempt
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, ExitKind, Terminator, exits_of
from nnmagic.tinynn.elaborate.joins import finish_end
from nnmagic.tinynn.elaborate.operator_counts import OperatorCount
from nnmagic.tinynn.elaborate.optional_values import NONE_MERGES
from nnmagic.tinynn.elaborate.sequencing import run_as_one_step, run_steps
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import FAILED, static_or

#: The most rounds of a loop that is unrolled; a longer one becomes a function, unless its rounds leave no
#: code: texts are long.
MAX_UNROLLED = 64

#: The most statements that one loop, with those inside it, is unrolled to.
MAX_UNROLLED_STATEMENTS = 2000

#: The same of a loop that has few operators: most of its statements compute at compile time.
MAX_CHEAP_STATEMENTS = 5000

#: The most operators of a loop that is unrolled although it could be a function.
MAX_UNROLLED_OPERATORS = 32

#: The same of a loop over tuples that are known, such as the neighbours of a cell.
MAX_KNOWN_OPERATORS = 384

_IN_ELSE = {ExitKind.BREAKS: ExitKind.BREAKS_OUTER, ExitKind.CONTINUES: ExitKind.CONTINUES_OUTER}

_SEEN_OUTSIDE = {
    ExitKind.BREAKS: ExitKind.GOES_ON,
    ExitKind.BREAKS_OUTER: ExitKind.BREAKS,
    ExitKind.CONTINUES_OUTER: ExitKind.CONTINUES,
}

#: The rounds of a loop: what begins each of them; None where it is not known whether there is another.
Rounds = Iterator[Callable[[], None] | None]


@dataclass(slots=True)
class _OperatorLimit:
    """The most operators of the rounds, also in branches, and the work at which they are given up."""

    counter: OperatorCount
    left: int
    work: int
    give_up: GiveUpError
    in_branches: int = 256
    #: Whether the rounds so far have computed all at compile time.
    is_known: bool = True

    def check(self, ctx: Elaboration, end: Terminator | None) -> None:
        """Count what a round computes; ``end``: how control leaves it. Raises GiveUpError."""
        new = self.counter.count_new(ctx)
        self.left -= new
        self.is_known = self.is_known and not new and end is None
        if end is not None:
            self.left -= _COST_OF_EXITS
            self.in_branches -= self.counter.count_in(end)
        if min(self.left, self.in_branches) < 0 or ctx.work > self.work:
            raise self.give_up


#: A round that the loop may leave counts as so many operators more: the rest is nested in a branch.
_COST_OF_EXITS = 8


def try_unroll(
    ctx: Elaboration,
    stmt: tree.For | tree.While,
    rounds: Callable[[], Rounds],
    operators: int | None = None,
    *,
    is_long: bool = False,
) -> Terminator | GivenUp | None:
    """Unroll the loop; GivenUp, with nothing done, where that takes too much.

    Args:
        ctx: The state of the elaboration.
        stmt: The loop.
        rounds: Returns the rounds.
        operators: The most operators of the unrolled loop; None to limit its statements instead, together
            with those of the loops around it that are unrolled.
        is_long: Whether there are too many rounds: the loop is unrolled only for the errors of the first one.

    """
    give_up = GiveUpError()
    limit, unrolling = None, ctx.unrolling
    if operators is not None:
        limit = _OperatorLimit(OperatorCount(ctx), operators, ctx.work + MAX_CHEAP_STATEMENTS, give_up)
        ctx.unrolling = give_up
    outermost = limit is None and ctx.unroll_budget is None
    if outermost:
        ctx.unroll_budget = (ctx.work + MAX_UNROLLED_STATEMENTS, give_up)
    try:
        return attempt(
            ctx, lambda: _unroll_rounds(ctx, stmt, rounds(), limit, give_up, is_long=is_long), give_up
        )
    finally:
        ctx.unrolling = unrolling
        if outermost:
            ctx.unroll_budget = None


def _unroll_rounds(
    ctx: Elaboration,
    stmt: tree.For | tree.While,
    rounds: Rounds,
    limit: _OperatorLimit | None,
    give_up: GiveUpError,
    *,
    is_long: bool,
) -> Terminator | None:
    live = ctx.live | flow_of(stmt).exposed
    after, ctx.live = ctx.live, live
    has_errors = False

    def run_round(number: int, begin: Callable[[], None]) -> Terminator | None:
        nonlocal has_errors
        if ctx.unroll_budget is not None and ctx.work > ctx.unroll_budget[0]:
            raise ctx.unroll_budget[1]
        before = len(ctx.diagnostics.errors)
        end = unroll_round(ctx, stmt.body.stmts, begin)
        if len(ctx.diagnostics.errors) > before:
            if (number and is_long) or NONE_MERGES.get().allowed:
                raise give_up  # a loop that is a function may have no error here
            has_errors = True
            _fail_names(ctx, stmt, end)
        elif ctx.environment.failed:  # a result that is awaited: other rounds say no more
            has_errors = True
        elif limit is not None:
            limit.check(ctx, end)
        return end

    def steps() -> Iterator[Callable[[], Terminator | None]]:
        for number, begin in enumerate(rounds):
            if begin is None or (number >= MAX_UNROLLED and not _is_known(ctx, stmt, limit, number)):
                raise give_up
            ctx.live = live
            yield partial(run_round, number, begin)
            if has_errors:
                break  # other rounds have the same mistakes
        ctx.live = after
        if stmt.orelse.stmts:
            yield lambda: leave_else(run_as_one_step(ctx, stmt.orelse.stmts))

    block, ctx.block = ctx.block, Block(ctx.block.lets)
    try:
        run_steps(ctx, steps())
        end = ctx.block.end
    finally:
        ctx.block, ctx.live = block, after
    return leave_loop(ctx, end)


def _is_known(
    ctx: Elaboration, stmt: tree.For | tree.While, limit: _OperatorLimit | None, number: int
) -> bool:
    """Return whether the rounds of a loop so far have left names with values at compile time alone."""
    if limit is None or not limit.is_known:
        return False
    names = ctx.environment.bindings.locals
    values = [names[name] for name in find_assigned_names(stmt) if name in names]
    return number % MAX_UNROLLED > 0 or all(static_or(value, FAILED) is not FAILED for value in values)


def _fail_names(ctx: Elaboration, stmt: tree.For | tree.While, end: Terminator | None) -> None:
    """Let the names that a loop assigns have no value after a round with errors."""
    for bindings in [ctx.environment.bindings, *(exit_.bindings for exit_, _ in exits_of(end))]:
        for name in find_assigned_names(stmt):
            bindings.bind(name, FAILED)


def unroll_round(ctx: Elaboration, body: Sequence[ast.Stmt], begin: Callable[[], None]) -> Terminator | None:
    """Elaborate one round in the current block."""
    begin()
    end = run_as_one_step(ctx, body)
    for exit_, _ in exits_of(end):
        if exit_.kind is ExitKind.CONTINUES:
            exit_.kind = ExitKind.GOES_ON
    return finish_end(ctx, end)


def leave_loop(ctx: Elaboration, end: Terminator | None) -> Terminator | None:
    """Return a loop's terminator as seen from outside: its breaks go on."""
    for exit_, _ in exits_of(end):
        exit_.kind = _SEEN_OUTSIDE.get(exit_.kind, exit_.kind)
    return finish_end(ctx, end)


def leave_else(end: Terminator | None) -> Terminator | None:
    """Return the terminator of a loop's ``else``, whose ``break`` belongs to the loop around."""
    for exit_, _ in exits_of(end):
        exit_.kind = _IN_ELSE.get(exit_.kind, exit_.kind)
    return end
