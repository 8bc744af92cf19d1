"""Write the passes of fast Fourier transforms, of vectors that have an element of as many sequences as lanes.

Every step is one of whole vectors. Such columns are transformed in passes, one for each factor of the length,
whose results are in order (Stockham's autosort algorithm; Van Loan, Computational Frameworks for the Fast
Fourier Transform, 1992). A single sequence is a matrix: its columns are transformed, multiplied by roots of
one, and its rows transformed (Gentleman and Sande, 1966; Bailey, FFTs in external memory, 1990).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tvm import tirx

from nnmagic.engine.relax.legalize.fourier_butterflies import RADICES, Halves, butterfly, factorize
from nnmagic.engine.relax.legalize.fourier_numbers import (
    Number,
    Pair,
    Roots,
    State,
    cast,
    each,
    local_pair,
    pairs,
    spread,
    times,
    transpose_square,
)
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    at_least,
    bound,
    branch,
    loop,
    sequence,
    shared,
    static_int,
)
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr, Stmt

#: The largest of them whose passes are unrolled where only the call knows the length: all would take long to
#: compile, so the others share a pass with loops.
_LARGEST_UNROLLED = 7


@dataclass(frozen=True, slots=True)
class Turn:
    """The transforms of a pass whose results are turned by the same roots: those from row ``p`` on.

    step, stride: between the operands of one, and how many there are. radix: the length of each. source,
    target: where the elements are, and where the results are stored.
    """

    p: PrimExpr
    step: PrimExpr
    stride: PrimExpr
    radix: Extent
    source: PrimExpr
    target: PrimExpr


class Columns:
    """The transform of as many sequences as a vector has lanes, element by element: Stockham's passes.

    ``data`` has two arrays of ``length`` vectors, and ``side`` says in which one the elements are.
    """

    def __init__(self, data: Pair, lanes: int, length: Extent, radices: Sequence[int] = RADICES) -> None:
        self.data, self.dtype = data, data.dtype
        self.lanes, self.length, self.radices = lanes, length, radices
        self.side, self.left, self.stride = State(), State(), State()

    def begin(self) -> list[Stmt]:
        """Return the statements that come first."""
        return [tirx.AllocBuffer(self.side.array), self.side.set(0)]

    def at(self, row: Index, lane: Index = 0) -> PrimExpr:
        """Return where a row's element is."""
        return (self.side.get() * self.length + row) * self.lanes + lane

    def transform(self, rows: Extent, roots: Pair) -> Stmt:
        """Transform the first ``rows`` rows, whose roots of one are given."""
        if static_int(rows) is not None:
            return self._transform(rows, roots)
        sizes = {"length": self.length, "begin": self.data.begin, "size": self.data.size}
        statements, (number, length, begin, size, first, count) = bound(
            rows=rows, **sizes, first=roots.begin, count=roots.size
        )
        columns = Columns(Pair(self.data.array, begin, size), self.lanes, length, self.radices)
        columns.side = self.side
        passes = columns._transform(number, Pair(roots.array, first, count))
        return sequence([*statements, shared(passes, self.data.array)])

    def _transform(self, rows: Extent, roots: Pair) -> Stmt:
        states = [tirx.AllocBuffer(each.array) for each in (self.left, self.stride)]
        begin = [*states, self.left.set(rows), self.stride.set(1)]
        static_rows = static_int(rows)
        factors = self.radices if static_rows is None else factorize(static_rows, self.radices) or ()
        radices = [radix for radix in self.radices if radix in factors]
        if not radices:
            return sequence(begin)
        unrolled = [radix for radix in radices if static_rows is not None or radix <= _LARGEST_UNROLLED]
        # The smallest radix needs no test: what is left has no other factor if all other radices
        # fail.
        choice = self._pass(unrolled[-1], partial(self._unroll, unrolled[-1], roots))
        for radix in unrolled[-2::-1]:
            divides = tirx.floormod(self.left.get(), radix) == 0
            choice = tirx.IfThenElse(divides, self._pass(radix, partial(self._unroll, radix, roots)), choice)
        if len(unrolled) < len(radices):
            choice = self._by_loops(radices[: len(radices) - len(unrolled)], rows, roots, choice)
        return sequence([*begin, tirx.While(self.left.get() > 1, choice)])

    def _pass(self, radix: Extent, turn: Callable[[Turn], Stmt]) -> Stmt:
        """Do one pass: ``left`` is the length of a transform, ``stride`` how many there are."""
        lanes, length = self.lanes, self.length
        step, stride = (tirx.Var(name, "int64") for name in ("step", "stride"))
        source, target = (tirx.Var(name, "int64") for name in ("source", "target"))

        def turn_from(p: PrimExpr) -> Stmt:
            return turn(Turn(p, step, stride, radix, source, target))

        return sequence(
            [
                tirx.Bind(step, tirx.floordiv(self.left.get(), radix)),
                tirx.Bind(stride, self.stride.get()),
                tirx.Bind(source, self.side.get() * length * lanes),
                tirx.Bind(target, (1 - self.side.get()) * length * lanes),
                loop("p", step, turn_from),
                self.left.set(step),
                self.stride.set(stride * radix),
                self.side.set(1 - self.side.get()),
            ]
        )

    def _unroll(self, radix: int, roots: Pair, turn: Turn) -> Stmt:
        """Do the transforms of a turn of a pass, with a statement for each number."""
        lanes = self.lanes
        statements, turns = local_pair(radix, self.dtype)
        statements += [turns.store(j, roots.load(turn.p * turn.stride * j)) for j in range(1, radix)]

        def transform(q: PrimExpr) -> Stmt:
            inner, numbers = local_pair(radix * lanes, self.dtype)
            for k in range(radix):
                inner.append(numbers.store(k * lanes, self._given(turn, k, q), lanes))
            inner += butterfly(radix, lanes, numbers)
            for j in range(radix):
                value = numbers.load(j * lanes, lanes)
                turned = times(value, spread(turns.load(j), lanes)) if j else value
                inner.append(self._put(turn, j, q, turned))
            return sequence(inner)

        return sequence([*statements, loop("q", turn.stride, transform)])

    def _given(self, turn: Turn, k: Index, q: PrimExpr) -> Number:
        """Return the operand ``k`` of a transform of a turn."""
        place = turn.source + ((turn.p + turn.step * k) * turn.stride + q) * self.lanes
        return self.data.load(place, self.lanes)

    def _put(self, turn: Turn, j: Index, q: PrimExpr, value: Number) -> Stmt:
        """Store the result ``j`` of a transform of a turn."""
        place = turn.target + ((turn.p * turn.radix + j) * turn.stride + q) * self.lanes
        return self.data.store(place, value, self.lanes)

    def _by_loops(self, radices: Sequence[int], rows: Extent, roots: Pair, otherwise: Stmt) -> Stmt:
        """Do a pass of one of some odd radices with loops, or something else where none of them divides."""
        chosen, radix = State(), tirx.Var("radix", "int64")
        most = max(radices) // 2
        allocation, table = local_pair(most * most, self.dtype)

        def fill(j: PrimExpr) -> Stmt:
            def store(k: PrimExpr) -> Stmt:
                turns = tirx.floormod((j + 1) * (k + 1), radix)
                return table.store(j * most + k, roots.load(turns * tirx.floordiv(as_expr(rows), radix)))

            return loop("k", tirx.floordiv(radix, 2), store)

        def choose(radix: int) -> Stmt:
            return tirx.IfThenElse(tirx.floormod(self.left.get(), radix) == 0, chosen.set(radix), None)

        do_pass = sequence(
            [
                tirx.Bind(radix, chosen.get()),
                *allocation,
                loop("j", tirx.floordiv(radix, 2), fill),
                self._pass(radix, partial(self._loop, most, table, roots)),
            ]
        )
        return sequence(
            [
                tirx.AllocBuffer(chosen.array),
                chosen.set(0),
                *map(choose, radices),
                tirx.IfThenElse(chosen.get() > 0, do_pass, otherwise),
            ]
        )

    def _loop(self, most: int, table: Pair, roots: Pair, turn: Turn) -> Stmt:
        """Do the transforms of a turn, of a radix of which half is ``most`` at most, as ``butterfly`` does.

        ``table``: the roots of one by the number of a result and of an operand.
        """
        lanes, radix, half = self.lanes, as_expr(turn.radix), tirx.floordiv(as_expr(turn.radix), 2)
        statements, turns = local_pair(2 * most + 1, self.dtype)
        statements.append(loop("j", radix, lambda j: turns.store(j, roots.load(turn.p * turn.stride * j))))

        def transform(q: PrimExpr) -> Stmt:
            arrays = [local_pair(size * lanes, self.dtype) for size in (most, most, 1, 1)]
            sums, difference, total, sine = (pair for _, pair in arrays)

            def split(k: PrimExpr) -> Stmt:
                (x, y), (z, w) = self._given(turn, k + 1, q), self._given(turn, radix - 1 - k, q)
                added = sums.store(k * lanes, (x + z, y + w), lanes)
                return sequence([added, difference.store(k * lanes, (x - z, y - w), lanes)])

            def add(into: Pair, factor: PrimExpr, value: Number) -> Stmt:
                re, im = into.load(0, lanes)
                return into.store(0, (re + factor * value[0], im + factor * value[1]), lanes)

            def turned(j: PrimExpr, value: Number) -> Stmt:
                return self._put(turn, j, q, times(value, spread(turns.load(j), lanes)))

            def results(j: PrimExpr) -> Stmt:
                def term(k: PrimExpr) -> Stmt:
                    cosine, minus_sine = spread(table.load(j * most + k), lanes)
                    return sequence(
                        [
                            add(total, cosine, sums.load(k * lanes, lanes)),
                            add(sine, minus_sine, difference.load(k * lanes, lanes)),
                        ]
                    )

                (re, im), (x, y) = total.load(0, lanes), sine.load(0, lanes)
                zero = builders.broadcast(tirx.const(0, self.dtype), lanes)
                return sequence(
                    [
                        total.store(0, self._given(turn, 0, q), lanes),
                        sine.store(0, (zero, zero), lanes),
                        loop("k", half, term),
                        turned(j + 1, (re - y, im + x)),
                        turned(radix - 1 - j, (re + y, im - x)),
                    ]
                )

            one = builders.broadcast(tirx.const(1, self.dtype), lanes)
            return sequence(
                [
                    *(statement for allocation, _ in arrays for statement in allocation),
                    loop("k", half, split),
                    loop("j", half, results),
                    total.store(0, self._given(turn, 0, q), lanes),
                    loop("k", half, lambda k: add(total, one, sums.load(k * lanes, lanes))),
                    self._put(turn, 0, q, total.load(0, lanes)),
                ]
            )

        return sequence([*statements, loop("q", turn.stride, transform)])

    def load_lane(self, lane: Index, rows: Extent, source: Callable[[PrimExpr], Number]) -> Stmt:
        """Fill a lane, element by element."""
        return each(rows, lambda k: self.data.store(self.at(k, lane), source(k)))

    def store_lane(self, lane: Index, rows: Extent, sink: Callable[[PrimExpr, Number], Stmt]) -> Stmt:
        """Store the elements of a lane."""
        return each(rows, lambda k: sink(k, self.data.load(self.at(k, lane))))

    def load_rows(self, rows: Extent, source: Callable[[PrimExpr], Number]) -> Stmt:
        """Fill all lanes: ``source`` returns the vector of a row."""
        return each(rows, lambda k: self.data.store(self.at(k), source(k), self.lanes))

    def store_rows(self, rows: Extent, sink: Callable[[PrimExpr, Number], Stmt]) -> Stmt:
        """Store the vectors of rows."""
        return each(rows, lambda k: sink(k, self.data.load(self.at(k), self.lanes)))

    def load_squares(self, rows: Extent, source: Callable[[int, PrimExpr], Number]) -> Stmt:
        """Fill all lanes: ``source`` returns the elements of a lane from a row on, as a vector."""
        lanes = self.lanes

        def copy(first: PrimExpr) -> Stmt:
            statements, turned = transpose_square([source(lane, first) for lane in range(lanes)])
            for row, value in enumerate(turned):
                statements.append(self.data.store(self.at(first + row), value, lanes))
            return sequence(statements)

        return self._squares(rows, copy)

    def store_squares(self, rows: Extent, sink: Callable[[int, PrimExpr, Number], Stmt]) -> Stmt:
        """Store the lanes: ``sink`` stores the elements of a lane from a row on, a vector."""
        lanes = self.lanes

        def copy(first: PrimExpr) -> Stmt:
            given = [self.data.load(self.at(first + row), lanes) for row in range(lanes)]
            statements, turned = transpose_square(given)
            return sequence([*statements, *(sink(lane, first, value) for lane, value in enumerate(turned))])

        return self._squares(rows, copy)

    def _squares(self, rows: Extent, copy: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Copy squares of as many rows as there are lanes; the last one may overlap with that before it."""
        last = as_expr(rows) - self.lanes
        count = builders.round_up_div(rows, self.lanes)
        return loop("square", count, lambda at: copy(tirx.min(at * self.lanes, last)))


#: Returns the numbers from a place on, as many as a vector has lanes; returns the statements that store some.
Load: TypeAlias = Callable[[PrimExpr, int], Number]
Store: TypeAlias = Callable[[PrimExpr, Number, int], Stmt]


class SequenceMatrix:
    """The transform of one long sequence as a matrix: of its columns, then of its rows.

    The elements between these steps are in ``middle``.
    """

    def __init__(self, length: Extent, dtype: str, lanes: int, radices: Sequence[int] = RADICES) -> None:
        self.dtype, self.lanes = dtype, lanes
        self.halves = Halves(length, radices)
        first, second = self.first, self.second = self.halves.first, self.halves.second
        self.roots = Roots(length)
        self.tables, (self.near, *self.turns) = pairs(dtype, first * lanes, first, second)
        longest = builders.maximum(first, second)
        sizes = longest * (2 * lanes), builders.as_index(length) + lanes
        self.allocation, (data, self.middle) = pairs(dtype, *sizes)
        self.columns = Columns(data, lanes, longest, radices)

    def prepare(self) -> list[Stmt]:
        """Return the statements that factor the length and make the tables."""

        def fill(turns: Pair, step: Extent) -> Callable[[PrimExpr], Stmt]:
            return lambda k: turns.store(k, cast(self.roots.root(k * step), self.dtype))

        def fill_near(k: PrimExpr) -> Stmt:
            def store(lane: PrimExpr) -> Stmt:
                root = self.roots.root(k * tirx.min(lane, as_expr(self.second) - 1))
                return self.near.store(k * self.lanes + lane, cast(root, self.dtype))

            return loop("lane", self.lanes, store)

        return [
            *self.halves.make(),
            *self.roots.make(),
            *self.tables,
            loop("k", self.first, fill(self.turns[0], self.second)),
            loop("k", self.second, fill(self.turns[1], self.first)),
            loop("k", self.first, fill_near),
        ]

    def transform_array(self, work: Pair) -> Stmt:
        """Transform what is in an array."""
        whole = self.transform(work.load, work.store)
        return whole if self.halves.is_known else shared(whole, work.array)

    def transform(self, load: Load, store: Store) -> Stmt:
        """Transform the elements that ``load`` returns, and give the results to ``store``."""
        first, second, (turns, others) = self.first, self.second, self.turns

        def of_half(half: PrimExpr) -> Stmt:
            is_first, variables = half == 0, [tirx.Var(name, "int64") for name in ("rows", "count", "begin")]
            choices = (first, second), (second, first), (turns.begin, others.begin)
            chosen = [
                tirx.Bind(var, tirx.if_then_else(is_first, *map(as_expr, values)))
                for var, values in zip(variables, choices, strict=True)
            ]
            rows, count, begin = variables
            own = Pair(turns.array, begin, rows)
            return sequence([*chosen, self._transform_half(is_first, rows, count, own, load, store)])

        if not self.halves.is_known:  # one half after the other by the same code
            return loop("half", 2, of_half)
        halves = (True, first, second, turns), (False, second, first, others)
        return sequence([self._transform_half(*half, load, store) for half in halves])

    def _transform_half(
        self, is_first: PrimExpr | bool, rows: Extent, count: Extent, turns: Pair, load: Load, store: Store
    ) -> Stmt:
        """Transform the columns of the matrix, or its rows, in groups that may overlap."""
        columns, lanes = self.columns, self.lanes

        def of_group(group: PrimExpr) -> Stmt:
            start = tirx.Var("start", "int64")
            last = builders.maximum(count - lanes, 0)
            sizes = start, rows, count
            return sequence(
                [
                    tirx.Bind(start, tirx.min(group * lanes, as_expr(last))),
                    *columns.begin(),
                    branch(is_first, partial(self._load, *sizes, load), partial(self._load_middle, *sizes)),
                    columns.transform(rows, turns),
                    branch(
                        is_first, partial(self._store_middle, *sizes), partial(self._store, *sizes, store)
                    ),
                ]
            )

        return loop("group", builders.round_up_div(count, lanes), of_group)

    def _load(self, start: PrimExpr, rows: Extent, count: Extent, load: Load) -> Stmt:
        columns, lanes = self.columns, self.lanes

        def by_lanes() -> Stmt:
            few = builders.minimum(count, lanes)
            return loop(
                "lane", few, lambda lane: columns.load_lane(lane, rows, lambda k: load(k * count + lane, 1))
            )

        def by_rows() -> Stmt:
            return columns.load_rows(rows, lambda k: load(k * count + start, lanes))

        return branch(at_least(count, lanes), by_rows, by_lanes)

    def _store_middle(self, start: PrimExpr, rows: Extent, count: Extent) -> Stmt:
        """Multiply by roots of one. Of few columns, the next row covers what is stored too much."""
        lanes = self.lanes

        def turn(k: PrimExpr, value: Number) -> Stmt:
            root = spread(cast(self.roots.root(start * k), self.dtype), lanes)
            factor = times(root, self.near.load(k * lanes, lanes))
            return self.middle.store(k * count + start, times(value, factor), lanes)

        return self.columns.store_rows(rows, turn)

    def _load_middle(self, start: PrimExpr, rows: Extent, count: Extent) -> Stmt:
        columns, lanes = self.columns, self.lanes

        def by_squares() -> Stmt:
            return columns.load_squares(
                rows, lambda lane, k: self.middle.load((start + lane) * rows + k, lanes)
            )

        def by_lanes() -> Stmt:
            def load(lane: PrimExpr) -> Stmt:
                return columns.load_lane(lane, rows, lambda k: self.middle.load((start + lane) * rows + k))

            return loop("lane", builders.minimum(count, lanes), load)

        return branch(at_least(builders.minimum(rows, count), lanes), by_squares, by_lanes)

    def _store(self, start: PrimExpr, rows: Extent, count: Extent, store: Store) -> Stmt:
        columns, lanes = self.columns, self.lanes

        def by_rows() -> Stmt:
            return columns.store_rows(rows, lambda k, value: store(k * count + start, value, lanes))

        def by_lanes() -> Stmt:
            def of_lane(lane: PrimExpr) -> Stmt:
                return columns.store_lane(lane, rows, lambda k, value: store(k * count + lane, value, 1))

            return loop("lane", builders.minimum(count, lanes), of_lane)

        return branch(at_least(count, lanes), by_rows, by_lanes)
