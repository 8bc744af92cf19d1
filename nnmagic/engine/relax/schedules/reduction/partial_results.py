"""Emit the loops over vectors of a row, and the statements on the partial results of reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from nnmagic.engine.relax.schedules.reduction import argreduce
from nnmagic.engine.relax.schedules.reduction.analysis import ReductionStage, always, substitute_axes
from nnmagic.engine.relax.schedules.reduction.combiners import combine
from nnmagic.engine.relax.schedules.reduction.row_plan import SHORT_ROW, Env, RowPlan
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, loop_over, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt
from nnmagic.engine.relax.tir.vectorizable_isnan import make_isnan_vectorizable

_Kind = tirx.ForKind

#: Statements of an element, from its index in the row, the index of its partial result, and the condition on
#: which it is new: the last vector of a row computes some elements again.
ElementBody = Callable[[Index, Index, PrimExpr | None], list[Stmt]]


class RowVectors:
    """Loops over a row by vectors of ``vector`` elements, ``copies`` of them at a time."""

    def __init__(self, plan: RowPlan, width: Extent, vector: int, copies: int) -> None:
        self._plan = plan
        self._width = width
        self._vector = vector
        self._copies = copies

    def statements(
        self, body: ElementBody, prefetch: Callable[[Index], list[Stmt]] | None = None
    ) -> list[Stmt]:
        """Build the loops; ``prefetch`` precedes each vector but for those that the loop leaves over."""
        width, vector = self._width, self._vector
        if vector == 1 and self._copies == 1:
            kind = _Kind.UNROLLED if self._plan.short and width < SHORT_ROW else _Kind.SERIAL
            return loop_over(width, lambda index: body(index, as_expr(0), None), kind)
        if not isinstance(width, int):
            return self._dynamic_statements(width, body, prefetch)

        def vectors(start: Index, count: int) -> list[Stmt]:
            def one_vector(u: PrimExpr) -> list[Stmt]:
                first = start + u * vector
                lanes = loop_over(
                    vector, lambda lane: body(first + lane, u * vector + lane, None), _Kind.VECTORIZED
                )
                return [*(prefetch(first) if prefetch else ()), *lanes]

            return loop_over(count, one_vector, _Kind.UNROLLED)

        step = self._copies * vector
        statements = loop_over(width // step, lambda group: vectors(group * step, self._copies))
        remainder = width % step
        if remainder >= vector:
            statements += vectors(as_expr(width - remainder), remainder // vector)
        if remainder % vector:
            computed = vector - remainder % vector
            # The last vector ends with the row and overlaps the one before; its first lanes keep
            # what they hold, as their elements are in the sums already.
            first = as_expr(width - vector)
            statements += loop_over(
                vector, lambda lane: body(first + lane, lane, lane >= computed), _Kind.VECTORIZED
            )
        return statements

    def _dynamic_statements(
        self, width: PrimExpr, body: ElementBody, prefetch: Callable[[Index], list[Stmt]] | None
    ) -> list[Stmt]:
        """Build the loops over a row that only the call knows to be a vector long, or longer."""
        vector, step = self._vector, self._copies * self._vector

        def compute_vector(start: Index, position: Index, is_new: PrimExpr | None = None) -> list[Stmt]:
            def compute(lane: PrimExpr) -> list[Stmt]:
                new = None if is_new is None else lane >= is_new
                return body(start + lane, position + lane, new)

            return loop_over(vector, compute, _Kind.VECTORIZED)

        def compute_group(start: PrimExpr) -> list[Stmt]:
            statements: list[Stmt] = []
            for number in range(self._copies):
                first = start + number * vector
                statements += [
                    *(prefetch(first) if prefetch else ()),
                    *compute_vector(first, as_expr(number * vector)),
                ]
            return statements

        statements = loop_over(width // step, lambda group: compute_group(group * step))
        zero = as_expr(0)
        if self._copies > 1:
            first = width - width % step
            count = (width % step) // vector
            statements += loop_over(count, lambda number: compute_vector(first + number * vector, zero))
        if vector > 1:
            rest = width % vector
            # Also here the last vector is moved back, so the row needs a whole vector:
            # `RowVersion.elements` is the version for shorter ones.
            last = compute_vector(width - vector, zero, vector - rest)
            statements.append(tirx.IfThenElse(rest > 0, sequence(last), None))
        return statements


def allocate_partial(plan: RowPlan, stage: ReductionStage, count: int) -> list[Buffer]:
    """Allocate ``count`` partial results of a reduction."""
    return [plan.allocate([count], dtype_of(write), "partial") for write in stage.writes]


def initial_values(stage: ReductionStage, env: Env) -> Sequence[PrimExpr]:
    """Return partial results of no elements; for a reduction to an index, those of the element at ``env``."""
    assert stage.inits is not None
    if stage.tie_rule:
        # There is no neutral index and no neutral value for NaN: argmax starts with the row's first
        # elements.
        return [substitute_axes(value.false_value, env) for value in stage.values]
    return stage.inits


def store_all(buffers: Sequence[Buffer], values: Sequence[PrimExpr], index: Index) -> list[Stmt]:
    """Store a value in each buffer."""
    return [tirx.BufferStore(buffer, value, [index]) for buffer, value in zip(buffers, values, strict=True)]


def start_partial(
    plan: RowPlan, stage: ReductionStage, buffers: Sequence[Buffer], count: int, env: Env
) -> list[Stmt]:
    """Store the initial values of ``count`` partial results of a row."""

    def start(lane: PrimExpr) -> list[Stmt]:
        values = initial_values(stage, {**env, **plan.names_at(plan.lane, lane)})
        return store_all(buffers, values, lane)

    return _loop_over_partial(plan, count, start)


def _loop_over_partial(plan: RowPlan, count: int, body: Callable[[Index], list[Stmt]]) -> list[Stmt]:
    vector = min(count, plan.vector)
    return loop_over(
        count // vector,
        lambda u: loop_over(vector, lambda lane: body(u * vector + lane), _Kind.VECTORIZED),
        _Kind.UNROLLED,
    )


def update_partial(
    stage: ReductionStage, buffers: Sequence[Buffer], index: Index, is_new: PrimExpr | None, env: Env
) -> list[Stmt]:
    """Add one element to the partial result at ``index``, if it is new."""
    held = [tirx.BufferLoad(buffer, [index]) for buffer in buffers]
    if not stage.tie_rule:
        (old,) = held
        value = substitute_axes(stage.value, env, {stage.buffer: always(old)})
        value = make_isnan_vectorizable(value)
        return store_all(buffers, [value if is_new is None else tirx.Select(is_new, value, old)], index)
    new = [substitute_axes(value.false_value, env) for value in stage.values]
    if not stage.in_order:
        return _update_out_of_order(stage.tie_rule, buffers, index, held, new)
    # In order, each lane sees growing indices, so that a tie needs no comparison of indices.
    keep = argreduce.TIE_RULES[stage.tie_rule][0](held[1], new[1])
    values = [tirx.Select(keep, old, value) for old, value in zip(held, new, strict=True)]
    if is_new is not None:
        values = [tirx.Select(is_new, value, old) for old, value in zip(held, values, strict=True)]
    return store_all(buffers, [make_isnan_vectorizable(value) for value in values], index)


def _update_out_of_order(
    tie_rule: str, buffers: Sequence[Buffer], index: Index, held: Sequence[PrimExpr], new: Sequence[PrimExpr]
) -> list[Stmt]:
    keep = tirx.Var("keep", "bool")
    values = [tirx.Select(keep, old, value) for old, value in zip(held, new, strict=True)]
    # The condition is bound ahead of the stores: the second of them would see what the first has
    # written.
    return [tirx.Bind(keep, argreduce.keeps_first(tie_rule, *held, *new)), *store_all(buffers, values, index)]


def finish_partial(
    plan: RowPlan, stage: ReductionStage, buffers: Sequence[Buffer], count: int, env: Env
) -> list[Stmt]:
    """Combine ``count`` partial results of a row by halves, and store the result."""
    statements: list[Stmt] = []
    # By halves: log2(count) vector operations, and the rounding errors of pairwise summation
    # (Higham, 1993).
    while count > 1:
        count //= 2
        halves = [plan.allocate([count], dtype_of(buffer), "half") for buffer in buffers]

        def combine_halves(
            lane: PrimExpr,
            count: int = count,
            buffers: Sequence[Buffer] = buffers,
            halves: Sequence[Buffer] = halves,
        ) -> list[Stmt]:
            lhs = [tirx.BufferLoad(buffer, [lane]) for buffer in buffers]
            rhs = [tirx.BufferLoad(buffer, [lane + count]) for buffer in buffers]
            values = combine(stage, lhs, rhs)
            return store_all(halves, [make_isnan_vectorizable(value) for value in values], lane)

        statements += _loop_over_partial(plan, count, combine_halves)
        buffers = halves
    for write, buffer in zip(stage.writes, buffers, strict=True):
        statements.append(plan.store(stage, write, tirx.BufferLoad(buffer, [as_expr(0)]), env))
    return statements


def store_element(plan: RowPlan, stage: ReductionStage, env: Env) -> list[Stmt]:
    """Store an element of a stage that does not reduce."""
    value = make_isnan_vectorizable(substitute_axes(stage.value, env))
    return [plan.store(stage, stage.buffer, value, env)]
