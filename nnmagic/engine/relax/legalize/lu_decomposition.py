"""Legalize the LU decomposition of matrices, and the order of rows that its swaps give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tvm import te, tirx

from nnmagic.engine.relax.legalize import lapack_kernels
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Value, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import as_index, loop, maximum, minimum, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt


def _lu(call: OpCall) -> Value:
    """Lower to ``getrf``, whose status only says that a factor is singular."""
    dtype, numbers = tensor_dtype(call.args[0]), lapack_kernels.numbers_of(call)

    def kernel(rows: Extent, columns: Extent) -> lapack_kernels.Kernel:
        least, stride = minimum(rows, columns), maximum(rows, 1)

        def body(items: Sequence[lapack_kernels.Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, factors, swaps), (status, a, pivots) = items, work
            arguments = rows, columns, lapack_kernels.address(a), stride, lapack_kernels.address(pivots)

            def copy(k: PrimExpr) -> Stmt:
                return tirx.BufferStore(swaps.buffer, lapack_kernels.load_value(pivots, k), [*swaps.batch, k])

            return [
                lapack_kernels.to_columns(matrix, a),
                lapack_kernels.note(status, lapack_kernels.lapack(numbers.routine("getrf"), *arguments)),
                lapack_kernels.from_columns(a, factors),
                loop("k", least, copy),
            ]

        results = [((rows, columns, *numbers.pair), dtype), ((least,), lapack_kernels.INT)]
        return results, [numbers.work(rows, columns), ((least,), lapack_kernels.INT)], body

    return lapack_kernels.compute_batch(call, kernel, None)


def _permutation(call: OpCall) -> Value:
    rows = cast(int, call.attrs["rows"])

    def compute(pivots: Tensor) -> Tensor:
        *batch, count = map(as_index, pivots.shape)

        def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            return lapack_kernels.for_each(batch, lambda at: _swap_rows(ins[0], outs[0], at, count, rows))

        return te.extern(
            [[*batch, rows]], [pivots], emit, dtype=lapack_kernels.INT, name="linalg_permutation"
        )

    return call.emit(call.te(compute, *call.args, primfunc_attrs={"op_pattern": OPAQUE}))


def _swap_rows(pivots: Buffer, order: Buffer, batch: list[PrimExpr], count: Extent, rows: int) -> Stmt:
    """Return what writes the order of rows after swaps; a pivot that is no row swaps nothing."""

    def at_row(row: PrimExpr) -> PrimExpr:
        return tirx.BufferLoad(order, [*batch, row])

    def store(row: PrimExpr, value: PrimExpr) -> Stmt:
        return tirx.BufferStore(order, value, [*batch, row])

    def swap(k: PrimExpr) -> Stmt:
        pivot, kept = tirx.Var("pivot", "int64"), tirx.Var("kept", lapack_kernels.INT)
        # LAPACK counts rows from 1.
        number = tirx.BufferLoad(pivots, [*batch, k]).astype("int64") - 1
        swapped = sequence([tirx.Bind(kept, at_row(k)), store(k, at_row(pivot)), store(pivot, kept)])
        is_row = tirx.all(pivot >= 0, pivot < rows, k < rows)
        return sequence([tirx.Bind(pivot, number), tirx.IfThenElse(is_row, swapped, None)])

    count_up = loop("row", rows, lambda row: store(row, row.astype(lapack_kernels.INT)))
    return sequence([count_up, loop("k", count, swap)])


RULES.update({"linalg.lu": _lu, "linalg.permutation": _permutation})
