"""Elaborate the statements that leave a block, and ``assert``."""

from __future__ import annotations

from synr import ast

from nnmagic.relay import expr as ir
from nnmagic.relay.failures import Failure
from nnmagic.relay.types import LISTS
from nnmagic.tinynn.analysis.bound_names import find_mentioned_names
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    AssertionGuard,
    Block,
    BlockExit,
    ExitKind,
    Raised,
    Terminator,
    guard,
)
from nnmagic.tinynn.elaborate.let_bindings import let_bind_names
from nnmagic.tinynn.elaborate.optional_values import kept
from nnmagic.tinynn.elaborate.printing import elaborate_message
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import FAILED, Operand, RefusalError, TupleOf, Value, is_failed


def elaborate_break(ctx: Elaboration, stmt: tree.Break) -> Terminator:
    """Elaborate ``break``."""
    return BlockExit(ExitKind.BREAKS, ctx.span(stmt.span), ctx.environment.bindings)


def elaborate_continue(ctx: Elaboration, stmt: tree.Continue) -> Terminator:
    """Elaborate ``continue``."""
    return BlockExit(ExitKind.CONTINUES, ctx.span(stmt.span), ctx.environment.bindings)


def elaborate_invalid_statement(ctx: Elaboration, stmt: tree.InvalidStatement) -> None:
    """Elaborate a statement that the parser reported: the names that it would bind have no value."""
    for name in stmt.names:
        ctx.environment.bindings.bind(name, FAILED)
    ctx.environment.failed = ctx.environment.failed or stmt.returns


def elaborate_return(ctx: Elaboration, stmt: ast.Return) -> Terminator:
    """Elaborate ``return``."""
    span = ctx.span(stmt.span)
    if ctx.environment.destinations:
        value = None if stmt.value is None else ctx.operand(stmt.value)
        if value is not None and ctx.environment.parent is None:
            ctx.returned |= ctx.memory.of_value(value.value)
        return return_destinations(ctx, value, stmt.span)
    if stmt.value is None:
        hint = "return a tensor, or a tuple of them"
        ctx.report(RefusalError("`return` without a value", span, hint=hint))
        return BlockExit(ExitKind.RETURNS, span, ctx.environment.bindings, Operand(FAILED, span))
    ctx.none_kept |= kept(stmt.value)
    value = ctx.operand(stmt.value)
    if ctx.inlining and _holds_lists(value.value):
        message = f"`{ctx.environment.name}` returns lists of several lengths, which only Python can read"
        ctx.report(RefusalError(message, span, hint="use them in the function that makes them"))
        value = Operand(FAILED, span)
    if ctx.environment.parent is None:
        ctx.returned |= ctx.memory.of_value(value.value)
    return BlockExit(ExitKind.RETURNS, span, ctx.environment.bindings, value)


def _holds_lists(value: Value) -> bool:
    """Return whether a value is, or holds, a list of lists of several lengths."""
    if not isinstance(value, TupleOf):
        return False
    is_lists = value.record is not None and value.record.name == LISTS
    return is_lists or any(map(_holds_lists, value.items))


def return_destinations(ctx: Elaboration, value: Operand | None, span: ast.Span) -> BlockExit:
    """Return from a function that changes arrays, ``value`` beside what they hold now."""
    written = tuple(
        Operand(ctx.evaluate(ast.Var(span, ast.Id(span, name))), ctx.span(span))
        for name in ctx.environment.destinations
    )
    if value is not None and any(is_failed(part.value) for part in written):
        value = Operand(FAILED, value.span)
    return BlockExit(ExitKind.RETURNS, ctx.span(span), ctx.environment.bindings, value, written)


def elaborate_assert(ctx: Elaboration, stmt: ast.Assert) -> Terminator | None:
    """Elaborate ``assert``: a static condition is checked now, any other at run time."""
    condition = truth_of(ctx.operand(stmt.condition), "assert")
    span = ctx.span(stmt.condition.span)
    if condition is False:
        written = None if stmt.msg is None else elaborate_message(ctx, stmt.msg, "AssertionError", span)
        detail = f": {written[0].message}" if written is not None and written[0] is not None else ""
        raise RefusalError(f"this assertion does not hold{detail}", span)
    stmt_span = ctx.span(stmt.span)
    if condition is None or condition is True:
        return None
    used = ctx.live.to_set() | (set() if stmt.msg is None else find_mentioned_names(stmt.msg))
    let_bind_names(ctx, [name for name in list(ctx.environment.names()) if name in used])
    failure, holds = Failure(), condition.expr
    if stmt.msg is not None:
        written = elaborate_message(ctx, stmt.msg, "AssertionError", stmt_span)
        if written is None:
            return None
        failure = written[0] or failure
        if written[0] is None:
            always = ir.constant(True, "bool")  # noqa: FBT003
            holds = ir.If(condition.expr, always, written[1].expr, span=stmt_span)
    block = Block(end=BlockExit(ExitKind.GOES_ON, stmt_span, ctx.environment.bindings.copy()))
    return guard(AssertionGuard(*ctx.resolver.assertion(stmt_span)), holds, block, failure, span)


def elaborate_raise(ctx: Elaboration, stmt: tree.Raise) -> Terminator:
    """Elaborate ``raise``."""
    span = ctx.span(stmt.span)
    written = elaborate_message(ctx, stmt.message, stmt.kind, span)
    if written is None:
        return BlockExit(ExitKind.RETURNS, span, ctx.environment.bindings, Operand(FAILED, span))
    failure, raised = written
    guarded = AssertionGuard(*ctx.resolver.assertion(span))
    return BlockExit(
        ExitKind.RAISES, span, ctx.environment.bindings, raised=Raised(raised.expr, failure, guarded)
    )
