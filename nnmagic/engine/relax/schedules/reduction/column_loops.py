"""Emit loops across the columns of a block: a reduction holds one partial result per column.

A reduction adds several rows of the array at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from nnmagic.engine.relax.schedules.reduction import partial_results
from nnmagic.engine.relax.schedules.reduction.analysis import ReductionStage, count_nodes
from nnmagic.engine.relax.schedules.reduction.row_plan import Env, RowPlan
from nnmagic.engine.relax.tir.builders import as_expr, loop_over
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Stmt, Var

#: How many rows of an array are added at a time: fewer where more nodes of expressions than this would be
#: unrolled.
_ROWS_TOGETHER = 8
_ROWS_OF_NARROW = 4
_MOST_UNROLLED_NODES = 160

#: Statements of one column, from its index in the block, the condition on which it is new, and the names
#: there.
_ColumnBody = Callable[[Index, PrimExpr | None, Env], list[Stmt]]


class ColumnLoops:
    """Loops for stages that are computed together, over ``inner`` axes and the columns from ``start`` on."""

    def __init__(
        self, plan: RowPlan, stages: Sequence[ReductionStage], inner: Sequence[Var], start: Index
    ) -> None:
        self._plan = plan
        self._stages = stages
        self._inner = inner
        self._start = start
        self._vectors = partial_results.RowVectors(plan, plan.width, plan.vector, 1)
        self._partial: dict[ReductionStage, Sequence[Buffer]] = {}

    def statements(self, env: Env) -> list[Stmt]:
        """Build the loops."""
        statements: list[Stmt] = []
        for stage in self._stages:
            if stage.reduces:
                self._partial[stage] = self._allocate(stage)
                statements += self._start_columns(stage, {**env, **self._plan.zeros(self._inner)})
        statements += self._loop_over_rows(self._inner, env)
        for stage in self._partial:
            if not self._is_in_place(stage):
                statements += self._finish_columns(stage, env)
        return statements

    def _allocate(self, stage: ReductionStage) -> Sequence[Buffer]:
        if self._is_in_place(stage):
            return [self._plan.location(write) for write in stage.writes]
        return partial_results.allocate_partial(self._plan, stage, self._plan.capacity)

    def _is_in_place(self, stage: ReductionStage) -> bool:
        """Return whether the row's own memory holds the partial results."""
        return all(map(self._plan.holds_one_per_column, stage.writes))

    def _columns(self, body: _ColumnBody, env: Env) -> list[Stmt]:
        """Build the loop over the columns of a block."""

        def compute(index: Index, _partial: Index, is_new: PrimExpr | None) -> list[Stmt]:
            return body(index, is_new, {**env, **self._plan.names_at(self._plan.lane, index, self._start)})

        return self._vectors.statements(compute)

    def _start_columns(self, stage: ReductionStage, env: Env) -> list[Stmt]:
        def start(index: Index, _is_new: PrimExpr | None, here: Env) -> list[Stmt]:
            return partial_results.store_all(
                self._partial[stage], partial_results.initial_values(stage, here), index
            )

        return self._columns(start, env)

    def _finish_columns(self, stage: ReductionStage, env: Env) -> list[Stmt]:
        def finish(index: Index, _is_new: PrimExpr | None, here: Env) -> list[Stmt]:
            return [
                self._plan.store(stage, write, tirx.BufferLoad(buffer, [index]), here)
                for write, buffer in zip(stage.writes, self._partial[stage], strict=True)
            ]

        return self._columns(finish, env)

    def _element(self, index: Index, is_new: PrimExpr | None, env: Env) -> list[Stmt]:
        """Compute one element of every stage."""
        statements: list[Stmt] = []
        for stage in self._stages:
            if stage.reduces:
                statements += partial_results.update_partial(stage, self._partial[stage], index, is_new, env)
            else:
                statements += partial_results.store_element(self._plan, stage, env)
        return statements

    def _loop_over_rows(self, axes: Sequence[Var], env: Env) -> list[Stmt]:
        """Build the loops over the axes inside of a block; the innermost takes several rows at a time."""
        if not axes:
            return self._columns(self._element, env)
        axis, extent = axes[0], self._plan.extents[axes[0]]
        if len(axes) > 1:
            return loop_over(
                extent, lambda i: self._loop_over_rows(axes[1:], {**env, **self._plan.names_at(axis, i)})
            )
        nodes = sum(count_nodes(value) for stage in self._stages for value in stage.values)
        count = max(1, min(self._most_rows_together(), _MOST_UNROLLED_NODES // nodes))
        if isinstance(extent, int):
            count = min(extent, count)
        statements = loop_over(extent // count, lambda i: self._rows_together(axis, i * count, count, env))
        remainder = extent % count
        if not isinstance(extent, int):
            if count > 1:
                first = extent - remainder
                statements += loop_over(remainder, lambda i: self._rows_together(axis, first + i, 1, env))
        elif remainder:
            statements += self._rows_together(axis, as_expr(extent - remainder), remainder, env)
        return statements

    def _most_rows_together(self) -> int:
        """Return how many rows may be added at a time: fewer in slow versions, which need little code."""
        version = self._plan.version
        if version is None or not version.narrow:
            return _ROWS_TOGETHER
        return 1 if version.elements else _ROWS_OF_NARROW

    def _rows_together(self, axis: Var, first: Index, count: int, env: Env) -> list[Stmt]:
        """Compute ``count`` rows from ``first`` on, column by column."""

        def compute(index: Index, is_new: PrimExpr | None, here: Env) -> list[Stmt]:
            rows = [self._plan.names_at(axis, first + k) for k in range(count)]
            return [statement for row in rows for statement in self._element(index, is_new, {**here, **row})]

        return self._columns(compute, env)
