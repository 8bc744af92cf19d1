"""Schedule reductions and rows: choose the stages that are computed together, and split long sums.

A reduction over many elements is split into chunks, each with its own partial result, so that it can run in
parallel and rounds less; how many there are depends on sizes only. For narrow arrays, rows are grouped until
they fill a vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.reduction.analysis import (
    Chunk,
    ReductionKernel,
    ReductionStage,
    always,
    are_static,
    estimate,
    read_reduction_kernel,
    substitute_axes,
)
from nnmagic.engine.relax.schedules.reduction.axis_merging import declare_views, merge_axes
from nnmagic.engine.relax.schedules.reduction.combiners import combine, decides, is_supported
from nnmagic.engine.relax.schedules.reduction.row_loops import emit_rows
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    collect_loads,
    dtype_of,
    maximum,
    minimum,
    round_up_div,
    sequence,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var

#: How many elements a chunk of a long reduction has.
CHUNK = 1 << 14

#: How many elements a chunk has at least along the axis that is split, and how many rows where vectors go
#: across columns.
_SHORTEST_CHUNK = 64
_ROWS_OF_CHUNK = 512

#: The most chunks of a reduction whose length only the call knows, and the vectors of whose elements a chunk
#: is made.
_MOST_CHUNKS = 512
_WHOLE_VECTORS = 256

#: A row of more elements than this does not stay in the cache between its stages.
_LONG_ROW = 1 << 17

#: The rows from which on long rows are computed one by one: fewer are split into chunks, for the threads.
_MANY_ROWS = 16

#: Arrays with fewer columns are narrow. Blocks of columns are computed together where columns are at most
#: _LONG_COLUMN long, or there are _MANY_BLOCKS blocks of _BLOCK_COLUMNS columns for the threads.
_NARROW_COLUMNS = 64
_LONG_COLUMN = 4096
_MANY_BLOCKS = 4
_BLOCK_COLUMNS = 512

#: How many vectors a group of rows of a narrow array fills at least, and how many groups make it worth it.
_VECTORS_OF_GROUP = 4
_FEWEST_GROUPS = 4


def _schedule_reduction(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Give a kernel that reduces fast loops; return one of another form as it is."""
    kernel = read_reduction_kernel(function)
    if kernel is None or not all(is_supported(stage) for stage in kernel.stages if stage.reduces):
        return function
    kernel = merge_axes(kernel)
    views = declare_views(kernel)
    rows = _common_axes(kernel)
    if rows and _pays_by_rows(kernel, rows):
        lane = _contiguous_axis(kernel.stages, kernel.extents)
        if lane is None:
            return function
        return _with_body(function, [], [*views, *emit_rows(machine, kernel, rows, lane)])
    loops = _SeparateLoops(machine, kernel)
    for stage in kernel.stages:
        if not loops.add(stage):
            return function
    kept = [write for stage in kernel.stages for write in stage.writes if write in kernel.kept]
    return _with_body(function, kept, [*views, *loops.statements])


def _with_body(
    function: tirx.PrimFunc, buffers: Sequence[Buffer], statements: Sequence[Stmt]
) -> tirx.PrimFunc:
    body = sequence([*map(tirx.AllocBuffer, buffers), *statements])
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs)


def _common_axes(kernel: ReductionKernel) -> list[Var]:
    """Return the axes that every stage has and none reduces, in the first stage's order."""
    shared = set.intersection(*(set(stage.axes) - set(stage.reduced) for stage in kernel.stages))
    indices = [index for stage in kernel.stages for index in stage.indices if index in shared]
    supported = all(index in kernel.extents for index in indices)
    return [axis for axis in kernel.stages[0].axes if axis in shared] if supported else []


def _pays_by_rows(kernel: ReductionKernel, rows: Sequence[Var]) -> bool:
    """Return whether to compute all stages row by row: rows are many or short, and have all reductions."""
    inner = {axis for stage in kernel.stages for axis in stage.axes} - set(rows)
    for stage in kernel.stages:
        if stage.reduces and set(stage.axes) - set(stage.reduced) - set(rows):
            return False
    lane = _contiguous_axis(kernel.stages, kernel.extents)
    length, count = kernel.count(list(inner)), kernel.count(rows)
    across = lane in rows and sum(stage.reduces for stage in kernel.stages) == 1
    if not isinstance(length, int) or not isinstance(count, int):
        # Rows that only the call counts are many, and those that only the call measures are short.
        # Narrow columns do not fill vectors: rows are grouped for them by `_split_narrow`.
        if across and isinstance(kernel.extents[lane], int) and kernel.extents[lane] < _NARROW_COLUMNS:
            return False
        return not isinstance(length, int) or length <= _LONG_ROW
    if across:
        columns = kernel.extents[lane]
        blocks = count // columns * (columns // _BLOCK_COLUMNS)
        return columns >= _NARROW_COLUMNS and (length <= _LONG_COLUMN or blocks >= _MANY_BLOCKS)
    return length <= CHUNK or (count >= _MANY_ROWS and length <= _LONG_ROW)


def _contiguous_axis(stages: Sequence[ReductionStage], extents: Mapping[Var, Extent]) -> Var | None:
    """Return the axis along which most accesses are contiguous."""
    votes: dict[Var, int] = {}
    for stage in stages:
        for indices in [stage.indices, *(list(load.indices) for load in collect_loads(*stage.values))]:
            axes = [_axis_of(index, extents) for index in indices if not isinstance(index, tirx.IntImm)]
            last = axes[-1] if axes else None
            if last is not None:
                elements = estimate(extents[axis] for axis in axes if axis is not None)
                votes[last] = votes.get(last, 0) + elements
    return max(votes, key=lambda axis: votes[axis]) if votes else None


def _axis_of(index: Index, extents: Mapping[Var, Extent]) -> Var | None:
    """Return the axis that an index runs along one by one, as in ``i`` and ``i + 1``; None for others."""
    if isinstance(index, tirx.Add):
        parts = [part for part in (index.a, index.b) if not isinstance(part, tirx.IntImm)]
        index = parts[0] if len(parts) == 1 else index
    return index if isinstance(index, tirx.Var) and index in extents else None


class _SeparateLoops:
    """Loops for stages that are computed one after the other, each over the whole array."""

    def __init__(self, machine: CpuModel, kernel: ReductionKernel) -> None:
        self.machine = machine
        self.extents = dict(kernel.extents)
        self.chunks: dict[Var, Chunk] = {}
        self.statements: list[Stmt] = []

    def add(self, stage: ReductionStage) -> bool:
        """Append the stage's loops; return False where the stage is not supported."""
        if not stage.axes:
            self._add_scalar(stage)
            return True
        lane = _contiguous_axis([stage], self.extents)
        if lane is None:
            return False
        if not stage.reduces:
            self._add_loops(stage, [axis for axis in stage.axes if axis != lane], lane)
            return True
        others = self.statements
        self.statements = []
        for value, part_lane in self._split(stage, lane):
            self._add_loops(value, [axis for axis in value.axes if axis not in value.reduced], part_lane)
        split, self.statements = self.statements, []
        if self._may_have_empty_parts(stage, lane):
            self._add_loops(stage, self._result_axes(stage), lane)
            # Fewer rows than groups would leave parts without an element: argmax of nothing has no
            # index.
            many = [
                self.extents[axis] >= _FEWEST_GROUPS * self._rows_of_group(stage, lane)
                for axis in stage.reduced
            ]
            split = [tirx.IfThenElse(tirx.all(*many), sequence(split), sequence(self.statements))]
        elif self._has_dynamic_chunks(stage, lane):
            self._add_loops(stage, [], lane)
            is_short = self.extents[lane] <= as_expr(CHUNK)
            split = [tirx.IfThenElse(is_short, sequence(self.statements), sequence(split))]
        self.statements = [*others, *split]
        return True

    def _may_have_empty_parts(self, stage: ReductionStage, lane: Var) -> bool:
        """Return whether a part of a reduction to an index may have no index to give."""
        columns = self.extents[lane]
        narrow = lane not in stage.reduced and isinstance(columns, int) and columns < _NARROW_COLUMNS
        return (
            stage.tie_rule is not None
            and narrow
            and not are_static(self.extents[axis] for axis in stage.reduced)
        )

    def _add_scalar(self, stage: ReductionStage) -> None:
        self.statements.append(tirx.BufferStore(stage.buffer, stage.value, list(stage.indices)))

    def _add_loops(self, stage: ReductionStage, rows: Sequence[Var], lane: Var) -> None:
        extents = {axis: extent for axis, extent in self.extents.items() if axis in stage.axes}
        if are_static(extents.values()):
            extents = self.extents
        kernel = ReductionKernel((stage,), extents, frozenset(), chunks=self.chunks)
        self.statements += emit_rows(self.machine, kernel, rows, lane)

    def _new_axis(self, name: str, extent: Extent) -> Var:
        axis = tirx.Var(name, "int64")
        self.extents[axis] = extent
        return axis

    def _result_axes(self, stage: ReductionStage) -> list[Var]:
        """Return the axes of the result."""
        return [index for index in stage.indices if index in self.extents]

    def _split(self, stage: ReductionStage, lane: Var) -> Iterator[tuple[ReductionStage, Var]]:
        """Yield the stage, or stages that compute partial results and combine them, each with its lane."""
        columns = self.extents[lane]
        if lane not in stage.reduced and isinstance(columns, int) and columns < _NARROW_COLUMNS:
            yield from self._split_narrow(stage, lane)
        elif are_static(self.extents[axis] for axis in stage.reduced):
            yield from self._split_into_chunks(stage, lane)
        elif self._has_dynamic_chunks(stage, lane):
            yield from self._split_into_dynamic_chunks(stage, lane)
        else:
            yield stage, lane

    def _has_dynamic_chunks(self, stage: ReductionStage, lane: Var) -> bool:
        """Return whether a stage reduces one axis, which only the call measures, to one value."""
        is_static = are_static(self.extents[axis] for axis in stage.reduced)
        return not is_static and tuple(stage.reduced) == (lane,) and not self._result_axes(stage)

    def _split_into_chunks(self, stage: ReductionStage, lane: Var) -> Iterator[tuple[ReductionStage, Var]]:
        """Split the longest axis into chunks of a size that depends on nothing but the shape."""
        along = lane in stage.reduced
        longest = lane if along else max(stage.reduced, key=lambda axis: self.extents[axis])
        length = self.extents[longest]
        others = math.prod(self.extents[axis] for axis in stage.reduced) // length
        # Floating-point addition is not associative: chunks by the number of threads would give
        # other sums on another machine, or in another call. By the shape alone, results are the
        # same to the bit.
        chunk = max(CHUNK // others, _SHORTEST_CHUNK) if along else _ROWS_OF_CHUNK
        # One chunk and a rest would pay for partial results without work for a second thread.
        if length < 2 * chunk:
            yield stage, lane
            return
        count, remainder = divmod(length, chunk)
        slots = count + bool(remainder)
        result_axes = self._result_axes(stage)
        partial = self._allocate_partial(stage, [slots, *(self.extents[axis] for axis in result_axes)])
        number, inside = self._new_axis("chunk", count), self._new_axis(longest.name, chunk)
        final = stage
        if not result_axes:
            stage = self._skip_what_is_decided(stage)
        reduced = _replace_axis(stage.reduced, longest, inside)
        whole = self._redirect(
            stage, partial, {longest: number * chunk + inside}, [number, *result_axes], reduced
        )
        yield whole, inside if along else lane
        if remainder:
            inside, last = self._new_axis(longest.name, remainder), as_expr(count)
            reduced = _replace_axis(stage.reduced, longest, inside)
            names = {longest: last * chunk + inside}
            yield (
                self._redirect(stage, partial, names, [last, *result_axes], reduced),
                inside if along else lane,
            )
        slot = self._new_axis("chunk", slots)
        yield (
            self._combine_partial(final, partial, [slot, *result_axes], slot),
            (slot if along or lane not in result_axes else lane),
        )

    def _split_into_dynamic_chunks(
        self, stage: ReductionStage, lane: Var
    ) -> Iterator[tuple[ReductionStage, Var]]:
        """Split an axis that only the call measures into chunks, of which the last may be shorter.

        It is longer than one.
        """
        length = self.extents[lane]
        # The array of partial results is of a static size, so the longest sums have longer chunks,
        # not more.
        chunk = maximum(CHUNK, round_up_div(length, _MOST_CHUNKS * _WHOLE_VECTORS) * _WHOLE_VECTORS)
        partial = self._allocate_partial(stage, [_MOST_CHUNKS])
        slots = round_up_div(length, chunk)
        number = self._new_axis("chunk", slots)
        inside = self._new_axis(lane.name, minimum(chunk, length - number * chunk))
        self.chunks[inside] = Chunk(chunk, CHUNK + 1)
        names = {lane: number * chunk + inside}
        part = self._skip_what_is_decided(stage)
        yield self._redirect(part, partial, names, [number], [inside]), inside
        slot = self._new_axis("chunk", slots)
        self.chunks[slot] = Chunk(_MOST_CHUNKS, slots)
        # One after the other: few, of which mostly one is there.
        yield replace(self._combine_partial(stage, partial, [slot], slot), in_order=False), slot

    def _split_narrow(self, stage: ReductionStage, lane: Var) -> Iterator[tuple[ReductionStage, Var]]:
        """Group rows of a narrow array until they fill vectors; combine the rows of a group at the end."""
        columns = self.extents[lane]
        last = next((axis for axis in reversed(self._widest_access(stage)) if axis in stage.reduced), None)
        group = self._rows_of_group(stage, lane)
        rows = None if last is None else self.extents[last]
        few = isinstance(rows, int) and rows < _FEWEST_GROUPS * group
        if last is not None and not few and self._result_axes(stage) != [lane]:
            yield stage, last  # vectors along each column
            return
        if last is None or rows is None or few or self._result_axes(stage) != [lane]:
            if are_static(self.extents[axis] for axis in stage.reduced):
                yield from self._split_into_chunks(stage, lane)
            else:
                yield stage, lane
            return
        count, remainder = rows // group, rows % group
        partial = self._allocate_partial(stage, [(group + 1) * columns])
        wide, number = self._new_axis("wide", group * columns), self._new_axis(last.name, count)
        # Rows of a group are one wide row: element j of it is column j % columns, so that each lane
        # of a vector sums one column of every `group`-th row.
        names = {last: number * group + wide // columns, lane: wide % columns}
        reduced = _replace_axis(stage.reduced, last, number)
        yield self._redirect(stage, partial, names, [wide], reduced), wide
        more = not isinstance(remainder, int) or remainder > 0
        if more:
            remainder_axis = self._new_axis(last.name, remainder)
            self.chunks[remainder_axis] = Chunk(group, remainder)
            reduced = _replace_axis(stage.reduced, last, remainder_axis)
            names = {last: count * group + remainder_axis}
            yield self._redirect(stage, partial, names, [group * columns + lane], reduced), lane
        row = self._new_axis("group", group + more)
        final = self._combine_partial(stage, partial, [row * columns + lane], row)
        yield replace(final, in_order=False), lane

    def _rows_of_group(self, stage: ReductionStage, lane: Var) -> int:
        """Return how many rows of a narrow array fill whole vectors, several of them."""
        columns = self.extents[lane]
        vector = self.machine.lanes(dtype_of(stage.writes[-1]))
        # The fewest rows that fill whole vectors: with 3 columns and vectors of 8, 8 rows are 3
        # vectors.
        group = vector // math.gcd(vector, columns)
        while group * columns < _VECTORS_OF_GROUP * vector:
            group *= 2
        return group

    def _widest_access(self, stage: ReductionStage) -> list[Var]:
        """Return the stage's axes in the order of the load with the most axes."""
        reads = [
            [index for index in load.indices if index in self.extents]
            for load in collect_loads(*stage.values)
        ]
        return max(reads, key=len, default=[])

    def _allocate_partial(self, stage: ReductionStage, shape: Sequence[Extent]) -> list[Buffer]:
        buffers = [tirx.decl_buffer(list(shape), dtype_of(write), "partial") for write in stage.writes]
        self.statements += [tirx.AllocBuffer(buffer) for buffer in buffers]
        return buffers

    def _skip_what_is_decided(self, stage: ReductionStage) -> ReductionStage:
        """Return a part of a reduction to one value that skips what cannot change the result any more."""
        if decides(stage, tirx.BufferLoad(stage.buffer, list(stage.indices))) is None:
            return stage
        flag = tirx.decl_buffer([1], "uint8", "decided")
        zero = tirx.const(0, "uint8")
        self.statements += [tirx.AllocBuffer(flag), tirx.BufferStore(flag, zero, [as_expr(0)])]
        return replace(stage, decided=flag)

    def _redirect(
        self,
        stage: ReductionStage,
        partial: Sequence[Buffer],
        names: Mapping[Var, PrimExpr],
        indices: Sequence[Index],
        reduced: Sequence[Var],
    ) -> ReductionStage:
        """Return a part of a reduction, over ``reduced``, with its result in ``partial[indices]``."""
        own = {
            write: always(tirx.BufferLoad(buffer, list(indices)))
            for write, buffer in zip(stage.writes, partial, strict=True)
        }
        values = [substitute_axes(value, names, own) for value in stage.values]
        return stage.derive(writes=partial, indices=indices, reduced=reduced, values=values)

    def _combine_partial(
        self, stage: ReductionStage, partial: Sequence[Buffer], indices: Sequence[Index], axis: Var
    ) -> ReductionStage:
        """Return the reduction of the partial results at ``indices`` over an axis."""
        lhs = [tirx.BufferLoad(write, list(stage.indices)) for write in stage.writes]
        rhs = [tirx.BufferLoad(buffer, list(indices)) for buffer in partial]
        return stage.derive(reduced=[axis], values=combine(stage, lhs, rhs))


def _replace_axis(axes: Sequence[Var], old: Var, new: Var) -> list[Var]:
    return [new if axis == old else axis for axis in axes]


SCHEDULES["reduction"] = _schedule_reduction
