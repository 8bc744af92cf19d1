"""Plan the loops for stages that share rows: vectors, blocks of columns, and the memory of a row.

All stages have some axes in common; a row is the part of the array over the other axes. If the contiguous
axis is inside of it, vectors go along the row. If the contiguous axis is one of those in common, a block of
columns is one row, and vectors go across it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm
from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work, worth_threads
from nnmagic.engine.relax.schedules.reduction import analysis
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    collect_loads,
    dtype_of,
    item_bytes,
    minimum,
    product,
    static_int,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var

#: How many truth values, of which the first ones may decide, count as one element.
_TRUTH_VALUES = 8

#: The operations that all costly ones of an element (functions, divisions) count as, together.
_COSTLY_OPERATIONS = 8

#: Shorter rows are added one element after the other, unless more than sums is computed of them: then an
#: expression has more nodes than this, or a choice.
SHORT_ROW = 16
_SIMPLE_NODES = 40

#: The bytes of an array from which on it comes from beyond the second cache, and is prefetched.
_STREAM_BYTES = 1 << 20

#: The columns of a block of which only the results of one reduction are kept.
_BLOCK_COLUMNS = 1024

#: The columns and elements of a block that several stages read: all of it fits the second cache, twice.
_CACHED_COLUMNS = 512
_CACHED_ELEMENTS = 1 << 16

#: The columns of such a block where only the call knows how long they are; and of a block of one reduction
#: where only the call knows how many columns there are: it has a slower version for fewer.
_DYNAMIC_CACHED_COLUMNS = 128
_DYNAMIC_BLOCK_COLUMNS = 512

#: By variable, the index at which code is emitted.
Env = dict[Var, Index]


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A version of the loops of a kernel whose sizes only the call knows.

    elements: whether the elements of a row are computed one after the other, because they may fill no vector.
    narrow: whether there may be fewer columns than a block has. search: whether a row has enough vectors to
    search for an index by groups of these. threads: whether threads share the rows, of which there is much
    data then.
    """

    elements: bool = False
    narrow: bool = False
    search: bool = True
    threads: bool = False


@dataclass(frozen=True, slots=True)
class _RowBuffer:
    """The memory in which a row keeps a buffer, and the axes that it has there."""

    buffer: Buffer
    axes: tuple[Var, ...]


class RowPlan:
    """The plan for stages that have the axes ``rows`` in common; ``lane`` is contiguous in memory.

    across: whether vectors go across the columns of a block. outer: the axes of the loops around a row.
    inner_of: by stage, its axes inside of a row. relative: by axis, the variable that counts from the start
    of the row or block. width: the elements of a row, or the columns of a block, and capacity: the most that
    there can be. vector: the elements of a vector. short: whether rows are added one element after the other.
    operations: those of the whole array, and of a row or block of it. memory: allocations for a row's
    buffers.
    """

    def __init__(
        self,
        machine: CpuModel,
        kernel: analysis.ReductionKernel,
        rows: Sequence[Var],
        lane: Var,
        version: RowVersion | None = None,
    ) -> None:
        stages = kernel.stages
        self.machine = machine
        self.version = version
        self.extents = kernel.extents
        self.lane = lane
        self.across = lane in rows
        self.outer = [axis for axis in rows if axis != lane]
        self.inner_of = {stage: [axis for axis in stage.axes if axis not in rows] for stage in stages}
        self.operations = count_operations(kernel)
        self.memory: list[Stmt] = []
        # A kept buffer holds one row at a time: its indices count from the start of the row, not of the
        # array.
        self.relative = {axis: tirx.Var(f"{axis.name}_in", "int64") for axis in kernel.extents}
        # The width comes first: a vector must not be longer, and rows of kept buffers are allocated by it.
        self.capacity: Extent = self._choose_block(kernel) if self.across else kernel.count([lane])
        self.width = self.capacity if self.across else self.extents[lane]
        if self.across and version is not None and version.narrow:
            self.width = minimum(self.capacity, self.extents[lane])
        self.row_operations = self._count_row_operations(kernel)
        self.short = self._has_short_rows(stages)
        self.vector = self._choose_vector(kernel)
        self.kept: dict[Buffer, _RowBuffer] = {}
        for stage in stages:
            for write in stage.writes:
                if write in kernel.kept:
                    self.kept[write] = self._allocate_row(stage, write)
        self.stages = [self._redirect_loads(stage) for stage in stages]
        # Streams are found after loads are redirected: a view is as large as its buffer, a row's memory is
        # not.
        self.streams = frozenset(
            load.source
            for stage in self.stages
            for load in collect_loads(*stage.values)
            if self._is_stream(load.source)
        )

    def _choose_block(self, kernel: analysis.ReductionKernel) -> int:
        """Choose how many columns are a block: all that is read of them fits the second cache, twice.

        Where only the call knows how many columns there are, a block may have fewer.
        """
        stages = kernel.stages
        total = static_int(self.extents[self.lane])
        lanes = self.machine.lanes("float32")
        reductions = sum(stage.reduces for stage in stages)
        if len(stages) == 1 or (reductions == 1 and not self.inner_of[stages[-1]]):
            # Threads need two blocks at least.
            # Few columns are halved instead of filling one block: the loop over blocks is what
            # threads share.
            narrow = self._has_much_work() and total is not None and total < 2 * _BLOCK_COLUMNS
            width = _BLOCK_COLUMNS if total is not None else _DYNAMIC_BLOCK_COLUMNS // len(stages[0].writes)
            if narrow and total is not None:
                width = max(lanes, total // 2)
        else:
            depths = [static_int(kernel.count(self.inner_of[stage])) for stage in stages]
            static = [depth for depth in depths if depth is not None]
            deepest = max(static, default=1)
            if len(static) < len(depths):
                # A length that only the call knows counts as so long that blocks are
                # _DYNAMIC_CACHED_COLUMNS wide.
                deepest = max(deepest, _CACHED_ELEMENTS // _DYNAMIC_CACHED_COLUMNS)
            width = max(2 * lanes, min(_CACHED_COLUMNS, _CACHED_ELEMENTS // deepest))
        block = -(-width // lanes) * lanes
        return block if total is None else min(block, total)

    def _has_much_work(self) -> bool:
        """Return whether there is work for threads, whether or not they may be used."""
        operations = static_int(self.operations)
        if operations is None:
            return self.version is not None and self.version.threads
        return worth_threads(Work.ROW_OPERATIONS, operations)

    def _count_row_operations(self, kernel: analysis.ReductionKernel) -> Extent:
        """Count the operations of a row, or of a block of columns."""
        operations: Extent = 0
        for stage in kernel.stages:
            inner = kernel.count(self.inner_of[stage]) * (self.capacity if self.across else 1)
            operations = operations + inner * _operations_of_element(stage)
        return operations

    def _is_stream(self, buffer: Buffer) -> bool:
        """Return whether a buffer comes from beyond the second cache."""
        size = static_int(product(buffer.ty.shape))
        if size is None:
            return self._has_much_work()
        return size * item_bytes(dtype_of(buffer)) >= _STREAM_BYTES

    def width_at(self, env: Env) -> Extent:
        """Return the elements of the row at an index."""
        return self.width if isinstance(self.width, int) else analysis.substitute_axes(self.width, env)

    def _has_short_rows(self, stages: Sequence[analysis.ReductionStage]) -> bool:
        values = [value for stage in stages for value in stage.values]
        # Sums of a few elements are not worth partial results, which must be started and combined;
        # functions of them profit from vectors even in short rows.
        simple = all(
            analysis.count_nodes(value) <= _SIMPLE_NODES and not isinstance(value, tirx.Select)
            for value in values
        )
        return not self.across and isinstance(self.width, int) and self.width < SHORT_ROW and simple

    def _choose_vector(self, kernel: analysis.ReductionKernel) -> int:
        """Choose the elements of a vector: those of the widest dtype that is written fill a register."""
        stages = kernel.stages
        if self.short or not all(stage.in_order for stage in stages):
            return 1
        if self.version is not None and self.version.elements:
            return 1
        reduced = {write for stage in stages if stage.reduces for write in stage.writes}
        if any(dtype_of(buffer) == "bool" for buffer in reduced | kernel.kept):
            return 1  # TVM keeps vectors of truth values in another form than single ones
        # All stages of a pass share the lanes: those of the widest dtype fill one register each,
        # and narrower ones a part of one.
        bits = max(int(tvm.DataType(dtype_of(write)).bits) for stage in stages for write in stage.writes)
        lanes = max(1, self.machine.vector_bytes * 8 // max(bits, 8))
        return min(lanes, largest_power_of_two(self.width)) if isinstance(self.width, int) else lanes

    def allocate(self, shape: Sequence[Extent], dtype: str, name: str) -> Buffer:
        """Allocate a buffer of the task."""
        buffer = tirx.decl_buffer(list(shape), dtype, name)
        self.memory.append(tirx.AllocBuffer(buffer))
        return buffer

    def _allocate_row(self, stage: analysis.ReductionStage, write: Buffer) -> _RowBuffer:
        axes = [axis for axis in stage.indices if axis in self.extents and axis not in self.outer]
        if self.across:
            # Columns last, so that the vectors across them are contiguous in the row's memory as
            # well.
            axes = [axis for axis in axes if axis != self.lane] + [self.lane]
        shape = [self.capacity if axis == self.lane else self.extents[axis] for axis in axes]
        return _RowBuffer(self.allocate(shape or [1], dtype_of(write), write.name), tuple(axes))

    def _element_of_row(self, row: _RowBuffer) -> tuple[Buffer, list[Index]]:
        return row.buffer, [self.relative[axis] for axis in row.axes] or [as_expr(0)]

    def _redirect_loads(self, stage: analysis.ReductionStage) -> analysis.ReductionStage:
        """Return the stage with loads from the row's own memory."""
        sources = {load.source for load in collect_loads(*stage.values)} & set(self.kept) - set(stage.writes)

        def redirect(source: Buffer) -> Callable[[list[Index]], PrimExpr]:
            return lambda _indices: tirx.BufferLoad(*self._element_of_row(self.kept[source]))

        redirected = stage.substitute({}, {source: redirect(source) for source in sources})
        self.inner_of[redirected] = self.inner_of[stage]
        return redirected

    def location(self, buffer: Buffer) -> Buffer:
        """Return the memory that holds a buffer: a row's own, or the buffer itself."""
        return self.kept[buffer].buffer if buffer in self.kept else buffer

    def holds_one_per_column(self, buffer: Buffer) -> bool:
        """Return whether a row's own memory has one element of the buffer per column."""
        return buffer in self.kept and self.kept[buffer].axes == (self.lane,)

    def store(self, stage: analysis.ReductionStage, write: Buffer, value: PrimExpr, env: Env) -> Stmt:
        """Return the store of a stage's value at an index."""
        if write in self.kept:
            buffer, indices = self._element_of_row(self.kept[write])
        else:
            buffer, indices = write, list(stage.indices)
        return tirx.BufferStore(buffer, value, [analysis.substitute_axes(index, env) for index in indices])

    def names_at(self, axis: Var, index: Index, start: Index | None = None) -> Env:
        """Return the names of an index along an axis, which begins at ``start`` of the array."""
        return {axis: index if start is None else start + index, self.relative[axis]: index}

    def zeros(self, axes: Sequence[Var]) -> Env:
        """Return the names of the first index of each axis."""
        return {name: index for axis in axes for name, index in self.names_at(axis, as_expr(0)).items()}


def count_operations(kernel: analysis.ReductionKernel) -> Extent:
    """Count the operations of all elements."""
    total: Extent = 0
    for stage in kernel.stages:
        count = kernel.count(stage.axes) * _operations_of_element(stage)
        total = total + (count if stage.decided is None else count // _TRUTH_VALUES)
    return total


def _operations_of_element(stage: analysis.ReductionStage) -> int:
    """Count the operations of an element of a stage: one, and more where it has costly ones."""
    return 1 + _COSTLY_OPERATIONS * min(1, analysis.count_costly(stage.value))


def largest_power_of_two(number: int) -> int:
    """Return the largest power of two that is not above the number."""
    return 1 << (max(number, 1).bit_length() - 1)
