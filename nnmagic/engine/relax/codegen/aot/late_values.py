"""Reassociate chains of minima and maxima, so that a round waits less for what the round before computed.

A round of ``d[i, j] = min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])`` waits for ``d[i, j - 1]``. As
``min(min(d[i - 1, j], d[i - 1, j - 1]), d[i, j - 1])`` it waits for one comparison only. The result is the
same, but for the sign of a zero where both 0.0 and -0.0 are the least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import find_carried, find_steps
from nnmagic.engine.relax.codegen.aot.step_operands import values_read
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.schedules.kernel_analysis import Stage
from nnmagic.engine.relax.tir.builders import collect_loads, dtype_of
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr

#: So many rounds after it was stored, a value counts as late.
_LATE_ROUNDS = 2


# Height reduction of a recurrence by reassociation (Schlansker and Kathail, Acceleration of first
# and higher order recurrences, 1994): minima and maxima are associative and commutative, sums of
# floats are not.
def compute_late_values_last(program: AotProgram) -> None:
    """Reorder the minima and maxima of all loops of a program."""
    for function in (program.entry, *program.functions):
        if not function.loops:
            continue
        flow = _follow_function(function)
        if late := _find_late(flow):
            _split_choices(function.body)
            uses = Counter(value for step in function.steps() for value in values_read(step))
            _reorder(function.body, late, flow, uses)


# What is late


@dataclass(slots=True)
class _Flow:
    """What the registers of a loop are computed from: ``sources``, in the same round; ``before``, in others.

    ``sums``: registers that are a sum of others, each times an integer, and of a constant, under None.
    """

    sources: dict[aot.Value, set[aot.Value]] = field(default_factory=dict)
    before: dict[aot.Value, set[aot.Value]] = field(default_factory=dict)
    sums: dict[aot.Value, dict[aot.Value | None, int]] = field(default_factory=dict)
    loads: list[tuple[aot.Register, aot.Storage, list[dict[aot.Value | None, int] | None]]] = field(
        default_factory=list
    )
    stores: list[tuple[set[aot.Value], aot.Storage, list[dict[aot.Value | None, int] | None]]] = field(
        default_factory=list
    )


def _follow_function(function: aot.NativeFunction) -> _Flow:
    """Return what the registers of a loop are computed from."""
    flow = _Flow()
    counters = find_steps(function)
    _follow(function.body, flow, set())
    for param in find_carried(function):
        if isinstance(param, aot.Register) and param not in counters:
            flow.before[param] = {
                value
                for step in function.steps()
                if isinstance(step, aot.NextRound)
                for target, value in step.assign.pairs
                if target is param
            }
    for register, storage, read in flow.loads:
        for values, target, written in flow.stores:
            # A store to d[i, j] that d[i, j - 1] reads one round later is a dependence through
            # memory, which no register shows.
            if target is storage and _is_soon_read(written, read, counters):
                flow.before.setdefault(register, set()).update(values)
    return flow


def _find_late(flow: _Flow) -> set[aot.Value]:
    """Return the registers that depend on what the round before computed from the round before it."""
    # Only values on a cycle through rounds: a value that is merely carried, as a previous row's
    # element, is there when the round begins.
    begins = [value for value, before in flow.before.items() if value in _reach(before, flow)]
    late: set[aot.Value] = set(begins)
    while True:
        more = {value for value, sources in flow.sources.items() if not sources.isdisjoint(late)} - late
        if not more:
            return late
        late |= more


def _reach(values: set[aot.Value], flow: _Flow) -> set[aot.Value]:
    """Return what some values are computed from, in any round."""
    reached, work = set(values), list(values)
    while work:
        value = work.pop()
        for source in (*flow.sources.get(value, ()), *flow.before.get(value, ())):
            if source not in reached:
                reached.add(source)
                work.append(source)
    return reached


def _follow(region: aot.Region, flow: _Flow, conditions: set[aot.Value]) -> None:
    """Note what the steps of a region compute from what; ``conditions`` decide whether it runs."""
    for step in region:
        match step:
            case aot.ScalarCode(stages=stages, values=values):
                for stage in stages:
                    for buffer in stage.writes:
                        _follow_stage(stage, values[buffer], values, flow)
            case aot.StoreElement(storage=storage, indices=indices, value=value, values=values):
                read = {values[load.source] for load in collect_loads(value)} | conditions
                flow.stores.append((read, storage, [_sum_of(index, values, flow) for index in indices]))
            case aot.Assign(pairs=pairs):
                for target, value in pairs:
                    flow.sources.setdefault(target, set()).update({value} | conditions)
            case aot.Branch(condition=condition, then=then, other=other):
                _follow(then, flow, conditions | {condition})
                _follow(other, flow, conditions | {condition})
            case aot.KernelCall(args=args, reads=reads):
                for written in args[reads:]:
                    flow.sources.setdefault(written, set()).update(args[:reads])
            case aot.FunctionCall(args=args, results=results):
                for result in results:
                    flow.sources.setdefault(result, set()).update(args)


def _follow_stage(stage: Stage, target: aot.Value, values: Mapping[Buffer, aot.Value], flow: _Flow) -> None:
    loads = [load for value in stage.values for load in collect_loads(value)]
    flow.sources.setdefault(target, set()).update(
        values[load.source] for load in loads if load.source in values
    )
    total = _sum_of(stage.value, values, flow)
    if total is not None and isinstance(target, aot.Register):
        flow.sums[target] = total
    for load in loads:
        storage = values.get(load.source)
        if isinstance(storage, aot.Storage) and isinstance(target, aot.Register):
            read = [_sum_of(index, values, flow) for index in load.indices]
            flow.loads.append((target, storage, read))
            for stored, other, written in flow.stores:
                if other is storage and None not in read and written == read:
                    flow.sources[target].update(stored)


def _sum_of(
    expr: PrimExpr | int, values: Mapping[Buffer, aot.Value], flow: _Flow
) -> dict[aot.Value | None, int] | None:
    """Return an integer as a sum of registers and a constant; None for another value."""
    match expr:
        case int():
            return {None: expr}
        case tirx.IntImm():
            return {None: int(expr.value)}
        case ir.TensorLoad():
            value = values.get(expr.source)
            if isinstance(value, aot.Immediate):
                return {None: value.value} if isinstance(value.value, int) else None
            if not isinstance(value, aot.Register) or not value.dtype.startswith("int"):
                return None
            return flow.sums.get(value, {value: 1})
        case tirx.Add() | tirx.Sub():
            a, b = _sum_of(expr.a, values, flow), _sum_of(expr.b, values, flow)
            if a is None or b is None:
                return None
            sign = 1 if isinstance(expr, tirx.Add) else -1
            return {key: a.get(key, 0) + sign * b.get(key, 0) for key in a | b}
    return None


def _is_soon_read(
    written: Sequence[dict[aot.Value | None, int] | None],
    read: Sequence[dict[aot.Value | None, int] | None],
    counters: Mapping[aot.Register, int],
) -> bool:
    """Return whether an element is read in one of the next rounds after it was stored."""
    rounds: set[int] = set()
    for store, load in zip(written, read, strict=True):
        if store is None or load is None:
            return False
        # The distance of a dependence is constant only if store and load differ by a constant (a
        # strong SIV subscript: Goff, Kennedy and Tseng, Practical dependence testing, 1991).
        difference = {key: store.get(key, 0) - load.get(key, 0) for key in store | load}
        distance = difference.pop(None, 0)
        step = sum(
            counters.get(key, 0) * factor for key, factor in store.items() if isinstance(key, aot.Register)
        )
        if any(difference.values()) or (distance % step if step else distance):
            return False
        if step:
            rounds.add(distance // step)
    return not rounds or (len(rounds) == 1 and 1 <= rounds.pop() <= _LATE_ROUNDS)


# What is reordered


@dataclass(frozen=True, slots=True)
class _Choice:
    """The smaller, or larger, of two values, as a stage of a step computes it."""

    kind: type
    operands: tuple[aot.Value, aot.Value]


def _reorder(region: aot.Region, late: set[aot.Value], flow: _Flow, uses: Counter[aot.Value]) -> None:
    """Reorder the choices of a region, and of those inside."""
    defined: dict[aot.Value, tuple[int, _Choice]] = {}
    dropped: set[int] = set()
    added: dict[int, list[aot.ScalarCode]] = {}
    for position, step in enumerate(region):
        if isinstance(step, aot.Branch):
            _reorder(step.then, late, flow, uses)
            _reorder(step.other, late, flow, uses)
        choice = _read_choice(step)
        if choice is None or not isinstance(step, aot.ScalarCode):
            continue
        target = step.values[step.stages[0].buffer]
        defined[target] = position, choice
        # An inner link of a chain: the chain is reordered as a whole at its last link.
        if uses[target] == 1 and _is_operand_of_next(region[position + 1 :], target, choice.kind):
            continue
        operands, positions = _operands(target, defined, uses)
        ordered = sorted(operands, key=lambda value: _lateness(value, target, late, flow))
        # Floats are rebuilt even in the same order, as the last choice may then ignore NaN.
        if ordered[-1] not in late or (ordered == operands and choice.kind in _INTEGERS):
            continue
        dropped.update(positions)
        added[position] = list(_chain(ordered, target, choice.kind))
        *first, last = added[position]
        # In `cost + min(...)`, the test for NaN of the early operand moves into the early addend,
        # and the late comparison becomes a single minimum instruction.
        sum_ = _find_sum(region, position, target, uses) if choice.kind in _FLOATS else None
        if choice.kind in _FLOATS and last.reads[0] in _passed_on(region, last.reads[1]):
            added[position] = [*first, _ignore_nan(last, choice.kind)]
        elif sum_ is not None and sum_.addend not in late:
            added[position] = [*first, _ignore_nan(last, choice.kind)]
            added[sum_.position] = _take_nan(last, sum_)
    region[:] = [
        new
        for position, step in enumerate(region)
        for new in added.get(position, () if position in dropped else (step,))
    ]


def _lateness(value: aot.Value, target: aot.Value, late: set[aot.Value], flow: _Flow) -> int:
    """Return 0 for a value that is not late, 2 for one that waits for the target of the round before."""
    if value not in late:
        return 0
    return 2 if target in _reach({value}, flow) else 1


def _is_operand_of_next(rest: Sequence[object], value: aot.Value, kind: type) -> bool:
    """Return whether a later step of the region chooses between a value and others in the same way."""
    later = (_read_choice(step) for step in rest)
    return any(choice is not None and choice.kind is kind and value in choice.operands for choice in later)


def _operands(
    root: aot.Value, defined: Mapping[aot.Value, tuple[int, _Choice]], uses: Counter[aot.Value]
) -> tuple[list[aot.Value], list[int]]:
    """Return all that a chain of choices chooses from, in order, and the positions of its steps."""
    operands: list[aot.Value] = []
    position, choice = defined[root]
    positions = [position]
    for operand in choice.operands:
        inner = defined.get(operand)
        if inner is not None and inner[1].kind is choice.kind and uses[operand] == 1:
            more, at = _operands(operand, defined, uses)
            operands += more
            positions += at
        else:
            operands.append(operand)
    return operands, positions


def _split_choices(region: aot.Region) -> None:
    """Give each choice of a region, and of those inside, a step of its own."""
    steps = list(region)
    region.clear()
    for step in steps:
        if isinstance(step, aot.Branch):
            _split_choices(step.then)
            _split_choices(step.other)
        if not isinstance(step, aot.ScalarCode) or len(step.stages) == 1:
            region.append(step)
            continue
        plain: list[Stage] = []
        for stage in step.stages:
            alone = replace(step, stages=(stage,))
            if _read_choice(alone) is None:
                plain.append(stage)
                continue
            if plain:
                region.append(_with_reads(replace(step, stages=tuple(plain))))
            region.append(_with_reads(alone))
            plain = []
        if plain:
            region.append(_with_reads(replace(step, stages=tuple(plain))))


def _with_reads(step: aot.ScalarCode) -> aot.ScalarCode:
    """Return a step that was a part of another one with what it reads itself."""
    written = {buffer for stage in step.stages for buffer in stage.writes}
    read = [load.source for stage in step.stages for load in collect_loads(*stage.values)]
    reads = dict.fromkeys(step.values[buffer] for buffer in read if buffer not in written)
    return replace(step, reads=tuple(reads))


def _read_choice(step: object) -> _Choice | None:
    """Return what a step chooses, if that is all that it does: a minimum or maximum of two values."""
    if not isinstance(step, aot.ScalarCode) or len(step.stages) != 1 or step.stages[0].reduces:
        return None
    value = step.stages[0].value
    kind: type
    # Minima of integers are TVM's nodes; those of floats are written as `a < b or isnan(a) ? a :
    # b`, which NumPy's minimum of NaN needs.
    if isinstance(value, tirx.Min | tirx.Max):
        kind, operand_pair = type(value), (value.a, value.b)
    elif isinstance(value, tirx.Select) and isinstance(value.condition, tirx.Or):
        comparison, is_nan = value.condition.a, value.condition.b
        operand_pair = (value.true_value, value.false_value)
        if not isinstance(comparison, tirx.LT) or not isinstance(is_nan, ir.Call):
            return None
        order = _buffers(comparison.a, comparison.b)
        if is_nan.op.name != "tirx.isnan" or _buffers(is_nan.args[0]) != _buffers(operand_pair[0]):
            return None
        if order == _buffers(*operand_pair):
            kind = tirx.LT
        elif order == _buffers(*reversed(operand_pair)):
            kind = tirx.GT
        else:
            return None
    else:
        return None
    if not all(isinstance(part, ir.TensorLoad) for part in operand_pair):
        return None
    operands = [step.values[part.source] for part in operand_pair]
    if any(isinstance(operand, aot.Storage) for operand in operands):
        return None
    return _Choice(kind, (operands[0], operands[1]))


_FLOATS = frozenset((tirx.LT, tirx.GT))
_INTEGERS = frozenset((tirx.Min, tirx.Max))


@dataclass(frozen=True, slots=True)
class _Sum:
    """A step that adds something to what was chosen."""

    position: int
    step: aot.ScalarCode
    buffer: Buffer
    addend: aot.Value


def _find_sum(region: aot.Region, position: int, chosen: aot.Value, uses: Counter[aot.Value]) -> _Sum | None:
    """Return the sum that is all that what was chosen is for."""
    if uses[chosen] != 1:
        return None
    for at, step in enumerate(region[position + 1 :], start=position + 1):
        if not isinstance(step, aot.ScalarCode) or chosen not in step.reads:
            continue
        value = step.stages[0].value
        buffers = (
            _buffers(value.a, value.b) if isinstance(value, tirx.Add) and len(step.stages) == 1 else None
        )
        for buffer in buffers or ():
            addend = step.values[buffer]
            if addend is not chosen and not isinstance(addend, aot.Storage):
                return _Sum(at, step, buffer, addend)
        return None
    return None


def _passed_on(region: aot.Region, value: aot.Value) -> list[aot.Value]:
    """Return the values whose NaN makes a value NaN: the operands of the arithmetic that it is."""
    for step in region:
        if not isinstance(step, aot.ScalarCode):
            continue
        for stage in step.stages:
            if step.values[stage.buffer] is value and isinstance(stage.value, tirx.Add | tirx.Sub | tirx.Mul):
                return [step.values[buffer] for buffer in _buffers(stage.value.a, stage.value.b) or ()]
    return []


def _ignore_nan(choice: aot.ScalarCode, kind: type) -> aot.ScalarCode:
    """Return a choice that a NaN of the first value does not decide: one instruction of the machine."""
    (stage,) = choice.stages
    before, last = (tirx.BufferLoad(buffer, []) for buffer in list(choice.values)[:2])
    return replace(choice, stages=(replace(stage, values=(tirx.Select(kind(before, last), before, last),)),))


def _take_nan(choice: aot.ScalarCode, sum_: _Sum) -> list[aot.ScalarCode]:
    """Return a sum whose addend is NaN where the first value of a choice is: it waits for no choice."""
    first, _, _ = choice.values.values()
    dtype = dtype_of(sum_.buffer)
    addend = aot.Register(dtype, "addend")
    buffers = [tirx.decl_buffer((), dtype, name) for name in ("before", "given", "addend")]
    before, given = (tirx.BufferLoad(buffer, []) for buffer in buffers[:2])
    # x <= inf is false for NaN alone. A NaN addend makes the sum NaN, as the choice would have.
    value = tirx.Select(before <= tirx.const(float("inf"), dtype), given, before)
    stage = Stage((buffers[2],), (), (), (), (value,), None)
    values = dict(zip(buffers, (first, sum_.addend, addend), strict=True))
    reads = tuple(addend if value is sum_.addend else value for value in sum_.step.reads)
    step = replace(sum_.step, values={**sum_.step.values, sum_.buffer: addend}, reads=reads)
    return [aot.ScalarCode((stage,), values, {}, (first, sum_.addend)), step]


def _buffers(*parts: PrimExpr) -> list[Buffer] | None:
    """Return the buffers that some loads read; None for other expressions."""
    return (
        [operand.source for operand in parts]
        if all(isinstance(operand, ir.TensorLoad) for operand in parts)
        else None
    )


def _chain(operands: Sequence[aot.Value], target: aot.Value, kind: type) -> Iterator[aot.ScalarCode]:
    """Yield steps that choose from values one after the other."""
    chosen = operands[0]
    for number, operand in enumerate(operands[1:], start=2):
        assert isinstance(target, aot.Register)
        result = target if number == len(operands) else aot.Register(target.dtype, "chosen")
        buffers = [tirx.decl_buffer((), target.dtype, name) for name in ("before", "operand", "chosen")]
        before, last = (tirx.BufferLoad(buffer, []) for buffer in buffers[:2])
        value: PrimExpr
        if kind in _INTEGERS:
            value = kind(before, last)
        else:
            is_number = before <= tirx.const(float("inf"), target.dtype)
            value = tirx.Select(is_number, tirx.Select(kind(before, last), before, last), before)
        stage = Stage((buffers[2],), (), (), (), (value,), None)
        values = dict(zip(buffers, (chosen, operand, result), strict=True))
        yield aot.ScalarCode((stage,), values, {}, (chosen, operand))
        chosen = result
