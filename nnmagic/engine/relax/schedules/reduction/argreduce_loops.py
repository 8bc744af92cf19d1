"""Find the index of the best element of a row (argmax, argmin): by groups of vectors, then within one group.

The best elements of each group of vectors are found lane by lane, and each lane keeps the best so far with
the number of its group: one comparison of indices per group, not per element. At the row's end the best of
the lanes gives the value and its group, which is still in the cache; its elements are compared with the
value. A group that the row's length leaves over overlaps with the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx

from nnmagic.engine.relax.schedules.reduction import argreduce
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, round_up_div, sequence, vector_loop
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.vectorizable_isnan import make_isnan_vectorizable

#: How many vectors are a group.
VECTORS = 4


@dataclass(frozen=True, slots=True)
class ArgReduce:
    """A row of ``width`` elements, a group or more; of a dynamic width, or with as many elements before it.

    vector: the elements of a vector. element: returns the index and the value of an element. prefetch:
    returns statements that fetch the data after a vector. alloc: allocates an array, from its size, dtype and
    name.
    """

    tie_rule: str
    width: Extent
    vector: int
    dtype: str
    element: Callable[[Index], tuple[PrimExpr, PrimExpr]]
    prefetch: Callable[[Index], list[Stmt]]
    alloc: Callable[[int, str, str], Buffer]

    @property
    def group(self) -> int:
        """Return how many elements a group has."""
        return VECTORS * self.vector

    def statements(self) -> tuple[list[Stmt], PrimExpr, PrimExpr]:
        """Return the loops, and expressions of the best element's index and value after them."""
        fresh = self.alloc(self.vector, self.dtype, "fresh")
        best = self.alloc(self.vector, self.dtype, "best")
        best_group = self.alloc(self.vector, "int32", "group")

        def compare_group(start: Index, number: PrimExpr) -> list[Stmt]:
            def update_group(lane: Var) -> Stmt:
                held = tirx.BufferLoad(best_group, [lane])
                # Compared before the best value is replaced: the two loops below must stay in this
                # order.
                keep = self._keeps(tirx.BufferLoad(best, [lane]), tirx.BufferLoad(fresh, [lane]))
                return _store(best_group, tirx.Select(keep, held, number), lane)

            def update_value(lane: Var) -> Stmt:
                held, new = tirx.BufferLoad(best, [lane]), tirx.BufferLoad(fresh, [lane])
                return _store(best, self._better(held, new), lane)

            return [
                *self._best_of_group(fresh, start),
                vector_loop(self.vector, update_group),
                vector_loop(self.vector, update_value),
            ]

        zero = as_expr(0)
        statements = self._best_of_group(best, zero if isinstance(self.width, int) else self._begin_of(zero))
        first = tirx.const(0, "int32")
        statements.append(vector_loop(self.vector, lambda lane: _store(best_group, first, lane)))
        turn = tirx.Var("turn", "int64")
        # Group numbers are int32, half as wide as indices, so that a lane's number is not wider
        # than its float32 value.
        number = (turn + 1).astype("int32")
        if not isinstance(self.width, int):
            body = sequence(compare_group(self._begin_of(turn + 1), number))
            turns = tirx.max(round_up_div(self.width, self.group) - 1, as_expr(0))
            statements.append(tirx.For(turn, as_expr(0), turns, tirx.ForKind.SERIAL, body))
            return self._find_in_group(statements, best, best_group)
        count, rest = divmod(self.width, self.group)
        if count > 1:
            body = sequence(compare_group((turn + 1) * self.group, number))
            statements.append(tirx.For(turn, as_expr(0), as_expr(count - 1), tirx.ForKind.SERIAL, body))
        if rest:
            # The overlapping group repeats elements of the one before, which cannot change the
            # result: of equal values, the rule keeps the first or the last index, whichever group
            # it was found in.
            statements += compare_group(as_expr(self.width - self.group), tirx.const(count, "int32"))
        return self._find_in_group(statements, best, best_group)

    def _begin_of(self, number: PrimExpr) -> PrimExpr:
        """Return where a group begins: the last one ends with the row."""
        begin = number * self.group
        if isinstance(self.width, int) and self.width % self.group == 0:
            return begin
        return tirx.min(begin, as_expr(self.width - self.group))

    def _best_of_group(self, target: Buffer, start: Index) -> list[Stmt]:
        """Store the best of the vectors of a group, lane by lane."""
        statements: list[Stmt] = []
        for number in range(VECTORS):
            statements += self.prefetch(start + number * self.vector)
        for number in range(VECTORS):

            def update(lane: Var, number: int = number) -> Stmt:
                new = self.element(start + number * self.vector + lane)[1]
                if number == 0:
                    return _store(target, new, lane)
                held = tirx.BufferLoad(target, [lane])
                return _store(target, self._better(held, new), lane)

            statements.append(vector_loop(self.vector, update))
        return statements

    def _find_in_group(
        self, statements: list[Stmt], best: Buffer, best_group: Buffer
    ) -> tuple[list[Stmt], PrimExpr, PrimExpr]:
        """Append statements that find the best of the lanes, its group, and its index there."""
        first = self.tie_rule.endswith("first")
        choose_index = tirx.min if first else tirx.max
        value = self._reduce_lanes(statements, best, self._better)

        def index_if_best(index: PrimExpr, element: PrimExpr) -> PrimExpr:
            same = element == value
            if self.dtype.startswith("float"):
                same = tirx.any(same, tirx.isnan(element))  # then the best is NaN, too
            # Neutral in the choice of the smallest or largest index.
            never = tirx.max_value(dtype_of(index)) if first else tirx.const(-1, dtype_of(index))
            return tirx.Select(same, index, never)

        def store_group(lane: Var) -> Stmt:
            group, element = tirx.BufferLoad(best_group, [lane]), tirx.BufferLoad(best, [lane])
            return _store(groups, index_if_best(group, element), lane)

        groups = self.alloc(self.vector, "int32", "groups")
        statements.append(vector_loop(self.vector, store_group))
        # Several lanes may hold the best value: the first (or last) of their groups has the index
        # that is wanted.
        start = self._begin_of(self._reduce_lanes(statements, groups, choose_index).astype("int64"))
        numbers = self.alloc(self.vector, dtype_of(self.element(start)[0]), "numbers")
        for number in range(VECTORS):

            def update(lane: Var, number: int = number) -> Stmt:
                index = index_if_best(*self.element(start + number * self.vector + lane))
                held = tirx.BufferLoad(numbers, [lane])
                return _store(numbers, choose_index(held, index) if number else index, lane)

            statements.append(vector_loop(self.vector, update))
        return statements, self._reduce_lanes(statements, numbers, choose_index), value

    def _reduce_lanes(
        self, statements: list[Stmt], array: Buffer, choose: Callable[[PrimExpr, PrimExpr], PrimExpr]
    ) -> PrimExpr:
        """Reduce across lanes by halving; return the load of the result."""
        count = self.vector
        while count > 1:
            count //= 2
            half = self.alloc(count, dtype_of(array), "half")

            def reduce(lane: Var, count: int = count, array: Buffer = array, half: Buffer = half) -> Stmt:
                lhs, rhs = tirx.BufferLoad(array, [lane]), tirx.BufferLoad(array, [lane + count])
                return _store(half, choose(lhs, rhs), lane)

            statements.append(vector_loop(count, reduce))
            array = half
        return tirx.BufferLoad(array, [as_expr(0)])

    def _better(self, held: PrimExpr, new: PrimExpr) -> PrimExpr:
        """Return the better of two values, of equal ones either: one instruction, and one more for NaN.

        The instruction keeps a NaN that is held. The test whether the new value is NaN waits for nothing.
        """
        better = new > held if self.tie_rule.startswith("max") else new < held
        chosen = tirx.Select(better, new, held)
        if not self.dtype.startswith("float"):
            return chosen
        return tirx.Select(new <= tirx.const(float("inf"), self.dtype), chosen, new)

    def _keeps(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        return argreduce.TIE_RULES[self.tie_rule][0](a, b)


def _store(array: Buffer, value: PrimExpr, lane: Var) -> Stmt:
    return tirx.BufferStore(array, make_isnan_vectorizable(value), [lane])
