"""Find loops of which several rounds can be computed at once, one in each lane of vectors.

LLVM makes vectors of innermost loops only, and not of one that adds to a sum in each round: the order of
floating-point sums is the program's. But rounds of the loop around it, which are independent of each other,
have a sum each. (Compilers know this as vectorization of outer loops.)
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from tvm import ir

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import (
    CountedLoop,
    find_carried,
    find_counted_loop,
    find_early_products,
    find_few_rounds,
    find_summands,
)
from nnmagic.engine.relax.codegen.aot.lane_facts import (
    UNIFORM,
    UNKNOWN,
    Fact,
    InnerLoop,
    LanePlan,
    LaneStep,
    RangeCheck,
)
from nnmagic.engine.relax.codegen.aot.loop_versions import Affine
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    collect_loads,
    dtype_of,
    is_conditional,
    is_library_fallback,
)
from nnmagic.engine.relax.tir.types import Index, PrimExpr, Var
from nnmagic.engine.relax.tir.visitors import collect, replace_vars

#: Loops with more steps than this are not compiled twice.
_MOST_STEPS = 120

#: An index grows by at most so much in a round, so that the range of it does not wrap around.
_MOST_STEP = 1 << 20


class _RefusedError(Exception):
    """The rounds of a loop are not computed together."""


# As in Nuzman and Zaks, Outer-loop vectorization: revisited for short SIMD architectures (2008).
def plan_lanes(
    function: aot.NativeFunction, counted: CountedLoop, separate: Container[aot.NativeFunction]
) -> LanePlan | None:
    """Return how several rounds of a loop are computed at once; None where they are not.

    ``separate``: the functions that are no part of their caller.
    """
    if counted.is_innermost or function.parallel is not None or not isinstance(counted.counter, aot.Register):
        return None
    # A round that hands anything but the counter to the next one depends on it.
    if find_carried(function) != {counted.counter}:
        return None
    for step in aot.steps_of(counted.round):
        if not isinstance(step, aot.FunctionCall):
            continue
        inner = find_counted_loop(step.callee)
        if inner is not None and plan_lanes(step.callee, inner, separate) is not None:
            return None  # neighbours in memory are nearer to each other in the loop inside
    try:
        return _LanePlanner(counted, separate).plan(function)
    except _RefusedError:
        return None


class _LanePlanner:
    def __init__(self, counted: CountedLoop, separate: Container[aot.NativeFunction]) -> None:
        self._counted = counted
        self._separate = separate
        self._plan = LanePlan(counted.counter)
        self._count = 0
        #: Indices and sizes, with the counters of the loops inside that they are in.
        self._checks: list[tuple[aot.Value, PrimExpr, tuple[aot.Register, ...]]] = []
        self._inside: tuple[aot.Register, ...] = ()

    def plan(self, function: aot.NativeFunction) -> LanePlan:
        """Return the plan of a loop."""
        plan = self._plan
        self._add_summands(function)
        plan.steps, following, _ = self._flatten(self._counted.round, {}, {})
        if any(target is not plan.counter for target, _ in following):
            raise _RefusedError
        plan.facts[plan.counter] = Fact(1, (), Affine({plan.counter: 1}))
        defined = set(_definitions(plan.steps))
        self._follow(plan.steps)
        # Without a sum inside, LLVM makes vectors of the innermost loop already.
        if not any(_has_sum(loop) or self._has_sum_in_memory(loop) for loop in _loops(plan.steps)):
            raise _RefusedError
        if self._checks:
            plan.checks = [self._range_check(*check, defined) for check in self._checks]
            self._follow(plan.steps)
        self._require_own_elements(defined)
        return plan

    def _add_summands(self, function: aot.NativeFunction) -> None:
        self._plan.summands |= find_summands(function) | find_early_products(function)

    # Steps of the functions that are a part of the loop, in terms of its own

    def _flatten(
        self, region: aot.Region, names: Mapping[aot.Value, aot.Value], sizes: Mapping[Var, PrimExpr]
    ) -> tuple[list[LaneStep], list[tuple[aot.Register, aot.Value]], list[aot.Value]]:
        """Return the steps of a region, what the next round assigns, and the results of an exit."""
        steps: list[LaneStep] = []
        following: list[tuple[aot.Register, aot.Value]] = []
        results: list[aot.Value] = []
        for step in region:
            self._count += 1
            if self._count > _MOST_STEPS:
                raise _RefusedError
            match step:
                case aot.ScalarCode() | aot.StoreElement():
                    steps.append(self._rename(step, names, sizes))
                case aot.FunctionCall():
                    steps.append(self._inner_loop(step, names, sizes))
                case aot.Branch(then=[aot.FunctionCall() as fast], other=[aot.FunctionCall() as checked]) if (
                    fast.callee.parameters is checked.callee.parameters
                ):  # two versions of a loop
                    steps.append(self._inner_loop(checked, names, sizes))
                case aot.NextRound(assign=assign, sizes=()):
                    for target, value in assign.pairs:
                        if not isinstance(target, aot.Register):
                            raise _RefusedError
                        following.append((target, names.get(value, value)))
                case aot.Exit(results=values):
                    results = [names.get(value, value) for value in values]
                case aot.Check(index=index) if index is not None:
                    size = replace_vars(as_expr(step.size), sizes)
                    self._checks.append((names.get(index, index), size, self._inside))
                case _:
                    raise _RefusedError
        return steps, following, results

    def _rename(
        self,
        step: aot.ScalarCode | aot.StoreElement,
        names: Mapping[aot.Value, aot.Value],
        sizes: Mapping[Var, PrimExpr],
    ) -> aot.ScalarCode | aot.StoreElement:
        values = {buffer: names.get(value, value) for buffer, value in step.values.items()}
        renamed = {var: replace_vars(size, sizes) for var, size in step.sizes.items()}
        if isinstance(step, aot.StoreElement):
            storage = names.get(step.storage, step.storage)
            assert isinstance(storage, aot.Storage)
            step = replace(step, storage=storage, values=values, sizes=renamed)
        else:
            step = replace(step, values=values, sizes=renamed)
        if any(_is_foreign(expr) for expr in _expressions(step)):
            raise _RefusedError
        storages = {value for value in values.values() if isinstance(value, aot.Storage)}
        # Temporaries of a round have one place in the workspace, which the lanes would share.
        if any(each.kind not in ("parameter", "constant") for each in storages):
            raise _RefusedError
        return step

    def _inner_loop(
        self, call: aot.FunctionCall, names: Mapping[aot.Value, aot.Value], sizes: Mapping[Var, PrimExpr]
    ) -> InnerLoop:
        callee = call.callee
        counted = None if callee in self._separate else find_counted_loop(callee)
        if counted is None or call.result_dims or callee.pointers or callee.chunks or callee.workspace != 0:
            raise _RefusedError
        self._add_summands(callee)
        carried = find_carried(callee)
        substitution: dict[aot.Value, aot.Value] = {}
        begun: list[tuple[aot.Register, aot.Value]] = []
        first: aot.Value | None = None
        for param, arg in zip(callee.parameters, call.args, strict=True):
            value = names.get(arg, arg)
            if param is counted.counter:
                first = value
            elif param not in carried:
                substitution[param] = value
            elif isinstance(param, aot.Register):
                begun.append((param, value))
            else:
                raise _RefusedError
        assert first is not None
        inner = {dim: replace_vars(size, sizes) for dim, size in zip(callee.dims, call.sizes, strict=True)}
        around, self._inside = self._inside, (*self._inside, counted.counter)
        body, following, _ = self._flatten(counted.round, substitution, inner)
        self._inside = around
        end, _, results = self._flatten(counted.end, substitution, inner)
        pairs = [
            (target, value)
            for target, value in zip(call.results, results, strict=True)
            if isinstance(target, aot.Register)
        ]
        limit = substitution.get(counted.limit, counted.limit)
        following = [pair for pair in following if pair[0] is not counted.counter]
        return InnerLoop(counted.counter, first, limit, begun, body, following, end, pairs)

    # What differs between lanes

    def _follow(self, steps: Sequence[LaneStep]) -> None:
        facts = self._plan.facts
        for step in steps:
            match step:
                case aot.ScalarCode():
                    for stage in step.stages:
                        for buffer, value in zip(stage.writes, stage.values, strict=True):
                            target = step.values[buffer]
                            assert isinstance(target, aot.Register)
                            fact = self._plan.of_expression(value, step)
                            tested = self._plan.tested_by(value, step)
                            if target.dtype == "bool" and tested is not None:
                                self._plan.tested[target] = tested
                            facts[target] = fact if not stage.reduces or fact.is_uniform else UNKNOWN
                case InnerLoop():
                    self._follow_loop(step)

    def _follow_loop(self, loop: InnerLoop) -> None:
        plan = self._plan
        # Lanes run the rounds of a loop inside together: a triangular loop, `for j in range(i)`,
        # has other numbers of rounds in each lane.
        if not plan.fact(loop.first).is_uniform or not plan.fact(loop.limit).is_uniform:
            raise _RefusedError
        plan.facts[loop.counter] = Fact(0, (), Affine({loop.counter: 1}))
        for param, value in loop.carried:
            plan.facts[param] = UNIFORM if plan.fact(value).is_uniform else UNKNOWN
        while True:
            self._follow(loop.body)
            varying = [
                param
                for param, value in loop.following
                if plan.facts[param].is_uniform and not plan.fact(value).is_uniform
            ]
            if not varying:
                break
            # A fixpoint: what rounds inside hand on is uniform at first, and becomes a value for
            # each lane once something that differs between lanes is assigned to it. It only ever
            # changes in this direction.
            plan.facts.update(dict.fromkeys(varying, UNKNOWN))
        self._follow(loop.end)
        for target, value in loop.results:
            plan.facts[target] = UNIFORM if plan.fact(value).is_uniform else UNKNOWN

    def _range_check(
        self,
        value: aot.Value,
        size: PrimExpr,
        inside: Sequence[aot.Register],
        defined: Container[aot.Register],
    ) -> RangeCheck:
        """Return a check that is made before the first round. Raises _RefusedError."""
        fact = self._plan.fact(value)
        index = fact.affine or fact.from_start
        if index is None or any(abs(factor) > _MOST_STEP for factor in index.terms.values()):
            raise _RefusedError
        loops = {loop.counter: loop for loop in _loops(self._plan.steps)}
        around = tuple(loops[counter] for counter in inside if counter in index.terms)
        counters = {loop.counter for loop in around}
        for term in index.terms:
            assert isinstance(term, aot.Register)
            # The check is made ahead of the first round: an index that a round computes, as one
            # that is read from an array, is not known then.
            if term in defined and term not in counters:
                raise _RefusedError
        if any(bound in defined for loop in around for bound in (loop.first, loop.limit)):
            raise _RefusedError
        return RangeCheck(index, size, around)

    def _has_sum_in_memory(self, loop: InnerLoop) -> bool:
        """Return whether the rounds of a loop change one float of an array, as in ``total[i] += x[j]``."""
        for step in loop.body:
            if isinstance(step, aot.StoreElement) and dtype_of(step.buffer) in ("float32", "float64"):
                sums = [self._plan.of_expression(as_expr(index), step).affine for index in step.indices]
                if all(affine is not None and loop.counter not in affine.terms for affine in sums):
                    return True
        return False

    # What rounds share

    def _require_own_elements(self, defined: Container[aot.Register]) -> None:
        """Refuse rounds that may change what another one reads or changes."""
        plan = self._plan
        accesses = list(_accesses(plan.steps))
        for storage in {storage for storage, _, _, writes in accesses if writes}:
            places = [
                self._own_axes(indices, step, defined)
                for other, indices, step, _ in accesses
                if other is storage
            ]
            # One axis with the same index in every access, and another one in each round, keeps the
            # rounds apart: y[i, j] = f(y[i, k]) touches row i alone.
            if not any(all(place.get(axis) == own for place in places) for axis, own in places[0].items()):
                raise _RefusedError
            # Rounds that read what they write, as `y[i] += 1` does, must not run twice, as those of
            # an overlapping last block would.
            plan.repeatable &= all(writes for other, _, _, writes in accesses if other is storage)

    def _own_axes(
        self,
        indices: Sequence[Index],
        step: aot.ScalarCode | aot.StoreElement,
        defined: Container[aot.Register],
    ) -> dict[int, Affine]:
        """Return the indices that are different in each round, and the same throughout it, by their axes."""
        extents = {}
        for axis, index in enumerate(indices):
            affine = self._plan.of_expression(index, step).affine
            if affine is None or self._plan.counter not in affine.terms:
                continue
            others = [term for term in affine.terms if term is not self._plan.counter]
            if not any(term in defined for term in others):
                extents[axis] = affine
        return extents


def _loops(steps: Sequence[LaneStep]) -> Iterator[InnerLoop]:
    for step in steps:
        if isinstance(step, InnerLoop):
            yield step
            yield from _loops(step.body)


def _has_sum(loop: InnerLoop) -> bool:
    """Return whether the rounds of a loop have a float for the next one, and read an array."""
    reads = any(
        isinstance(value, aot.Storage)
        for step in loop.body
        if isinstance(step, aot.ScalarCode)
        for value in step.values.values()
    )
    return reads and any(param.dtype in ("float32", "float64") for param, _ in loop.following)


def _definitions(steps: Sequence[LaneStep]) -> Iterator[aot.Register]:
    """Yield the registers that steps define."""
    for step in steps:
        match step:
            case aot.ScalarCode(stages=stages, values=values):
                for stage in stages:
                    for buffer in stage.writes:
                        target = values[buffer]
                        assert isinstance(target, aot.Register)
                        yield target
            case InnerLoop():
                yield step.counter
                yield from (register for register, _ in (*step.carried, *step.results))
                yield from _definitions([*step.body, *step.end])


def _accesses(
    steps: Sequence[LaneStep],
) -> Iterator[tuple[aot.Storage, Sequence[Index], aot.ScalarCode | aot.StoreElement, bool]]:
    """Yield the arrays that steps read and write, with the indices, the step, and whether it writes."""
    for step in steps:
        if isinstance(step, InnerLoop):
            yield from _accesses([*step.body, *step.end])
            continue
        for load in collect_loads(*_expressions(step)):
            value = step.values.get(load.source)
            if isinstance(value, aot.Storage):
                yield value, list(load.indices), step, False
        if isinstance(step, aot.StoreElement):
            yield step.storage, step.indices, step, True


def _expressions(step: aot.ScalarCode | aot.StoreElement) -> list[PrimExpr]:
    if isinstance(step, aot.StoreElement):
        return [*step.indices, step.value]
    return [value for stage in step.stages for value in (*stage.values, *(stage.inits or ()))]


def _is_foreign(expr: PrimExpr) -> bool:
    """Return whether an expression has a choice of which one value only may be computed."""
    calls = collect(ir.Call, expr)
    return any(is_conditional(call) and not is_library_fallback(call) for call in calls)


def runs_known_rounds(function: aot.NativeFunction, separate: Container[aot.NativeFunction]) -> bool:
    """Return whether the loops in a loop's rounds have few rounds, which LLVM unrolls."""
    calls = [step for step in function.steps() if isinstance(step, aot.FunctionCall)]
    return all(find_few_rounds(call, separate) is not None for call in calls)


def reads_neighbours(plan: LanePlan) -> bool:
    """Return whether lanes read and write the same elements, or neighbours in memory."""
    return all(plan.place(indices, step).stride in (0, 1) for _, indices, step, _ in _accesses(plan.steps))
