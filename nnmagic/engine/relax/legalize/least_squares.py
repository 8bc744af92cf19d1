"""Legalize least squares: by QR where the rank is certainly full, otherwise by LAPACK's gelsd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from tvm import tirx

from nnmagic.engine.relax.legalize.lapack_kernels import (
    FLOAT,
    INT,
    Item,
    Kernel,
    address,
    compute_batch,
    from_columns,
    if_finite,
    lapack,
    load_value,
    note,
    number_of,
    store_value,
    to_columns,
)
from nnmagic.engine.relax.legalize.registry import OpCall, Value, tensor_dtype
from nnmagic.engine.relax.tir.builders import as_expr, loop, maximum, minimum, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt

#: A workspace for so many columns lets LAPACK's routines use products of matrices.
BLOCK = 64

#: What LAPACK's documentation bounds the workspace of ``gelsd`` by: the size of its smallest problems, and
#: the depth of the tree of problems, for sizes of 32 bits.
_SMALLEST, _DEPTH = 25, 30

#: Singular values below the largest one times this, and times the larger size, are 0 by default.
_EPSILON = float(np.finfo(np.float64).eps)

#: How far the condition of a matrix must be from where its rank is in doubt, for a factorization without
#: singular values: the estimate is that of another norm, and may be some times too small.
_MARGIN = 1000.0


def lstsq(call: OpCall) -> Value:
    """Lower to QR where the matrix certainly has full rank, otherwise to a singular value decomposition."""
    dtype, rcond = tensor_dtype(call.args[0]), call.attrs["rcond"]

    def kernel(rows: Extent, columns: Extent, _rows: Extent, sides: Extent) -> Kernel:
        least, most = minimum(rows, columns), maximum(rows, columns)
        stride, right = maximum(most, 1), maximum(sides, 1)  # LAPACK wants one right-hand side at least
        cutoff = as_expr(most).astype(FLOAT) * number_of(_EPSILON)
        if rcond is not None:
            cutoff = number_of(float(cast(float, rcond)))
        length = least * (least + right + 16 + 2 * _SMALLEST + 8 * _DEPTH)
        length += (_SMALLEST + 1) ** 2 + BLOCK * (rows + columns + right)
        squares = _LeastSquares(rows, columns, sides, right, least, most, stride, length, cutoff)
        results = [((columns, sides), dtype), ((sides,), dtype), ((), INT)]
        work = [
            ((rows, columns), FLOAT),
            ((stride, right), FLOAT),
            ((maximum(least, 1),), FLOAT),
            ((1,), INT),
        ]
        work += [((length,), FLOAT), (((3 * _DEPTH + 11) * maximum(least, 1),), INT)]
        return results, work, squares.body

    return compute_batch(call, kernel, "SVD did not converge in Linear Least Squares")


@dataclass(frozen=True, slots=True)
class _LeastSquares:
    """The least squares of one matrix: its sizes, those of workspaces, and the cutoff of its rank."""

    rows: Extent
    columns: Extent
    sides: Extent
    right: Extent
    least: Extent
    most: Extent
    stride: Extent
    length: Extent
    cutoff: PrimExpr

    def body(self, items: Sequence[Item], work: Sequence[Buffer]) -> list[Stmt]:
        """Return the statements for one matrix, with its results and workspaces."""
        matrix, given, solution, residuals, rank = items
        status, a, b, _, found_rank, _, _ = work

        def load() -> list[Stmt]:
            return [
                loop("k", self.stride * self.right, lambda k: store_value(b, number_of(0), k)),
                to_columns(matrix, a),
                to_columns(given, b, self.stride),
            ]

        solve = self.solve(work, load())

        def add_squares(side: PrimExpr) -> Stmt:
            def add(row: PrimExpr) -> Stmt:
                entry = load_value(b, side * self.stride + self.columns + row)
                return residuals.store(residuals.load(side) + entry * entry, side)

            rest = loop("row", maximum(as_expr(self.rows) - self.columns, 0), add)
            return sequence([residuals.store(number_of(0), side), rest])

        return [
            *load(),
            if_finite(status, [(a, self.rows * self.columns), (b, self.stride * self.right)], solve),
            from_columns(b, solution, self.stride),
            loop("side", self.sides, add_squares),
            rank.store(load_value(found_rank, 0)),
        ]

    def solve(self, work: Sequence[Buffer], load: Sequence[Stmt]) -> Stmt:
        """Solve by QR; by singular values, of operands that are loaded again, if the rank may be lower."""
        status, a, b, found, found_rank, space, integers = work
        arrays = address(a), maximum(self.rows, 1), address(b), self.stride
        factored = lapack(
            "dgels", "N", self.rows, self.columns, self.right, *arrays, address(space), self.length
        )
        # ``dtrcon`` estimates the reciprocal of the condition of the triangle that ``dgels``
        # leaves: R of QR where there are at least as many rows as columns, otherwise L of LQ, in
        # the lower half.
        measured = lapack(
            *(
                "dtrcon",
                "1",
                tirx.Select(
                    as_expr(self.rows) >= as_expr(self.columns),
                    *(tirx.const(ord(each), "int8") for each in "UL"),
                ),
                "N",
            ),
            *(
                self.least,
                address(a),
                maximum(self.rows, 1),
                address(found),
                address(space),
                address(integers),
            ),
        )
        # ``dgels`` has overwritten the matrix and the right sides, so they are loaded again for
        # this.
        decomposed = lapack(
            *(
                "dgelsd",
                self.rows,
                self.columns,
                self.right,
                *arrays,
                address(found),
                self.cutoff,
                address(found_rank),
            ),
            *(address(space), self.length, address(integers)),
        )
        none = tirx.const(0, INT)
        is_certain = load_value(found, 0) > self.cutoff * as_expr(self.most).astype(FLOAT) * number_of(
            _MARGIN
        )
        solved = sequence(
            [
                store_value(found, number_of(0)),
                store_value(found_rank, as_expr(self.least).astype(INT)),
                store_value(integers, factored),
                tirx.IfThenElse(tirx.EQ(load_value(integers, 0), none), tirx.Evaluate(measured), None),
                tirx.IfThenElse(tirx.Not(is_certain), sequence([*load, note(status, decomposed)]), None),
            ]
        )
        # LAPACK clears the right sides of a matrix without columns, which are the residuals.
        return tirx.IfThenElse(as_expr(self.columns) > 0, solved, store_value(found_rank, tirx.const(0, INT)))
