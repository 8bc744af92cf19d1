"""Leave out what fills an array before a loop that stores all of its elements.

``out = np.empty(n)`` is an array of zeros. Nobody sees these if a counted loop stores each element before
anything reads it; the array is memory of any content then. (Compilers call the fill a dead store.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from tvm import ir

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import find_carried, find_counted_loop
from nnmagic.engine.relax.codegen.aot.linear import Linear, number
from nnmagic.engine.relax.codegen.aot.loop_versions import Affine, Indices
from nnmagic.engine.relax.codegen.aot.range_evaluator import Known, RangeEvaluator
from nnmagic.engine.relax.codegen.aot.step_operands import values_read, written_values
from nnmagic.engine.relax.codegen.aot.symbols import Symbols
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.tir.builders import as_expr, collect_loads, static_int
from nnmagic.engine.relax.tir.types import Index, PrimExpr
from nnmagic.engine.relax.tir.visitors import collect

#: For calls of counted loops, by their ids, and the parameter and axis of an array: the number of elements
#: along the axis for each round, where the loop counts from 0 and has as many rounds as that takes.
Shares: TypeAlias = Mapping[int, Mapping[tuple[int, int], int]]

#: The stores of a round to one array that are followed.
_MOST_STORES = 64


def find_shares(
    symbols: Symbols, step: aot.FunctionCall, args: Sequence[Known]
) -> Mapping[tuple[int, int], int]:
    """Return the shares that the rounds of a loop have of the arrays that it changes."""
    callee, shares = step.callee, dict[tuple[int, int], int]()
    loop = find_counted_loop(callee) if callee.changed else None
    known: dict[aot.Value, Known] = dict(zip(callee.parameters, args, strict=True))
    if loop is None or known[loop.counter] != number(0):
        return shares
    limit = known[loop.limit] if loop.limit in known else symbols.of(loop.limit)
    scope = RangeEvaluator(symbols, {}, dict(zip(callee.dims, step.sizes, strict=True)))
    for param in callee.changed.values():
        for axis, dim in enumerate(callee.arrays[param].shape):
            size = scope.evaluate(as_expr(dim))
            if isinstance(limit, Linear) and isinstance(size, Linear):
                shares[param, axis] = size.over(limit)
    return shares


def drop_unread_fills(program: AotProgram, shares: Shares, *, of_results: bool) -> None:
    """Replace kernels and copies that a loop overwrites by the memory for their array.

    of_results: also where that may be memory of the caller.
    """
    for function in (program.entry, *program.functions):
        ends = (aot.Exit, aot.Assign, aot.NextRound)
        kept = [] if of_results else [step for step in function.steps() if isinstance(step, ends)]
        for region in aot.regions_of(function.body):
            # The last first: an array is copied where another is to hold the same zeros.
            for at, step in reversed(list(enumerate(region))):
                array = _filled(step, program)
                if (
                    array is not None
                    and not any(_takes(end, array) for end in kept)
                    and _is_overwritten(array, region[at + 1 :], shares)
                ):
                    region[at] = aot.MakeArray(array)


def _filled(step: aot.Step, program: AotProgram) -> aot.Storage | None:
    """Return the array that a step writes as a whole, if it does nothing else."""
    match step:
        case aot.CopyArray(target=target):
            return target
        case aot.KernelCall(kernel=kernel, args=(*_, aot.Storage() as array), reads=reads):
            # What a kernel calls may fail, or draw numbers.
            is_plain = len(step.args) == reads + 1 and not collect(ir.Call, program.kernels[kernel].body)
            return array if is_plain else None
    return None


def _is_overwritten(array: aot.Storage, after: Sequence[aot.Step], shares: Shares) -> bool:
    """Return whether the first of these steps that takes an array is a loop that stores all of it."""
    step = next((step for step in after if any(_takes(each, array) for each in aot.steps_of([step]))), None)
    return isinstance(step, aot.FunctionCall) and _stores_all(step, array, {}, shares)


def _takes(step: aot.Step, value: aot.Value) -> bool:
    return any(value is each for each in (*values_read(step), *written_values(step)))


def _stores_all(
    call: aot.FunctionCall, array: aot.Storage, fixed: Mapping[int, aot.Register], shares: Shares
) -> bool:
    """Return whether a loop stores all elements of an array whose index along some axes is ``fixed``.

    It must read none before that, and let nothing else have the array.
    """
    loop, callee = find_counted_loop(call.callee), call.callee
    if loop is None or call.args.count(array) != 1:
        return False
    number = call.args.index(array)
    param, shape = callee.parameters[number], callee.arrays[number].shape
    carried = find_carried(callee)
    at_end = (step for step in aot.steps_of(loop.end) if not isinstance(step, aot.Exit))
    if not isinstance(param, aot.Storage) or param in carried or any(_takes(step, param) for step in at_end):
        return False
    params = {
        arg: own
        for arg, own in zip(call.args, callee.parameters, strict=True)
        if isinstance(own, aot.Register) and own not in carried
    }
    at = {axis: params[register] for axis, register in fixed.items() if register in params}
    if len(at) < len(fixed):
        return False
    for axis in set(range(len(shape))) - at.keys():
        if share := shares.get(id(call), {}).get((number, axis), 0):
            counts = [1 if other in at else static_int(dim) for other, dim in enumerate(shape)]
            counts[axis] = share
            round_ = _Round(param, counts, Indices(callee, loop), {**at, axis: loop.counter}, shares)
            round_.follow(loop.round, frozenset())
            if round_.is_proved:
                return True
    return False


@dataclass(slots=True)
class _Round:
    """A round of a loop that is to store all elements of a part of an array.

    counts: how many elements the part has along each axis, None where that is not known. at: the registers
    with the number of the part along some axes; along the others there is one part. is_proved: whether
    nothing has been found yet that reads what may not be stored, or ends the round too early.
    """

    array: aot.Storage
    counts: Sequence[int | None]
    indices: Indices
    at: Mapping[int, aot.Register]
    shares: Shares
    is_proved: bool = True

    @property
    def every(self) -> frozenset[object]:
        """All elements of the part, by their places in it; where it is large, something that is no place."""
        known = [count for count in self.counts if count is not None]
        if len(known) < len(self.counts) or math.prod(known) > _MOST_STORES:
            return frozenset({None})
        return frozenset(product(*map(range, known)))

    def follow(self, region: aot.Region, stored: frozenset[object]) -> frozenset[object]:
        """Return which of the elements a round has stored after a region."""
        for step in region:
            match step:
                case aot.Branch(then=then, other=other):
                    stored = self.follow(then, stored) & self.follow(other, stored)
                case aot.ScalarCode(stages=stages):
                    for stage in stages:
                        self._read(step, stored, *stage.values, *(stage.inits or ()))
                case aot.StoreElement(storage=storage, indices=indices, value=value):
                    self._read(step, stored, *map(as_expr, indices), value)
                    if storage is self.array and (place := self._place(indices, step)) is not None:
                        stored |= {place}
                case aot.FunctionCall() if self._is_stored_by(step):
                    stored = self.every
                case _:
                    self.is_proved &= not _takes(step, self.array)
            if isinstance(step, aot.NextRound):
                self.is_proved &= stored >= self.every
                return self.every  # the other side of a branch decides
        return stored

    def _is_stored_by(self, call: aot.FunctionCall) -> bool:
        is_one = all(self.counts[axis] == 1 for axis in self.at)
        return is_one and _stores_all(call, self.array, self.at, self.shares)

    def _read(
        self, step: aot.ScalarCode | aot.StoreElement, stored: frozenset[object], *values: PrimExpr
    ) -> None:
        """Note whether values that a step computes need elements that the round may not have stored."""
        for load in collect_loads(*values):
            if step.values.get(load.source) is self.array:
                place = self._place(load.indices, step)
                self.is_proved &= place is not None and place in stored

    def _place(
        self, indices: Sequence[Index], step: aot.ScalarCode | aot.StoreElement
    ) -> tuple[int, ...] | None:
        """Return the place in the part of the element at some indices; None for one of another part."""
        places: list[int] = []
        for axis, (index, count) in enumerate(zip(indices, self.counts, strict=False)):
            begin = Affine({self.at[axis]: count or 0} if axis in self.at else {})
            known = self.indices.evaluate(as_expr(index), step)
            place = None if known is None else known.plus(begin, -1)
            if place is None or place.terms or count is None or not 0 <= place.constant < count:
                return None
            places.append(place.constant)
        return tuple(places) if len(indices) == len(self.counts) else None
