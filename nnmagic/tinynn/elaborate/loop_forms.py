"""Choose what a loop of known rounds becomes: unrolled, a function, or a function behind the first round."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from nnmagic.tinynn.analysis.bound_names import find_assigned_names, find_mentioned_names
from nnmagic.tinynn.elaborate.attempts import GivenUp, GiveUpError, attempt
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Terminator
from nnmagic.tinynn.elaborate.loop_emission import LoopToEmit, emit_loop, emit_loop_after_first_round
from nnmagic.tinynn.elaborate.unrolling import MAX_UNROLLED_OPERATORS, Rounds, try_unroll
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v

#: The most rounds of a loop, with those inside it, that is unrolled only because sizes of its tensors depend
#: on the round.
_MAX_CHANGING_SHAPES = 9


class _Form(Enum):
    """What a loop becomes whose rounds are known."""

    #: Unrolled, to few operators, or to a first round with errors.
    CHEAP = auto()
    FUNCTION = auto()
    #: The first round, then a function: so a round may assign names that have no value before the loop, or
    #: give them other types.
    PEELED = auto()
    #: All rounds: as a function it was refused, because it needs its index at compile time.
    UNROLLED = auto()
    #: A function, whatever its errors are.
    LAST = auto()


def elaborate_by_cost(ctx: Elaboration, loop: LoopToEmit, rounds: Callable[[], Rounds]) -> Terminator | None:
    """Elaborate a loop in the first of its forms that suits it. Raises RefusalError.

    ``rounds`` returns the rounds to unroll. The attempts for the loops around it elaborate it anew: where its
    names have the same types again, a form that was given up is not tried again.
    """
    around, ctx.loop_forms.rounds_inside = ctx.loop_forms.rounds_inside, 1
    try:
        return _elaborate_in_best_form(ctx, loop, rounds)
    finally:
        inside = ctx.loop_forms.rounds_inside * (loop.rounds if isinstance(loop.rounds, int) else 1)
        ctx.loop_forms.rounds_inside = max(around, inside)


def _elaborate_in_best_form(
    ctx: Elaboration, loop: LoopToEmit, rounds: Callable[[], Rounds]
) -> Terminator | None:
    """Try the forms of a loop in turn."""
    forms = _forms_of(ctx, loop)
    # Nested loops try their forms again for each form of the loop around them, which is exponential
    # in the depth unless what was given up is remembered.
    context = (id(loop.stmt), loop.rounds, kinds_of_names(ctx, loop.stmt))
    while True:
        form = forms[ctx.loop_forms.given_up.get(context, 0)]
        # Unrolling a loop around this one multiplies its operators: where the inner loop is not
        # cheap, neither is the outer.
        if form is not _Form.CHEAP and _Form.CHEAP in forms and ctx.unrolling is not None:
            raise ctx.unrolling  # the loop around it is no cheaper
        end = _elaborate_as(ctx, loop, form, rounds)
        if not isinstance(end, GivenUp):
            return end
        ctx.loop_forms.given_up[context] = forms.index(form) + 1


def _forms_of(ctx: Elaboration, loop: LoopToEmit) -> list[_Form]:
    """Return the forms that a loop may get, in the order in which they are tried."""
    functions = [_Form.FUNCTION, _Form.PEELED] if isinstance(loop.rounds, int) else [_Form.FUNCTION]
    if loop.is_long:
        return [_Form.CHEAP, *functions, _Form.LAST]
    if ctx.loop_forms.unroll_all:
        return [_Form.UNROLLED, *functions, _Form.LAST]
    return [_Form.CHEAP, *functions, _Form.UNROLLED, _Form.LAST]


def kinds_of_names(ctx: Elaboration, stmt: tree.For | tree.While) -> frozenset[tuple[str, object]]:
    """Return which names of a loop have values at compile time, and of which types the others are."""
    kinds = set[tuple[str, object]]()
    for name in find_mentioned_names(stmt):
        owner = ctx.environment.owner(name)
        if owner is not None:
            kinds.add((name, _kind_of(owner.bindings.locals.get(name))))
    return frozenset(kinds)


def _kind_of(value: v.Value | None) -> object:
    match value:
        case v.Computed(type=type_, weak=weak, default_dtype=place):
            return type_, weak, place is None
        case v.TupleOf(items=items):
            return tuple(map(_kind_of, items))
    return type(value)


def _elaborate_as(
    ctx: Elaboration, loop: LoopToEmit, form: _Form, rounds: Callable[[], Rounds]
) -> Terminator | GivenUp | None:
    """Elaborate a loop in one of its forms; GivenUp where that does not suit it."""
    match form:
        case _Form.CHEAP:
            end = try_unroll(ctx, loop.stmt, rounds, MAX_UNROLLED_OPERATORS, is_long=loop.is_long)
            ctx.loop_forms.functions |= isinstance(end, GivenUp)
            return end
        case _Form.UNROLLED:
            return try_unroll(ctx, loop.stmt, rounds)
        case _Form.FUNCTION:
            return attempt_function(ctx, loop, emit_loop)
        case _Form.PEELED:
            return attempt_function(ctx, loop, emit_loop_after_first_round)
        case _Form.LAST:
            return emit_loop(ctx, loop)


def attempt_function(
    ctx: Elaboration, loop: LoopToEmit, emit: Callable[[Elaboration, LoopToEmit], Terminator | None]
) -> Terminator | GivenUp | None:
    """Emit a loop as a function; GivenUp where that has errors, or another form keeps names or sizes."""
    failed = ctx.environment.failed
    kept = {name for stmt, name in ctx.loop_forms.kept if stmt == id(loop.stmt)}
    if emit is emit_loop and not kept <= ctx.environment.bindings.locals.keys():
        return GivenUp.GIVEN_UP  # a function cannot keep a name that has no value before it

    def accept(_end: Terminator | None) -> bool:
        if ctx.diagnostics.errors or (ctx.environment.failed and not failed):
            return False
        for name in find_assigned_names(loop.stmt):
            value = ctx.environment.bindings.locals.get(name)
            if (
                isinstance(value, v.Unassigned) and value not in ctx.loop_forms.lost
            ):  # where breaks come together
                ctx.loop_forms.lost[value] = (loop.stmt, name)
                loop.lost.add(name)
        rounds = loop.rounds * ctx.loop_forms.rounds_inside if isinstance(loop.rounds, int) else None
        is_short = rounds is not None and rounds <= _MAX_CHANGING_SHAPES and not ctx.loop_forms.unroll_all
        return not (is_short and loop.has_changing_shapes) and not kept & loop.lost

    loop.has_changing_shapes, loop.lost = False, set()
    return attempt(ctx, lambda: emit(ctx, loop), GiveUpError(), accept)
