"""Write the loops of attention for a single query, whose scores fit into registers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.matmul.dynamic_loops import dynamic_loops
from nnmagic.engine.relax.schedules.matmul.matrix_product import MatrixProduct
from nnmagic.engine.relax.schedules.matmul.microkernels import Finish, Matrix
from nnmagic.engine.relax.schedules.matmul.static_loops import static_loops
from nnmagic.engine.relax.tir import builders, vector_math
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt, Var

if TYPE_CHECKING:
    from nnmagic.engine.relax.legalize.attention_loops import Attention


class QueryRow:
    """The statements for one query: its scores of all keys are in one array."""

    def __init__(self, attention: Attention, machine: CpuModel, batch: PrimExpr, row: PrimExpr) -> None:
        self.attention, self.machine, self.batch, self.row = attention, machine, batch, row
        self.lanes = machine.lanes(attention.dtype)
        size = attention.keys + self.lanes
        self.scores = tirx.decl_buffer((size,), attention.dtype, "scores", data_alignment=64)
        self.largest, self.total = (
            builders.local_array(self.lanes, attention.dtype, name, 64) for name in ("largest", "total")
        )
        self.largest_of_all, self.base, self.scale, self.share = (
            tirx.Var(name, attention.dtype) for name in ("largest_of_all", "base", "scale", "share")
        )

    def statements(self) -> Stmt:
        """Compute the query's row of the result."""
        attention, lanes = self.attention, self.lanes
        lowest, zero, one = (tirx.const(value, attention.dtype) for value in (-math.inf, 0, 1))
        vectors = builders.round_up_div(attention.keys, lanes)
        total = self._reduce(self.total, lambda a, b: a + b) + attention.without_keys()
        query, key, value = (each(self.batch) for each in (attention.query, attention.key, attention.value))
        query = Matrix(query.buffer, query.index(self.row, 0), query.row, query.column)
        powers = Matrix(self.scores, builders.as_expr(0), 1, 1)
        return builders.sequence(
            [
                *map(tirx.AllocBuffer, (self.scores, self.largest, self.total)),
                # What fills the last vector has no part in the maximum and in the sum.
                builders.store(self.scores, attention.keys, lanes, builders.broadcast(lowest, lanes)),
                self._multiply(attention.keys, attention.depth, query, key, self._store_score),
                builders.store(self.largest, 0, lanes, builders.broadcast(lowest, lanes)),
                builders.store(self.total, 0, lanes, builders.broadcast(zero, lanes)),
                builders.loop("i", vectors, self._find_largest),
                tirx.Bind(self.largest_of_all, self._reduce(self.largest, larger)),
                # A query whose keys are all masked has the scores -inf, and -inf - -inf is NaN.
                # Less 0 they have the powers 0.
                tirx.Bind(self.base, tirx.Select(self.largest_of_all == lowest, zero, self.largest_of_all)),
                tirx.Bind(self.scale, attention.scale()),
                builders.loop("i", vectors, self._find_powers),
                tirx.Bind(self.share, one / total),
                self._multiply(attention.width, attention.keys, powers, value, self._store_result),
            ]
        )

    def _multiply(self, columns: Extent, depth: Extent, lhs: Matrix, rhs: Matrix, finish: Finish) -> Stmt:
        product = MatrixProduct(1, columns, depth, self.attention.dtype, lhs, rhs, finish)
        loops = static_loops if product.is_static else dynamic_loops
        return loops(product, self.machine, threads=False)

    def _store_score(self, _: PrimExpr, key: PrimExpr, value: PrimExpr) -> Stmt:
        operands = [
            None
            if step.operand is None
            else step.operand.matrix(self.batch).element(self.row, key, self.attention.dtype)
            for step in self.attention.steps
        ]
        return tirx.BufferStore(self.scores, self.attention.score(value, operands, self.row, key), [key])

    def _store_result(self, _: PrimExpr, column: PrimExpr, value: PrimExpr) -> Stmt:
        attention = self.attention
        at = (self.batch * attention.rows + self.row) * attention.width + column
        return tirx.BufferStore(attention.result, value * self.share, [at])

    def _find_largest(self, i: PrimExpr) -> Stmt:
        lanes, dtype = self.lanes, self.attention.dtype
        most = builders.load(self.largest, 0, lanes, dtype)
        score = builders.load(self.scores, i * lanes, lanes, dtype)
        return builders.store(self.largest, 0, lanes, larger(most, score))

    def _find_powers(self, i: PrimExpr) -> Stmt:
        lanes, dtype = self.lanes, self.attention.dtype

        def power(lane: PrimExpr) -> Stmt:
            distance = tirx.BufferLoad(self.scores, [i * lanes + lane]) - self.base
            value = vector_math.scaled_exp(distance) * self.scale
            return tirx.BufferStore(self.scores, value, [i * lanes + lane])

        powers = builders.load(self.scores, i * lanes, lanes, dtype)
        total = builders.load(self.total, 0, lanes, dtype) + powers
        return builders.sequence(
            [builders.vector_loop(lanes, power), builders.store(self.total, 0, lanes, total)]
        )

    def _reduce(self, vector: Buffer, combine: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> PrimExpr:
        """Combine the elements of a vector."""
        values = [tirx.BufferLoad(vector, [builders.as_expr(lane)]) for lane in range(self.lanes)]
        bindings: list[tuple[Var, PrimExpr]] = []
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            bindings += [(tirx.Var("part", self.attention.dtype), combine(a, b)) for a, b in pairs]
            values = [var for var, _ in bindings[-(len(values) // 2) :]]
        result = values[0]
        for var, value in reversed(bindings):
            result = tirx.Let(var, value, result)
        return result


def larger(most: PrimExpr, value: PrimExpr) -> PrimExpr:
    """Return the larger of two numbers, the first where the second is NaN."""
    return tirx.Select(value > most, value, most)
