"""Factor small real matrices by loops of our own: a call of LAPACK takes longer than the work itself.

Matrices are in the arrays that LAPACK would get, column by column. (Golub and Van Loan, Matrix Computations,
sections 3.4 and 4.2.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvm import tirx

from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, is_for_gpu, local_array, loop, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The most rows of a small matrix.
_MOST_ROWS = 8


def is_small(size: Extent) -> bool:
    """Return whether a matrix of so many rows is factored by loops, which are of one thread."""
    return isinstance(size, int) and 0 < size <= _MOST_ROWS and not is_for_gpu()


# Pivots are LAPACK's: the first of the largest elements, as the ``idamax`` of BLAS finds it, and rows are
# counted from 1, as whatever reads them expects.
def factor(
    a: Buffer, pivots: Buffer, size: int, status: Buffer, sides: Buffer | None = None, columns: Extent = 0
) -> Stmt:
    """Factor a matrix into triangles with row exchanges, as ``getrf`` does; note a pivot of 0 in ``status``.

    The rows of ``sides`` change with those of the matrix: their part of the lower triangle is solved.
    """
    row = local_array(1, "int64", "pivot_row")
    arrays: list[tuple[Buffer, Extent]] = [(a, size), *([] if sides is None else [(sides, columns)])]

    def step(k: PrimExpr) -> Stmt:
        def choose(below: PrimExpr) -> Stmt:
            place = k + 1 + below
            is_larger = tirx.abs(_at(a, size, place, k)) > tirx.abs(_at(a, size, row[0], k))
            return tirx.BufferStore(row, tirx.Select(is_larger, place, row[0]), [as_expr(0)])

        def exchange(array: Buffer, column: PrimExpr) -> Stmt:
            saved = tirx.Var("kept", dtype_of(array))
            return sequence(
                [
                    tirx.Bind(saved, _at(array, size, k, column)),
                    _set(array, size, k, column, _at(array, size, row[0], column)),
                    _set(array, size, row[0], column, saved),
                ]
            )

        def eliminate(below: PrimExpr) -> Stmt:
            place, factor_ = k + 1 + below, _at(a, size, k + 1 + below, k)

            def subtract(array: Buffer, column: PrimExpr) -> Stmt:
                value = _at(array, size, place, column) - factor_ * _at(array, size, k, column)
                return _set(array, size, place, column, value)

            return sequence(
                [
                    _set(a, size, place, k, factor_ / _at(a, size, k, k)),
                    loop("column", as_expr(size - 1) - k, lambda right: subtract(a, k + 1 + right)),
                    *(loop("column", count, partial(subtract, array)) for array, count in arrays[1:]),
                ]
            )

        failed = tirx.Select(
            _at(a, size, row[0], k) == _number(0), tirx.const(1, "int32"), tirx.const(0, "int32")
        )
        return sequence(
            [
                tirx.BufferStore(row, k, [as_expr(0)]),
                loop("below", as_expr(size - 1) - k, choose),
                tirx.BufferStore(pivots, (row[0] + 1).astype("int32"), [k]),
                tirx.BufferStore(status, tirx.bitwise_or(status[0], failed), [as_expr(0)]),
                tirx.IfThenElse(
                    row[0] != k,
                    sequence([loop("column", n, partial(exchange, array)) for array, n in arrays]),
                    None,
                ),
                loop("below", as_expr(size - 1) - k, eliminate),
            ]
        )

    return sequence([tirx.AllocBuffer(row), _loop_over_rows(size, step)])


def solve_upper(a: Buffer, size: int, sides: Buffer, columns: Extent) -> Stmt:
    """Solve for the upper triangle of a factored matrix."""

    def solve_column(column: PrimExpr) -> Stmt:
        def step(number: PrimExpr) -> Stmt:
            k = as_expr(size - 1) - number

            def subtract(above: PrimExpr) -> Stmt:
                value = _at(sides, size, above, column) - _at(a, size, above, k) * _at(sides, size, k, column)
                return _set(sides, size, above, column, value)

            divided = _at(sides, size, k, column) / _at(a, size, k, k)
            return sequence([_set(sides, size, k, column, divided), loop("above", k, subtract)])

        return _loop_over_rows(size, step)

    return loop("column", columns, solve_column)


def factor_symmetric(a: Buffer, size: int, status: Buffer, *, upper: bool) -> Stmt:
    """Factor a symmetric matrix, of which one triangle is read, row by row, as ``potrf`` does."""

    def place(row: Index, column: Index) -> PrimExpr:
        first, second = (column, row) if upper else (row, column)
        return as_expr(first) * size + second

    def compute(row: PrimExpr, column: PrimExpr) -> list[Stmt]:
        def subtract(k: PrimExpr) -> Stmt:
            value = a[place(row, column)] - a[place(row, k)] * a[place(column, k)]
            return tirx.BufferStore(a, value, [place(row, column)])

        return [loop("k", column, subtract)]

    def step(row: PrimExpr) -> Stmt:
        def left(column: PrimExpr) -> Stmt:
            divided = a[place(row, column)] / a[place(column, column)]
            return sequence([*compute(row, column), tirx.BufferStore(a, divided, [place(row, column)])])

        diagonal = a[place(row, row)]
        # Written as "not greater than 0", so that NaN fails, too.
        failed = tirx.Select(diagonal > _number(0), tirx.const(0, "int32"), tirx.const(1, "int32"))
        return sequence(
            [
                loop("column", row, left),
                *compute(row, row),
                tirx.BufferStore(status, tirx.bitwise_or(status[0], failed), [as_expr(0)]),
                tirx.BufferStore(a, tirx.sqrt(diagonal), [place(row, row)]),
            ]
        )

    return _loop_over_rows(size, step)


def _loop_over_rows(size: int, step: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Unroll a loop over the rows: the loops inside have lengths that depend on it."""
    return sequence([step(as_expr(number)) for number in range(size)])


def _at(array: Buffer, size: int, row: Index, column: Index) -> PrimExpr:
    return array[as_expr(column) * size + row]


def _set(array: Buffer, size: int, row: Index, column: Index, value: PrimExpr) -> Stmt:
    return tirx.BufferStore(array, value, [as_expr(column) * size + row])


def _number(value: float) -> PrimExpr:
    return tirx.const(value, "float64")
