"""Eliminate checks and choices of native functions that the ranges of loops and sizes decide.

An index that counts from 0 below a size needs no check, and is not negative. Integers are followed as sums
of sizes, of the numbers of rounds and of other registers, through all functions that have one caller. What
may wrap around is a number of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import find_carried, find_steps
from nnmagic.engine.relax.codegen.aot.linear import (
    MOST,
    BoundedSymbol,
    Facts,
    Linear,
    number,
    of_symbol,
)
from nnmagic.engine.relax.codegen.aot.memory import depends_on, most
from nnmagic.engine.relax.codegen.aot.range_evaluator import BITS, FALSE, TRUE, Known, RangeEvaluator, Truth
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.legalize.sizes import simplify
from nnmagic.engine.relax.schedules.kernel_analysis import Stage
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Var
from nnmagic.relay.types import NUMPY_DTYPES

#: How many extents of arrays are tried as the most that a size can be.
_MOST_EXTENTS = 32

#: Sizes that do not depend on those of arrays: of windows.
_WINDOWS = (1, 4, 16, 64)


def decide_checks(program: AotProgram) -> None:
    """Remove checks that hold, and decide choices, in all functions of a program."""
    separate = program.shared_functions()
    analysis = Analysis(separate)
    analysis.follow(program.entry, [None] * len(program.entry.parameters), {})
    # Arguments of a function with several callers are joined over all of them, so that each caller
    # must have been followed before.
    for function in reversed(separate):  # callers first
        sizes = {dim: _size_of_arrays(function, dim) for dim in function.dims}
        analysis.follow(function, analysis.args_of_all_calls(function, sizes), sizes)
    for region, step, changed in analysis.edits:
        position = next(at for at, other in enumerate(region) if other is step)
        region[position : position + 1] = [] if changed is None else [changed]


class _NotInvariantError(Exception):
    """What was assumed about a parameter of a loop does not hold in all rounds."""

    def __init__(self, function: aot.NativeFunction, param: aot.Register) -> None:
        super().__init__()
        self.function, self.param = function, param


class Analysis:
    """Follows the integers of functions.

    edits: the steps to replace, or to remove, with the regions that they are in.
    """

    def __init__(self, separate: Collection[aot.NativeFunction]) -> None:
        self.separate = separate
        self.edits: list[tuple[aot.Region, aot.Step, aot.Step | None]] = []
        self.facts = Facts()
        self.registers: dict[aot.Register, Known] = {}
        #: The values of a step's own buffers.
        self.buffers: dict[Buffer, Known] = {}
        self.sizes: dict[Var, Linear] = {}
        self.function: aot.NativeFunction
        #: The symbols that stand for one of two numbers.
        self.choices: dict[BoundedSymbol, tuple[Linear, Linear]] = {}
        #: What each call of a separate function gives it: its arguments, and its sizes.
        self.calls: dict[aot.NativeFunction, list[tuple[list[Known], list[Known]]]] = {}
        #: What holds of parameters in all rounds: is not negative for the parameter's value.
        self.invariants: dict[aot.Register, Callable[[Linear], Linear]] = {}

    # Functions and regions

    def args_of_all_calls(self, function: aot.NativeFunction, sizes: Mapping[Var, Linear]) -> list[Known]:
        """Return what all calls of a function have in common: an argument is a size, or a number."""
        args: list[Known] = [None] * len(function.parameters)
        calls = self.calls.get(function, [])
        if function.recursive or function.recursion is not None:
            # A recursive call is followed inside of its own function, where its arguments are not
            # known yet.
            return args  # it calls itself with others
        for at in range(len(args)):
            bounds = [intervals[at] for intervals, _ in calls]
            first = next(iter(bounds), None)
            if not isinstance(first, Linear):
                continue
            if not first.terms and all(value == first for value in bounds):
                args[at] = first
            for number_, dim in enumerate(function.dims):
                if all(intervals[at] == extents[number_] for intervals, extents in calls):
                    args[at] = sizes[dim]
        return args

    def follow(
        self, function: aot.NativeFunction, args: Sequence[Known], sizes: Mapping[Var, Linear]
    ) -> None:
        """Follow a function; what is assumed about its rounds is proved, or assumed no more."""
        self.sizes |= {
            dim: (dim not in function.carried_dims and sizes.get(dim)) or _size_of_arrays(function, dim)
            for dim in function.dims
        }
        changed = find_carried(function)
        steps = find_steps(function)
        begun = len(self.edits), len(self.facts.known)
        outer = getattr(self, "function", None)
        while True:
            self.function = function
            self.invariants = {
                param: value for param, value in self.invariants.items() if param not in changed
            }
            for param, arg in zip(function.parameters, args, strict=True):
                if not isinstance(param, aot.Register):
                    continue
                self.registers[param] = self.unknown(param.dtype) if param in changed or arg is None else arg
                value = self.registers[param]
                if param in steps and isinstance(value, Linear) and isinstance(arg, Linear):
                    invariant = _from_start(arg, steps[param])
                    self.invariants[param] = invariant
                    self.facts.add([invariant(value)])
            try:
                self._region(function.body)
                break
            # Optimistic: a parameter that steps upwards is assumed to stay at or above its start,
            # which needs the proof that no step overflows. Where that fails, the assumption and
            # what was concluded from it are dropped, and the function is followed anew.
            except _NotInvariantError as error:
                if error.function is not function:
                    raise
                del steps[error.param]
                del self.edits[begun[0] :]
            finally:
                self.facts.forget(begun[1])
        if outer is not None:
            self.function = outer

    def _region(self, region: aot.Region) -> None:
        begun = len(self.facts.known)
        for step in region:
            self._step(region, step)
        self.facts.forget(begun)

    def _step(self, region: aot.Region, step: aot.Step) -> None:
        match step:
            case aot.ScalarCode():
                stages = tuple(self._stage(stage, step) for stage in step.stages)
                if any(new is not old for new, old in zip(stages, step.stages, strict=True)):
                    self.edits.append((region, step, replace(step, stages=stages)))
            case aot.StoreElement():
                scope = RangeEvaluator(self, step.values, step.sizes)
                indices = tuple(map(scope.decide_choices, step.indices))
                value = scope.decide_choices(step.value)
                if any(
                    new is not old
                    for new, old in zip((*indices, value), (*step.indices, step.value), strict=True)
                ):
                    self.edits.append((region, step, replace(step, indices=indices, value=value)))
            case aot.Check():
                # From a check on, its condition is a fact: a second check of the same index in the
                # same round goes away.
                if self._holds(step):
                    self.edits.append((region, step, None))
            case aot.Branch():
                self._conditional(step)
            case aot.FunctionCall():
                self._call(step)
            case aot.KernelCall(args=args, reads=reads):
                self._forget(args[reads:])
            case aot.NameSizes():
                self._name_sizes(step)
            case aot.DefineSize(dim=dim, size=size):
                self._define_size(dim, size)
            case aot.Assign(pairs=pairs):
                values = [self.of(value) for _, value in pairs]
                for (target, _), value in zip(pairs, values, strict=True):
                    if isinstance(target, aot.Register):
                        self.registers[target] = value
            case aot.NextRound(assign=aot.Assign(pairs=pairs)):
                for param, value in pairs:
                    self._check_invariant(param, self.of(value))

    def _name_sizes(self, step: aot.NameSizes) -> None:
        """Note the sizes that a vector holds, and the most that each can be."""
        for dim in step.dims:
            value = None if isinstance(step.vector, aot.Storage) else self.of(step.vector)
            self.sizes[dim] = value if isinstance(value, Linear) else of_symbol(BoundedSymbol())
            limit = self._most(self.sizes[dim])
            self.function.named[dim] = self._in_dims(step.most) if limit is None else limit

    def _in_dims(self, bound: Extent | None) -> Extent | None:
        """Return a bound without sizes that steps name; None where one of these has no bound itself."""
        named = self.function.named
        if bound is None or any(
            limit is None and depends_on(bound, {dim: None}) for dim, limit in named.items()
        ):
            return None
        limit = most(bound, named)
        return None if limit is None else simplify(limit)

    def _define_size(self, dim: Var, size: PrimExpr) -> None:
        """Note a size that is an expression of others, and the most that it can be."""
        value = RangeEvaluator(self, {}, {}).evaluate(size)
        self.sizes[dim] = value if isinstance(value, Linear) else of_symbol(BoundedSymbol(0))
        function = self.function
        decided = {var: limit for var, limit in function.named.items() if var not in function.exact}
        if not depends_on(size, decided):
            function.exact.add(dim)
        limit = self._most(self.sizes[dim])
        function.named[dim] = self._in_dims(size) if limit is None else limit

    def _most(self, value: Linear) -> Extent | None:
        """Return the most that a size can be in terms of those of arrays, None if that is not known."""
        extents = map(as_expr, islice(self.function.extents.values(), _MOST_EXTENTS))
        sizes = [(extent, RangeEvaluator(self, {}, {}).evaluate(extent)) for extent in extents]
        # A slice with a step has at most half of an extent, and one more.
        limits = [
            *((as_expr(size), number(size)) for size in _WINDOWS),
            *(
                (size + more, bound + more)
                for more in (0, 1)
                for size, bound in sizes
                if isinstance(bound, Linear)
            ),
        ]
        for size, limit in limits:
            if self._is_at_most(value, limit):
                self.facts.add([limit - value])
                return size
        return None

    def _is_at_most(self, value: Linear, most: Linear) -> bool:
        """Return whether a number certainly is not larger than another; one of two is not if both are not."""
        if self.facts.prove(most - value):
            return True
        if value.constant or list(value.terms.values()) != [1]:
            return False
        (symbol,) = value.terms
        options = self.choices.get(symbol, ())
        return bool(options) and all(self._is_at_most(option, most) for option in options)

    def _check_invariant(self, param: aot.Register | aot.Storage, value: Known) -> None:
        """Check that what is assumed about a parameter holds in the next round, too."""
        if not isinstance(param, aot.Register) or param not in self.invariants:
            return
        if not isinstance(value, Linear) or not self.facts.prove(self.invariants[param](value)):
            raise _NotInvariantError(self.function, param)

    def _conditional(self, step: aot.Branch) -> None:
        truth = self.of(step.condition)
        condition = truth if isinstance(truth, Truth) else Truth((), ())
        begun = len(self.facts.known)
        merged: dict[aot.Register, list[_Outcome]] = {}
        # The condition is known in one branch, its negation in the other.
        for region, taken, holds in ((step.then, True, condition), (step.other, False, condition.negated())):
            self.facts.add(holds.when)
            self._region(region)
            for target, value in _merges(region):
                if target.dtype == "bool":
                    truth = self.registers.get(target)
                    decided = taken if value is step.condition else self.decide(truth)
                    known = truth if isinstance(truth, Truth) else Truth((), ())
                    merged.setdefault(target, []).append(_Outcome(holds, known, decided))
            self.facts.forget(begun)
        for region in (step.then, step.other):
            self._forget([target for target, _ in _merges(region)])
        for target, outcomes in merged.items():
            if len(outcomes) == 2:
                self.registers[target] = _merge_truths(*outcomes)

    def _call(self, step: aot.FunctionCall) -> None:
        callee = step.callee
        if callee in self.separate:
            extents = [RangeEvaluator(self, {}, {}).evaluate(size) for size in step.sizes]
            self.calls.setdefault(callee, []).append(([self.of(arg) for arg in step.args], extents))
        else:
            sizes = {}
            for dim, size in zip(callee.dims, step.sizes, strict=True):
                known = RangeEvaluator(self, {}, {}).evaluate(size)
                sizes[dim] = known if isinstance(known, Linear) else of_symbol(BoundedSymbol(0))
            invariants = dict(self.invariants)
            # A piece of a parallel loop begins with other values of what it reduces to.
            reduced = callee.parallel or {}
            # Functions with one caller are followed with what the caller knows, at the place of
            # their call.
            args = [None if at in reduced else self.of(arg) for at, arg in enumerate(step.args)]
            self.follow(callee, args, sizes)
            self.invariants = invariants
        self.sizes |= {dim: of_symbol(BoundedSymbol(0)) for dim in step.result_dims}
        self._forget(step.results)

    def _forget(self, values: Sequence[aot.Value]) -> None:
        for value in values:
            if isinstance(value, aot.Register):
                self.registers[value] = self.unknown(value.dtype)

    def of(self, value: aot.Value) -> Known:
        """Return what is known about a value."""
        match value:
            case aot.Register():
                return self.registers.get(value)
            case aot.Immediate(value=bool() as truth):
                return TRUE if truth else FALSE
            case aot.Immediate(value=int() as constant):
                return number(constant)
        return None

    def unknown(self, dtype: str) -> Linear | None:
        """Return a number of a dtype of which nothing is known."""
        if dtype not in BITS:
            return None
        # The whole range of the dtype, so that sums of it are known to overflow or not.
        half = 1 << (BITS[dtype] - 1)
        return of_symbol(BoundedSymbol(-half, half - 1))

    # Scalar code and checks

    def _stage(self, stage: Stage, step: aot.ScalarCode) -> Stage:
        """Follow a stage, and return it with the choices decided that can be."""
        scope = RangeEvaluator(self, step.values, step.sizes)
        values = tuple(map(scope.decide_choices, stage.values))
        for buffer, value in zip(stage.writes, values, strict=True):
            interval = None if stage.reduces else scope.evaluate(value)
            target = step.values.get(buffer)
            if interval is None:
                interval = self.unknown(dtype_of(buffer))
            if isinstance(target, aot.Register):
                self.registers[target] = interval
            else:
                self.buffers[buffer] = interval
        values = tuple(map(scope.without_divisions, values))
        changed = any(new is not old for new, old in zip(values, stage.values, strict=True))
        return replace(stage, values=values) if changed else stage

    def _holds(self, check: aot.Check) -> bool:
        """Return whether a check certainly holds; from then on it does."""
        scope = RangeEvaluator(self, {}, {})
        if check.index is not None:
            index, size = self.of(check.index), scope.evaluate(check.size)
            if not isinstance(index, Linear) or not isinstance(size, Linear):
                return False
            # Both must be non-negative: 0 <= index < size.
            needed = (index, size - index - 1)
            if all(map(self.facts.prove, needed)):
                return True
            self.facts.add(needed)
            return False
        condition = check.condition
        if condition is None:
            return False
        is_value = isinstance(condition, aot.Register | aot.Immediate)
        truth = self.of(condition) if is_value else scope.evaluate(condition)
        if not isinstance(truth, Truth):
            return False
        if self.decide(truth):
            return True
        self.facts.add(truth.when)
        return False

    def decide(self, truth: Known) -> bool | None:
        """Return a truth value; None where it is not known."""
        if not isinstance(truth, Truth):
            return None
        if any(self.facts.prove(number(-1) - fact) for fact in truth.unless):
            return True
        return False if any(self.facts.prove(number(-1) - fact) for fact in truth.when) else None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A truth value at the end of a branch: when that runs, what is known, and the value if it is certain."""

    condition: Truth
    truth: Truth
    decided: bool | None


def _merges(region: aot.Region) -> list[tuple[aot.Register, aot.Value]]:
    """Return the registers that a branch assigns, as the other one does, each with its value."""
    pairs = [pair for step in region if isinstance(step, aot.Assign) for pair in step.pairs]
    return [(target, value) for target, value in pairs if isinstance(target, aot.Register)]


def _merge_truths(then: _Outcome, other: _Outcome) -> Truth:
    """Return what is known about the truth value of two branches: `a and b` is false in the second."""
    when: tuple[Linear, ...] = ()
    unless: tuple[Linear, ...] = ()
    for one, certain in ((then, other.decided), (other, then.decided)):
        if certain is False:
            when += (*one.condition.when, *one.truth.when)
        elif certain:
            unless += (*one.condition.when, *one.truth.unless)
    return Truth(when, unless)


def _size_of_arrays(function: aot.NativeFunction, dim: Var) -> Linear:
    """Return a size of which nothing is known but that arrays have it: their bytes are counted in 64 bits."""
    item_bytes = [
        NUMPY_DTYPES[array.dtype].itemsize
        for array in function.arrays
        if any(not isinstance(size, int) and size.same_as(dim) for size in array.shape)
    ]
    return of_symbol(BoundedSymbol(0, MOST // max(item_bytes, default=1)))


def _from_start(start: Linear, step: int) -> Callable[[Linear], Linear]:
    """Return what is not negative of a number that begins at ``start`` and only grows, or only shrinks."""
    return lambda value: value - start if step > 0 else start - value
