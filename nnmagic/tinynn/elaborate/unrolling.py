"""Unroll loops whose rounds are known at compile time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from synr import ast

from nnmagic.tinynn.analysis.bound_names import mentioned_names
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, ExitKind, Terminator, exits_of
from nnmagic.tinynn.elaborate.joins import finish_end
from nnmagic.tinynn.elaborate.sequencing import run_nested, run_steps
from nnmagic.tinynn.syntax import tree

#: The most rounds of a loop that is unrolled; a longer one becomes a function.
MAX_UNROLLED = 64

#: The most statements that one loop, with those inside it, is unrolled to.
MAX_UNROLLED_STATEMENTS = 2000

_IN_ELSE = {ExitKind.BREAKS: ExitKind.BREAKS_OUTER, ExitKind.CONTINUES: ExitKind.CONTINUES_OUTER}

_SEEN_OUTSIDE = {
    ExitKind.BREAKS: ExitKind.GOES_ON,
    ExitKind.BREAKS_OUTER: ExitKind.BREAKS,
    ExitKind.CONTINUES_OUTER: ExitKind.CONTINUES,
}


class GivenUp(Enum):
    """The result of an unrolling that was given up."""

    GIVEN_UP = "given up"


class UnrollError(Exception):
    """A loop that is better a function."""


def try_unroll(
    ctx: Elaboration, stmt: tree.For | tree.While, rounds: Callable[[], Iterator[Callable[[], None]]]
) -> Terminator | GivenUp | None:
    """Unroll the loop; GivenUp, with nothing done, where it is better a function."""
    outermost = ctx.unroll_budget is None
    if outermost:
        ctx.unroll_budget = ctx.work + MAX_UNROLLED_STATEMENTS
    saved = [(environment.bindings, environment.bindings.copy()) for environment in ctx.environment.chain()]
    let_count, failures = len(ctx.block.lets), (ctx.environment.failed, set(ctx.reported))
    diagnostics, ctx.diagnostics = ctx.diagnostics, type(ctx.diagnostics)()
    try:
        end = _unroll_rounds(ctx, stmt, rounds())
    except UnrollError:
        if not outermost:
            raise
        for bindings, copy in saved:
            bindings.restore(copy)
        del ctx.block.lets[let_count:]
        ctx.environment.failed, ctx.reported = failures
        ctx.diagnostics = diagnostics
        return GivenUp.GIVEN_UP
    except BaseException:
        ctx.diagnostics = diagnostics
        raise
    finally:
        if outermost:
            ctx.unroll_budget = None
    errors, ctx.diagnostics = ctx.diagnostics, diagnostics
    for diagnostic in errors.found:
        ctx.diagnostics.add(diagnostic)
    return end


def _unroll_rounds(
    ctx: Elaboration, stmt: tree.For | tree.While, rounds: Iterator[Callable[[], None]]
) -> Terminator | None:
    live = ctx.live | mentioned_names(stmt)
    after, ctx.live = ctx.live, live

    def steps() -> Iterator[Callable[[], Terminator | None]]:
        for number, begin in enumerate(rounds):
            if number >= MAX_UNROLLED and isinstance(stmt, tree.While):
                raise UnrollError
            ctx.live = live
            yield lambda begin=begin: _unroll_round(ctx, stmt.body.stmts, begin)  # type: ignore[misc]  # one a round
        ctx.live = after
        if stmt.orelse.stmts:
            yield lambda: leave_else(run_nested(ctx, stmt.orelse.stmts))

    block, ctx.block = ctx.block, Block(ctx.block.lets)
    try:
        run_steps(ctx, steps())
        end = ctx.block.end
    finally:
        ctx.block, ctx.live = block, after
    return leave_loop(ctx, end)


def _unroll_round(ctx: Elaboration, body: Sequence[ast.Stmt], begin: Callable[[], None]) -> Terminator | None:
    if ctx.unroll_budget is not None and ctx.work > ctx.unroll_budget:
        raise UnrollError
    begin()
    end = run_nested(ctx, body)
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
