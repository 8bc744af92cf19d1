"""Loops for stages that share rows: all stages of a row (or of a block of columns) while it is in the cache.

A row is what the axes that all stages have in common leave over. If the contiguous axis is inside of it, a
reduction keeps some vectors of partial results, which are combined at the row's end. If the contiguous axis
is one of those in common, a block of columns is one row: vectors go across it, and a reduction adds several
rows of the array at a time. What does not fill a vector is done by one more vector that ends at the end: it
computes some elements again, which a reduction masks. Knows TIR only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.reduction import argreduce, argreduce_loops
from nnmagic.engine.relax.schedules.reduction.analysis import (
    Stage,
    View,
    always,
    dtype_of,
    resolved,
    rewritten,
    shape_of,
    size,
    variables,
)
from nnmagic.engine.relax.tir.builders import item_bytes, loads_of, prefetch, sequence
from nnmagic.engine.relax.tir.vectorizable_isnan import make_isnan_vectorizable
from nnmagic.engine.relax.tir.visitors import rewrite

#: How many vectors of partial results a reduction keeps: the latency of an addition times those a cycle.
_PARTIAL = 4

#: Arrays of so many bytes come from beyond the second cache, and the processor fetches ahead only within a
#: page: so many bytes ahead they are fetched by an instruction. (At rows of 4 KB it saved 5 to 10%.)
_STREAM = 1 << 20
_AHEAD = 1 << 12

#: How many rows of an array are added at a time, where vectors go across columns.
_TILE = 8

#: Shorter rows are added one element after the other, unless more than sums is computed of them.
_SHORT = 16
_CHEAP = 40

#: From how many element operations on a kernel uses the thread pool.
PARALLEL_WORK = 1 << 18

#: How many element operations a task of the thread pool has at least.
_TASK = 1 << 15

Env = dict[Any, Any]


def loop(
    extent: int | Any, body: Callable[[Any], list[Any]], kind: int = tirx.ForKind.SERIAL, name: str = "i"
) -> list[Any]:
    """Statements in a loop; without one where it would run once."""
    if isinstance(extent, int) and extent <= 1:
        return body(tirx.const(0, "int64")) if extent else []
    var = tirx.Var(name, "int64")
    extent = tirx.const(extent, "int64") if isinstance(extent, int) else extent
    return [tirx.For(var, tirx.const(0, "int64"), extent, kind, sequence(body(var)))]


def _below(number: int) -> int:
    """The largest power of two that is not above."""
    return 1 << (max(number, 1).bit_length() - 1)


def combined(stage: Stage, left: Sequence[Any], right: Sequence[Any]) -> list[Any] | None:
    """What a reduction makes of two partial results, the left of elements that stand before the right's.

    None where the reduction is none that is known.
    """
    if stage.place:
        keep = argreduce.keeps(stage.place, left[0], left[1], right[0], right[1])
        return [tirx.Select(keep, a, b) for a, b in zip(left, right, strict=True)]
    (value,), (a,), (b,) = stage.values, left, right
    term = term_of(stage)
    if term is None:
        return None
    if isinstance(value, tirx.Select):
        found = _replaced(value, stage.targets[0], a, term, b)
    else:
        found = type(value)(a, b)
    return [found]


def term_of(stage: Stage) -> Any | None:
    """What a reduction of one value adds (multiplies, compares) for one element."""
    value, target = stage.values[0], stage.targets[0]
    match value:
        case tirx.Select():
            sides = [value.true_value, value.false_value]
        case tirx.Add() | tirx.Mul() | tirx.Max() | tirx.Min() | tirx.And() | tirx.Or():
            sides = [value.a, value.b]
        case _:
            return None
    own = [isinstance(one, tvm.ir.TensorLoad) and one.source.same_as(target) for one in sides]
    if own != [True, False]:
        return None
    term = sides[1]
    if any(load.source.same_as(target) for load in loads_of(term)):
        return None
    if isinstance(value, tirx.Select):
        a, b = (tirx.Var(name, str(term.ty.dtype)) for name in "ab")
        left = set(variables(_replaced(value, target, a, term, b))) & set(stage.axes)
        if left:
            return None
    return term


def _replaced(value: Any, target: Any, a: Any, term: Any, b: Any) -> Any:
    """The expression with ``a`` for what the target holds and ``b`` for the term."""

    def node(one: Any) -> Any:
        if isinstance(one, tvm.ir.TensorLoad) and one.source.same_as(target):
            return a
        return b if tvm_ffi.structural_equal(one, term) else one

    return rewrite(value, [(tvm.ir.Expr, node)], before_parts=True)


@dataclass(frozen=True, slots=True)
class _Local:
    """Where a row keeps a buffer: the memory, and the axes that it has there."""

    buffer: Any
    axes: tuple[Any, ...]


class Rows:
    """Loops for stages that have ``rows`` in common; ``lane`` is the axis that is contiguous in memory.

    ``local``: buffers that nothing else reads, which need to exist for one row at a time only.
    """

    def __init__(
        self,
        machine: CpuModel,
        stages: Sequence[Stage],
        rows: Sequence[Any],
        lane: Any,
        extents: Mapping[Any, int],
        views: Mapping[Any, View],
        local: frozenset[Any],
    ) -> None:
        self.machine = machine
        self.extents = extents
        self.views = views
        self.lane = lane
        self.across = lane in rows
        self.outer = [axis for axis in rows if axis != lane]
        self.inner_of = {stage: [axis for axis in stage.axes if axis not in rows] for stage in stages}
        self.work = sum(
            _product(extents[axis] for axis in stage.axes) * (1 + 8 * min(1, size(stage.values[0])[1]))
            for stage in stages
        )
        self.memory: list[Any] = []
        self.relative = {axis: tirx.Var(f"{axis.name}_in", "int64") for axis in extents}
        self.width = self._width(stages) if self.across else extents[lane]
        bits = max(tvm.DataType(dtype_of(t)).bits for stage in stages for t in stage.targets)
        self.vector = min(max(1, machine.vector_bytes * 8 // max(bits, 8)), _below(self.width))
        values = [value for stage in stages for value in stage.values]
        cheap = all(size(value)[0] <= _CHEAP and not isinstance(value, tirx.Select) for value in values)
        self.short = not self.across and self.width < _SHORT and cheap
        if not all(stage.in_order for stage in stages) or self.short:
            self.vector = 1
        if any(dtype_of(buffer) == "bool" for stage in stages for buffer in stage.buffers):
            self.vector = 1  # TVM's vectors of truth values are not in memory what it says elsewhere
        self.places: dict[Any, _Local] = {}
        for stage in stages:
            for target in stage.targets:
                if target in local:
                    self.places[target] = self._placed(stage, target)
        self.stages = [self._prepared(stage) for stage in stages]
        self.streams = frozenset(
            load.source
            for stage in self.stages
            for load in loads_of(*stage.values)
            if _product(shape_of(load.source)) * item_bytes(dtype_of(load.source)) >= _STREAM
        )
        self.fetched: set[Any] = set()

    def _width(self, stages: Sequence[Stage]) -> int:
        """How many columns are a block: all that is read of them fits the second cache, twice."""
        total = self.extents[self.lane]
        deepest = max(_product(self.extents[axis] for axis in self.inner_of[stage]) for stage in stages)
        lanes = self.machine.lanes("float32")
        reductions = sum(1 for stage in stages if stage.reduces)
        if len(stages) == 1 or (reductions == 1 and not self.inner_of[stages[-1]]):
            width = 1024 if total >= 2048 or self.work < PARALLEL_WORK else max(lanes, total // 2)
        else:
            width = max(2 * lanes, min(512, (1 << 16) // deepest))
        width = -(-width // lanes) * lanes
        return min(width, total)

    def _alloc(self, shape: Sequence[int], dtype: str, name: str) -> Any:
        buffer = tirx.decl_buffer(list(shape), dtype, name)
        self.memory.append(tirx.AllocBuffer(buffer))
        return buffer

    def _placed(self, stage: Stage, target: Any) -> _Local:
        axes = [axis for axis in stage.at if axis in self.extents and axis not in self.outer]
        if self.across:
            axes = [axis for axis in axes if axis != self.lane] + [self.lane]
        shape = [self.width if axis == self.lane else self.extents[axis] for axis in axes]
        return _Local(self._alloc(shape or [1], dtype_of(target), target.name), tuple(axes))

    def _local(self, place: _Local) -> tuple[Any, list[Any]]:
        return place.buffer, [self.relative[axis] for axis in place.axes] or [tirx.const(0, "int64")]

    def _prepared(self, stage: Stage) -> Stage:
        """The stage with what it reads where that is: in the row's own memory, or in the buffer of a view."""
        sources = {load.source for load in loads_of(*stage.values)} - set(stage.targets)

        def moved(source: Any) -> Callable[[list[Any]], Any]:
            if source in self.places:
                return lambda _indices: tirx.BufferLoad(*self._local(self.places[source]))
            return lambda indices: tirx.BufferLoad(*resolved(source, indices, self.views))

        prepared = stage.mapped({}, {source: moved(source) for source in sources})
        self.inner_of[prepared] = self.inner_of[stage]
        return prepared

    def statements(self) -> list[Any]:
        """The loops."""
        blocks = -(-self.extents[self.lane] // self.width) if self.across else 1
        counts = [self.extents[axis] for axis in self.outer]
        total = _product(counts) * blocks
        if not (self.machine.parallel and total > 1 and self.work >= PARALLEL_WORK):
            return self._serial(blocks)
        group = max(1, min(-(-total // 2), _TASK * total // self.work))

        def task(number: Any) -> list[Any]:
            rest = tirx.min(tirx.const(group, "int64"), total - number * group)

            def one(row: Any) -> list[Any]:
                return self._row(self._decoded(number * group + row, blocks))

            rows = loop(group if total % group == 0 else rest, one)
            return [*self.memory, *rows]

        return loop(-(-total // group), task, tirx.ForKind.PARALLEL)

    def _decoded(self, number: Any, blocks: int) -> tuple[Env, Any]:
        block = number % blocks if blocks > 1 else tirx.const(0, "int64")
        number = number // blocks if blocks > 1 else number
        env: Env = {}
        for position, axis in reversed(list(enumerate(self.outer))):
            count = self.extents[axis]
            env[axis] = number % count if position else number
            number = number // count if position else number
        return env, block

    def _serial(self, blocks: int) -> list[Any]:
        def nest(env: Env, left: Sequence[Any]) -> list[Any]:
            if left:
                return loop(self.extents[left[0]], lambda i: nest({**env, left[0]: i}, left[1:]))
            return loop(blocks, lambda block: self._row((env, block)))

        rows = nest({}, self.outer)
        return [*self.memory, *rows]

    def _row(self, where: tuple[Env, Any]) -> list[Any]:
        """All stages of one row."""
        self.fetched = set()
        env, block = where
        env = {**env, **{self.relative[axis]: index for axis, index in env.items()}}
        start: Any = tirx.const(0, "int64")
        if self.across and self.width < self.extents[self.lane]:
            start = tirx.min(block * self.width, tirx.const(self.extents[self.lane] - self.width, "int64"))
        return [one for stages in self._passes() for one in self._pass(stages, env, start)]

    def _passes(self) -> Iterator[list[Stage]]:
        """Stages that one loop over the row can compute together. A place begins with the row's first
        elements, which must be there before the loop.
        """
        group: list[Stage] = []
        reduced: set[Any] = set()
        written: set[Any] = set()
        for stage in self.stages:
            reads = {load.source for load in loads_of(*stage.values)}
            if group and (
                reads & (written if stage.place else reduced)
                or set(self.inner_of[stage]) != set(self.inner_of[group[0]])
            ):
                yield group
                group, reduced, written = [], set(), set()
            group.append(stage)
            targets = {self.places[t].buffer if t in self.places else t for t in stage.targets}
            written |= targets
            if stage.reduces:
                reduced |= targets
        if group:
            yield group

    def _pass(self, stages: Sequence[Stage], env: Env, start: Any) -> list[Any]:
        inner = self._ordered(stages)
        if self.across:
            return self._across(stages, inner, env, start)
        if self.lane in inner:
            return self._along(stages, [axis for axis in inner if axis != self.lane], env)
        return self._along(stages, inner, env, scalar=True)

    def _ordered(self, stages: Sequence[Stage]) -> list[Any]:
        """The axes inside of the row in the order in which memory has them."""
        inner = self.inner_of[stages[0]]
        reads = [
            [var for index in load.indices for var in variables(index)]
            for stage in stages
            for load in loads_of(*stage.values)
        ]
        reads += [[var for index in stage.at for var in variables(index)] for stage in stages]
        widest = max(reads, key=lambda axes: len(set(axes) & set(inner)))
        order = {axis: k for k, axis in enumerate(widest)}
        return sorted(inner, key=lambda axis: order.get(axis, -1))

    def _along(
        self, stages: Sequence[Stage], outer: Sequence[Any], env: Env, scalar: bool = False
    ) -> list[Any]:
        """Vectors along the row: partial results of reductions, combined at the end."""
        if not (scalar or outer) and self._is_search(stages):
            return self._searched(stages[0], env)
        width, vector = (1, 1) if scalar else (self.width, self.vector)
        heavy = sum(size(value)[0] for stage in stages for value in stage.values) > 2 * 40
        copies = 1 if self.short else min(2 if heavy else _PARTIAL, _below(width // vector))
        partial = {stage: self._partial(stage, copies * vector) for stage in stages if stage.reduces}
        result: list[Any] = []
        first = {**env, **self._zeros(outer)}
        for stage, buffers in partial.items():
            result += self._started(stage, buffers, copies * vector, first)

        def element(index: Any, place: Any, mask: Any, at: Env) -> list[Any]:
            here = at if scalar else {**at, self.lane: index, self.relative[self.lane]: index}
            found: list[Any] = []
            for stage in stages:
                if stage.reduces:
                    found += self._update(stage, partial[stage], place, mask, here)
                else:
                    found += self._stored(stage, stage.values[0], here)
            return found

        def nest(left: Sequence[Any], at: Env) -> list[Any]:
            if not left:
                ahead = None if scalar else self._ahead(stages, at)
                return self._lanes(
                    width, vector, copies, lambda index, place, mask: element(index, place, mask, at), ahead
                )
            axis = left[0]
            return loop(self.extents[axis], lambda i: nest(left[1:], {**at, axis: i, self.relative[axis]: i}))

        result += nest(outer, env)
        for stage, buffers in partial.items():
            result += self._finished(stage, buffers, copies * vector, env)
        return result

    def _zeros(self, axes: Sequence[Any]) -> Env:
        """The first place of each axis."""
        zero = tirx.const(0, "int64")
        return {name: zero for axis in axes for name in (axis, self.relative[axis])}

    def _is_search(self, stages: Sequence[Stage]) -> bool:
        """Whether it is the place of one element of a row of several vectors."""
        (stage, *more) = stages
        plain = (
            not more and stage.place is not None and stage.in_order and dtype_of(stage.targets[0]) == "int32"
        )
        return plain and self.vector > 1 and self.width >= argreduce_loops.VECTORS * self.vector

    def _searched(self, stage: Stage, env: Env) -> list[Any]:
        """The place and the value of the best element."""

        def element(index: Any) -> tuple[Any, Any]:
            here = {**env, self.lane: index, self.relative[self.lane]: index}
            number, value = (rewritten(each.false_value, here, {}) for each in stage.values)
            return number, value

        def alloc(count: int, dtype: str, name: str) -> Any:
            return self._alloc_here([count], dtype, name)

        assert stage.place is not None
        dtype = dtype_of(stage.targets[1])
        ahead = self._ahead([stage], env)
        row = argreduce_loops.ArgReduce(stage.place, self.width, self.vector, dtype, element, ahead, alloc)
        statements, number, value = row.statements()
        targets = zip(stage.targets, (number, value), strict=True)
        return [*statements, *(self._store(stage, target, found, env) for target, found in targets)]

    def _ahead(self, stages: Sequence[Stage], env: Env) -> Callable[[Any], list[Any]]:
        """What fetches what comes later, beside a vector that no stage of the row has read before."""
        loads = {
            load.source: load
            for stage in stages
            for load in loads_of(*stage.values)
            if load.source in self.streams - self.fetched
            and load.indices[-1].same_as(self.lane)
            and not loads_of(*load.indices)
        }
        self.fetched |= set(loads)

        def fetch(start: Any) -> list[Any]:
            found = []
            for source, load in loads.items():
                distance = _AHEAD // item_bytes(dtype_of(source))
                far = rewritten(load, {**env, self.lane: start + distance}, {})
                found.append(prefetch(far))
            return found

        return fetch

    def _lanes(
        self,
        width: int,
        vector: int,
        copies: int,
        body: Callable[[Any, Any, Any], list[Any]],
        ahead: Callable[[Any], list[Any]] | None = None,
    ) -> list[Any]:
        """A loop by vectors of ``body(element, partial result, mask)``; only the last may have a mask.

        ``ahead``: what to do before each vector but for those that the loop leaves over.
        """
        if vector == 1 and copies == 1:
            kind = tirx.ForKind.UNROLLED if self.short and width < _SHORT else tirx.ForKind.SERIAL
            return loop(width, lambda i: body(i, tirx.const(0, "int64"), None), kind)

        def vectors(start: Any, count: int) -> list[Any]:
            def one(u: Any) -> list[Any]:
                lanes = loop(
                    vector,
                    lambda lane: body(start + u * vector + lane, u * vector + lane, None),
                    tirx.ForKind.VECTORIZED,
                )
                return [*(ahead(start + u * vector) if ahead else ()), *lanes]

            return loop(count, one, tirx.ForKind.UNROLLED)

        step = copies * vector
        result = loop(width // step, lambda group: vectors(group * step, copies))
        rest = width % step
        if rest >= vector:
            result += vectors(tirx.const(width - rest, "int64"), rest // vector)
        if rest % vector:
            new = vector - rest % vector
            result += loop(
                vector,
                lambda lane: body(tirx.const(width - vector, "int64") + lane, lane, lane >= new),
                tirx.ForKind.VECTORIZED,
            )
        return result

    def _partial(self, stage: Stage, count: int) -> list[Any]:
        return [self._alloc_here([count], dtype_of(target), "partial") for target in stage.targets]

    def _alloc_here(self, shape: Sequence[int], dtype: str, name: str) -> Any:
        return self._alloc(shape, dtype, name)

    def _started(self, stage: Stage, buffers: Sequence[Any], count: int, env: Env) -> list[Any]:
        """Partial results of no elements; of a place, the first elements'."""

        def start(lane: Any) -> list[Any]:
            assert stage.inits is not None
            values: Sequence[Any] = stage.inits
            if stage.place:
                here = {**env, self.lane: lane, self.relative[self.lane]: lane}
                values = [rewritten(value.false_value, here, {}) for value in stage.values]
            return [
                tirx.BufferStore(buffer, value, [lane]) for buffer, value in zip(buffers, values, strict=True)
            ]

        return self._wide(count, start)

    def _wide(self, count: int, body: Callable[[Any], list[Any]]) -> list[Any]:
        vector = min(count, self.vector)
        return loop(
            count // vector,
            lambda u: loop(vector, lambda lane: body(u * vector + lane), tirx.ForKind.VECTORIZED),
            tirx.ForKind.UNROLLED,
        )

    def _update(self, stage: Stage, buffers: Sequence[Any], place: Any, mask: Any, env: Env) -> list[Any]:
        """A partial result and one more element."""
        held = [tirx.BufferLoad(buffer, [place]) for buffer in buffers]
        if stage.place:
            number, term = (rewritten(value.false_value, env, {}) for value in stage.values)
            if not stage.in_order:
                return self._update_out_of_order(stage.place, buffers, place, [*held, number, term])
            keep = argreduce.KEEPS[stage.place][0](held[1], term)
            chosen = [tirx.Select(keep, old, new) for old, new in zip(held, (number, term), strict=True)]
            if mask is not None:
                chosen = [tirx.Select(mask, new, old) for old, new in zip(held, chosen, strict=True)]
            return [
                tirx.BufferStore(buffer, make_isnan_vectorizable(value), [place])
                for buffer, value in zip(buffers, chosen, strict=True)
            ]
        (old,) = held
        value = make_isnan_vectorizable(rewritten(stage.values[0], env, {stage.targets[0]: always(old)}))
        value = value if mask is None else tirx.Select(mask, value, old)
        return [tirx.BufferStore(buffers[0], value, [place])]

    def _update_out_of_order(
        self, place: str, buffers: Sequence[Any], index: Any, pairs: Sequence[Any]
    ) -> list[Any]:
        keep = tirx.Var("keep", "bool")
        i, a, j, b = pairs
        stores = [
            tirx.BufferStore(buffer, tirx.Select(keep, old, new), [index])
            for buffer, old, new in zip(buffers, (i, a), (j, b), strict=True)
        ]
        return [tirx.Bind(keep, argreduce.keeps(place, i, a, j, b)), *stores]

    def _finished(self, stage: Stage, buffers: Sequence[Any], count: int, env: Env) -> list[Any]:
        """The partial results combined by halves, and stored."""
        result: list[Any] = []
        while count > 1:
            count //= 2
            halves = [self._alloc_here([count], dtype_of(buffer), "half") for buffer in buffers]

            def half(
                lane: Any,
                count: int = count,
                buffers: Sequence[Any] = buffers,
                halves: Sequence[Any] = halves,
            ) -> list[Any]:
                left = [tirx.BufferLoad(buffer, [lane]) for buffer in buffers]
                right = [tirx.BufferLoad(buffer, [lane + count]) for buffer in buffers]
                values = combined(stage, left, right)
                assert values is not None
                return [
                    tirx.BufferStore(buffer, make_isnan_vectorizable(value), [lane])
                    for buffer, value in zip(halves, values, strict=True)
                ]

            result += self._wide(count, half)
            buffers = halves
        zero = [tirx.const(0, "int64")]
        for target, buffer in zip(stage.targets, buffers, strict=True):
            result.append(self._store(stage, target, tirx.BufferLoad(buffer, zero), env))
        return result

    def _store(self, stage: Stage, target: Any, value: Any, env: Env) -> Any:
        if target in self.places:
            buffer, indices = self._local(self.places[target])
        else:
            buffer, indices = resolved(target, stage.at, self.views)
        return tirx.BufferStore(buffer, value, [rewritten(index, env, {}) for index in indices])

    def _stored(self, stage: Stage, value: Any, env: Env) -> list[Any]:
        value = make_isnan_vectorizable(rewritten(value, env, {}))
        return [self._store(stage, stage.targets[0], value, env)]

    def _across(self, stages: Sequence[Stage], inner: Sequence[Any], env: Env, start: Any) -> list[Any]:
        """Vectors across the columns of a block; reductions hold one partial result a column."""
        partial: dict[Stage, list[Any]] = {}
        result: list[Any] = []

        def columns(body: Callable[[Any, Any, Env], list[Any]], at: Env) -> list[Any]:
            def one(index: Any, _place: Any, mask: Any) -> list[Any]:
                here = {**at, self.lane: start + index, self.relative[self.lane]: index}
                return body(index, mask, here)

            return self._lanes(self.width, self.vector, 1, one)

        for stage in stages:
            if not stage.reduces:
                continue
            direct = [self.places[t].buffer if t in self.places else None for t in stage.targets]
            plain = all(t in self.places and self.places[t].axes == (self.lane,) for t in stage.targets)
            buffers = direct if plain else self._partial(stage, self.width)
            partial[stage] = buffers
            first = {**env, **self._zeros(inner)}

            def begin(
                index: Any, _mask: Any, here: Env, stage: Stage = stage, buffers: list[Any] = buffers
            ) -> list[Any]:
                assert stage.inits is not None
                values: Sequence[Any] = stage.inits
                if stage.place:
                    values = [rewritten(value.false_value, here, {}) for value in stage.values]
                return [
                    tirx.BufferStore(buffer, value, [index])
                    for buffer, value in zip(buffers, values, strict=True)
                ]

            result += columns(begin, first)

        def element(index: Any, mask: Any, at: Env) -> list[Any]:
            found: list[Any] = []
            for stage in stages:
                if stage.reduces:
                    found += self._update(stage, partial[stage], index, mask, at)
                else:
                    found += self._stored(stage, stage.values[0], at)
            return found

        def tile(count: int, first: Any, axis: Any, at: Env) -> list[Any]:
            def body(index: Any, mask: Any, here: Env) -> list[Any]:
                found: list[Any] = []
                for k in range(count):
                    row = first + k
                    found += element(index, mask, {**here, axis: row, self.relative[axis]: row})
                return found

            return columns(body, at)

        def nest(left: Sequence[Any], at: Env) -> list[Any]:
            if not left:
                return columns(element, at)
            axis, extent = left[0], self.extents[left[0]]
            if len(left) > 1:
                return loop(extent, lambda i: nest(left[1:], {**at, axis: i, self.relative[axis]: i}))
            heavy = sum(size(value)[0] for stage in stages for value in stage.values)
            count = min(extent, max(1, min(_TILE, 160 // heavy)))
            found = loop(extent // count, lambda i: tile(count, i * count, axis, at))
            if extent % count:
                found += tile(extent % count, tirx.const(extent - extent % count, "int64"), axis, at)
            return found

        result += nest(inner, env)
        for stage, buffers in partial.items():
            if all(buffer in [place.buffer for place in self.places.values()] for buffer in buffers):
                continue

            def end(
                index: Any, _mask: Any, here: Env, stage: Stage = stage, buffers: list[Any] = buffers
            ) -> list[Any]:
                return [
                    self._store(stage, target, tirx.BufferLoad(buffer, [index]), here)
                    for target, buffer in zip(stage.targets, buffers, strict=True)
                ]

            result += columns(end, env)
        return result


def _product(numbers: Any) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result
