"""Elaborate ``if``: a static condition takes one branch, any other becomes Relay's ``if``."""

from __future__ import annotations

from synr import ast

from nnmagic.tinynn.analysis.bound_names import find_mentioned_names, may_leave
from nnmagic.tinynn.elaborate import context, control_flow_blocks, joins, let_bindings, sequencing, truth
from nnmagic.tinynn.values.values import Computed, Environment


def elaborate_if(ctx: context.Elaboration, stmt: ast.If) -> control_flow_blocks.Terminator | None:
    """Elaborate ``if``: a static condition takes one branch, any other becomes Relay's ``if``."""
    condition = _if_condition(ctx, stmt)
    if condition is None:
        return sequencing.elaborate_for_errors(ctx, stmt, [stmt.true.stmts, stmt.false.stmts])
    if isinstance(condition, bool):
        return sequencing.run_as_one_step(ctx, stmt.true.stmts if condition else stmt.false.stmts)
    sequencing.let_bind_used_names(ctx, stmt)
    before = ctx.environment.bindings
    blocks = []
    for part in (stmt.true, stmt.false):
        block = control_flow_blocks.Block()
        with ctx.inside(block, before.copy()):
            sequencing.fill_block(ctx, block, sequencing.steps_of(ctx, part.stmts), ctx.span(stmt.span))
        blocks.append(block)
    return joins.merge_exits(
        ctx, control_flow_blocks.CondBranch(condition.expr, blocks[0], blocks[1], ctx.span(stmt.span))
    )


def _if_condition(ctx: context.Elaboration, stmt: ast.If) -> bool | Computed | None:
    """Return the condition of an ``if``, with what it shares with the branches bound before it."""
    below = find_mentioned_names(stmt.true) | find_mentioned_names(stmt.false)
    if may_leave(stmt):
        below |= ctx.live.to_set()
    used = find_mentioned_names(stmt.condition) & below
    if any(not _is_atomic(ctx.environment, name) for name in used):
        with ctx.trial():
            dynamic = isinstance(truth.truth_of(ctx.condition(stmt.condition), "if"), Computed)
        if dynamic:
            sequencing.let_bind_used_names(ctx, stmt)
    return truth.truth_of(ctx.condition(stmt.condition), "if")


def _is_atomic(environment: Environment, name: str) -> bool:
    owner = environment.owner(name)
    value = None if owner is None else owner.bindings.locals.get(name)
    return not isinstance(value, Computed) or let_bindings.is_atom(value.expr)
