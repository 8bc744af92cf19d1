"""Merge what names stand for where branches come together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TupleType, Type
from nnmagic.tinynn.elaborate import merging
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    BlockExit,
    ExitKind,
    Terminator,
    exits_of,
    may_fail,
    may_have_effects,
    render_terminator,
)
from nnmagic.tinynn.elaborate.generators import is_state
from nnmagic.tinynn.elaborate.let_bindings import let_bind
from nnmagic.tinynn.elaborate.merge_plans import MergePlan, expressions, rebuild, types_of
from nnmagic.tinynn.elaborate.optional_values import NONE_MERGES, UNBOUND
from nnmagic.tinynn.values import values as v


def merge_exits(ctx: Elaboration, end: Terminator) -> Terminator | None:
    """Go on in the current block where all exits go on; else return the terminator."""
    exits = [exit_ for exit_, _ in exits_of(end) if exit_.kind is not ExitKind.JUMPS]
    if not exits or may_fail(end) or any(exit_.kind is not ExitKind.GOES_ON for exit_ in exits):
        return end
    branches = [exit_.bindings for exit_ in exits]
    plans = plan_joins(ctx, branches, end.span)
    _bind_join(ctx, end, plans)
    share_joined_memory(ctx, plans, branches)
    return None


def plan_joins(ctx: Elaboration, branches: Sequence[v.Bindings], span: Span) -> dict[str, MergePlan]:
    """Plan the merge of names that differ between exits; bind the other names to what all exits agree on."""
    bindings = ctx.environment.bindings
    plans: dict[str, MergePlan] = {}
    live = _names_used_later(ctx, branches)
    names = dict.fromkeys(name for branch in branches for name in branch.locals)
    outside = {
        expression
        for environment in ctx.environment.chain()
        for value in environment.bindings.locals.values()
        for expression in merging.expressions_in(value)
    } | set(map(id, ctx.environment.chain()))
    for name in names:
        values = [branch.locals.get(name) for branch in branches]
        spans = [branch.spans.get(name, span) for branch in branches]
        version = max(branch.versions.get(name, 0) for branch in branches)
        if version == bindings.versions.get(name, 0):
            continue
        bindings.versions[name] = version
        if any(value is None for value in values) and NONE_MERGES.get().allowed and name in live:
            for branch in branches:
                branch.locals.setdefault(name, UNBOUND)
            values = [branch.locals[name] for branch in branches]
        if any(value is None for value in values):
            bindings.locals[name] = _explain_unassigned_name(name, values, spans, span)
            continue
        assigned = [value for value in values if value is not None]
        if any(map(v.is_failed, assigned)):
            # The type of a recursive function is that of the branch that does not recur.
            usable = [value for value in assigned if ctx.pending.inferring and not v.is_failed(value)]
            bindings.locals[name] = usable[0] if usable else v.FAILED
            continue
        try:
            plan = merging.keep_outer_values(merging.plan_merge(assigned), outside)
        except merging.MergeConflictError as problem:
            words = "branches leave it with different values"
            bindings.locals[name] = merging.merge_conflict(
                name, list(zip(assigned, spans, strict=True)), problem, words
            )
            continue
        bindings.spans[name] = spans[0]
        if not list(types_of(plan)):
            bindings.locals[name] = rebuild(plan, iter(()))
            ctx.note_merged_lists(bindings.locals[name], assigned)
        elif name in live or is_state(name):
            plans[name] = plan
        else:
            bindings.forget(name)
    return plans


def share_joined_memory(ctx: Elaboration, names: Iterable[str], branches: Sequence[v.Bindings]) -> None:
    """Record that what names stand for after a join may share what each branch left them."""
    for name in names:
        values = [branch.locals[name] for branch in branches if name in branch.locals]
        ctx.note_merged_lists(ctx.environment.bindings.locals[name], values)
    if not ctx.changes_tensors:
        return
    chain = ctx.environment.chain()
    for name in names:
        values = [branch.locals[name] for branch in branches if name in branch.locals]
        tokens = frozenset[object]().union(*(ctx.memory.of_value(value, chain) for value in values))
        ctx.memory.share(ctx.environment.bindings.locals[name], tokens)


def _names_used_later(ctx: Elaboration, branches: Sequence[v.Bindings]) -> set[str]:
    """Return the names that the following statements use, and those that the functions among them capture."""
    live = ctx.live.to_set()
    values = [bindings.locals[name] for bindings in branches for name in live if name in bindings.locals]
    return live | v.captured_names(values)


def _bind_join(ctx: Elaboration, end: Terminator, plans: dict[str, MergePlan]) -> None:
    """Render a terminator whose exits all go on, and bind the names that differ."""
    types = [part.type for plan in plans.values() for part in types_of(plan)]
    keeps_order = ctx.keeps_order and may_have_effects(end)
    if not types and not keeps_order:
        return
    result: Type = types[0] if len(types) == 1 else TupleType(tuple(types))

    def value_of(exit_: BlockExit) -> ir.Expr:
        parts = exit_expressions(ctx, exit_, plans)
        return parts[0] if len(types) == 1 else ir.Tuple(parts, span=exit_.span)

    expr = hoist_bindings(ctx, v.Computed(render_terminator(end, result, value_of), result)).expr
    exprs: list[ir.Expr] = [expr]
    if keeps_order and len(types) < 2:
        exprs = [let_bind(ctx, v.Computed(expr, result), "_".join(plans)[:40] or "effects").expr]
    if len(types) > 1:
        whole = let_bind(ctx, v.Computed(expr, result), "_".join(plans)[:40]).expr
        exprs = [ir.TupleGetItem(whole, index, span=end.span) for index in range(len(types))]
    parts = iter(exprs)
    for name, plan in plans.items():
        ctx.environment.bindings.locals[name] = rebuild(plan, parts)


def hoist_bindings(ctx: Elaboration, value: v.Computed) -> v.Computed:
    """Return a value that may stand in any expression: its let bindings move to the block.

    Real Relay cannot read what it prints for a `match` that is bound to a name, so it gets a function.
    """
    expr = value.expr
    while isinstance(expr, ir.Let):
        ctx.block.lets.append((expr.var, expr.value))
        expr = expr.body
    if isinstance(expr, ir.Match):
        matched = ir.Var("matched", span=expr.span)
        ctx.block.lets.append((matched, ir.Function((), expr, value.type, span=expr.span)))
        expr = ir.Call(matched, (), span=expr.span)
    return replace(value, expr=expr)


def exit_expressions(ctx: Elaboration, exit_: BlockExit, plans: dict[str, MergePlan]) -> tuple[ir.Expr, ...]:
    """Return what an exit contributes to the plans of names."""
    exprs: list[ir.Expr] = []
    for name, plan in plans.items():
        span, value = exit_.bindings.spans.get(name, exit_.span), exit_.bindings.locals[name]
        try:
            if not v.is_failed(value):
                exprs += expressions(plan, value, span)
                continue
        except v.RefusalError as refusal:
            ctx.report(refusal)
        exprs += [ir.Tuple((), span=span) for _ in types_of(plan)]  # the function is refused
    return tuple(exprs)


def _explain_unassigned_name(
    name: str, values: Sequence[v.Value | None], spans: Sequence[Span], span: Span
) -> v.Value:
    """Explain a name that only some branches assign."""
    if any(value is not None and v.is_failed(value) for value in values):
        return v.FAILED
    assigned = next(
        assigned_at for value, assigned_at in zip(values, spans, strict=True) if value is not None
    )
    notes = (Note("it is assigned here", assigned), Note("but not on every path through this", span))
    message, hint = f"`{name}` may not be assigned here", "assign it before, or in every branch"
    return v.Unassigned(message, hint, notes, may_merge=True)


def finish_end(ctx: Elaboration, end: Terminator | None) -> Terminator | None:
    """Return the terminator; None, with the names of its exit in force, where control only goes on."""
    if isinstance(end, BlockExit) and end.kind is ExitKind.GOES_ON:
        ctx.environment.bindings.restore(end.bindings)
        return None
    return end if end is None else merge_exits(ctx, end)
