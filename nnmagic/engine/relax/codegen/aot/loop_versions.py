"""Check the indices of innermost loops once, before their first round.

An index that grows by the same number in each round is in range if it is in the first round and in the last
one. Where `ranges` cannot prove that, such a loop has two versions: one without the checks, whose rounds LLVM
can make vectors of, and the loop as it is, for calls that some index leads out of its array. (Compilers know
this as loop versioning, and the elimination of range checks.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import CountedLoop, find_carried, find_counted_loop
from nnmagic.engine.relax.codegen.aot.step_operands import written_values
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.schedules.kernel_analysis import Stage
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, is_conditional
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr
from nnmagic.engine.relax.tir.visitors import replace_vars, rewrite

#: An index grows by at most so much in a round, and a loop with more has at most so many rounds: their
#: product does not wrap around.
_MOST_STEP, _MOST_ROUNDS = 1 << 20, 1 << 40

#: What follows the name of a loop in that of its version without checks.
IN_RANGE = "_in_range"

#: A loop is compiled twice if it has at most so many steps.
_MOST_STEPS = 200


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum modulo 2**64: of a constant, and of registers and sizes, each with a factor."""

    terms: Mapping[object, int]
    constant: int = 0

    def plus(self, other: Affine, factor: int) -> Affine:
        """Return the sum with so many times another one."""
        terms = dict(self.terms)
        for term, number in other.terms.items():
            terms[term] = terms.get(term, 0) + number * factor
        # Terms that cancel are dropped, so that equal sums compare equal: i + n - n is i.
        terms = {term: number for term, number in terms.items() if number}
        return Affine(terms, self.constant + other.constant * factor)

    def renamed(self, name_of: Callable[[object], object]) -> Affine:
        """Return the sum with other terms."""
        renamed = Affine({}, self.constant)
        for term, factor in self.terms.items():
            renamed = renamed.plus(Affine({name_of(term): 1}), factor)
        return renamed

    def written(self, value_of: Callable[[object], PrimExpr]) -> PrimExpr:
        """Return the sum as an expression of the values of its terms."""
        result: PrimExpr = tirx.const(to_signed(self.constant), "int64")
        for term, factor in self.terms.items():
            result = result + value_of(term) * tirx.const(to_signed(factor), "int64")
        return result


# Bounds checks of an affine index move to the ends of its range: Gupta, Optimizing array bound
# checks using flow analysis (1993).
def version_loops(program: AotProgram) -> None:
    """Give innermost loops a version without the checks of indices that can be decided before."""
    shared = set(program.shared_functions())
    fast: dict[aot.NativeFunction, aot.NativeFunction] = {}
    for function in (program.entry, *program.functions):
        for region in list(aot.regions_of(function.body)):
            for position, step in enumerate(region):
                if not isinstance(step, aot.FunctionCall) or step.callee in shared:
                    continue
                versions = _versions(step)
                if versions is not None:
                    steps, fast[step.callee] = versions
                    region[position : position + 1] = steps
    program.functions = [each for loop in program.functions for each in (fast.get(loop), loop) if each]


def _versions(call: aot.FunctionCall) -> tuple[list[aot.Step], aot.NativeFunction] | None:
    """Return what calls one of two versions of a loop, and the version without checks."""
    loop = call.callee
    counted = find_counted_loop(loop)
    if counted is None or not counted.is_innermost or loop.parallel is not None or loop.is_kernel:
        return None
    steps = list(loop.steps())
    if len(steps) > _MOST_STEPS or loop.pointers or any(map(_has_memory, steps)):
        return None
    indices = Indices(loop, counted)
    checks = [
        step
        for step in aot.steps_of(counted.round)
        if isinstance(step, aot.Check) and indices.is_decidable(step)
    ]
    if not checks:
        return None
    name = f"{loop.name}{IN_RANGE}"
    body = _without_checks(loop.body, checks, indices)
    fast = replace(loop, name=name, body=body, chunks=[], named=dict(loop.named), exact=set(loop.exact))
    fits = aot.Register("bool", "in_range")
    condition = _Condition(call, counted)
    for check in checks:
        if (index := indices.of(check.index)) is not None:
            condition.add(index, as_expr(check.size))
    # The version with checks is the loop as it was: it raises at the round that goes wrong, after
    # the stores of the rounds before it, as NumPy would.
    branch = aot.Branch(fits, [replace(call, callee=fast)], [call])
    return [condition.step(fits), branch], fast


def _has_memory(step: aot.Step) -> bool:
    """Return whether a step reads or writes memory that is planned for the loop."""
    values: list[object] = []
    if isinstance(step, aot.ScalarCode):
        values = [*step.values.values()]
    elif isinstance(step, aot.StoreElement):
        values = [step.storage, *step.values.values()]
    return any(
        isinstance(value, aot.Storage) and value.kind not in ("parameter", "constant") for value in values
    )


class Indices:
    """The integers of a loop as sums of its counter and of what its rounds do not change.

    from_end: whether an index that is counted from the end if it is negative may be so; it is no sum then.
    """

    def __init__(self, loop: aot.NativeFunction, counted: CountedLoop, *, from_end: bool = False) -> None:
        carried = find_carried(loop)
        self.from_end = from_end
        self.counter = counted.counter
        self.sums: dict[aot.Register, Affine] = {
            param: Affine({param: 1})
            for param in loop.parameters
            if isinstance(param, aot.Register) and param.dtype == "int64" and param not in carried
        }
        self.sums[counted.counter] = Affine({counted.counter: 1})
        self.dims = loop.dims
        #: The sums of which truth values say whether they are negative.
        self.tested: dict[aot.Register, Affine] = {}
        written = Counter(value for step in aot.steps_of(counted.round) for value in written_values(step))
        for step in aot.steps_of(counted.round):
            if isinstance(step, aot.ScalarCode):
                self._follow(step, written)

    def _follow(self, step: aot.ScalarCode, written: Counter[aot.Value]) -> None:
        for stage in step.stages:
            for buffer, value in zip(stage.writes, stage.values, strict=True):
                target = step.values.get(buffer)
                # A register that is written twice in a round stands for two values.
                if not isinstance(target, aot.Register) or written[target] > 1 or stage.reduces:
                    continue
                if target.dtype == "bool" and (tested := self._test(value, step)) is not None:
                    self.tested[target] = tested
                if target.dtype == "int64" and (known := self.evaluate(value, step)) is not None:
                    self.sums[target] = known

    def evaluate(self, expr: PrimExpr, step: aot.ScalarCode | aot.StoreElement) -> Affine | None:
        """Return an expression of a step as a sum; None for others."""
        if dtype_of(expr) != "int64":
            return None
        match expr:
            case tirx.IntImm():
                return Affine({}, int(expr.value))
            case ir.expr.TensorLoad():
                return self.of(step.values.get(expr.source))
            case tirx.Var() if expr in step.sizes:
                return self.evaluate(as_expr(step.sizes[expr]), step)
            case tirx.Var() if any(expr.same_as(dim) for dim in self.dims):
                return Affine({expr: 1})
            case tirx.Cast() if dtype_of(expr.value) == "int64":
                return self.evaluate(expr.value, step)
            case tirx.Add() | tirx.Sub() | tirx.Mul():
                a, b = self.evaluate(expr.a, step), self.evaluate(expr.b, step)
                if a is None or b is None:
                    return None
                if isinstance(expr, tirx.Mul):
                    # A product is affine only if one factor is a constant.
                    a, b = (a, b) if a.terms else (b, a)
                    return None if b.terms else Affine({}).plus(a, b.constant)
                return a.plus(b, 1 if isinstance(expr, tirx.Add) else -1)
        index = None if self.from_end else self.from_start(expr, step)
        return None if index is None else self.evaluate(index, step)

    def from_start(self, expr: PrimExpr, step: aot.ScalarCode | aot.StoreElement) -> PrimExpr | None:
        """Return the index of a choice between it and the one that counts from the end, if it is negative."""
        if isinstance(expr, tirx.Select):
            condition, index = expr.condition, expr.false_value
        elif isinstance(expr, ir.Call) and is_conditional(expr):
            condition, index = expr.args[0], expr.args[2]
        else:
            return None
        tested = self._test(condition, step)
        # `i + n if i < 0 else i`, by which Python counts from the end, is i where the check has
        # proved i >= 0.
        return index if tested is not None and tested == self.evaluate(index, step) else None

    def _test(self, condition: PrimExpr, step: aot.ScalarCode | aot.StoreElement) -> Affine | None:
        """Return the sum of which a condition says whether it is negative."""
        match condition:
            case ir.expr.TensorLoad():
                value = step.values.get(condition.source)
                return self.tested.get(value) if isinstance(value, aot.Register) else None
            case tirx.LT(b=tirx.IntImm(value=0)):
                return self.evaluate(condition.a, step)
        return None

    def of(self, value: aot.Value | None) -> Affine | None:
        """Return a value as a sum; None for others."""
        if isinstance(value, aot.Immediate) and value.dtype == "int64":
            return Affine({}, int(value.value))
        return self.sums.get(value) if isinstance(value, aot.Register) else None

    def is_decidable(self, check: aot.Check) -> bool:
        """Return whether a check is of an index that grows by the same number in each round."""
        known = self.of(check.index)
        return known is not None and abs(known.terms.get(self.counter, 0)) <= _MOST_STEP


def _without_checks(region: aot.Region, checks: list[aot.Check], indices: Indices) -> aot.Region:
    """Return a region without checks that hold, and with the indices that they are about counted from 0."""
    proved = [interval for interval in (indices.of(check.index) for check in checks) if interval is not None]

    def count_from_start(node: PrimExpr, step: aot.ScalarCode | aot.StoreElement) -> PrimExpr:
        index = indices.from_start(node, step)
        return node if index is None or indices.evaluate(index, step) not in proved else index

    def change(expr: PrimExpr, step: aot.ScalarCode | aot.StoreElement) -> PrimExpr:
        kinds = (tirx.Select, ir.Call)
        return rewrite(as_expr(expr), [(kinds, lambda node: count_from_start(node, step))])

    result: aot.Region = []
    for step in region:
        match step:
            case aot.Check() if any(step is check for check in checks):
                continue
            case aot.Branch():
                then, other = (_without_checks(each, checks, indices) for each in (step.then, step.other))
                result.append(replace(step, then=then, other=other))
            case aot.ScalarCode():
                stages = tuple(
                    replace(stage, values=tuple(change(value, step) for value in stage.values))
                    for stage in step.stages
                )
                result.append(replace(step, stages=stages))
            case aot.StoreElement():
                places = tuple(change(index, step) for index in step.indices)
                result.append(replace(step, indices=places, value=change(step.value, step)))
            case _:
                result.append(step)
    return result


class _Condition:
    """That all indices of a loop are in range, in the terms of its caller."""

    def __init__(self, call: aot.FunctionCall, counted: CountedLoop) -> None:
        self._call = call
        self._counter = counted.counter
        self._loads: dict[aot.Register, Buffer] = {}
        self._sizes = dict(zip(call.callee.dims, map(as_expr, call.sizes), strict=True))
        self._args = dict(zip(call.callee.parameters, call.args, strict=True))
        self._first = self._load(self._args[counted.counter])
        limit = counted.limit
        end = self._load(self._args[limit] if isinstance(limit, aot.Register) else limit)
        self._last = end - as_expr(1)
        self._rounds = end - self._first
        self._parts: list[PrimExpr] = []
        self._known: list[tuple[Affine, PrimExpr]] = []

    def _load(self, value: aot.Value) -> PrimExpr:
        if isinstance(value, aot.Immediate):
            return tirx.const(int(value.value), "int64")
        assert isinstance(value, aot.Register)
        if value not in self._loads:
            self._loads[value] = tirx.decl_buffer((), value.dtype, value.name)
        return tirx.BufferLoad(self._loads[value], [])

    def _at(self, index: Affine, counter: PrimExpr) -> PrimExpr:
        """Return an index in the round of a counter."""

        def value_of(term: object) -> PrimExpr:
            if term is self._counter:
                return counter
            return self._load(self._args[term]) if isinstance(term, aot.Register) else self._sizes[term]

        return index.written(value_of)

    def add(self, index: Affine, size: PrimExpr) -> None:
        """Add that an index is in ``range(size)`` in each round."""
        size = replace_vars(size, self._sizes)
        if any(index == other and tvm_ffi.structural_equal(size, known) for other, known in self._known):
            return
        self._known.append((index, size))
        step = index.terms.get(self._counter, 0)
        # A linear function takes its extremes at the ends. An index that stays the same needs one
        # test.
        for counter in (self._first, self._last) if step else (self._first,):
            place = self._at(index, counter)
            self._parts += [place >= as_expr(0), place < size]
        # Both ends in range do not suffice if an index wraps around in between, which needs a large
        # step or many rounds.
        if abs(step) > 1:
            self._parts += [self._rounds >= as_expr(0), self._rounds <= as_expr(_MOST_ROUNDS)]

    def step(self, target: aot.Register) -> aot.ScalarCode:
        """Return the step that computes it."""
        buffer = tirx.decl_buffer((), "bool", target.name)
        stage = Stage((buffer,), (), (), (), (tirx.all(*self._parts),), None)
        values: dict[Buffer, aot.Value] = {load: value for value, load in self._loads.items()}
        return aot.ScalarCode((stage,), {**values, buffer: target}, {}, tuple(self._loads))


def to_signed(value: int) -> int:
    """Return the integer of 64 bits with the bits of a number."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
