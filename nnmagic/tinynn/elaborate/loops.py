"""Elaborate ``for`` and ``while``: unroll them, or emit functions that call themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from nnmagic.diagnostics import Span
from nnmagic.tinynn.analysis.bound_names import (
    find_assigned_names,
    find_element_assignments,
    targets_of,
    walk,
)
from nnmagic.tinynn.analysis.kernels import in_order
from nnmagic.tinynn.elaborate import list_rewriting, sequencing
from nnmagic.tinynn.elaborate.attempts import GivenUp, GiveUpError, attempt
from nnmagic.tinynn.elaborate.changing_lists import change_in_loop
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import ExitKind, Terminator, exits_of
from nnmagic.tinynn.elaborate.growing_lists import room_for_rounds
from nnmagic.tinynn.elaborate.let_bindings import atomize
from nnmagic.tinynn.elaborate.list_items import forget_inner_lists, lists_to_index
from nnmagic.tinynn.elaborate.lists_as_rows import computed_items_as_rows, known_tuples_as_rows
from nnmagic.tinynn.elaborate.loop_emission import (
    LoopToEmit,
    emit_loop,
    emit_loop_after_first_round,
    items_of,
    while_test,
)
from nnmagic.tinynn.elaborate.loop_forms import attempt_function, elaborate_by_cost, kinds_of_names
from nnmagic.tinynn.elaborate.scheduled_loops import check_independent, nest, static_rounds
from nnmagic.tinynn.elaborate.unrolling import (
    MAX_KNOWN_OPERATORS,
    MAX_UNROLLED,
    MAX_UNROLLED_OPERATORS,
    Rounds,
    try_unroll,
)
from nnmagic.tinynn.operators.iteration import count, has_known_items, is_silent
from nnmagic.tinynn.operators.tables import keys_of_table
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe


def _with_rows(
    ctx: Elaboration, stmt: tree.For | tree.While, elaborate: Callable[[], Terminator | None]
) -> Terminator | None:
    """Elaborate a loop; if it has errors, with the lists as rows whose items it may assign at run time."""
    lists = None if ctx.items_as_rows or ctx.rounds else lists_to_index(ctx, stmt)
    if lists is None:
        return elaborate()
    failed = ctx.environment.failed

    def accept(_end: Terminator | None) -> bool:
        return not ctx.diagnostics.errors and ctx.environment.failed == failed

    # First as it is written, with lists of known length as names at compile time; rows, whose items
    # only the call knows, are the second choice, as they need items of one type.
    end = attempt(ctx, elaborate, GiveUpError(), accept)
    if not isinstance(end, GivenUp):
        return end
    assigned = find_element_assignments(stmt)
    for name, rows in lists.items():
        if name in assigned:
            forget_inner_lists(ctx, name, ctx.span(stmt.span))
        before, bound = ctx.environment.bindings.locals[name], atomize(ctx, rows, name, set())
        ctx.note_merged_lists(bound, [before])
        ctx.environment.bindings.bind(name, bound, ctx.span(stmt.span))
    ctx.items_as_rows = True
    try:
        return elaborate()
    finally:
        ctx.items_as_rows = False


def elaborate_while(ctx: Elaboration, stmt: tree.While) -> Terminator | None:
    """Elaborate ``while``. Raises RefusalError."""
    return _with_rows(ctx, stmt, lambda: _elaborate_while(ctx, stmt))


def _elaborate_while(ctx: Elaboration, stmt: tree.While) -> Terminator | None:
    lists = list_rewriting.find_lists(ctx, stmt)
    if lists is not None:
        return _elaborate_changing(ctx, LoopToEmit(stmt), lists, lambda: _while_rounds(ctx, stmt))
    # The condition is asked twice: whether it is static, without a trace in the block; then for its
    # code.
    with ctx.trial():
        condition = while_test(ctx, stmt)
    if condition is False:
        while_test(ctx, stmt)
        return sequencing.run_as_one_step(ctx, stmt.orelse.stmts)
    if condition is True and not ctx.compact:
        return elaborate_by_cost(ctx, LoopToEmit(stmt), lambda: _while_rounds(ctx, stmt))
    return emit_loop(ctx, LoopToEmit(stmt))


def _while_rounds(ctx: Elaboration, stmt: tree.While) -> Rounds:
    """Yield once a round, as long as the condition is known to hold."""
    while True:
        condition = while_test(ctx, stmt)
        if condition is False:
            return
        yield None if condition is not True else lambda: None


def elaborate_for(ctx: Elaboration, stmt: tree.For) -> Terminator | None:
    """Elaborate ``for``. Raises RefusalError."""
    return _with_rows(ctx, stmt, lambda: _elaborate_for(ctx, stmt))


def _elaborate_for(ctx: Elaboration, stmt: tree.For) -> Terminator | None:
    if (counting := list_rewriting.over_changing_list(ctx, stmt)) is not None:
        name, loop = counting
        ctx.environment.bindings.bind(name, v.Known(0))
        ctx.live |= {name}
        return elaborate_while(ctx, loop)
    list_rewriting.check_iterable(ctx, stmt)
    iterable = keys_of_table(ctx.operand(stmt.iterable))
    if is_silent(iterable.value):
        for target in targets_of(stmt.target):
            ctx.environment.bindings.bind(target.id.name, v.FAILED)
        return sequencing.elaborate_for_errors(ctx, stmt, [stmt.body.stmts, stmt.orelse.stmts])
    if isinstance(iterable.value, v.ScheduledRange):
        return _elaborate_schedule(ctx, stmt, iterable.value, iterable.span)
    if not ctx.changes_tensors:
        return _elaborate_for_over(ctx, stmt, iterable)
    ctx.environment.bindings.bind(items_of(stmt), iterable.value)
    try:
        return _elaborate_for_over(ctx, stmt, iterable)
    finally:
        ctx.environment.bindings.forget(items_of(stmt))


def _elaborate_schedule(
    ctx: Elaboration, stmt: tree.For, schedule: v.ScheduledRange, span: Span
) -> Terminator | None:
    """Elaborate a loop whose range says how it is to run. Raises RefusalError."""
    schedule = replace(schedule, ranges=tuple(_over_atoms(ctx, bounds) for bounds in schedule.ranges))
    if schedule.word in ("grid", "tiled"):
        nested, added = nest(ctx, stmt, schedule)
        for name, value in added.items():
            ctx.environment.bindings.bind(name, value)
        try:
            return elaborate_for(ctx, nested)
        finally:
            for name in (*added, *(find_assigned_names(nested).keys() - find_assigned_names(stmt).keys())):
                ctx.environment.bindings.forget(name)
    iterable = v.Operand(schedule.ranges[0], span)
    if schedule.word == "prange":
        return _elaborate_prange(ctx, stmt, replace(schedule, word="parallel"), iterable)
    rounds = count(iterable)
    loop = LoopToEmit(stmt, iterable, rounds)
    if schedule.word == "unrolled":
        number = static_rounds(ctx, stmt, rounds, MAX_UNROLLED)
        end = try_unroll(ctx, stmt, lambda: _for_rounds(ctx, loop, number))
        if isinstance(end, GivenUp):
            message = "this loop is too long to be unrolled"
            raise v.RefusalError(message, span, hint="write range(...), or fewer statements")
        return end
    return _elaborate_independent(ctx, loop, schedule)


def _elaborate_independent(
    ctx: Elaboration, loop: LoopToEmit, schedule: v.ScheduledRange
) -> Terminator | None:
    """Elaborate a loop whose rounds are to be independent. Raises RefusalError where they may not be."""
    assert loop.iterable is not None
    stmt, rounds, span = loop.stmt, loop.rounds, loop.iterable.span
    assert isinstance(stmt, tree.For)
    reductions = check_independent(ctx, stmt, schedule)
    if rounds == 0:
        return _unroll_items(ctx, loop, 0)
    if schedule.word == "vectorized":
        return emit_loop(ctx, loop)
    loop.reductions = reductions
    ctx.parallel = span
    try:
        for emit in (emit_loop, emit_loop_after_first_round) if isinstance(rounds, int) and rounds else ():
            end = attempt_function(ctx, loop, emit)
            if not isinstance(end, GivenUp):
                return end
        return emit_loop(ctx, loop)
    finally:
        ctx.parallel = None


def _elaborate_prange(
    ctx: Elaboration, stmt: tree.For, schedule: v.ScheduledRange, iterable: v.Operand
) -> Terminator | None:
    """Elaborate a loop over numba's ``prange``: parallel where its rounds are independent, else in order."""
    if ctx.parallel is not None:  # inside another one, which has all threads
        return _elaborate_for_over(ctx, stmt, iterable)
    why: list[str] = []
    failed = ctx.environment.failed

    def emit() -> Terminator | None:
        try:
            loop = LoopToEmit(stmt, iterable, count(iterable), is_prange=True)
            return _elaborate_independent(ctx, loop, schedule)
        except v.RefusalError as refusal:
            why.append(refusal.diagnostic.message)
            raise

    def accept(_end: Terminator | None) -> bool:
        why.extend(error.message for error in ctx.diagnostics.errors)
        return not ctx.diagnostics.errors and ctx.environment.failed == failed

    end = attempt(ctx, emit, GiveUpError(), accept)
    if not isinstance(end, GivenUp):
        return end
    errors = len(ctx.diagnostics.errors)
    # numba runs a prange in order where it cannot prove its rounds independent; so does a cell,
    # with a note.
    end = _elaborate_for_over(ctx, stmt, iterable)
    if len(ctx.diagnostics.errors) == errors and why:
        ctx.note(in_order(why[0]), iterable.span, hint="write range(...) if that is meant")
    return end


def _over_atoms(ctx: Elaboration, bounds: v.RangeOf) -> v.RangeOf:
    """Return a range whose bounds are bound before the loop."""
    start, stop, step = (
        atomize(ctx, bound, "bound", set()) for bound in (bounds.start, bounds.stop, bounds.step)
    )
    return v.RangeOf(start, stop, step)


def _elaborate_for_over(ctx: Elaboration, stmt: tree.For, iterable: v.Operand) -> Terminator | None:
    rounds = count(iterable)
    loop = LoopToEmit(stmt, iterable, rounds)
    if isinstance(rounds, int) and (has_known_items(iterable.value) or rounds == 0):
        rows, most = computed_items_as_rows(iterable), MAX_UNROLLED_OPERATORS
        if rows is None:
            raises = any(getattr(node, "name", None) is tree.ExtraOp.Pow for node in walk(stmt.body))
            rows = known_tuples_as_rows(iterable, may_be_negative=not raises)  # 2 ** -1 needs a known -1
            most = MAX_KNOWN_OPERATORS
        end = GivenUp.GIVEN_UP if rows is None else _elaborate_rows(ctx, loop, rows, most)
        return _unroll_items(ctx, loop, rounds) if isinstance(end, GivenUp) else end
    if has_known_items(iterable.value):
        message = "tuples can be gone over only as many times as is known at compile time"
        raise v.RefusalError(message, iterable.span, hint="stack the items into one tensor")
    lists = list_rewriting.find_lists(ctx, stmt)
    if lists is not None:
        unrolled = partial(_for_rounds, ctx, loop, rounds) if isinstance(rounds, int) else None
        return _elaborate_changing(ctx, loop, lists, unrolled)
    if isinstance(rounds, v.Computed) or ctx.compact:
        return emit_loop(ctx, loop)
    return elaborate_by_cost(ctx, loop, lambda: _for_rounds(ctx, loop, rounds))


def _elaborate_rows(
    ctx: Elaboration, loop: LoopToEmit, rows: v.Operand, most: int
) -> Terminator | GivenUp | None:
    """Elaborate a loop over items that are alike: unrolled if that is cheap, else as one over their rows.

    most: the operators of the unrolled loop.
    """
    assert isinstance(loop.rounds, int)
    context = (id(loop.stmt), loop.rounds, kinds_of_names(ctx, loop.stmt))
    given_up = ctx.loop_forms.given_up
    failed = ctx.environment.failed

    def accept(_end: Terminator | None) -> bool:
        return not ctx.diagnostics.errors and ctx.environment.failed == failed

    if context not in given_up:
        unrolled = partial(_for_rounds, ctx, loop, loop.rounds)
        end = try_unroll(ctx, loop.stmt, unrolled, most, is_long=loop.is_long)
        if not isinstance(end, GivenUp):
            return end
        given_up[context] = 1
    if given_up[context] == 1:
        if ctx.unrolling is not None:
            raise ctx.unrolling
        end = attempt(ctx, lambda: _elaborate_for_over(ctx, loop.stmt, rows), GiveUpError(), accept)
        if not isinstance(end, GivenUp):
            return end
        given_up[context] = 2
    return GivenUp.GIVEN_UP


def _elaborate_changing(
    ctx: Elaboration, loop: LoopToEmit, lists: list_rewriting.LoopLists, rounds: Callable[[], Rounds] | None
) -> Terminator | None:
    """Elaborate a loop that changes lists: unrolled if that is cheap, and it is known what they hold."""

    def emit(stmt: tree.For | tree.While) -> Terminator | None:
        if isinstance(stmt, tree.While) or loop.iterable is None:
            return emit_loop(ctx, LoopToEmit(stmt))
        if not lists.times:
            return emit_loop(ctx, replace(loop, stmt=stmt))
        items, span = loop.iterable, loop.iterable.span
        if lists.is_stepped:
            items = v.Operand(v.Zipped("enumerate", (items,)), span)
        return _elaborate_for_over(ctx, stmt, items)

    def room(times: int) -> v.Value:
        assert loop.iterable is not None
        assert loop.rounds is not None
        return room_for_rounds(loop.iterable, loop.rounds, times)

    def as_function() -> Terminator | None:
        return change_in_loop(ctx, loop.stmt, lists, emit, room)

    context = (id(loop.stmt), loop.rounds, kinds_of_names(ctx, loop.stmt))
    if rounds is None or context in ctx.loop_forms.given_up:
        return as_function()
    holds_loop = any(isinstance(node, tree.While) for node in walk(loop.stmt.body))
    end = _unroll_changing(ctx, loop, lists, rounds, is_cheap=holds_loop)
    if isinstance(end, GivenUp) and holds_loop and ctx.unrolling is not None:
        ctx.loop_forms.given_up[context] = 1
        raise ctx.unrolling  # the loop around it is no cheaper
    if isinstance(end, GivenUp) and holds_loop and lists.times:
        failed = ctx.environment.failed

        def accept(_end: Terminator | None) -> bool:
            return not ctx.diagnostics.errors and ctx.environment.failed == failed

        end = attempt(ctx, as_function, GiveUpError(), accept)
        end = _unroll_changing(ctx, loop, lists, rounds) if isinstance(end, GivenUp) else end
    if isinstance(end, GivenUp):
        ctx.loop_forms.given_up[context] = 1
        return as_function()
    return end


def _unroll_changing(
    ctx: Elaboration,
    loop: LoopToEmit,
    lists: list_rewriting.LoopLists,
    rounds: Callable[[], Rounds],
    *,
    is_cheap: bool = False,
) -> Terminator | GivenUp | None:
    """Unroll a loop that changes lists; GivenUp where it is not known then what each of them holds.

    ``is_cheap``: give up where that takes many operators, too.
    """
    is_short = not loop.is_long and not ctx.compact and not is_cheap
    limit = None if lists.times and is_short else MAX_UNROLLED_OPERATORS
    unroll = partial(try_unroll, ctx, loop.stmt, rounds, limit, is_long=loop.is_long)
    if lists.is_stepped:
        return unroll()
    if ctx.compact or (lists.times and loop.is_long):
        return GivenUp.GIVEN_UP
    give_up, failed = GiveUpError(), ctx.environment.failed

    def unroll_or_raise() -> Terminator | None:
        end = unroll()
        if isinstance(end, GivenUp):
            raise give_up
        return end

    def accept(end: Terminator | None) -> bool:
        if ctx.diagnostics.errors or ctx.environment.failed != failed:
            return False
        if end is not None:  # whether it returns for certain: no list is left then
            return all(exit_.kind is ExitKind.RETURNS for exit_, _ in exits_of(end))
        locals_ = ctx.environment.bindings.locals
        return all(isinstance(locals_.get(name), v.TupleOf) for name in lists.values)

    return attempt(ctx, unroll_or_raise, give_up, accept)


def _unroll_items(ctx: Elaboration, loop: LoopToEmit, rounds: int) -> Terminator | None:
    """Unroll a loop over items that can only be taken at a static index. Raises RefusalError."""
    end = try_unroll(ctx, loop.stmt, lambda: _for_rounds(ctx, loop, rounds))
    if isinstance(end, GivenUp) and not ctx.compact:
        ctx.compact = True  # the loops inside it may be functions
        try:
            end = try_unroll(ctx, loop.stmt, lambda: _for_rounds(ctx, loop, rounds))
        finally:
            ctx.compact = False
    if isinstance(end, GivenUp):
        assert loop.iterable is not None
        message = f"this loop over {describe(loop.iterable.value)} is too long to be written out"
        hint = "stack the items into one tensor, and go over its rows"
        raise v.RefusalError(message, loop.iterable.span, hint=hint)
    return end


def _for_rounds(ctx: Elaboration, loop: LoopToEmit, number: int) -> Rounds:
    for index in range(number):
        yield partial(loop.begin, ctx, v.Known(index))
