"""Turn the body of a function into one Relay expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nnmagic.diagnostics import Note
from nnmagic.relay import expr as ir
from nnmagic.relay.failures import Failure
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, TupleType, Type
from nnmagic.tinynn.analysis.bound_names import find_assigned_names, find_mentioned_names
from nnmagic.tinynn.calls.function_calls import list_as_record
from nnmagic.tinynn.elaborate.annotation_types import has_python_numbers, sizes_in_scope
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    RAISES_TYPE,
    AssertionGuard,
    Block,
    BlockExit,
    ExitKind,
    exits_of,
    find_raising,
    guard,
    render,
)
from nnmagic.tinynn.elaborate.conversions import convert_result, convert_to_declared, to_relay
from nnmagic.tinynn.elaborate.merge_plans import MergePlan, expressions, rebuild
from nnmagic.tinynn.elaborate.merging import MergeConflictError, plan_merge, to_planned_type
from nnmagic.tinynn.elaborate.varying_results import plan_lists, results_of_paths
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.annotations import OpenTensor, OpenType
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import is_number
from nnmagic.tinynn.values.weak_types import is_weak


def finish_body(
    ctx: Elaboration,
    definition: tree.DefinitionNode,
    block: Block,
    declared: Type | OpenTensor | OpenType | None,
) -> v.Computed | None:
    """Return a function's body as one expression; None where an error was reported. Raises RefusalError."""
    exits = [exit_ for exit_, _ in exits_of(block.end)]
    if any(exit_.kind in (ExitKind.BREAKS, ExitKind.CONTINUES) for exit_ in exits):
        return None  # outside of a loop: Python's own compiler says so
    if all(exit_.kind is ExitKind.JUMPS for exit_ in exits) and not ctx.environment.failed:
        hint = "end the loop with `break` or `return`"
        message = f"`{definition.name}` never returns: it has a loop without end"
        ctx.diagnostics.error(message, ctx.span(definition.name_span), hint=hint)
        return None
    raising = find_raising(block.end)
    if raising is not None and raising.guard_of(block.end) is not None and not ctx.environment.failed:
        known = None if isinstance(declared, OpenTensor | OpenType) else declared
        return _finish_raising(ctx, definition, block, known)
    open_ends = [exit_ for exit_ in exits if exit_.kind is ExitKind.GOES_ON]
    if open_ends and not ctx.environment.failed:
        _report_no_return(ctx, definition, open_ends, exits)
        return None
    if ctx.environment.destinations:
        return _finish_changing(ctx, definition, block, declared, exits)
    return _finish(ctx, definition, block, declared, exits)


def _finish_raising(
    ctx: Elaboration, definition: tree.DefinitionNode, block: Block, declared: Type | None
) -> v.Computed | None:
    """Return the body of a function that raises an exception in any case, as one of the declared type."""
    raised = render(block, RAISES_TYPE, lambda exit_: ir.Tuple((), span=exit_.span))
    types = tuple(ctx.environment.destinations.values())
    if declared is not None:
        types = (declared, *types)
    if not types:
        return v.Computed(raised, RAISES_TYPE)
    result = types[0] if len(types) == 1 else TupleType(types)
    span = ctx.span(definition.name_span)
    if (value := _any_value(result)) is None:
        message = f"`{definition.name}` raises an exception on every path: its result type cannot be kept"
        ctx.diagnostics.error(message, span, hint="leave the result type out")
        return None
    of = AssertionGuard(*ctx.resolver.assertion(span))
    end = BlockExit(ExitKind.RETURNS, span)
    checked = Block(end=guard(of, raised, Block(end=end), Failure(), span))
    return v.Computed(render(checked, result, lambda _: value), result)


def _any_value(type_: Type) -> ir.Expr | None:
    """Return some value of a type; None if none is known."""
    match type_:
        case TensorType(shape=shape, dtype=dtype):
            sizes = [dim for dim in shape if isinstance(dim, int)]
            known = len(sizes) == len(shape)
            return ir.constant(np.zeros(sizes, ARRAY_DTYPES[dtype]), dtype) if known else None
        case TupleType(fields=fields):
            parts = [_any_value(field) for field in fields]
            return None if None in parts else ir.Tuple(tuple(part for part in parts if part is not None))
    return None


def calls_itself(definition: tree.DefinitionNode) -> bool:
    """Return whether a function calls itself."""
    return definition.name in find_mentioned_names(definition.body)


def declares_none(definition: tree.DefinitionNode) -> bool:
    """Return whether a function declares that it returns None."""
    ret_type = definition.ret_type
    return ret_type is not None and getattr(ret_type.expr, "value", ...) is None


def _finish_changing(
    ctx: Elaboration,
    definition: tree.DefinitionNode,
    block: Block,
    declared: Type | OpenTensor | OpenType | None,
    exits: Sequence[BlockExit],
) -> v.Computed | None:
    """Return the body of a function that changes arrays: what they hold in the end, after its own result."""
    returns = [exit_ for exit_ in exits if exit_.kind is ExitKind.RETURNS]
    silent = [exit_ for exit_ in returns if exit_.value is None]
    if silent and len(silent) < len(returns):
        valued = next(exit_ for exit_ in returns if exit_.value is not None)
        notes = [Note("it returns a value here", valued.span), Note("but none here", silent[0].span)]
        message = f"`{definition.name}` does not return a value on every path"
        hint = "return a value everywhere, or nowhere"
        ctx.diagnostics.error(message, ctx.span(definition.name_span), hint=hint, notes=notes)
        return None
    if not silent and declares_none(definition):
        message = f"`{definition.name}` is declared to return None, but returns a value"
        ctx.diagnostics.error(message, returns[0].span, hint="leave out the value, or declare its type")
        return None
    if silent and declared is not None:
        message, span = f"`{definition.name}` returns nothing", ctx.span(definition.name_span)
        ctx.diagnostics.error(message, span, hint="add a `return`, or declare its result as None")
        return None
    usable = [exit_ for exit_ in returns if not any(v.is_failed(expr.value) for expr in exit_.written)]
    if ctx.environment.failed:
        usable = []
    if silent and len(usable) < len(returns):
        return None
    types = tuple(ctx.environment.destinations.values())
    written = {
        id(exit_): tuple(
            convert_to_declared(f"`{name}`", type_, expr, None, sizes_in_scope(ctx))
            for (name, type_), expr in zip(ctx.environment.destinations.items(), exit_.written, strict=True)
        )
        for exit_ in usable
    }

    def leaf(exit_: BlockExit, own: tuple[ir.Expr, ...]) -> ir.Expr:
        exprs = (*own, *(expr.expr for expr in written[id(exit_)]))
        return exprs[0] if len(exprs) == 1 else ir.Tuple(exprs, span=exit_.span)

    if not silent:
        return _finish(ctx, definition, block, declared, exits, types, leaf)
    result = types[0] if len(types) == 1 else TupleType(types)
    return v.Computed(render(block, result, lambda exit_: leaf(exit_, ())), result)


def _finish(
    ctx: Elaboration,
    definition: tree.DefinitionNode,
    block: Block,
    declared: Type | OpenTensor | OpenType | None,
    exits: Sequence[BlockExit],
    more: tuple[Type, ...] = (),
    leaf: Callable[[BlockExit, tuple[ir.Expr, ...]], ir.Expr] = lambda _exit, own: own[0],
) -> v.Computed | None:
    """Return the body of a function as one expression.

    ``more``: the types of what it gives beside what it returns; ``leaf`` puts both together.
    """
    values = [exit_.value for exit_ in exits if exit_.kind is ExitKind.RETURNS and exit_.value is not None]
    usable = [value for value in values if not v.is_failed(value.value)]
    if not usable:
        return None
    span = None if definition.ret_type is None else ctx.span(definition.ret_type.span)
    what = f"the result of `{definition.name}`"
    of_python = has_python_numbers(definition.ret_type)
    plan: MergePlan | None = None
    if isinstance(declared, OpenType) and declared.fields is None:
        declared = None
    varying = [value.value for value in usable]
    if declared is None and not ctx.pending.inferring:
        varying = results_of_paths(varying)
    fitted = {
        id(value): replace(value, value=v.known_in_result(each))
        for value, each in zip(usable, varying, strict=True)
    }
    if isinstance(declared, OpenTensor | OpenType):
        fitted = {
            id(value): v.Operand(
                convert_result(what, declared, value, span, sizes_in_scope(ctx), of_python=of_python),
                value.span,
            )
            for value in usable
        }
        declared = None
    lists = None
    if declared is None and ctx.own_parameters and calls_itself(definition):
        lists = plan_lists([each.value for each in fitted.values()])
    if declared is None and len(usable) > 1 and lists is None:
        plan = _plan_result(definition, [*fitted.values()])

    def part_of(value: v.Operand) -> v.Computed:
        if lists is not None:  # what it gives itself is a list, too
            rows = rebuild(lists, expressions(lists, value.value, value.span))
            return to_relay(replace(value, value=list_as_record(rows, value.span)))
        if declared is not None:
            return convert_result(what, declared, value, span, sizes_in_scope(ctx), of_python=of_python)
        return to_relay(value) if plan is None else to_planned_type(plan, value)

    parts = {id(value): part_of(fitted[id(value)]) for value in usable}
    result = declared if declared is not None and len(usable) > 1 else parts[id(usable[0])].type
    weak = declared is None and all(_is_number_alone(each.value) for each in fitted.values())
    if more:
        result, weak = TupleType((result, *more)), False
    if ctx.environment.failed or len(usable) < len(values):
        return v.Computed(ir.Tuple(()), result, weak)  # the type alone is of use
    expr = render(block, result, lambda exit_: leaf(exit_, (parts[id(exit_.value)].expr,)))
    return v.Computed(expr, result, weak)


def _report_no_return(
    ctx: Elaboration,
    definition: tree.DefinitionNode,
    open_ends: Sequence[BlockExit],
    exits: Sequence[BlockExit],
) -> None:
    name = definition.name
    returns = [exit_ for exit_ in exits if exit_.kind is ExitKind.RETURNS]
    if returns:
        notes = [
            Note("it returns here", returns[0].span),
            Note("but not where this is left", open_ends[0].span),
        ]
        message = f"`{name}` does not return a value on every path"
        hint = "add a `return` at its end"
        ctx.diagnostics.error(message, ctx.span(definition.name_span), hint=hint, notes=notes)
        return
    last = [bound for statement in definition.body.stmts for bound in find_assigned_names(statement)]
    hint = f"add `return {last[-1]}` at its end" if last else "add a `return` at its end"
    ctx.diagnostics.error(f"`{name}` returns nothing", ctx.span(definition.name_span), hint=hint)


def _plan_result(definition: tree.DefinitionNode, values: Sequence[v.Operand]) -> MergePlan:
    """Plan the one type of all returns. Raises RefusalError, which names two that differ."""
    try:
        return plan_merge([value.value for value in values])
    except MergeConflictError as problem:
        first, second = values[problem.first], values[problem.second]
        message = f"`{definition.name}` returns {describe(second.value)} here"
        note = Note(f"and {describe(first.value)} here", first.span)
        hint = "return one shape and one dtype on every path"
        raise v.RefusalError(message, second.span, hint=hint, notes=(note,)) from None


def _is_number_alone(value: v.Value) -> bool:
    """Return whether a function that returns the value leaves its dtype open."""
    literal = isinstance(value, v.Known) and is_number(value.value)
    return literal or is_weak(value) or isinstance(value, v.Dimension)
