"""Elaborate the statements that leave a block, and ``assert``."""

from __future__ import annotations

from synr import ast

from nnmagic.relay import expr as ir
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind, Switch, Terminator
from nnmagic.tinynn.elaborate.let_bindings import let_bind_names
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import FAILED, Known, Operand, RefusalError, is_failed


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
    value = ctx.operand(stmt.value)
    if ctx.environment.parent is None:
        ctx.returned |= ctx.memory.of_value(value.value)
    return BlockExit(ExitKind.RETURNS, span, ctx.environment.bindings, value)


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
    message = _assertion_message(ctx, stmt)
    if condition is None or condition is True:
        return None
    stmt_span = ctx.span(stmt.span)
    if condition is False:
        detail = f": {message}" if message else ""
        raise RefusalError(f"this assertion does not hold{detail}", ctx.span(stmt.condition.span))
    live = ctx.live.to_set()
    let_bind_names(ctx, [name for name in list(ctx.environment.names()) if name in live])
    holds, fails = ctx.resolver.assertion(stmt_span)
    check = ir.If(condition.expr, ir.Call(holds, ()), ir.Call(fails, ()), span=stmt_span)
    block = Block(end=BlockExit(ExitKind.GOES_ON, stmt_span, ctx.environment.bindings.copy()))
    arms: list[tuple[ir.Pattern, Block]] = [(ir.PatternConstructor(holds), block)]
    span = ctx.span(stmt.condition.span)
    return Switch(check, arms, complete=False, span=span, assertion=message or "")


def _assertion_message(ctx: Elaboration, stmt: ast.Assert) -> str | None:
    if stmt.msg is None:
        return None
    message = ctx.operand(stmt.msg)
    if is_failed(message.value):
        return None
    if not (isinstance(message.value, Known) and isinstance(message.value.value, str)):
        hint = "write a plain string, as in assert condition, 'message'"
        raise RefusalError("the message of an assertion must be a string", message.span, hint=hint)
    return message.value.value
