"""Eliminate checks and choices of native functions that the ranges of loops and sizes decide.

An index that counts from 0 below a size needs no check, and is not negative. Integers are followed as sums
of sizes, of the numbers of rounds and of other registers, through all functions that have one caller. What
may wrap around is a number of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tvm import tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import (
    calls_nothing,
    ends_with_test,
    find_carried,
    find_steps,
)
from nnmagic.engine.relax.codegen.aot.linear import BoundedSymbol, Linear, number, of_symbol
from nnmagic.engine.relax.codegen.aot.loop_invariants import (
    Guess,
    Invariants,
    find_next,
    guess_invariants,
    narrow,
)
from nnmagic.engine.relax.codegen.aot.memory import depends_on, most
from nnmagic.engine.relax.codegen.aot.range_evaluator import (
    LIMITS,
    Known,
    Outcome,
    RangeEvaluator,
    Truth,
    merge_truths,
)
from nnmagic.engine.relax.codegen.aot.size_limits import common_arguments, lengths_of, size_of_arrays
from nnmagic.engine.relax.codegen.aot.symbols import Symbols
from nnmagic.engine.relax.codegen.aot.unread_fills import Shares, find_shares
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.legalize.sizes import simplify
from nnmagic.engine.relax.schedules.kernel_analysis import Stage
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Var

#: How many extents of arrays are tried as the most that a size can be.
_MOST_EXTENTS = 32

#: A number that is one of more values is not followed.
_MOST_ENDS = 4

#: So many rounds of a loop need no poll for interrupts.
_FEW_ROUNDS = 1 << 16

#: Sizes that do not depend on those of arrays: of windows.
_WINDOWS = (1, 4, 16, 64)


def decide_checks(program: AotProgram) -> Shares:
    """Remove checks that hold, and decide choices, in all functions of a program.

    Return the shares that the rounds of its loops have of arrays.
    """
    separate = program.shared_functions()
    analysis = Analysis(separate)
    analysis.follow(
        program.entry, [None] * len(program.entry.parameters), lengths_of(analysis, program.entry)
    )
    # Arguments of a function with several callers are joined over all of them, so that each caller
    # must have been followed before.
    for function in reversed(separate):  # callers first
        sizes = {dim: size_of_arrays(function, dim) for dim in function.dims}
        analysis.follow(function, common_arguments(function, analysis.calls.get(function, []), sizes), sizes)
    for region, step, changed in analysis.edits:
        position = next(at for at, other in enumerate(region) if other is step)
        region[position : position + 1] = [] if changed is None else [changed]
    return analysis.shares


@dataclass(frozen=True, slots=True)
class _End:
    """An end of a region, or of a function: some values, and the facts that hold there."""

    values: tuple[Known, ...]
    facts: list[Linear]


class Analysis(Symbols):
    """Follows the integers of functions.

    edits: the steps to replace, or to remove, with the regions that they are in.
    """

    def __init__(self, separate: Collection[aot.NativeFunction]) -> None:
        super().__init__()
        self.separate = separate
        self.edits: list[tuple[aot.Region, aot.Step, aot.Step | None]] = []
        self.function: aot.NativeFunction
        #: The choices that registers of the function hold.
        self.chosen: list[tuple[BoundedSymbol, aot.Register]] = []
        #: Of the calls of counted loops: see `unread_fills`.
        self.shares: dict[int, Mapping[tuple[int, int], int]] = {}
        #: What each call of a separate function gives it: its arguments, and its sizes.
        self.calls: dict[aot.NativeFunction, list[tuple[list[Known], list[Known]]]] = {}
        #: What holds of the parameters in all rounds; of each loop, what has not failed so far.
        self.invariants = Invariants()
        self.kept: dict[aot.NativeFunction, set[Guess]] = {}
        #: The ends of the function.
        self.exits: list[_End] = []
        #: How many facts were known before the function.
        self.begun = 0

    # Functions and regions

    def follow(
        self, function: aot.NativeFunction, args: Sequence[Known], sizes: Mapping[Var, Linear]
    ) -> list[_End]:
        """Follow a function; what is assumed about its rounds is proved, or assumed no more.

        Return its ends, with what it returns.
        """
        self.sizes |= {
            dim: (dim not in function.carried_dims and sizes.get(dim)) or size_of_arrays(function, dim)
            for dim in function.dims
        }
        carried = find_carried(function)
        begun = (
            len(self.edits),
            len(self.facts.known),
            {callee: len(calls) for callee, calls in self.calls.items()},
        )
        outer = getattr(self, "function", function), self.invariants, self.exits, self.begun, self.chosen
        self.function, self.begun = function, begun[1]
        broken, limits = True, dict[aot.Register, tuple[int, int] | None]()
        # Optimistic: what breaks an assumption, an overflow say, drops it and what was concluded from it,
        # and the function is followed anew.
        while broken:
            del self.edits[begun[0] :]
            self.facts.forget(begun[1])
            self.facts.add(self.sizes[dim] for dim in function.dims)
            for callee, calls in self.calls.items():
                del calls[begun[2].get(callee, 0) :]
            self.exits, self.chosen = [], []
            starts: dict[aot.Register, Linear] = {}
            for param, arg in zip(function.parameters, args, strict=True):
                if isinstance(param, aot.Register):
                    is_known = param not in carried and arg is not None
                    self.registers[param] = arg if is_known else self.unknown(param.dtype, limits.get(param))
                    if param in carried and isinstance(arg, Linear):
                        starts[param] = arg
            self.invariants = self._guess(function, starts)
            self._region(function.body)
            broken = narrow(limits, starts, self.invariants) or bool(self.invariants.broken)
            if function.loops:
                function.is_short = bool(self.invariants.halved) and ends_with_test(function.body)
                paced = self.invariants.paced if calls_nothing(function.body) else []
                function.paced_by = next((param for param, _ in paced), None)
                self.kept[function] = self.invariants.assumed.keys() - self.invariants.broken
        exits = self.exits
        self.facts.forget(begun[1])
        self.function, self.invariants, self.exits, self.begun, self.chosen = outer
        return exits

    def _guess(self, function: aot.NativeFunction, starts: Mapping[aot.Register, Linear]) -> Invariants:
        """Assume what was guessed of a loop and has not failed so far."""
        if not function.loops:
            return Invariants()
        values = {param: value for param in starts if isinstance(value := self.registers[param], Linear)}
        kept = self.kept.get(function)
        changing = {**function.named, **dict.fromkeys(function.carried_dims)}
        checked = [
            step.size for step in function.steps() if isinstance(step, aot.Check) and step.index is not None
        ]
        sizes: list[Linear] = []
        for size in checked:
            known = (
                None if depends_on(size, changing) else RangeEvaluator(self, {}, {}).evaluate(as_expr(size))
            )
            if isinstance(known, Linear) and known not in sizes:
                sizes.append(known)
        assumed = {
            guess: fact
            for guess, fact in guess_invariants(function, starts, values, sizes, self.facts.prove)
            if kept is None or guess in kept
        }
        self.facts.add(assumed.values())
        symbols = {param: next(iter(value.terms)) for param, value in values.items()}
        steps = {param: step for param, step in find_steps(function).items() if step and param in values}
        moved = [
            (param, (values[param] - starts[param]).times(1 if step > 0 else -1))
            for param, step in steps.items()
        ]
        return Invariants(symbols, assumed, becomes=find_next(function), paced=moved)

    def _region(self, region: aot.Region) -> list[Linear]:
        """Follow a region; return the facts that hold at its end."""
        begun, chosen = len(self.facts.known), len(self.chosen)
        for step in region:
            self._step(region, step)
        facts = self.facts.known[begun:]
        self.facts.forget(begun)
        del self.chosen[chosen:]
        return facts

    def _step(self, region: aot.Region, step: aot.Step) -> None:
        match step:
            case aot.ScalarCode():
                again: dict[Buffer, aot.Register] = {}
                stages = tuple(self._stage(stage, step, again) for stage in step.stages)
                if any(new is not old for new, old in zip(stages, step.stages, strict=True)):
                    reads = (*step.reads, *again.values())
                    changed = replace(step, stages=stages, values={**step.values, **again}, reads=reads)
                    self.edits.append((region, step, changed))
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
                self._check_invariants(pairs)
            case aot.Exit(results=results):
                ends = tuple(self.of(value) for value in results)
                self.exits.append(_End(ends, self.facts.known[self.begun :]))

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
            if self.is_at_most(value, limit):
                self.facts.add([limit - value])
                return size
        return None

    def _check_invariants(self, pairs: Sequence[tuple[aot.Register | aot.Storage, aot.Value]]) -> None:
        """Note what is assumed of parameters and does not hold in the next round."""
        invariants = self.invariants
        following: dict[BoundedSymbol, Linear] = {}
        for param, value in pairs:
            if param in invariants.symbols:
                known = self.of(value)
                known = known if isinstance(known, Linear) else of_symbol(BoundedSymbol())
                following[invariants.symbols[param]] = known
                invariants.follow(param, known)
        halved = {symbol for symbol, value in following.items() if self._loses_bits(of_symbol(symbol), value)}
        invariants.halved = halved if invariants.halved is None else invariants.halved & halved
        sizes = [number(_FEW_ROUNDS), *(self.sizes[dim] for dim in self.function.dims)]
        invariants.paced = [
            (param, moved)
            for param, moved in invariants.paced
            if any(self.facts.prove(size - moved) for size in sizes)
            and not (following[invariants.symbols[param]] - of_symbol(invariants.symbols[param])).terms
        ]
        for guess, fact in invariants.assumed.items():
            if guess not in invariants.broken and not self.facts.prove(fact.substitute(following)):
                invariants.broken.add(guess)

    def _loses_bits(self, value: Linear, following: Linear) -> bool:
        """Return whether a number is positive and loses a bit: the last one, or by being halved."""
        (symbol, *more) = following.terms or (None,)
        if more or symbol in value.terms:
            return False
        prove = self.facts.prove
        if symbol in self.without_last_bit and self.without_last_bit[symbol] == value:
            return prove(value - 1) or prove(self.apart(value))
        return prove(value - 1) and prove(following) and prove(value - following.times(2))

    def _conditional(self, step: aot.Branch) -> None:
        truth = self.of(step.condition)
        condition = truth if isinstance(truth, Truth) else Truth((), ())
        begun = len(self.facts.known)
        merged: dict[aot.Register, list[Outcome]] = {}
        ends: dict[aot.Register, list[_End]] = {}
        # The condition is known in one branch, its negation in the other.
        for region, taken, holds in ((step.then, True, condition), (step.other, False, condition.negated())):
            self.facts.add(holds.when)
            facts = [*holds.when, *self._region(region)]
            for target, value in _merges(region):
                if target.dtype == "bool":
                    truth = self.registers.get(target)
                    decided = taken if value is step.condition else self.decide(truth)
                    known = truth if isinstance(truth, Truth) else Truth((), ())
                    merged.setdefault(target, []).append(Outcome(holds, known, decided))
                else:
                    ends.setdefault(target, []).append(_End((self.registers.get(target),), facts))
            self.facts.forget(begun)
        for target, outcomes in merged.items():
            self.registers[target] = merge_truths(*outcomes) if len(outcomes) == 2 else None
        for target, both in ends.items():
            self.registers[target] = (
                self._join(target, both, 0) if len(both) == 2 else self.unknown(target.dtype)
            )

    def _join(
        self, target: aot.Register, ends: Sequence[_End], at: int, others: Sequence[Linear] = ()
    ) -> Known:
        """Return a number that is the value of one of several ends, with what holds of all of them."""
        values = [value for end in ends if isinstance(value := end.values[at], Linear)]
        if len(values) < len(ends) or not values or len(ends) > _MOST_ENDS:
            return self.unknown(target.dtype)
        if all(value == values[0] for value in values):
            return values[0]
        symbol = BoundedSymbol(min(value.low for value in values), max(value.high for value in values))
        joined, begun = of_symbol(symbol), len(self.facts.known)
        bounds = [number(0), number(-1), *values, *others]
        facts = [(joined - bound).times(sign) for bound in bounds for sign in (1, -1)]
        for param in self.invariants.becomes.get(target, ()):
            if param in self.invariants.symbols:
                as_param = {self.invariants.symbols[param]: joined}
                facts += [fact.substitute(as_param) for _, fact in self.invariants.of(param)]
        for end, value in zip(ends, values, strict=True):
            self.facts.add(end.facts)
            facts = [fact for fact in facts if self.facts.prove(fact.substitute({symbol: value}))]
            self.facts.forget(begun)
        self.facts.add(facts)
        return joined

    def _call(self, step: aot.FunctionCall) -> None:
        callee = step.callee
        ends: list[_End] = []
        args = [self.of(arg) for arg in step.args]
        self.shares[id(step)] = find_shares(self, step, args)
        if callee in self.separate:
            extents = [RangeEvaluator(self, {}, {}).evaluate(size) for size in step.sizes]
            self.calls.setdefault(callee, []).append((args, extents))
        else:
            sizes = {}
            for dim, size in zip(callee.dims, step.sizes, strict=True):
                known = RangeEvaluator(self, {}, {}).evaluate(size)
                sizes[dim] = known if isinstance(known, Linear) else of_symbol(BoundedSymbol(0))
            # A piece of a parallel loop begins with other values of what it reduces to.
            reduced = callee.parallel or {}
            ends = self.follow(callee, [None if at in reduced else arg for at, arg in enumerate(args)], sizes)
        self.sizes |= {dim: of_symbol(BoundedSymbol(0)) for dim in step.result_dims}
        self._forget(step.results)
        if callee.parallel is not None:
            return
        if len(ends) == 1:
            self.facts.add(ends[0].facts)
        starts = [arg for arg in args if isinstance(arg, Linear)]
        for at, result in enumerate(step.results):
            if isinstance(result, aot.Register) and result.dtype in LIMITS and ends:
                self.registers[result] = self._join(result, ends, at, starts)

    def _forget(self, values: Sequence[aot.Value]) -> None:
        for value in values:
            if isinstance(value, aot.Register):
                self.registers[value] = self.unknown(value.dtype)

    # Scalar code and checks

    def _stage(self, stage: Stage, step: aot.ScalarCode, again: dict[Buffer, aot.Register]) -> Stage:
        """Follow a stage, and return it with the choices decided that can be.

        ``again``: of choices that registers hold, for which buffers of these are added.
        """
        scope = RangeEvaluator(self, step.values, step.sizes)
        values = tuple(map(scope.decide_choices, stage.values))
        for buffer, value in zip(stage.writes, values, strict=True):
            interval = None if stage.reduces else scope.evaluate(value)
            target = step.values.get(buffer)
            if interval is None:
                interval = self.unknown(dtype_of(buffer))
            if isinstance(target, aot.Register) and isinstance(value, tirx.Select) and stage.is_elementwise:
                interval, before = self._find_chosen(interval, target)
                if before is not None:
                    again[element := tirx.decl_buffer((), target.dtype, before.name)] = before
                    values = (tirx.BufferLoad(element, []),)
            if isinstance(target, aot.Register):
                self.registers[target] = interval
            else:
                self.buffers[buffer] = interval
        values = tuple(map(scope.without_divisions, values))
        changed = any(new is not old for new, old in zip(values, stage.values, strict=True))
        return replace(stage, values=values) if changed else stage

    def _find_chosen(self, value: Known, target: aot.Register) -> tuple[Known, aot.Register | None]:
        """Return the same choice as a register holds it, with that; what is new is held by the target."""
        symbol = next(iter(value.terms), None) if isinstance(value, Linear) else None
        choice = None if symbol is None else self.choices.get(symbol)
        if symbol is None or choice is None or value != of_symbol(symbol) or not choice[0].when:
            return value, None
        for other, register in self.chosen:
            if self.choices[other] == choice and register.dtype == target.dtype:
                return of_symbol(other), register
        self.chosen.append((symbol, target))
        return value, None

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


def _merges(region: aot.Region) -> list[tuple[aot.Register, aot.Value]]:
    """Return the registers that a branch assigns, as the other one does, each with its value."""
    pairs = [pair for step in region if isinstance(step, aot.Assign) for pair in step.pairs]
    return [(target, value) for target, value in pairs if isinstance(target, aot.Register)]
