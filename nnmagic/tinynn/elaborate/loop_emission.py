"""Emit loops as functions that call themselves, with the names that rounds change as parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from synr import ast

from nnmagic.diagnostics import Diagnostics, Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import PARALLEL, PRANGE, reductions_to_text
from nnmagic.relay.polynomials import constant
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import find_assigned_names, find_mentioned_names, targets_of, walk
from nnmagic.tinynn.analysis.liveness import flow_of
from nnmagic.tinynn.elaborate.array_growth import note_growing_arrays
from nnmagic.tinynn.elaborate.assignments import assign_target
from nnmagic.tinynn.elaborate.carried_memory import loop_memory, widen_memory
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
from nnmagic.tinynn.elaborate.generators import assigned_names, is_state
from nnmagic.tinynn.elaborate.joins import exit_expressions
from nnmagic.tinynn.elaborate.let_bindings import atomize, let_bind_names
from nnmagic.tinynn.elaborate.merge_plans import MergePlan, Same, expressions, rebuild, types_of
from nnmagic.tinynn.elaborate.merging import MergeConflictError, merge_conflict, plan_value, widen
from nnmagic.tinynn.elaborate.operator_counts import has_shapes_of
from nnmagic.tinynn.elaborate.optional_values import NONE_MERGES, UNBOUND
from nnmagic.tinynn.elaborate.sequencing import fill_block, let_bind_used_names, run_steps, steps_of
from nnmagic.tinynn.elaborate.shared_memory import LoopMemory
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.elaborate.unrolling import MAX_UNROLLED, leave_else, leave_loop, unroll_round
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.iteration import count_polynomial, item
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.affine_int import AffineInt

_INT64 = TensorType((), "int64")


@dataclass(slots=True)
class _Carried:
    """The names that a loop carries from round to round, and the parameters that hold them."""

    plans: dict[str, MergePlan]
    variable: ir.Var
    params: tuple[ir.Var, ...]
    counter: ir.Var | None
    memory: LoopMemory


@dataclass(slots=True)
class LoopToEmit:
    """A loop that becomes a function.

    ``iterable`` and ``rounds``: of a ``for``, what it goes over, and how often; None of a ``while``.
    ``reductions``: of a parallel loop, the names that its rounds reduce to, with the operators.
    ``is_prange``: whether a parallel loop may run its rounds in order, too.
    ``has_changing_shapes``: after it became a function, whether sizes of tensors depend on the round.
    ``lost``: after it became a function, the names that it assigns and that have no value after it.
    """

    stmt: tree.For | tree.While
    iterable: v.Operand | None = None
    rounds: int | v.Computed | None = None
    reductions: Mapping[str, str] | None = None
    is_prange: bool = False
    has_changing_shapes: bool = False
    lost: set[str] = field(default_factory=set)

    @property
    def targets(self) -> set[str]:
        """Return the names that the head of a ``for`` binds."""
        if isinstance(self.stmt, tree.While):
            return set()
        return {target.id.name for target in targets_of(self.stmt.target)}

    @property
    def is_long(self) -> bool:
        """Return whether there are too many rounds to unroll."""
        return isinstance(self.rounds, int) and self.rounds > MAX_UNROLLED

    def begin(self, ctx: Elaboration, index: v.Value) -> None:
        """Bind the names that the head of a ``for`` binds. Raises RefusalError."""
        if isinstance(self.stmt, tree.For):
            assert self.iterable is not None
            _check_iterable(ctx, self.stmt, self.iterable.span)
            value = item(self.iterable, index, self.iterable.span)
            assign_target(ctx, self.stmt.target, v.Operand(value, self.iterable.span))


def while_test(ctx: Elaboration, stmt: tree.While) -> v.Computed | bool | None:
    """Elaborate the condition of a while loop."""
    return truth_of(ctx.condition(stmt.condition), "while")


def items_of(stmt: tree.For) -> str:
    """Return the name, which no cell can write, under which the names hold what a loop goes over."""
    return f"items of the loop in line {stmt.span.start_line}"


def _check_iterable(ctx: Elaboration, stmt: tree.For, span: Span) -> None:
    """Check that no round has changed what a loop goes over. Raises RefusalError."""
    items = ctx.environment.bindings.locals.get(items_of(stmt))
    if isinstance(items, v.Unassigned):
        message = "a loop goes over an array that it changes"
        hint = "go over a copy: write .copy() behind it"
        if isinstance(stmt.iterable, ast.Var) and isinstance(stmt.target, ast.Var):
            name, row = stmt.iterable.id.name, stmt.target.id.name
            hint = f"change its rows by their numbers, as in for i in range(len({name})): {name}[i] = value"
            hint += f"; to leave `{name}` as it is, go over {name}.copy()"
            if row in find_assigned_names(stmt.body):  # the one message is enough where `name` is read
                ctx.reported.update(
                    value
                    for value in ctx.environment.bindings.locals.values()
                    if isinstance(value, v.Unassigned) and value.notes[:1] == items.notes[:1]
                )
        raise v.RefusalError(message, span, hint=hint, notes=items.notes)


def emit_loop(ctx: Elaboration, loop: LoopToEmit) -> Terminator | None:
    """Emit the loop as a function that calls itself with the names that change."""
    if isinstance(loop.rounds, int):
        if loop.targets & find_assigned_names(loop.stmt.body).keys():
            loop.begin(ctx, v.Known(0))  # so that it is handed from round to round
        else:
            _forget_targets(ctx, loop)
    return _leave_function(ctx, loop, _emit_function(ctx, loop, _bind_iterable(ctx, loop), 0))


def emit_loop_after_first_round(ctx: Elaboration, loop: LoopToEmit) -> Terminator | None:
    """Emit the first round, then the others as a function that calls itself."""
    bound = _bind_iterable(ctx, loop)
    after, inside = ctx.live, ctx.live | flow_of(loop.stmt).exposed

    def emit_first() -> Terminator | None:
        ctx.live = inside
        return unroll_round(ctx, loop.stmt.body.stmts, lambda: bound.begin(ctx, v.Known(0)))

    def emit_others() -> Terminator | None:
        ctx.live = after
        if not loop.targets & find_assigned_names(loop.stmt.body).keys():
            _forget_targets(ctx, loop)
        return _emit_function(ctx, loop, bound, 1)

    block, ctx.block = ctx.block, Block(ctx.block.lets)
    try:
        run_steps(ctx, [emit_first, emit_others])
        end = ctx.block.end
    finally:
        ctx.block, ctx.live = block, after
    return _leave_function(ctx, loop, end)


def _forget_targets(ctx: Elaboration, loop: LoopToEmit) -> None:
    for name in loop.targets:
        ctx.environment.bindings.forget(name)


def _bind_iterable(ctx: Elaboration, loop: LoopToEmit) -> LoopToEmit:
    """Return the loop over atoms: what a ``for`` goes over is bound before it."""
    if not isinstance(loop.stmt, tree.For):
        return loop
    let_bind_names(ctx, sorted(find_mentioned_names(loop.stmt.iterable)))
    assert loop.iterable is not None
    iterable = v.Operand(atomize(ctx, loop.iterable.value, "items", set()), loop.iterable.span)
    rounds = loop.rounds
    if isinstance(rounds, v.Computed):
        count_ = v.dynamic(atomize(ctx, rounds, "count", set()))
        rounds = count_
    return replace(loop, iterable=iterable, rounds=rounds)


def _leave_function(ctx: Elaboration, loop: LoopToEmit, end: Terminator | None) -> Terminator | None:
    after = leave_loop(ctx, end)
    for node in walk(loop.stmt.body):
        for name in node.names if isinstance(node, tree.InvalidStatement) else ():
            ctx.environment.bindings.bind(name, v.FAILED)  # its error is reported
    return after


def _emit_function(ctx: Elaboration, whole: LoopToEmit, loop: LoopToEmit, first: int) -> Terminator:
    """Emit the rounds from ``first`` on. ``loop``: the whole loop over atoms."""
    stmt = loop.stmt
    let_bind_used_names(ctx, stmt)
    bindings = ctx.environment.bindings
    names = _names_to_carry(ctx, loop)
    plans: dict[str, MergePlan] = {name: plan_value(bindings.locals[name], keep=False) for name in names}
    memory = loop_memory(ctx, plans)
    # A fixpoint: plans only ever widen (static, then an expression, then one of an open size), so
    # it ends. A round whose plans are too narrow may have errors that wider ones do not have; those
    # of the last are reported.
    while True:  # until a round asks for no other types, and shares no other memory, than it began with
        carried = _carry(ctx, loop, plans, memory)
        diagnostics, failed, reported = ctx.diagnostics, ctx.environment.failed, set(ctx.reported)
        ctx.diagnostics = Diagnostics()
        try:
            body, widened, shared = _elaborate_round(ctx, loop, carried)
        finally:
            errors, ctx.diagnostics = ctx.diagnostics.errors, diagnostics
        if widened == plans and shared == memory:
            break
        ctx.environment.failed, ctx.reported = failed, reported
        plans, memory = widened, shared
    for diagnostic in errors:
        ctx.diagnostics.add(diagnostic)
    start = _start_arguments(carried, bindings, first)
    _explain_unassigned_names(ctx, stmt, bindings)
    for name in assigned_names(ctx, stmt):
        value = bindings.locals[name]
        plan = carried.plans.get(name)
        if isinstance(plan, Same) and isinstance(plan.value, v.Unassigned):
            value = plan.value
        if isinstance(value, v.Unassigned):
            whole.lost.add(name)
            ctx.loop_forms.lost[value] = (stmt, name)
    known = [
        param
        for param, is_known in zip(carried.params, _known_starts(carried, bindings), strict=True)
        if is_known
    ]
    whole.has_changing_shapes = has_shapes_of(body, known)
    note_growing_arrays(ctx, stmt, plans)
    attrs: dict[str, object] = {}
    if whole.reductions is not None:
        attrs[PARALLEL] = _reductions_text(carried, whole.reductions)
    if whole.is_prange:
        attrs[PRANGE] = 1
    return Loop(carried.variable, carried.params, start, body, ctx.span(stmt.span), attrs)


def _reductions_text(carried: _Carried, reductions: Mapping[str, str]) -> int | str:
    """Return which parameters of a parallel loop's function are reduced to, as an attribute of it."""
    numbers: dict[int, str] = {}
    position = 0 if carried.counter is None else 1
    for name, plan in carried.plans.items():
        parts = len(list(types_of(plan)))
        if name in reductions and parts:
            numbers[position] = reductions[name]
        position += parts
    return reductions_to_text(numbers)


def _names_to_carry(ctx: Elaboration, loop: LoopToEmit) -> list[str]:
    """Return the names with values before a loop that it assigns; where nobody reads one, it loses it."""
    bindings, stmt = ctx.environment.bindings, loop.stmt
    # Liveness decides what a loop carries: a name that is assigned before it is read in each round,
    # and not read afterwards, is no parameter.
    read = ctx.live.to_set() | flow_of(stmt).exposed | v.captured_names(bindings.locals.values())
    if loop.targets & read:
        read |= loop.targets
    carried = list[str]()
    after = ctx.live.to_set() if NONE_MERGES.get().allowed else set()
    for name in assigned_names(ctx, stmt):
        if name not in bindings.locals and name in after:
            bindings.bind(name, UNBOUND)
        if name in bindings.locals:
            if name in read or is_state(name):
                carried.append(name)
            else:
                bindings.forget(name)
    return carried


def _explain_unassigned_names(ctx: Elaboration, stmt: tree.For | tree.While, bindings: v.Bindings) -> None:
    """Explain why names that only the loop assigns cannot be used after it."""
    span = ctx.span(stmt.span)
    notes = (Note("the loop may have no rounds", span),)
    # Python raises UnboundLocalError where no round ran; a cell must say so while it compiles.
    for name in find_assigned_names(stmt):
        if name not in bindings.locals:
            message = f"`{name}` may not be assigned here: only a loop assigns it"
            bindings.locals[name] = v.Unassigned(message, "assign it before the loop", notes, may_merge=True)


def _carry(ctx: Elaboration, loop: LoopToEmit, plans: dict[str, MergePlan], memory: LoopMemory) -> _Carried:
    """Create the parameters of the loop's function for the plans."""
    span = ctx.span(loop.stmt.span)
    is_for = isinstance(loop.stmt, tree.For)
    counter = ir.Var("step", _INT64, span=span) if is_for else None
    params = [] if counter is None else [counter]
    for name, plan in plans.items():
        params += [ir.Var(name, part.type, span=span) for part in types_of(plan)]
    variable = ir.Var("for_loop" if is_for else "while_loop", span=span)
    return _Carried(plans, variable, tuple(params), counter, memory)


def _start_arguments(carried: _Carried, bindings: v.Bindings, first: int) -> tuple[ir.Expr, ...]:
    """Return the arguments of the first call; ``first``: the index of its round."""
    start: list[ir.Expr] = []
    if carried.counter is not None:
        start.append(ir.constant(first, "int64", span=carried.counter.span))
    for name, plan in carried.plans.items():
        if list(types_of(plan)):
            span = bindings.spans.get(name) or carried.variable.span
            assert span is not None
            start += expressions(plan, bindings.locals[name], span)
    return tuple(start)


def _known_starts(carried: _Carried, bindings: v.Bindings) -> Iterator[bool]:
    """Yield for each parameter whether rounds that are written out may know the sizes that depend on it.

    They cannot where a number or a size before the loop is known at run time only.
    """
    if carried.counter is not None:
        yield True
    for name, plan in carried.plans.items():
        value = bindings.locals[name]
        value = value.rows if isinstance(value, v.ListOfRows) else value
        is_known = not isinstance(value, v.Computed) or (
            all(isinstance(dim, int) for dim in value.type.shape)
            if isinstance(value.type, TensorType) and value.type.shape
            else isinstance(value.expr, ir.Constant)
        )
        yield from (is_known for _ in types_of(plan))


def _elaborate_round(
    ctx: Elaboration, loop: LoopToEmit, carried: _Carried
) -> tuple[Block, dict[str, MergePlan], LoopMemory]:
    """Return the body of the loop's function, and the plans and the memory that its rounds ask for."""
    outer, stmt = ctx.environment.bindings, loop.stmt
    span = ctx.span(stmt.span)
    live, ctx.live = ctx.live, ctx.live | flow_of(stmt).exposed
    body = Block()
    with ctx.inside(body, _enter_round(ctx, carried, outer)) as bindings, ctx.inside_round():
        counter = None if carried.counter is None else _counter(loop, carried.counter)
        condition = _test_round(ctx, loop, counter)
        again, leave = Block(), Block()
        with ctx.inside(again, bindings.copy()):
            fill_block(ctx, again, _round_steps(ctx, loop, counter), span)
        with ctx.inside(leave, bindings.copy()):
            ctx.live = live
            if isinstance(loop.rounds, int) and not loop.targets <= carried.plans.keys():
                loop.begin(ctx, v.Known(loop.rounds - 1))  # after all rounds its names are those of the last
            fill_block(ctx, leave, steps_of(ctx, stmt.orelse.stmts), span)
            leave_else(leave.end)
        ctx.live = live
        if isinstance(condition, v.Computed):
            body.end = CondBranch(condition.expr, again, leave, span)
        else:  # it goes on until something in it leaves
            ctx.environment.failed = ctx.environment.failed or condition is None
            body.lets += again.lets
            body.end = again.end
    rounds = [
        exit_ for exit_, _ in exits_of(again.end) if exit_.kind in (ExitKind.GOES_ON, ExitKind.CONTINUES)
    ]
    plans = _widen_plans(carried, outer, rounds, span)
    memory = widen_memory(ctx, carried.memory, carried.plans.keys(), outer, rounds)
    final = plans == carried.plans and memory == carried.memory
    for exit_ in rounds:
        exit_.kind, exit_.target = ExitKind.JUMPS, carried.variable
        exit_.args = _next_arguments(ctx, carried, exit_, final)
    return body, plans, memory


def _counter(loop: LoopToEmit, variable: ir.Var) -> v.Computed:
    """Return the number of a round, with what is known of it."""
    rounds = None if loop.iterable is None else count_polynomial(loop.iterable)
    most = None if rounds is None else rounds - constant(1)
    # The counter is 0 + 1 * counter, and below the number of rounds: indices made of it can be
    # proven in range.
    affine = AffineInt(constant(0), variable, 1, most, terms=())
    return v.Computed(variable, _INT64, weak=True, least=0, affine=affine)


def _test_round(ctx: Elaboration, loop: LoopToEmit, counter: v.Computed | None) -> v.Computed | bool | None:
    """Return whether another round follows; None where an error was reported."""
    if isinstance(loop.stmt, tree.While):
        return while_test(ctx, loop.stmt)
    assert counter is not None
    assert loop.iterable is not None
    span = loop.iterable.span
    limit: v.Value = loop.rounds if isinstance(loop.rounds, v.Computed) else v.Known(loop.rounds)
    return v.dynamic(binary(ast.BuiltinOp.LT, "<", v.Operand(counter, span), v.Operand(limit, span), span))


def _round_steps(
    ctx: Elaboration, loop: LoopToEmit, counter: v.Computed | None
) -> list[Callable[[], Terminator | None]]:
    def first() -> None:
        if counter is not None:
            loop.begin(ctx, counter)

    return [first, *steps_of(ctx, loop.stmt.body.stmts)]


def _enter_round(ctx: Elaboration, carried: _Carried, outer: v.Bindings) -> v.Bindings:
    """Return the bindings at the beginning of a round."""
    bindings = outer.copy()
    for name, value in carried.memory.forgotten.items():
        bindings.bind(name, value)
    params = iter(carried.params[1:] if carried.counter is not None else carried.params)
    for name, plan in carried.plans.items():
        bindings.locals[name] = rebuild(plan, params)
        if name in outer.locals:
            lists = carried.memory.lists.get(name, frozenset())
            ctx.note_merged_lists(bindings.locals[name], [outer.locals[name]], lists)
        own = frozenset({(carried.variable, name)}) | carried.memory.tokens.get(name, frozenset())
        ctx.memory.share(bindings.locals[name], own)
        bindings.versions[name] = bindings.versions.get(name, 0) + 1
    return bindings


def _widen_plans(
    carried: _Carried, outer: v.Bindings, rounds: Sequence[BlockExit], span: Span
) -> dict[str, MergePlan]:
    """Widen the plans to what the rounds leave; a name that cannot be merged gets no usable value."""
    plans: dict[str, MergePlan] = {}
    for name, plan in carried.plans.items():
        plans[name] = plan
        values: list[tuple[v.Value, Span]] = [(outer.locals[name], outer.spans.get(name, span))]
        for exit_ in rounds:
            value = exit_.bindings.locals.get(name, v.FAILED)
            values.append((value, exit_.bindings.spans.get(name, span)))
            if v.is_failed(value):
                continue  # the last elaboration of the round reports it
            if isinstance(plans[name], Same) and isinstance(plans[name].value, v.Unassigned):  # type: ignore[union-attr]  # Same has one
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
    # The plans are about to change: arguments for them would be thrown away.
    if not final:
        return ()
    args: list[ir.Expr] = []
    if carried.counter is not None:
        step = ir.constant(1, "int64", span=exit_.span)
        counter = v.Operand(v.Computed(carried.counter, _INT64), exit_.span)
        stepped = binary(
            ast.BuiltinOp.Add, "+", counter, v.Operand(v.Computed(step, _INT64), exit_.span), exit_.span
        )
        assert isinstance(stepped, v.Computed)
        args.append(stepped.expr)
    changing = {name: plan for name, plan in carried.plans.items() if list(types_of(plan))}
    return (*args, *exit_expressions(ctx, exit_, changing))
