"""Find the loops that count: LLVM vectorises innermost loops if it knows the number of rounds."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.step_operands import values_read
from nnmagic.engine.relax.tir.builders import collect_loads, dtype_of
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr

#: A nest of loops with at most so much work runs without a look at the clock, and may be unrolled.
_FEW = 256

#: What a round of an innermost loop consists of.
PLAIN = (aot.ScalarCode, aot.StoreElement, aot.Check, aot.Assign, aot.Branch, aot.NextRound)


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """A loop whose ``counter`` grows by 1 while it is less than ``limit``.

    ``round`` are the steps of a round, ``end`` those after the last one; ``is_innermost``: a round calls
    nothing.
    """

    counter: aot.Register
    limit: aot.Register | aot.Immediate
    round: aot.Region
    end: aot.Region
    is_innermost: bool


def find_counted_loop(function: aot.NativeFunction) -> CountedLoop | None:
    """Return the loop that a function is; None for another function, or a loop with other ends."""
    # Rounds that count against the limit of recursion, or whose arrays change their sizes, end in
    # other ways than by the counter.
    if not function.loops or function.counts_rounds or function.carried_dims or len(function.body) != 2:
        return None
    test, branch = function.body
    if not isinstance(test, aot.ScalarCode) or not isinstance(branch, aot.Branch):
        return None
    bounds = _read_test(test, branch.condition)
    ends = any(isinstance(step, aot.Exit) for step in aot.steps_of(branch.then))
    if bounds is None or ends or any(isinstance(step, aot.NextRound) for step in aot.steps_of(branch.other)):
        return None
    counter, limit = bounds
    # A limit that a round changes, as in `while i < n: n = n - 1`, leaves the number of rounds
    # open.
    if limit in find_carried(function) or find_steps(function).get(counter) != 1:
        return None
    is_innermost = all(isinstance(step, PLAIN) for step in aot.steps_of(branch.then))
    round_, end = (_with_test(test, branch.condition, region) for region in (branch.then, branch.other))
    return CountedLoop(counter, limit, round_, end, is_innermost)


def _with_test(test: aot.ScalarCode, condition: aot.Value, region: aot.Region) -> aot.Region:
    """Return a region behind the test of its loop, if it reads the outcome: no other step computes that."""
    reads = any(condition in values_read(step) for step in aot.steps_of(region))
    return [test, *region] if reads else region


def calls_nothing(body: aot.Region) -> bool:
    """Return whether the rounds of a loop consist of plain steps."""
    return all(isinstance(step, (*PLAIN, aot.Exit)) for step in aot.steps_of(body))


def ends_with_test(body: aot.Region) -> bool:
    """Return whether the rounds of a loop call nothing, and begin with the only test that ends it."""
    *test, branch = body
    if not isinstance(branch, aot.Branch):
        return False
    round_, end = list(aot.steps_of([*test, *branch.then])), branch.other
    return all(isinstance(step, PLAIN) for step in round_) and not any(
        isinstance(step, aot.NextRound) for step in aot.steps_of(end)
    )


@dataclass(frozen=True, slots=True)
class FewRounds:
    """The rounds of a loop whose bounds are constants: from ``first`` on; ``work``: with those inside."""

    first: int
    count: int
    work: int


def find_few_rounds(call: aot.FunctionCall, separate: Container[aot.NativeFunction]) -> FewRounds | None:
    """Return the rounds of a loop that a call runs, if they are known and few, and call at most such loops.

    ``separate``: the functions that are no part of their caller.
    """
    counted = None if call.callee in separate else find_counted_loop(call.callee)
    if counted is None or call.callee.parallel is not None or not isinstance(counted.limit, aot.Immediate):
        return None
    first = call.args[call.callee.parameters.index(counted.counter)]
    if not isinstance(first, aot.Immediate):
        return None
    inner = 1
    for step in aot.steps_of(counted.round):
        if isinstance(step, aot.FunctionCall):
            rounds = find_few_rounds(step, separate)
            if rounds is None:
                return None
            inner += rounds.work
        elif not isinstance(step, PLAIN):
            return None
    count = int(counted.limit.value) - int(first.value)
    return FewRounds(int(first.value), count, count * inner) if 0 < count * inner <= _FEW else None


def find_carried(function: aot.NativeFunction) -> set[aot.Register | aot.Storage]:
    """Return the parameters of a loop that its rounds assign."""
    rounds = (step for step in function.steps() if isinstance(step, aot.NextRound))
    return {param for step in rounds for param, _ in step.assign.pairs}


def _read_test(
    test: aot.ScalarCode, condition: aot.Value
) -> tuple[aot.Register, aot.Register | aot.Immediate] | None:
    """Return the counter of a test and its limit."""
    (stage, *more) = test.stages
    if more or test.values.get(stage.buffer) is not condition or not isinstance(stage.value, tirx.LT):
        return None
    counter, limit = (_leaf(part, test.values) for part in (stage.value.a, stage.value.b))
    if (
        isinstance(counter, aot.Register)
        and isinstance(limit, aot.Register | aot.Immediate)
        and counter.dtype == "int64"
    ):
        return counter, limit
    return None


def find_copies(function: aot.NativeFunction) -> dict[aot.Value, aot.Value]:
    """Return the registers that are copies, each with what it is a copy of."""
    copies: dict[aot.Value, aot.Value] = {}
    for step in function.steps():
        if isinstance(step, aot.ScalarCode):
            for stage in step.stages:
                source = _leaf(stage.value, step.values)
                target = step.values.get(stage.buffer)
                if (
                    stage.is_elementwise
                    and isinstance(source, aot.Register)
                    and isinstance(target, aot.Register)
                ):
                    copies[target] = source
    return copies


def find_summands(function: aot.NativeFunction) -> set[aot.Register]:
    """Return the floats that a loop adds in each round to one sum, or subtracts from it.

    The sum is a parameter, or an element at an index that stays the same.
    """
    sums: dict[aot.Register, list[aot.Value | None]] = {}
    varying: set[aot.Value] = set(find_carried(function))
    results: set[aot.Value] = set()
    for step in function.steps():
        match step:
            case aot.NextRound(assign=aot.Assign(pairs=pairs)):
                results.update(value for _, value in pairs)
            case aot.StoreElement():
                used = {step.values[load.source] for load in collect_loads(*step.indices)}
                # An element at an index that stays the same, as total[0] does, is a sum in memory.
                if used.isdisjoint(varying):
                    results.update(step.values[load.source] for load in collect_loads(step.value))
            case aot.ScalarCode(stages=stages, values=values, reads=reads):
                target = values.get(stages[-1].buffer)
                moves = not varying.isdisjoint(reads) or any(isinstance(read, aot.Storage) for read in reads)
                if isinstance(target, aot.Register) and moves:
                    varying.add(target)
                sum_ = stages[0].value
                if (
                    len(stages) == 1
                    and isinstance(target, aot.Register)
                    and isinstance(sum_, tirx.Add | tirx.Sub)
                ):
                    sums[target] = [_leaf(operand, values) for operand in (sum_.a, sum_.b)]
    summands: set[aot.Register] = set()
    for target, parts in sums.items():
        if target in results and target.dtype in ("float32", "float64"):
            summands.update(operand for operand in parts if isinstance(operand, aot.Register))
    return summands


def find_early_products(function: aot.NativeFunction) -> set[aot.Register]:
    """Return the products that a loop adds to products of what the round before computed: ``a*x[i] + b*y``.

    One of the two can be fused with the sum. If it is the later one, a round waits for one operation only.
    """
    late: set[aot.Value] = {param for param in find_carried(function) if _may_be_late(param)}
    late.update(step.storage for step in function.steps() if isinstance(step, aot.StoreElement))
    products: set[aot.Register] = set()
    early: set[aot.Register] = set()
    for step in function.steps():
        if isinstance(step, aot.Assign):
            late.update(target for target, value in step.pairs if value in late)
        if not isinstance(step, aot.ScalarCode):
            continue
        for stage in step.stages:
            target = step.values[stage.buffer]
            read = {step.values.get(load.source) for load in collect_loads(stage.value)}
            if not isinstance(target, aot.Register) or not target.dtype.startswith("float"):
                continue
            if not late.isdisjoint(read):
                late.add(target)
            if isinstance(stage.value, tirx.Mul):
                products.add(target)
            elif isinstance(stage.value, tirx.Add | tirx.Sub):
                parts = {_leaf(operand, step.values) for operand in (stage.value.a, stage.value.b)}
                factors = {
                    operand for operand in parts if isinstance(operand, aot.Register) and operand in products
                }
                # a * x[i] + b * y: with the product of y fused, fma(b, y, t), a round waits for one
                # operation. LLVM would be free to fuse the other product, fma(a, x[i], b * y), and
                # wait for two.
                if len(factors) == 2 and len(factors & late) == 1:
                    early |= factors - late
    return early


def _may_be_late(param: aot.Register | aot.Storage) -> bool:
    return isinstance(param, aot.Storage) or param.dtype.startswith("float")


def find_steps(function: aot.NativeFunction) -> dict[aot.Register, int]:
    """Return the parameters of a loop that grow by a constant in each round, and that constant."""
    sums = {
        target: (param, by)
        for step in function.steps()
        if isinstance(step, aot.ScalarCode)
        for target, param, by in _read_sum(step)
    }
    rounds = [dict(step.assign.pairs) for step in function.steps() if isinstance(step, aot.NextRound)]
    steps: dict[aot.Register, int] = {}
    for param in find_carried(function):
        found = {_sum_of(carried.get(param), sums) for carried in rounds}
        own, by = found.pop()
        # All ends of a round must add the same constant.
        if not found and isinstance(param, aot.Register) and own is param:
            steps[param] = by
    return steps


def _sum_of(
    value: aot.Value | None, sums: Mapping[aot.Register, tuple[aot.Register, int]]
) -> tuple[aot.Register | None, int]:
    """Return the register and the constant whose sum a value is."""
    return sums.get(value, (None, 0)) if isinstance(value, aot.Register) else (None, 0)


def _read_sum(step: aot.ScalarCode) -> Iterator[tuple[aot.Register, aot.Register, int]]:
    """Yield the register that a step gives the sum of another one and a constant, with these."""
    (stage, *more) = step.stages
    target = step.values.get(stage.buffer)
    if more or not isinstance(target, aot.Register) or not isinstance(stage.value, tirx.Add | tirx.Sub):
        return
    leaf, by = (_leaf(part, step.values) for part in (stage.value.a, stage.value.b))
    is_sum = isinstance(stage.value, tirx.Add)
    if is_sum and isinstance(leaf, aot.Immediate):
        leaf, by = by, leaf
    if isinstance(leaf, aot.Register) and isinstance(by, aot.Immediate) and isinstance(by.value, int):
        yield target, leaf, by.value if is_sum else -by.value


def _leaf(expr: PrimExpr, values: Mapping[Buffer, aot.Value]) -> aot.Value | None:
    """Return what an expression is: a register, or a constant."""
    if isinstance(expr, tirx.IntImm):
        return aot.Immediate(dtype_of(expr), int(expr.value), -1)
    return values.get(expr.source) if isinstance(expr, ir.expr.TensorLoad) else None
