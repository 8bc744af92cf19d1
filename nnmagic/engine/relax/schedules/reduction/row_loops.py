"""Emit loops for stages that share rows: all stages of a row, or block of columns, while it is in the cache.

Along a row, a reduction keeps some vectors of partial results, which are combined at the row's end. Elements
that do not fill a vector are computed by one more vector that ends with the row: it computes some elements
again, which a reduction masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.reduction import argreduce_loops, partial_results
from nnmagic.engine.relax.schedules.reduction.analysis import (
    ReductionKernel,
    ReductionStage,
    count_nodes,
    substitute_axes,
    variables_of,
)
from nnmagic.engine.relax.schedules.reduction.column_loops import ColumnLoops
from nnmagic.engine.relax.schedules.reduction.combiners import decides
from nnmagic.engine.relax.schedules.reduction.row_plan import (
    Env,
    RowPlan,
    RowVersion,
    count_operations,
    largest_power_of_two,
)
from nnmagic.engine.relax.schedules.thread_choice import parallel_if
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    collect_loads,
    dtype_of,
    item_bytes,
    local_array,
    loop_over,
    maximum,
    prefetch,
    product,
    round_up_div,
    sequence,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var

#: How many vectors of partial results a reduction keeps: the latency of an addition times those a cycle. It
#: keeps half as many where its expressions have so many nodes that their values need the registers.
_PARTIAL_VECTORS = 4
_HEAVY_NODES = 80

#: The processor prefetches only within a page: data from beyond the second cache is prefetched by an
#: instruction so many bytes ahead. (At rows of 4 KB it saved 5 to 10%.)
_PREFETCH_BYTES = 1 << 12

#: How many operations on elements a task of the thread pool has at least.
_TASK_OPERATIONS = 1 << 15


def emit_rows(machine: CpuModel, kernel: ReductionKernel, rows: Sequence[Var], lane: Var) -> list[Stmt]:
    """Return the loops of stages that have the axes ``rows`` in common; ``lane`` is contiguous in memory.

    Where only the call knows the sizes, it chooses one of several versions of the loops.
    """
    if kernel.is_static:
        return RowLoops(RowPlan(machine, kernel, rows, lane)).statements()

    def emit(version: RowVersion) -> Stmt:
        return sequence(RowLoops(RowPlan(machine, kernel, rows, lane, version)).statements())

    plan = RowPlan(machine, kernel, rows, lane, RowVersion())
    threads = machine.threads_condition(Work.ROW_OPERATIONS, count_operations(kernel))
    fast = parallel_if(threads, lambda shared: emit(RowVersion(threads=shared)))
    length = kernel.chunks[lane].whole if lane in kernel.chunks else kernel.extents[lane]
    if isinstance(length, int) or (plan.vector == 1 and not plan.across):
        return [fast]
    slow = emit(RowVersion(elements=True, narrow=True))
    if plan.across:
        narrow = tirx.IfThenElse(length >= plan.vector, emit(RowVersion(narrow=True)), slow)
        return [tirx.IfThenElse(length >= plan.capacity, fast, narrow)]
    if not any(_is_search(plan, stages) for stages in _passes(plan)):
        return [tirx.IfThenElse(length >= plan.vector, fast, slow)]
    middle = tirx.IfThenElse(length >= plan.vector, emit(RowVersion(search=False)), slow)
    return [tirx.IfThenElse(length >= argreduce_loops.VECTORS * plan.vector, fast, middle)]


class RowLoops:
    """The loops of stages that have the axes ``rows`` in common; ``lane`` is contiguous in memory.

    The kernel's kept buffers, which only its stages read, exist for one row at a time.
    """

    def __init__(self, plan: RowPlan) -> None:
        self._machine, self._plan = plan.machine, plan
        self._prefetched: set[Buffer] = set()

    def statements(self) -> list[Stmt]:
        """Build the loops over rows: tasks for threads where these pay."""
        plan = self._plan
        rows, blocks = _count_rows(plan)
        total = rows * blocks
        if (isinstance(total, int) and total <= 1) or not self._uses_threads():
            return self._serial(blocks)
        group = self._rows_of_task(total)
        # A constant number of rounds for all tasks lets LLVM unroll the loop over a task's rows.
        whole = isinstance(total, int) and isinstance(group, int) and total % group == 0

        def task(number: PrimExpr) -> list[Stmt]:
            rest = tirx.min(as_expr(group), total - number * group)
            rows = loop_over(group if whole else rest, lambda row: compute_row(number * group + row))
            return [*plan.memory, *rows]

        def compute_row(number: PrimExpr) -> list[Stmt]:
            stores, env, block = self._unravel(number, blocks)
            return [*stores, *self._row(env, block)]

        return loop_over(round_up_div(total, group), task, tirx.ForKind.PARALLEL)

    def _uses_threads(self) -> bool:
        plan = self._plan
        if isinstance(plan.operations, int):
            return self._machine.uses_threads(Work.ROW_OPERATIONS, plan.operations)
        return plan.version is not None and plan.version.threads

    def _rows_of_task(self, total: Extent) -> Extent:
        """Return how many rows a task of the thread pool computes."""
        operations = self._plan.operations
        if isinstance(total, int) and isinstance(operations, int):
            # At most half of the rows are one task, or the other threads would have nothing to do.
            return max(1, min(-(-total // 2), _TASK_OPERATIONS * total // operations))
        operations = self._plan.row_operations
        if isinstance(operations, int):
            return max(1, _TASK_OPERATIONS // operations)
        return maximum(1, tirx.floordiv(as_expr(_TASK_OPERATIONS), maximum(1, operations)))

    def _unravel(self, number: PrimExpr, blocks: Extent) -> tuple[list[Stmt], Env, PrimExpr]:
        """Return the indices of a row along the outer axes and its block from its number.

        Indices that divide by a dynamic size are stored, by the statements returned: TVM would copy the
        divisions into the index of each load.
        """
        stores: list[Stmt] = []

        def divide(operation: Callable[[PrimExpr, PrimExpr], PrimExpr], size: Extent) -> PrimExpr:
            result = operation(number, as_expr(size))
            if isinstance(size, int):
                return result
            array = local_array(1, "int64", "index")
            stores.extend((tirx.AllocBuffer(array), tirx.BufferStore(array, result, [as_expr(0)])))
            return tirx.BufferLoad(array, [as_expr(0)])

        sizes = [*(self._plan.extents[axis] for axis in self._plan.outer), blocks]
        indices: list[PrimExpr] = []
        for position, size in reversed(list(enumerate(sizes))):
            if isinstance(size, int) and size == 1:
                indices.append(as_expr(0))
                continue
            indices.append(divide(tirx.floormod, size) if position else number)
            number = divide(tirx.floordiv, size) if position else number
        block, *outer = indices
        return stores, dict(zip(self._plan.outer, reversed(outer), strict=True)), block

    def _serial(self, blocks: Extent) -> list[Stmt]:
        def loop_over_axes(env: Env, axes: Sequence[Var]) -> list[Stmt]:
            if not axes:
                return loop_over(blocks, lambda block: self._row(env, block))
            extent = self._plan.extents[axes[0]]
            return loop_over(extent, lambda i: loop_over_axes({**env, axes[0]: i}, axes[1:]))

        rows = loop_over_axes({}, self._plan.outer)
        return [*self._plan.memory, *rows]

    def _row(self, env: Env, block: PrimExpr) -> list[Stmt]:
        """Compute all stages of one row."""
        plan = self._plan
        self._prefetched = set()
        env = {**env, **{plan.relative[axis]: index for axis, index in env.items()}}
        start: Index = as_expr(0)
        if plan.across and _is_cut(plan):
            # The last block of columns is moved back to end with the row, as vectors are.
            start = tirx.min(block * plan.width, as_expr(plan.extents[plan.lane] - plan.width))
        statements = [statement for stages in _passes(plan) for statement in self._pass(stages, env, start)]
        (first, *_) = plan.stages
        return statements if first.decided is None else self._unless_decided(first, statements, env, start)

    def _unless_decided(
        self, stage: ReductionStage, statements: Sequence[Stmt], env: Env, start: Index
    ) -> list[Stmt]:
        """Compute a part of a reduction of truth values, unless another part has decided the result."""
        assert stage.decided is not None
        indices = [substitute_axes(index, env) for index in stage.indices]
        decides_all = decides(stage, tirx.BufferLoad(stage.buffer, indices))
        assert decides_all is not None
        zero, one = as_expr(0), tirx.const(1, "uint8")
        # Threads race for the flag, which is harmless: all store 1, and a thread that still reads 0
        # only does work that no result depends on.
        decided = tirx.IfThenElse(decides_all, tirx.BufferStore(stage.decided, one, [zero]), None)
        # A part that is skipped still stores its partial result, which the last stage reads.
        skipped = sequence(self._store_initial_values(stage, env, start))
        is_open = tirx.EQ(tirx.BufferLoad(stage.decided, [zero]), tirx.const(0, "uint8"))
        return [tirx.IfThenElse(is_open, sequence([*statements, decided]), skipped)]

    def _pass(self, stages: Sequence[ReductionStage], env: Env, start: Index) -> list[Stmt]:
        """Compute stages together: a reduction to an index of what may be empty, only if it is not."""
        plan = self._plan
        statements = self._compute(stages, env, start)
        extents = {
            axis: plan.extents[axis]
            for stage in stages
            if stage.tie_rule
            for axis in stage.reduced
            if not isinstance(plan.extents[axis], int)
        }
        # An index of the largest element exists only if there is one: the partial results start
        # with the first elements of the row, which must not be read from an empty one.
        if not extents:
            return statements
        empty = [
            statement
            for stage in stages
            if stage.reduces
            for statement in self._store_initial_values(stage, env, start)
        ]
        conditions = [substitute_axes(extent, env) > 0 for extent in extents.values()]
        return [tirx.IfThenElse(tirx.all(*conditions), sequence(statements), sequence(empty))]

    def _store_initial_values(self, stage: ReductionStage, env: Env, start: Index) -> list[Stmt]:
        """Store the results of a reduction of no elements."""
        plan = self._plan
        values = list(zip(stage.writes, stage.inits or (), strict=True))
        if not plan.across:
            return [plan.store(stage, write, value, env) for write, value in values]

        def store_column(column: PrimExpr) -> list[Stmt]:
            here = {**env, **plan.names_at(plan.lane, column, start)}
            return [plan.store(stage, write, value, here) for write, value in values]

        return loop_over(plan.width, store_column)

    def _compute(self, stages: Sequence[ReductionStage], env: Env, start: Index) -> list[Stmt]:
        plan = self._plan
        inner = self._in_memory_order(stages)
        if plan.across:
            return ColumnLoops(plan, stages, inner, start).statements(env)
        if plan.lane not in inner:
            return self._along(stages, inner, env, vectorize=False)
        outer = [axis for axis in inner if axis != plan.lane]
        if not outer and _is_search(plan, stages):
            return self._search(stages[0], env)
        return self._along(stages, outer, env, vectorize=True)

    def _in_memory_order(self, stages: Sequence[ReductionStage]) -> list[Var]:
        """Return the axes inside of the row in the order in which memory has them."""
        inner = self._plan.inner_of[stages[0]]
        # The access with most of these axes decides: it is the one that moves most memory.
        accesses = [variables_of(*load.indices) for stage in stages for load in collect_loads(*stage.values)]
        accesses += [variables_of(*stage.indices) for stage in stages]
        widest = max(accesses, key=lambda axes: len(set(axes) & set(inner)))
        order = {axis: k for k, axis in enumerate(widest)}
        return sorted(inner, key=lambda axis: order.get(axis, -1))

    def _along(
        self, stages: Sequence[ReductionStage], outer: Sequence[Var], env: Env, *, vectorize: bool
    ) -> list[Stmt]:
        """Compute vectors along the row: partial results of reductions, combined at the end."""
        plan = self._plan
        width, vector = (plan.width_at(env), plan.vector) if vectorize else (1, 1)
        copies = self._count_partial_vectors(stages, width, vector)
        vectors = partial_results.RowVectors(plan, width, vector, copies)
        count = copies * vector
        partial = {
            stage: partial_results.allocate_partial(plan, stage, count) for stage in stages if stage.reduces
        }
        statements: list[Stmt] = []
        first = {**env, **plan.zeros(outer)}
        for stage, buffers in partial.items():
            statements += partial_results.start_partial(plan, stage, buffers, count, first)

        def compute_row(here: Env) -> list[Stmt]:
            def compute(index: Index, position: Index, is_new: PrimExpr | None) -> list[Stmt]:
                names = {**here, **plan.names_at(plan.lane, index)} if vectorize else here
                return [
                    statement
                    for stage in stages
                    for statement in (
                        partial_results.update_partial(stage, partial[stage], position, is_new, names)
                        if stage.reduces
                        else partial_results.store_element(plan, stage, names)
                    )
                ]

            return vectors.statements(compute, self._prefetch(stages, here) if vectorize else None)

        def loop_over_axes(axes: Sequence[Var], here: Env) -> list[Stmt]:
            if not axes:
                return compute_row(here)
            axis = axes[0]
            return loop_over(
                plan.extents[axis], lambda i: loop_over_axes(axes[1:], {**here, **plan.names_at(axis, i)})
            )

        statements += loop_over_axes(outer, env)
        for stage, buffers in partial.items():
            statements += partial_results.finish_partial(plan, stage, buffers, count, env)
        return statements

    def _count_partial_vectors(self, stages: Sequence[ReductionStage], width: Extent, vector: int) -> int:
        static = isinstance(width, int)
        # A reduction to an index starts with as many elements as there are partial results.
        if self._plan.short or (not static and (vector == 1 or any(stage.tie_rule for stage in stages))):
            return 1
        heavy = sum(count_nodes(value) for stage in stages for value in stage.values) > _HEAVY_NODES
        wanted = _PARTIAL_VECTORS // 2 if heavy else _PARTIAL_VECTORS
        return min(wanted, largest_power_of_two(width // vector)) if static else wanted

    def _search(self, stage: ReductionStage, env: Env) -> list[Stmt]:
        """Find the index and the value of the best element."""
        plan = self._plan

        def element(index: Index) -> tuple[PrimExpr, PrimExpr]:
            here = {**env, **plan.names_at(plan.lane, index)}
            number, value = (substitute_axes(value.false_value, here) for value in stage.values)
            return number, value

        assert stage.tie_rule is not None
        row = argreduce_loops.ArgReduce(
            stage.tie_rule,
            plan.width_at(env),
            plan.vector,
            dtype_of(stage.writes[1]),
            element,
            self._prefetch([stage], env),
            lambda count, dtype, name: plan.allocate([count], dtype, name),
        )
        statements, number, value = row.statements()
        results = zip(stage.writes, (number, value), strict=True)
        return [*statements, *(plan.store(stage, write, result, env) for write, result in results)]

    def _prefetch(self, stages: Sequence[ReductionStage], env: Env) -> Callable[[Index], list[Stmt]]:
        """Return a function that prefetches, beside a vector, later data that no stage has read yet."""
        plan = self._plan
        loads = {
            load.source: load
            for stage in stages
            for load in collect_loads(*stage.values)
            if load.source in plan.streams - self._prefetched
            and load.indices[-1].same_as(plan.lane)
            and not collect_loads(*load.indices)
        }
        self._prefetched |= set(loads)

        def prefetch_all(start: Index) -> list[Stmt]:
            statements = []
            for source, load in loads.items():
                distance = _PREFETCH_BYTES // item_bytes(dtype_of(source))
                far = substitute_axes(load, {**env, plan.lane: start + distance})
                statements.append(prefetch(far))
            return statements

        return prefetch_all


def _passes(plan: RowPlan) -> Iterator[list[ReductionStage]]:
    """Group the stages that one loop over the row can compute together.

    A reduction to an index starts with the row's first elements, which must be stored before its loop.
    """
    group: list[ReductionStage] = []
    reduced: set[Buffer] = set()
    written: set[Buffer] = set()
    for stage in plan.stages:
        reads = {load.source for load in collect_loads(*stage.values)}
        # A stage that reads what a reduction of the group writes needs the whole row's result: it
        # begins the next pass, as `exp(x - max(x))` does in a softmax.
        if group and (
            reads & (written if stage.tie_rule else reduced)
            or set(plan.inner_of[stage]) != set(plan.inner_of[group[0]])
        ):
            yield group
            group, reduced, written = [], set(), set()
        group.append(stage)
        locations = set(map(plan.location, stage.writes))
        written |= locations
        if stage.reduces:
            reduced |= locations
    if group:
        yield group


def _count_rows(plan: RowPlan) -> tuple[Extent, Extent]:
    """Return how many rows there are, and how many blocks of columns each has.

    Fewer columns than the capacity are one block.
    """
    blocks = round_up_div(plan.extents[plan.lane], plan.capacity) if plan.across else 1
    return product(plan.extents[axis] for axis in plan.outer), blocks


def _is_cut(plan: RowPlan) -> bool:
    """Return whether there may be several blocks of columns."""
    columns = plan.extents[plan.lane]
    return not isinstance(columns, int) or not isinstance(plan.width, int) or plan.width < columns


def _is_search(plan: RowPlan, stages: Sequence[ReductionStage]) -> bool:
    """Return whether stages are the search for the index of one element in a row of several vectors."""
    (stage, *more) = stages
    if more or stage.tie_rule is None or not stage.in_order or plan.across or plan.vector == 1:
        return False
    if plan.inner_of[stage] != [plan.lane] or dtype_of(stage.buffer) not in ("int32", "int64"):
        return False
    if isinstance(plan.width, int):
        return plan.width >= argreduce_loops.VECTORS * plan.vector
    return plan.version is not None and plan.version.search
