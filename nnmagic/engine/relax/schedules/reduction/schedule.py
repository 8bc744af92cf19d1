"""The schedule of reductions and of rows: which stages are computed together, how long sums are split.

A reduction over many elements is split into chunks, each with its own partial result, so that it can run in
parallel and rounds less; how many there are depends on sizes only. One over few columns takes several rows of
the array as one, so that its vectors are full. Knows TIR only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.reduction.analysis import (
    Kernel,
    Stage,
    View,
    always,
    dtype_of,
    kernel_of,
    merged,
    resolved,
    rewritten,
)
from nnmagic.engine.relax.schedules.reduction.row_loops import Rows, combined, term_of
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.tir.builders import loads_of, sequence

#: How many elements a chunk of a long reduction has.
CHUNK = 1 << 14

#: A row of more elements than this does not stay in the cache between its stages.
_LONG_ROW = 1 << 17


def reduction(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    """Fast loops for a kernel that reduces."""
    kernel = kernel_of(function)
    if kernel is None or not all(_is_known(stage) for stage in kernel.stages):
        return function
    kernel, views = merged(kernel)
    rows = _common(kernel)
    if rows and _fits(kernel, rows):
        lane = _lane(kernel.stages, kernel.extents)
        if lane is None:
            return function
        nests = Rows(machine, kernel.stages, rows, lane, kernel.extents, views, kernel.kept).statements()
        return _function(function, [], nests)
    parts = _Parts(machine, kernel, views)
    for stage in kernel.stages:
        if not parts.add(stage):
            return function
    return _function(function, sorted_buffers(kernel), parts.statements)


def sorted_buffers(kernel: Kernel) -> list[Any]:
    """The kernel's own buffers in the order in which they are written."""
    return [target for stage in kernel.stages for target in stage.targets if target in kernel.kept]


def _is_known(stage: Stage) -> bool:
    return not stage.reduces or stage.place is not None or term_of(stage) is not None


def _function(function: tirx.PrimFunc, buffers: Sequence[Any], statements: Sequence[Any]) -> tirx.PrimFunc:
    body = sequence([*(tirx.AllocBuffer(buffer) for buffer in buffers), *statements])
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs)


def _common(kernel: Kernel) -> list[Any]:
    """The axes that every stage has and none reduces, in the first stage's order."""
    sets = [set(stage.axes) - set(stage.reduced) for stage in kernel.stages]
    shared = set.intersection(*sets)
    plain = all(index in kernel.extents for stage in kernel.stages for index in stage.at if index in shared)
    return [axis for axis in kernel.stages[0].axes if axis in shared] if plain else []


def _fits(kernel: Kernel, rows: Sequence[Any]) -> bool:
    """Whether rows are worth it: enough of them, or short ones; no stage has other axes outside."""
    inner = {axis for stage in kernel.stages for axis in stage.axes} - set(rows)
    for stage in kernel.stages:
        kept = set(stage.axes) - set(stage.reduced) - set(rows)
        if stage.reduces and kept:
            return False
    lane = _lane(kernel.stages, kernel.extents)
    length = math.prod(kernel.extents[axis] for axis in inner)
    count = math.prod(kernel.extents[axis] for axis in rows)
    reductions = sum(1 for stage in kernel.stages if stage.reduces)
    if lane in rows and reductions == 1:
        outer = count // kernel.extents[lane]
        return kernel.extents[lane] >= 64 and (length <= 4096 or outer * (kernel.extents[lane] // 512) >= 4)
    return length <= CHUNK or (count >= 16 and length <= _LONG_ROW)


def _lane(stages: Sequence[Stage], extents: Any) -> Any | None:
    """The axis along which most of what is read is contiguous."""
    votes: dict[Any, int] = {}
    for stage in stages:
        for indices in [stage.at, *(list(load.indices) for load in loads_of(*stage.values))]:
            last = next((index for index in reversed(indices) if not isinstance(index, tirx.IntImm)), None)
            if last is not None and last in extents:
                axes = [index for index in indices if index in extents]
                weight = math.prod(extents[axis] for axis in axes)
                votes[last] = votes.get(last, 0) + weight
    return max(votes, key=lambda axis: votes[axis]) if votes else None


class _Parts:
    """Stages that are computed one after the other, each over all of the array."""

    def __init__(self, machine: CpuModel, kernel: Kernel, views: dict[Any, View]) -> None:
        self.machine = machine
        self.extents = dict(kernel.extents)
        self.views = views
        self.statements: list[Any] = []

    def add(self, stage: Stage) -> bool:
        """Appends the stage's loops; False where there are none for it."""
        if not stage.axes:
            return self._scalar(stage)
        lane = _lane([stage], self.extents)
        if lane is None:
            return False
        if not stage.reduces:
            return self._emit(stage, [axis for axis in stage.axes if axis != lane], lane)
        for part, along in self._split(stage, lane):
            rows = [axis for axis in part.axes if axis not in part.reduced]
            if not self._emit(part, rows, along):
                return False
        return True

    def _scalar(self, stage: Stage) -> bool:
        def load(source: Any) -> Any:
            return lambda indices: tirx.BufferLoad(*resolved(source, indices, self.views))

        sources = {load.source for load in loads_of(*stage.values)}
        value = rewritten(stage.values[0], {}, {source: load(source) for source in sources})
        self.statements.append(tirx.BufferStore(stage.targets[0], value, list(stage.at)))
        return True

    def _emit(self, stage: Stage, rows: Sequence[Any], lane: Any) -> bool:
        nest = Rows(self.machine, [stage], rows, lane, self.extents, self.views, frozenset())
        self.statements += nest.statements()
        return True

    def _axis(self, name: str, extent: int) -> Any:
        axis = tirx.Var(name, "int64")
        self.extents[axis] = extent
        return axis

    def _split(self, stage: Stage, lane: Any) -> Iterator[tuple[Stage, Any]]:
        """The stage, or stages that compute partial results and what they make together."""
        if lane not in stage.reduced and self.extents[lane] < 64:
            yield from self._grouped(stage, lane)
        else:
            yield from self._chunked(stage, lane)

    def _chunked(self, stage: Stage, lane: Any) -> Iterator[tuple[Stage, Any]]:
        along = lane in stage.reduced
        longest = lane if along else max(stage.reduced, key=lambda axis: self.extents[axis])
        length = self.extents[longest]
        others = math.prod(self.extents[axis] for axis in stage.reduced) // length
        chunk = max(CHUNK // others, 64) if along else 512
        if length < 2 * chunk:
            yield stage, lane
            return
        count = length // chunk
        rest = length - count * chunk
        slots = count + bool(rest)
        partial = self._partial(stage, slots)
        number, inside = self._axis("chunk", count), self._axis(longest.name, chunk)
        yield (
            self._piece(stage, partial, longest, number * chunk + inside, inside, number),
            inside if along else lane,
        )
        if rest:
            left = self._axis(longest.name, rest)
            last = tirx.const(count, "int64")
            yield (
                self._piece(stage, partial, longest, last * chunk + left, left, last),
                left if along else lane,
            )
        chunks = self._axis("chunk", slots)
        kept = [index for index in stage.at if index in self.extents]
        final = self._final(stage, partial, [*kept, chunks], [chunks])
        yield final, chunks if along or lane not in kept else lane

    def _partial(self, stage: Stage, slots: int, *, kept: bool = True) -> list[Any]:
        shape = [self.extents[index] for index in stage.at if index in self.extents] if kept else []
        buffers = [tirx.decl_buffer([slots, *shape], dtype_of(target), "partial") for target in stage.targets]
        self.statements += [tirx.AllocBuffer(buffer) for buffer in buffers]
        return buffers

    def _piece(
        self, stage: Stage, partial: Sequence[Any], axis: Any, index: Any, inside: Any, slot: Any
    ) -> Stage:
        """A part of the reduction, whose result goes to ``slot``: ``axis`` is ``index``, over ``inside``."""
        kept = [one for one in stage.at if one in self.extents]
        reduced = tuple(inside if one == axis else one for one in stage.reduced)
        return self._into(stage, partial, {axis: index}, [slot, *kept], reduced)

    def _into(
        self, stage: Stage, partial: Sequence[Any], names: dict[Any, Any], at: Sequence[Any], reduced: Any
    ) -> Stage:
        own = {
            target: always(tirx.BufferLoad(buffer, list(at)))
            for target, buffer in zip(stage.targets, partial, strict=True)
        }
        values = tuple(rewritten(value, names, own) for value in stage.values)
        return replace(stage, targets=tuple(partial), at=tuple(at), reduced=tuple(reduced), values=values)

    def _final(
        self, stage: Stage, partial: Sequence[Any], at: Sequence[Any], reduced: Sequence[Any]
    ) -> Stage:
        """The partial results, which have the reduced axis first, together."""
        slots = [at[-1], *at[:-1]]
        own = [tirx.BufferLoad(target, list(stage.at)) for target in stage.targets]
        new = [tirx.BufferLoad(buffer, slots) for buffer in partial]
        values = combined(stage, own, new)
        assert values is not None
        return replace(stage, reduced=tuple(reduced), values=tuple(values))

    def _grouped(self, stage: Stage, lane: Any) -> Iterator[tuple[Stage, Any]]:
        """Few columns: so many rows of the array are taken as one that full vectors go across it."""
        columns = self.extents[lane]
        last = next((axis for axis in reversed(_order(stage, self.extents)) if axis in stage.reduced), None)
        vector = self.machine.lanes(dtype_of(stage.targets[-1]))
        group = vector // math.gcd(vector, columns)
        while group * columns < 4 * vector:
            group *= 2
        if last is None or self.extents[last] < 4 * group or _kept(stage, self.extents) != [lane]:
            yield from self._chunked(stage, lane)
            return
        length = self.extents[last]
        count, rest = divmod(length, group)
        partial = self._partial(stage, (group + 1) * columns, kept=False)
        wide = self._axis("wide", group * columns)
        number = self._axis(last.name, count)
        names = {last: number * group + wide // columns, lane: wide % columns}
        reduced = tuple(number if one == last else one for one in stage.reduced)
        yield self._into(stage, partial, names, [wide], reduced), wide
        groups = group + bool(rest)
        if rest:
            left = self._axis(last.name, rest)
            names = {last: count * group + left}
            reduced = tuple(left if one == last else one for one in stage.reduced)
            yield self._into(stage, partial, names, [group * columns + lane], reduced), lane
        which = self._axis("group", groups)
        own = [tirx.BufferLoad(target, list(stage.at)) for target in stage.targets]
        new = [tirx.BufferLoad(buffer, [which * columns + lane]) for buffer in partial]
        values = combined(stage, own, new)
        assert values is not None
        yield replace(stage, reduced=(which,), values=tuple(values), in_order=False), lane


def _kept(stage: Stage, extents: Any) -> list[Any]:
    return [index for index in stage.at if index in extents]


def _order(stage: Stage, extents: Any) -> list[Any]:
    """The stage's axes in the order of the widest of what it reads."""
    reads = [[index for index in load.indices if index in extents] for load in loads_of(*stage.values)]
    return max(reads, key=len, default=[])


SCHEDULES["reduction"] = reduction
