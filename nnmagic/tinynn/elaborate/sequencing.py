"""Elaborate the statements of a block in order, and continue after those that may leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_ERRORS
from nnmagic.relay import expr as ir
from nnmagic.tinynn.analysis import bound_names
from nnmagic.tinynn.analysis.liveness import flow_of
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    Block,
    BlockExit,
    ExitKind,
    JoinPoint,
    Terminator,
    exits_of,
)
from nnmagic.tinynn.elaborate.joins import exit_expressions, plan_joins, share_joined_memory
from nnmagic.tinynn.elaborate.let_bindings import let_bind_names
from nnmagic.tinynn.elaborate.live_names import LiveNames, live_after_each
from nnmagic.tinynn.elaborate.merge_plans import rebuild, types_of
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import FAILED, RefusalError


def run_steps(ctx: Elaboration, steps: Iterable[Callable[[], Terminator | None]]) -> bool:
    """Run statements in the current block; return False where one of them ended it."""
    rest = iter(steps)
    last = len(steps) - 1 if isinstance(steps, Sized) else None
    for index, step in enumerate(rest):
        end = step()
        if end is not None:
            ctx.block.end = end if index == last else continue_after(ctx, end, rest, ExitKind.GOES_ON)
            return False
    return True


def steps_of(ctx: Elaboration, statements: Sequence[ast.Stmt]) -> list[Callable[[], Terminator | None]]:
    """Return statements as steps to run; each knows the names that the statements after it use."""
    flows, leaving = map(flow_of, statements), map(bound_names.may_leave, statements)
    following = live_after_each(list(flows), list(leaving), ctx.live)
    return [
        partial(_run_step, ctx, statement, live)
        for statement, live in zip(statements, following, strict=True)
    ]


def _run_step(ctx: Elaboration, statement: ast.Stmt, live: LiveNames) -> Terminator | None:
    if len(ctx.diagnostics.errors) >= MAX_ERRORS:
        _skip(ctx, statement)
        return None
    ctx.live = live
    if bound_names.assigns_in_expressions(statement):
        ctx.live |= bound_names.find_mentioned_names(
            statement
        )  # what an expression assigns is used in it, too
    ctx.count_work()
    if ctx.observe is not None:
        ctx.observe(ctx, statement)
    try:
        return ctx.execute(statement)
    except (RefusalError, RecursionError) as problem:
        if isinstance(problem, RefusalError):
            ctx.report(problem)
        else:
            ctx.report_depth(statement.span)
        _skip(ctx, statement)
        return None
    finally:
        if ctx.observe is not None:
            ctx.observe(ctx, statement)


def _skip(ctx: Elaboration, statement: ast.Stmt) -> None:
    """Let the names that a statement binds have no value: it failed, or errors enough are reported."""
    for name in bound_names.find_assigned_names(statement):
        ctx.environment.bindings.bind(name, FAILED)
    if not isinstance(statement, ast.Assign | tree.Unpack | tree.DefinitionNode):
        ctx.environment.failed = True


def run_as_one_step(ctx: Elaboration, statements: Sequence[ast.Stmt]) -> Terminator | None:
    """Run statements in the current block as one step."""
    block, ctx.block = ctx.block, Block(ctx.block.lets)
    live = ctx.live
    try:
        run_steps(ctx, steps_of(ctx, statements))
        return ctx.block.end
    finally:
        ctx.block, ctx.live = block, live


def fill_block(
    ctx: Elaboration, block: Block, steps: Iterable[Callable[[], Terminator | None]], span: Span
) -> None:
    """Run steps in a block that was entered, and end it."""
    live = ctx.live
    if run_steps(ctx, steps):
        block.end = BlockExit(ExitKind.GOES_ON, span, ctx.environment.bindings)
    ctx.live = live


def continue_after(
    ctx: Elaboration, end: Terminator, rest: Iterator[Callable[[], Terminator | None]], kind: ExitKind
) -> Terminator:
    """Run the steps that follow a statement some of whose branches leave, after the exits of a kind.

    They go into the one block that goes on, or become a join point: a function that several exits call.
    """
    ends = [(exit_, block) for exit_, block in exits_of(end) if exit_.kind is kind]
    if not ends:
        return end  # what follows is never reached
    if len(ends) == 1:
        exit_, block = ends[0]
        assert block is not None, "a single exit_ goes on in the block itself"
        block.end = None
        with ctx.inside(block, exit_.bindings):
            fill_block(ctx, block, rest, exit_.span)
        return end
    variable, params, block = ir.Var("rest", span=end.span), list[ir.Var](), Block()
    with ctx.inside(block, ctx.environment.bindings.copy()) as bindings:
        plans = plan_joins(ctx, [exit_.bindings for exit_, _ in ends], end.span)
        for name, plan in plans.items():
            variables = [ir.Var(name, part.type, span=end.span) for part in types_of(plan)]
            bindings.locals[name] = rebuild(plan, iter(variables))
            params += variables
        share_joined_memory(ctx, plans, [exit_.bindings for exit_, _ in ends])
        for exit_, _ in ends:
            exit_.args = exit_expressions(ctx, exit_, plans)
            exit_.kind, exit_.target = ExitKind.JUMPS, variable
        fill_block(ctx, block, rest, end.span)
    return JoinPoint(end, variable, tuple(params), block, end.span)


def elaborate_for_errors(
    ctx: Elaboration, stmt: ast.Stmt, parts: Sequence[Sequence[ast.Stmt]]
) -> Terminator | None:
    """Elaborate branches for their own errors, after the condition failed; what they assign is FAILED."""
    before = ctx.environment.bindings
    for statements in parts:
        with ctx.inside(Block(), before.copy()):
            run_steps(ctx, steps_of(ctx, statements))
    for name in bound_names.find_assigned_names(stmt):
        before.bind(name, FAILED)
    ctx.environment.failed = True
    return None


def let_bind_used_names(ctx: Elaboration, stmt: ast.Stmt) -> None:
    """Bind the names that the branches use; where they may leave, the following statements count, too."""
    used = bound_names.find_mentioned_names(stmt)
    if bound_names.may_leave(stmt):
        used |= ctx.live.to_set()
    let_bind_names(ctx, [name for name in list(ctx.environment.names()) if name in used])
