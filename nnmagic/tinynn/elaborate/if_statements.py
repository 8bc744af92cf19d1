"""Elaborate ``if``: a static condition takes one branch, any other becomes Relay's ``if``."""

from __future__ import annotations

from synr import ast

from nnmagic.tinynn.analysis.bound_names import find_mentioned_names, may_leave
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, CondBranch, Terminator
from nnmagic.tinynn.elaborate.joins import merge_exits
from nnmagic.tinynn.elaborate.let_bindings import is_atom
from nnmagic.tinynn.elaborate.sequencing import (
    elaborate_for_errors,
    fill_block,
    let_bind_used_names,
    run_as_one_step,
    steps_of,
)
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.values.values import Computed, Environment


def elaborate_if(ctx: Elaboration, stmt: ast.If) -> Terminator | None:
    """Elaborate ``if``: a static condition takes one branch, any other becomes Relay's ``if``."""
    condition = _if_condition(ctx, stmt)
    if condition is None:
        return elaborate_for_errors(ctx, stmt, [stmt.true.stmts, stmt.false.stmts])
    if isinstance(condition, bool):
        return run_as_one_step(ctx, stmt.true.stmts if condition else stmt.false.stmts)
    let_bind_used_names(ctx, stmt)
    before = ctx.environment.bindings
    blocks = []
    for part in (stmt.true, stmt.false):
        block = Block()
        with ctx.inside(block, before.copy()):
            fill_block(ctx, block, steps_of(ctx, part.stmts), ctx.span(stmt.span))
        blocks.append(block)
    return merge_exits(ctx, CondBranch(condition.expr, blocks[0], blocks[1], ctx.span(stmt.span)))


def _if_condition(ctx: Elaboration, stmt: ast.If) -> bool | Computed | None:
    """Return the condition of an ``if``, with what it shares with the branches bound before it."""
    below = find_mentioned_names(stmt.true) | find_mentioned_names(stmt.false)
    if may_leave(stmt):
        below |= ctx.live.to_set()
    used = find_mentioned_names(stmt.condition) & below
    if any(not _is_atomic(ctx.environment, name) for name in used):
        with ctx.trial():
            dynamic = isinstance(truth_of(ctx.operand(stmt.condition), "if"), Computed)
        if dynamic:
            let_bind_used_names(ctx, stmt)
    return truth_of(ctx.operand(stmt.condition), "if")


def _is_atomic(environment: Environment, name: str) -> bool:
    owner = environment.owner(name)
    value = None if owner is None else owner.bindings.locals.get(name)
    return not isinstance(value, Computed) or is_atom(value.expr)
