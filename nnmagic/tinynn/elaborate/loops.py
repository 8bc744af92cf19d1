"""Elaborate ``for`` and ``while``: unroll them, or emit functions that call themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from synr.ast import BuiltinOp

from nnmagic.diagnostics import Diagnostics, Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import assigned_names, mentioned_names, targets_of, walk
from nnmagic.tinynn.elaborate.assignments import assign_target
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    Block,
    BlockExit,
    CondBranch,
    ExitKind,
    Loop,
    Terminator,
    exits_of,
)
from nnmagic.tinynn.elaborate.joins import exit_expressions
from nnmagic.tinynn.elaborate.let_bindings import atomize, let_bind_names
from nnmagic.tinynn.elaborate.merging import (
    MergeConflictError,
    MergePlan,
    Same,
    expressions,
    merge_conflict,
    plan_value,
    rebuild,
    types_of,
    widen,
)
from nnmagic.tinynn.elaborate.sequencing import (
    elaborate_for_errors,
    fill_block,
    let_bind_used_names,
    run_nested,
    steps_of,
)
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.elaborate.unrolling import (
    MAX_UNROLLED,
    GivenUp,
    UnrollError,
    leave_else,
    leave_loop,
    try_unroll,
)
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.iteration import count, has_known_items, is_silent, item
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.values import (
    FAILED,
    Bindings,
    Computed,
    Known,
    Operand,
    RefusalError,
    Unassigned,
    Value,
    is_failed,
)

_INT64 = TensorType((), "int64")


@dataclass(slots=True)
class _Carried:
    """The names that a loop carries from round to round, and the parameters that hold them."""

    plans: dict[str, MergePlan]
    variable: ir.Var
    params: tuple[ir.Var, ...]
    counter: ir.Var | None


def elaborate_while(ctx: Elaboration, stmt: tree.While) -> Terminator | None:
    """Elaborate ``while``. Raises RefusalError."""
    with ctx.trial():
        condition = truth_of(ctx.operand(stmt.condition), "while")
    if condition is False:
        truth_of(ctx.operand(stmt.condition), "while")
        return run_nested(ctx, stmt.orelse.stmts)
    if condition is True and not ctx.compact:
        end = try_unroll(ctx, stmt, lambda: _while_rounds(ctx, stmt))
        if not isinstance(end, GivenUp):
            return end
    return _emit_loop(ctx, stmt, lambda: _while_test(ctx, stmt), lambda _counter: None, None)


def _while_rounds(ctx: Elaboration, stmt: tree.While) -> Iterator[Callable[[], None]]:
    """Yield once a round, as long as the condition is known to hold."""
    while True:
        condition = truth_of(ctx.operand(stmt.condition), "while")
        if condition is False:
            return
        if condition is not True:
            raise UnrollError
        yield lambda: None


def _while_test(ctx: Elaboration, stmt: tree.While) -> Computed | bool | None:
    return truth_of(ctx.operand(stmt.condition), "while")


def elaborate_for(ctx: Elaboration, stmt: tree.For) -> Terminator | None:
    """Elaborate ``for``. Raises RefusalError."""
    iterable = ctx.operand(stmt.iterable)
    if is_silent(iterable.value):
        for target in targets_of(stmt.target):
            ctx.environment.bindings.bind(target.id.name, FAILED)
        return elaborate_for_errors(ctx, stmt, [stmt.body.stmts, stmt.orelse.stmts])
    rounds = count(iterable)
    if isinstance(rounds, int):
        end = _unroll_for(ctx, stmt, iterable, rounds)
        if not isinstance(end, GivenUp):
            return end
        if has_known_items(iterable.value):
            message = f"this loop over {describe(iterable.value)} is too long to be written out"
            raise RefusalError(
                message, iterable.span, hint="stack the items into one tensor, and go over its rows"
            )
    elif has_known_items(iterable.value):
        message = "tuples can be gone over only as many times as is known at compile time"
        raise RefusalError(message, iterable.span, hint="stack the items into one tensor")
    if isinstance(rounds, int):
        targets = {target.id.name for target in targets_of(stmt.target)}
        if targets & assigned_names(stmt.body).keys():
            _bind_item(ctx, stmt, iterable, Known(0))  # so that it is handed from round to round
        else:
            for name in targets:
                ctx.environment.bindings.forget(name)
    let_bind_names(ctx, sorted(mentioned_names(stmt.iterable)))
    iterable = Operand(atomize(ctx, iterable.value, "items", set()), iterable.span)
    limit = atomize(ctx, rounds, "count", set()) if isinstance(rounds, Computed) else Known(rounds)
    return _emit_loop(
        ctx,
        stmt,
        None,
        lambda counter: _bind_item(ctx, stmt, iterable, counter),
        Operand(limit, iterable.span),
    )


def _unroll_for(
    ctx: Elaboration, stmt: tree.For, iterable: Operand, rounds: int
) -> Terminator | GivenUp | None:
    """Unroll a loop over static rounds where that is allowed, or where its items cannot be had otherwise."""
    known_items = has_known_items(iterable.value)
    if rounds and (rounds > MAX_UNROLLED or ctx.compact) and not known_items:
        return GivenUp.GIVEN_UP
    end = try_unroll(ctx, stmt, lambda: _for_rounds(ctx, stmt, iterable, rounds))
    if isinstance(end, GivenUp) and known_items and not ctx.compact:
        ctx.compact = True  # the loops inside it may be functions
        try:
            end = try_unroll(ctx, stmt, lambda: _for_rounds(ctx, stmt, iterable, rounds))
        finally:
            ctx.compact = False
    return end


def _for_rounds(
    ctx: Elaboration, stmt: tree.For, iterable: Operand, number: int
) -> Iterator[Callable[[], None]]:
    for index in range(number):
        yield lambda index=index: _bind_item(ctx, stmt, iterable, Known(index))  # type: ignore[misc]  # one a round


def _bind_item(ctx: Elaboration, stmt: tree.For, iterable: Operand, index: Value | None) -> None:
    assert index is not None
    assign_target(ctx, stmt.target, Operand(item(iterable, index, iterable.span), iterable.span))


def _emit_loop(
    ctx: Elaboration,
    stmt: tree.For | tree.While,
    test: Callable[[], Computed | bool | None] | None,
    begin: Callable[[Value | None], None],
    limit: Operand | None,
) -> Terminator | None:
    """Emit the loop as a function that calls itself with the names that change."""
    let_bind_used_names(ctx, stmt)
    bindings = ctx.environment.bindings
    names = [name for name in assigned_names(stmt) if name in bindings.locals]
    plans: dict[str, MergePlan] = {name: plan_value(bindings.locals[name], keep=False) for name in names}
    counted = limit is not None
    while True:  # until a round asks for no other types than those that it began with
        carried = _carry(ctx, stmt, plans, counted)
        diagnostics, failed, reported = ctx.diagnostics, ctx.environment.failed, set(ctx.reported)
        ctx.diagnostics = Diagnostics()
        try:
            body, widened = _elaborate_round(ctx, stmt, carried, test, begin, limit)
        finally:
            errors, ctx.diagnostics = ctx.diagnostics.found, diagnostics
        if widened == plans:
            break
        ctx.environment.failed, ctx.reported = failed, reported
        plans = widened
    for diagnostic in errors:
        ctx.diagnostics.add(diagnostic)
    start = _start_arguments(carried, bindings)
    _mark_maybe_unassigned(ctx, stmt, bindings)
    end = Loop(carried.variable, carried.params, start, body, ctx.span(stmt.span))
    after = leave_loop(ctx, end)
    for part in walk(stmt.body):
        for name in part.names if isinstance(part, tree.InvalidStatement) else ():
            ctx.environment.bindings.bind(name, FAILED)  # its error is reported
    return after


def _mark_maybe_unassigned(ctx: Elaboration, stmt: tree.For | tree.While, bindings: Bindings) -> None:
    """Explain why names that only the loop assigns cannot be used after it."""
    span = ctx.span(stmt.span)
    notes = (Note("the loop may have no rounds", span),)
    for name in assigned_names(stmt):
        if name not in bindings.locals:
            message = f"`{name}` may not be assigned here: only a loop assigns it"
            bindings.locals[name] = Unassigned(message, "assign it before the loop", notes)


def _carries_target(stmt: tree.For | tree.While, carried: _Carried) -> bool:
    assert isinstance(stmt, tree.For)
    return all(target.id.name in carried.plans for target in targets_of(stmt.target))


def _carry(
    ctx: Elaboration, stmt: tree.For | tree.While, plans: dict[str, MergePlan], counted: bool
) -> _Carried:
    """Create the parameters of the loop's function for the plans."""
    span = ctx.span(stmt.span)
    word = "for" if isinstance(stmt, tree.For) else "while"
    counter = ir.Var("step", _INT64, span=span) if counted else None
    params = [] if counter is None else [counter]
    for name, plan in plans.items():
        params += [ir.Var(name, part.type, span=span) for part in types_of(plan)]
    return _Carried(plans, ir.Var(f"{word}_loop", span=span), tuple(params), counter)


def _start_arguments(carried: _Carried, bindings: Bindings) -> tuple[ir.Expr, ...]:
    """Return the arguments of the first round."""
    start: list[ir.Expr] = []
    if carried.counter is not None:
        start.append(ir.constant(0, "int64", span=carried.counter.span))
    for name, plan in carried.plans.items():
        if list(types_of(plan)):
            span = bindings.spans.get(name) or carried.variable.span
            assert span is not None
            start += expressions(plan, bindings.locals[name], span)
    return tuple(start)


def _elaborate_round(
    ctx: Elaboration,
    stmt: tree.For | tree.While,
    carried: _Carried,
    test: Callable[[], Computed | bool | None] | None,
    begin: Callable[[Value | None], None],
    limit: Operand | None,
) -> tuple[Block, dict[str, MergePlan]]:
    """Return the body of the loop's function, and the plans that its rounds ask for."""
    outer = ctx.environment.bindings
    span = ctx.span(stmt.span)
    live, ctx.live = ctx.live, ctx.live | mentioned_names(stmt)
    body = Block()
    with ctx.inside(body, _enter_round(carried, outer)) as bindings:
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
        with ctx.inside(again, bindings.copy()):
            fill_block(ctx, again, _round_steps(ctx, stmt, begin, counter), span)
        with ctx.inside(leave, bindings.copy()):
            ctx.live = live
            if limit is not None and isinstance(limit.value, Known) and not _carries_target(stmt, carried):
                assert isinstance(limit.value.value, int)
                begin(Known(limit.value.value - 1))  # after all rounds its names are those of the last
            fill_block(ctx, leave, steps_of(ctx, stmt.orelse.stmts), span)
            leave_else(leave.end)
        ctx.live = live
        if isinstance(condition, Computed):
            body.end = CondBranch(condition.expr, again, leave, span)
        else:  # it goes on until something in it leaves
            ctx.environment.failed = ctx.environment.failed or condition is None
            body.lets += again.lets
            body.end = again.end
    rounds = [
        exit_ for exit_, _ in exits_of(again.end) if exit_.kind in (ExitKind.GOES_ON, ExitKind.CONTINUES)
    ]
    plans = _widen_plans(carried, outer, rounds, span)
    for exit_ in rounds:
        exit_.kind, exit_.target = ExitKind.JUMPS, carried.variable
        exit_.args = _next_arguments(ctx, carried, exit_, plans == carried.plans)
    return body, plans


def _round_steps(
    ctx: Elaboration,
    stmt: tree.For | tree.While,
    begin: Callable[[Value | None], None],
    counter: Value | None,
) -> list[Callable[[], Terminator | None]]:
    def first() -> None:
        begin(counter)

    return [first, *steps_of(ctx, stmt.body.stmts)]


def _enter_round(carried: _Carried, outer: Bindings) -> Bindings:
    """Return the bindings at the beginning of a round."""
    bindings = outer.copy()
    params = iter(carried.params[1:] if carried.counter is not None else carried.params)
    for name, plan in carried.plans.items():
        bindings.locals[name] = rebuild(plan, params)
        bindings.versions[name] = bindings.versions.get(name, 0) + 1
    return bindings


def _widen_plans(
    carried: _Carried, outer: Bindings, rounds: Sequence[BlockExit], span: Span
) -> dict[str, MergePlan]:
    """Widen the plans to what the rounds leave; a name that cannot be merged gets no usable value."""
    plans: dict[str, MergePlan] = {}
    for name, plan in carried.plans.items():
        plans[name] = plan
        values: list[tuple[Value, Span]] = [(outer.locals[name], outer.spans.get(name, span))]
        for exit_ in rounds:
            value = exit_.bindings.locals.get(name, FAILED)
            values.append((value, exit_.bindings.spans.get(name, span)))
            if is_failed(value):
                continue  # the last elaboration of the round reports it
            if isinstance(plans[name], Same) and isinstance(plans[name].value, Unassigned):  # type: ignore[union-attr]  # Same has one
                continue
            widened = widen(plans[name], value)
            if widened is None:
                unassigned = merge_conflict(
                    name, values, MergeConflictError(0, len(values) - 1), "it changes from round to round"
                )
                widened = Same(unassigned)
            plans[name] = widened
    return plans


def _next_arguments(
    ctx: Elaboration, carried: _Carried, exit_: BlockExit, final: bool
) -> tuple[ir.Expr, ...]:
    """Return the arguments of the next round."""
    if not final:
        return ()
    args: list[ir.Expr] = []
    if carried.counter is not None:
        step = ir.constant(1, "int64", span=exit_.span)
        counter = Operand(Computed(carried.counter, _INT64), exit_.span)
        stepped = binary(BuiltinOp.Add, "+", counter, Operand(Computed(step, _INT64), exit_.span), exit_.span)
        assert isinstance(stepped, Computed)
        args.append(stepped.expr)
    changing = {name: plan for name, plan in carried.plans.items() if list(types_of(plan))}
    return (*args, *exit_expressions(ctx, exit_, changing))
