"""Write the loops of fast Fourier transforms, of a length that is known at compile time or only at the call.

A vector holds one element of as many sequences as it has lanes, so that every step is one of whole vectors.
Such columns are transformed in passes, one for each factor of the length, whose results are in order
(Stockham's autosort algorithm; Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992).
A single sequence is a matrix: its columns are transformed, multiplied by roots of one, and its rows
transformed (Gentleman and Sande, 1966; Bailey, FFTs in external memory, 1990). A length with a large prime
factor is a convolution of a length without (Bluestein, 1970).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TypeAlias

from tvm import tirx

from nnmagic.engine.relax.legalize.sort_loops import branch
from nnmagic.engine.relax.schedules.independent_loops import independent_loop
from nnmagic.engine.relax.schedules.matmul.packing import exchange_blocks
from nnmagic.engine.relax.tir import builders, vector_math
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The factors that have passes of their own; a length with another prime factor is convolved.
RADICES = (13, 11, 7, 5, 4, 3, 2)

#: The largest of them where only the call knows the length: the passes of all take long to compile.
_LARGEST_OF_ANY = 7

#: The bytes of the vectors. LLVM splits those that the machine has not.
_VECTOR_BYTES = 64

#: The longest sequences of which a vector's lanes are transformed at once: they stay in the second cache.
_LONGEST_COLUMN = 2048

#: How many operations on elements one element of a transform counts as.
_OPERATIONS = 32

_WIDE = "float64"

#: A complex number, or a vector of them.
Number: TypeAlias = tuple[PrimExpr, PrimExpr]


def times(a: Number, b: Number) -> Number:
    """Return the product of complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def swapped(a: Number) -> Number:
    """Return ``i conj(a)``: a transform of such numbers gives those of the inverse transform."""
    return a[1], a[0]


def factorize(length: int, radices: Sequence[int] = RADICES) -> list[int] | None:
    """Return a length as a product of radices, the largest first; None if it has another prime factor."""
    factors = []
    for radix in radices:
        while length % radix == 0:
            factors.append(radix)
            length //= radix
    return factors if length == 1 else None


class State:
    """An integer that only the call knows, in memory: TVM would simplify it anew wherever it is used."""

    def __init__(self) -> None:
        self.array = builders.local_array(1, "int64", "state")

    def get(self) -> PrimExpr:
        """Return the number."""
        return tirx.BufferLoad(self.array, [as_expr(0)])

    def set(self, value: Index) -> Stmt:
        """Return the statement that changes the number."""
        return tirx.BufferStore(self.array, as_expr(value), [as_expr(0)])


class Pair:
    """Complex numbers in a flat array, the real parts from ``begin`` on, the imaginary ones behind these."""

    def __init__(self, array: Buffer, begin: Index, size: Index) -> None:
        self.array, self.begin, self.size = array, begin, size
        self.dtype = builders.dtype_of(array)

    def load(self, at: Index, lanes: int = 1) -> Number:
        """Return an element, or as many as a vector has lanes."""
        first = at + self.begin
        re, im = (builders.load(self.array, each, lanes, self.dtype) for each in (first, first + self.size))
        return re, im

    def store(self, at: Index, value: Number, lanes: int = 1) -> Stmt:
        """Return the statement that stores an element or a vector."""
        first = at + self.begin
        places = zip((first, first + self.size), value, strict=True)
        return sequence([builders.store(self.array, place, lanes, part) for place, part in places])


def pairs(dtype: str, *sizes: Extent) -> tuple[list[Stmt], list[Pair]]:
    """Return arrays of complex numbers, and the statements that make them.

    They are in one piece of memory: to ask for some takes longer than a pass of a short transform.
    """
    begins: list[Index] = [0]
    statements: list[Stmt] = []
    for size in sizes:
        end = begins[-1] + size * 2
        if static_int(end) is None:
            var = tirx.Var("begin", "int64")
            statements.append(tirx.Bind(var, end))
            end = var
        begins.append(end)
    array = tirx.decl_buffer((as_expr(begins[-1]),), dtype, "numbers", data_alignment=64)
    statements.append(tirx.AllocBuffer(array))
    return statements, [Pair(array, begin, size) for begin, size in zip(begins, sizes, strict=False)]


def local_pair(size: int, dtype: str) -> tuple[list[Stmt], Pair]:
    """Return a small array of complex numbers, which LLVM keeps in registers."""
    array = builders.local_array(2 * size, dtype, "numbers", 64)
    return [tirx.AllocBuffer(array)], Pair(array, 0, size)


def spread(number: Number, lanes: int) -> Number:
    """Return vectors with the number in every lane."""
    return builders.broadcast(number[0], lanes), builders.broadcast(number[1], lanes)


def cast(number: Number, dtype: str) -> Number:
    """Return the number in another precision."""
    return number[0].astype(dtype), number[1].astype(dtype)


class Roots:
    """The roots of one ``exp(-2 pi i k / length)``, as products of two that are in tables of sqrt(length).

    So the tables are cheap to make at each call, and the roots have an error of two roundings.
    """

    def __init__(self, length: Extent) -> None:
        self.length = length
        self.shift, self.size = State(), tirx.Var("size", "int64")
        self.allocation, (self.fine, self.coarse) = pairs(_WIDE, self.size, self.size)

    def make(self) -> list[Stmt]:
        """Return the statements that make the tables."""
        size = State()
        grow = sequence([size.set(size.get() * 2), self.shift.set(self.shift.get() + 1)])
        return [
            tirx.AllocBuffer(self.shift.array),
            tirx.AllocBuffer(size.array),
            self.shift.set(0),
            size.set(1),
            tirx.While(size.get() * size.get() < as_expr(self.length), grow),
            tirx.Bind(self.size, size.get()),
            *self.allocation,
            loop("table", 2, lambda table: loop("k", self.size, lambda k: self._fill(table, k))),
        ]

    def _fill(self, table: PrimExpr, k: PrimExpr) -> Stmt:
        """Store a root, from an angle up to an eighth of a turn; beyond the last one any number."""
        length, one = as_expr(self.length), tirx.const(1, _WIDE)
        turn = builders.local_array(3, "int64", "turn")
        parts = builders.local_array(3, _WIDE, "parts")
        number, quarter, rest = (turn[as_expr(at)] for at in range(3))
        angle, sine, cosine = (parts[as_expr(at)] for at in range(3))
        is_far = rest * 2 > length
        near = tirx.Select(is_far, length - rest, rest).astype(_WIDE)
        turned = tirx.Select(is_far, sine, cosine), tirx.Select(is_far, cosine, sine)
        is_odd = (quarter & 1) == 1
        re, im = tirx.Select(is_odd, turned[1], turned[0]), tirx.Select(is_odd, turned[0], turned[1])
        is_left = tirx.any(quarter == 1, quarter == 2)
        root = re * tirx.Select(is_left, -one, one), im * tirx.Select(quarter >= 2, one, -one)
        values = (
            tirx.const(math.pi / 2, _WIDE) * near / length.astype(_WIDE),
            *vector_math.small_sine_and_cosine(angle),
        )
        step = tirx.Select(table == 0, as_expr(1), self.size)
        integers = (
            tirx.min(k * step, length - 1),
            tirx.floordiv(number * 4, length),
            number * 4 - quarter * length,
        )
        return sequence(
            [
                tirx.AllocBuffer(turn),
                tirx.AllocBuffer(parts),
                *(tirx.BufferStore(turn, value, [at]) for at, value in enumerate(integers)),
                *(tirx.BufferStore(parts, value, [at]) for at, value in enumerate(values)),
                self.fine.store(table * self.size * 2 + k, root),
            ]
        )

    def root(self, number: PrimExpr) -> Number:
        """Return a root, in float64; the number is below the length."""
        low = number & (self.size - 1)
        high = tirx.shift_right(number, self.shift.get())
        return times(self.coarse.load(high), self.fine.load(low))


def butterfly(radix: int, lanes: int, a: Pair) -> list[Stmt]:
    """Transform ``radix`` vectors in a small array."""
    if radix in (2, 4):
        return _butterfly_of_two(lanes, a) if radix == 2 else _butterfly_of_four(lanes, a)
    half, dtype = radix // 2, a.dtype
    statements, sums = local_pair(half * lanes, dtype)
    allocation, rest = local_pair(half * lanes, dtype)
    statements += allocation
    for k in range(half):
        (x, y), (z, w) = a.load((k + 1) * lanes, lanes), a.load((radix - 1 - k) * lanes, lanes)
        statements.append(sums.store(k * lanes, (x + z, y + w), lanes))
        statements.append(rest.store(k * lanes, (x - z, y - w), lanes))
    for j in range(1, half + 1):
        (re, im), sine_re, sine_im = a.load(0, lanes), None, None
        for k in range(half):
            angle = 2 * math.pi * ((k + 1) * j % radix) / radix
            cosine, sine = (
                builders.broadcast(tirx.const(value, dtype), lanes)
                for value in (math.cos(angle), math.sin(angle))
            )
            (x, y), (z, w) = sums.load(k * lanes, lanes), rest.load(k * lanes, lanes)
            re, im = re + cosine * x, im + cosine * y
            sine_re = sine * z if sine_re is None else sine_re + sine * z
            sine_im = sine * w if sine_im is None else sine_im + sine * w
        statements.append(a.store(j * lanes, (re + sine_im, im - sine_re), lanes))
        statements.append(a.store((radix - j) * lanes, (re - sine_im, im + sine_re), lanes))
    total = a.load(0, lanes)
    for k in range(half):
        x, y = sums.load(k * lanes, lanes)
        total = total[0] + x, total[1] + y
    return [*statements, a.store(0, total, lanes)]


def _butterfly_of_two(lanes: int, a: Pair) -> list[Stmt]:
    statements, both = local_pair(2 * lanes, a.dtype)
    (x, y), (z, w) = a.load(0, lanes), a.load(lanes, lanes)
    statements += [both.store(0, (x + z, y + w), lanes), both.store(lanes, (x - z, y - w), lanes)]
    return [*statements, *(a.store(k * lanes, both.load(k * lanes, lanes), lanes) for k in (0, 1))]


def _butterfly_of_four(lanes: int, a: Pair) -> list[Stmt]:
    statements, half = local_pair(4 * lanes, a.dtype)
    for k in (0, 1):
        (x, y), (z, w) = a.load(k * lanes, lanes), a.load((k + 2) * lanes, lanes)
        statements.append(half.store(k * lanes, (x + z, y + w), lanes))
        statements.append(half.store((k + 2) * lanes, (x - z, y - w), lanes))
    (x, y), (z, w) = (half.load(k * lanes, lanes) for k in (0, 1))
    statements += [a.store(0, (x + z, y + w), lanes), a.store(2 * lanes, (x - z, y - w), lanes)]
    (x, y), (z, w) = (half.load(k * lanes, lanes) for k in (2, 3))
    return [*statements, a.store(lanes, (x + w, y - z), lanes), a.store(3 * lanes, (x - w, y + z), lanes)]


def push_radix(halves: tuple[int, int], radix: int) -> tuple[int, int]:
    """Return two factors of which the smaller one has got a radix."""
    first, second = halves
    return (first, second * radix) if second < first else (first * radix, second)


class Halves:
    """Two factors of a length, of about the same size; each is a product of radices.

    ``rest`` is what has no such factor. Of a known length all are numbers.
    """

    def __init__(self, length: Extent, radices: Sequence[int] = RADICES) -> None:
        self.length, self.radices = length, radices
        known = static_int(length)
        factors = None if known is None else factorize(known, radices)
        self.first: Extent = tirx.Var("first", "int64")
        self.second: Extent = tirx.Var("second", "int64")
        self.rest: Extent = tirx.Var("rest", "int64")
        self.is_known = factors is not None
        if factors is not None:
            self.first, self.second = reduce(push_radix, factors, (1, 1))
            self.rest = 1

    def make(self) -> list[Stmt]:
        """Return the statements that find them: the smaller one gets the next radix."""
        if self.is_known:
            return []
        first, second, rest = states = [State(), State(), State()]

        def push(radix: int) -> Stmt:
            grow = [each.set(each.get() * radix) for each in (second, first)]
            divided = rest.set(tirx.floordiv(rest.get(), radix))
            return sequence([tirx.IfThenElse(second.get() < first.get(), *grow), divided])

        begin = zip(states, (1, 1, self.length), strict=True)
        variables = zip((self.first, self.second, self.rest), states, strict=True)
        return [
            *(tirx.AllocBuffer(state.array) for state in states),
            *(state.set(value) for state, value in begin),
            *(
                tirx.While(tirx.floormod(rest.get(), radix) == 0, push(radix))
                for radix in self.radices
                if radix <= _LARGEST_OF_ANY
            ),
            *(tirx.Bind(variable, state.get()) for variable, state in variables),
        ]


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
        states = [tirx.AllocBuffer(each.array) for each in (self.side, self.left, self.stride)]
        return [*states, self.side.set(0)]

    def at(self, row: Index, lane: Index = 0) -> PrimExpr:
        """Return where a row's element is."""
        return (self.side.get() * self.length + row) * self.lanes + lane

    def transform(self, rows: Extent, roots: Pair) -> Stmt:
        """Transform the first ``rows`` rows, whose roots of one are given."""
        begin = [self.left.set(rows), self.stride.set(1)]
        known = static_int(rows)
        factors = self.radices if known is None else factorize(known, self.radices) or ()
        radices = [radix for radix in self.radices if radix in factors]
        if known is None:
            radices = [radix for radix in radices if radix <= _LARGEST_OF_ANY]
        if not radices:
            return sequence(begin)
        choice = self._pass(radices[-1], roots)
        for radix in radices[-2::-1]:
            divides = tirx.floormod(self.left.get(), radix) == 0
            choice = tirx.IfThenElse(divides, self._pass(radix, roots), choice)
        return sequence([*begin, tirx.While(self.left.get() > 1, choice)])

    def _pass(self, radix: int, roots: Pair) -> Stmt:
        """Do one pass: ``left`` is the length of a transform, ``stride`` how many there are."""
        lanes, length = self.lanes, self.length
        step, stride = (tirx.Var(name, "int64") for name in ("step", "stride"))
        source, target = (tirx.Var(name, "int64") for name in ("source", "target"))

        def turn(p: PrimExpr) -> Stmt:
            statements, turns = local_pair(radix, self.dtype)
            statements += [turns.store(j, roots.load(p * stride * j)) for j in range(1, radix)]

            def transform(q: PrimExpr) -> Stmt:
                inner, numbers = local_pair(radix * lanes, self.dtype)
                for k in range(radix):
                    place = source + ((p + step * k) * stride + q) * lanes
                    inner.append(numbers.store(k * lanes, self.data.load(place, lanes), lanes))
                inner += butterfly(radix, lanes, numbers)
                for j in range(radix):
                    value = numbers.load(j * lanes, lanes)
                    turned = times(value, spread(turns.load(j), lanes)) if j else value
                    place = target + ((p * radix + j) * stride + q) * lanes
                    inner.append(self.data.store(place, turned, lanes))
                return sequence(inner)

            return sequence([*statements, loop("q", stride, transform)])

        return sequence(
            [
                tirx.Bind(step, tirx.floordiv(self.left.get(), radix)),
                tirx.Bind(stride, self.stride.get()),
                tirx.Bind(source, self.side.get() * length * lanes),
                tirx.Bind(target, (1 - self.side.get()) * length * lanes),
                loop("p", step, turn),
                self.left.set(step),
                self.stride.set(stride * radix),
                self.side.set(1 - self.side.get()),
            ]
        )

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
            statements, turned = transposed([source(lane, first) for lane in range(lanes)], lanes)
            for row, value in enumerate(turned):
                statements.append(self.data.store(self.at(first + row), value, lanes))
            return sequence(statements)

        return self._squares(rows, copy)

    def store_squares(self, rows: Extent, sink: Callable[[int, PrimExpr, Number], Stmt]) -> Stmt:
        """Store the lanes: ``sink`` stores the elements of a lane from a row on, a vector."""
        lanes = self.lanes

        def copy(first: PrimExpr) -> Stmt:
            given = [self.data.load(self.at(first + row), lanes) for row in range(lanes)]
            statements, turned = transposed(given, lanes)
            return sequence([*statements, *(sink(lane, first, value) for lane, value in enumerate(turned))])

        return self._squares(rows, copy)

    def _squares(self, rows: Extent, copy: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Copy squares of as many rows as there are lanes; the last one may overlap with that before it."""
        last = as_expr(rows) - self.lanes
        count = builders.round_up_div(rows, self.lanes)
        return loop("square", count, lambda at: copy(tirx.min(at * self.lanes, last)))


def each(count: Extent, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Return a loop, which may have no rounds."""
    return tirx.Evaluate(0) if static_int(count) == 0 else loop("k", count, body)


def at_least(value: Extent, least: int) -> PrimExpr | bool:
    """Return whether a size is so large, as an expression if only the call knows."""
    number = static_int(value)
    return as_expr(value) >= least if number is None else number >= least


def transposed(rows: Sequence[Number], lanes: int) -> tuple[list[Stmt], list[Number]]:
    """Return the columns of a square of vectors, and the statements that they need."""
    statements: list[Stmt] = []

    def bind(values: Sequence[PrimExpr]) -> list[PrimExpr]:
        variables = [
            tirx.Var("row", builders.vector_type(builders.dtype_of(rows[0][0]).split("x")[0], lanes))
            for _ in values
        ]
        statements.extend(tirx.Bind(var, value) for var, value in zip(variables, values, strict=True))
        return variables

    parts = []
    for values in zip(*rows, strict=True):
        columns, step = bind(values), 1
        while step < lanes:
            columns = bind(exchange_blocks(columns, step, lanes))
            step *= 2
        parts.append(columns)
    return statements, list(zip(*parts, strict=True))


#: Returns the numbers from a place on, as many as a vector has lanes; returns the statements that store some.
Load: TypeAlias = Callable[[PrimExpr, int], Number]
Store: TypeAlias = Callable[[PrimExpr, Number, int], Stmt]


class Matrix:
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

    def transform(self, load: Load, store: Store) -> Stmt:
        """Transform the elements that ``load`` returns, and give the results to ``store``."""
        first, second, (turns, others) = self.first, self.second, self.turns

        def of_half(half: PrimExpr) -> Stmt:
            is_first, variables = half == 0, [tirx.Var(name, "int64") for name in ("rows", "count", "begin")]
            choices = (first, second), (second, first), (turns.begin, others.begin)
            bound = [
                tirx.Bind(var, tirx.if_then_else(is_first, *map(as_expr, values)))
                for var, values in zip(variables, choices, strict=True)
            ]
            rows, count, begin = variables
            own = Pair(turns.array, begin, rows)
            return sequence([*bound, self._transform_half(is_first, rows, count, own, load, store)])

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


@dataclass(frozen=True, slots=True)
class Frame:
    """The sizes of a transform along the middle one of three axes.

    outer, inner: those of the other axes. given, length, kept: that of the axis of the operand, of the
    transform and of the result. kind: "complex", "from real" or "to real"; a real one's spectrum is a half,
    the other half is its conjugate.
    """

    outer: Extent
    inner: Extent
    given: Extent
    length: Extent
    kept: Extent
    kind: str = "complex"

    @property
    def total(self) -> Extent:
        """Return the number of sequences."""
        return self.outer * self.inner

    def begin(self, number: PrimExpr, size: Extent) -> PrimExpr:
        """Return where a sequence begins in an array whose axis has this size."""
        if static_int(self.inner) == 1:
            return number * size
        inner = as_expr(builders.maximum(self.inner, 1))
        return tirx.floordiv(number, inner) * size * inner + tirx.floormod(number, inner)


class Fourier:
    """The loops of a transform, in float32 or float64.

    A single sequence of real numbers, of an even length, is one of half as many complex numbers (Cooley,
    Lewis and Welch, 1970).

    Args:
        load: returns the numbers from a place of the operand on, counted over all axes.
        store: stores those of the result.
        frame: the sizes.
        dtype: that of the computation.
        inverse: whether the signs of the angles are positive.
        exponent: the results are multiplied by this power of the length.

    """

    def __init__(
        self, load: Load, store: Store, frame: Frame, dtype: str, *, inverse: bool, exponent: float
    ) -> None:
        self.load, self.store, self.frame, self.dtype = load, store, frame, dtype
        self.inverse, self.exponent = inverse, exponent
        self.n = as_expr(frame.length)
        self.lanes = 1 if builders.is_for_gpu() else _VECTOR_BYTES // builders.item_bytes(dtype)
        self.scale = tirx.Var("scale", dtype)
        self.is_dense = static_int(frame.inner) == 1
        #: The number of complex numbers of a single sequence, and whether two real ones make one of them.
        self.points: Extent = frame.length
        self.is_packed: PrimExpr | bool = False
        self.roots = Roots(frame.length)
        known = static_int(frame.length)
        if frame.kind != "complex":
            self.is_packed = tirx.floormod(self.n, 2) == 0 if known is None else known % 2 == 0
            self.points = tirx.Var("points", "int64")
        if self.is_packed is True:
            self.points = (known or 0) // 2

    def emit(self) -> Stmt:
        """Return the loops."""
        frame, known = self.frame, static_int(self.frame.length)
        if known == 0 or static_int(frame.total) == 0:
            return tirx.Evaluate(0)
        value = tirx.const(1, _WIDE)
        if self.exponent:
            size = self.n.astype(_WIDE)
            value = value / (size if self.exponent == -1 else tirx.sqrt(size))
        statements = [tirx.Bind(self.scale, value.astype(self.dtype))]
        if isinstance(self.points, tirx.Var) and frame.kind != "complex":
            half = tirx.if_then_else(self.is_packed, tirx.floordiv(self.n, 2), self.n)
            statements.append(tirx.Bind(self.points, half))
        halves = Halves(self.points)
        if known is not None and not halves.is_known:
            return sequence([*statements, self._by_convolution()])
        is_short = self.n <= _LONGEST_COLUMN if known is None else known <= _LONGEST_COLUMN
        choice = branch(
            at_least(frame.total * 2, self.lanes),
            lambda: branch(is_short, self._by_columns, self._by_matrix),
            self._by_matrix,
        )
        if known is None:
            choice = tirx.IfThenElse(halves.rest == 1, choice, self._by_convolution())
        return sequence([*statements, *halves.make(), choice])

    def given(self, base: PrimExpr, k: PrimExpr, lanes: int = 1) -> Number:
        """Return elements of a sequence; for the inverse transform with their parts exchanged."""
        value = self.load(base + k * self.frame.inner, lanes)
        return swapped(value) if self.inverse else value

    def put(self, base: PrimExpr, k: PrimExpr, value: Number, lanes: int = 1) -> Stmt:
        """Store elements of a result."""
        result = self._result(value, lanes)
        return self.store(base + k * self.frame.inner, result, lanes)

    def _result(self, value: Number, lanes: int = 1) -> Number:
        if self.exponent:
            factor = builders.broadcast(self.scale, lanes)
            value = value[0] * factor, value[1] * factor
        return swapped(value) if self.inverse else value

    def bases(self, number: PrimExpr) -> tuple[list[Stmt], PrimExpr, PrimExpr]:
        """Return where a sequence begins in the operand and in the result, behind statements for these."""
        source, target = tirx.Var("source", "int64"), tirx.Var("target", "int64")
        frame = self.frame
        begins = [
            tirx.Bind(var, frame.begin(number, size))
            for var, size in ((source, frame.given), (target, frame.kept))
        ]
        return begins, source, target

    def _shared(self, groups: Stmt, sequences: int) -> Stmt:
        """Let threads share the groups of so many sequences."""
        length = static_int(self.frame.length)
        if length is None or not isinstance(groups, tirx.For):
            return groups
        return independent_loop(groups, length * sequences * _OPERATIONS)

    # Many sequences: as many at once as a vector has lanes

    def _by_columns(self) -> Stmt:
        """Transform groups of sequences, the next ones in memory; the last group may repeat some."""
        frame, lanes, roots = self.frame, self.lanes, Roots(self.frame.length)
        allocation, (turns,) = pairs(self.dtype, self.n)
        is_wide = at_least(frame.inner, lanes)
        across = as_expr(builders.round_up_div(frame.inner, lanes))

        def fill(k: PrimExpr) -> Stmt:
            return turns.store(k, cast(roots.root(k), self.dtype))

        def first_of(group: PrimExpr) -> PrimExpr:
            """Return the first sequence of a group of neighbours along the inner axes."""
            column = tirx.min(tirx.floormod(group, across) * lanes, as_expr(frame.inner) - lanes)
            return tirx.floordiv(group, across) * frame.inner + column

        def transform(group: PrimExpr) -> Stmt:
            allocation, (data,) = pairs(self.dtype, self.n * (2 * lanes))
            columns = Columns(data, lanes, self.n)
            arrays = [builders.local_array(lanes, "int64", name) for name in ("sources", "targets")]

            def find(lane: PrimExpr) -> Stmt:
                any_ = tirx.min(group * lanes + lane, as_expr(frame.total) - 1)
                number = _choose(is_wide, lambda: first_of(group) + lane, lambda: any_)
                begins = (frame.begin(number, size) for size in (frame.given, frame.kept))
                stores = zip(arrays, begins, strict=True)
                return sequence([tirx.BufferStore(array, begin, [lane]) for array, begin in stores])

            ends = (lambda lane, array=array: array[as_expr(lane)] for array in arrays)
            return sequence(
                [
                    *allocation,
                    *map(tirx.AllocBuffer, arrays),
                    loop("lane", lanes, find),
                    *columns.begin(),
                    self._load(columns, next(ends), is_wide),
                    columns.transform(frame.length, turns),
                    self._store(columns, next(ends), is_wide),
                ]
            )

        outer, any_ = frame.outer * across, builders.round_up_div(frame.total, lanes)
        count = _choose(is_wide, lambda: as_expr(outer), lambda: as_expr(any_))
        groups = self._shared(loop("group", builders.as_index(count), transform), lanes)
        return sequence([*roots.make(), *allocation, loop("k", self.n, fill), groups])

    def _load(self, columns: Columns, source: Callable[[Index], PrimExpr], is_wide: PrimExpr | bool) -> Stmt:
        """Fill columns: by vectors of neighbours, by squares of rows, or else by elements."""
        lanes, rows = self.lanes, self.frame.given

        def by_rows() -> Stmt:
            return columns.load_rows(rows, lambda k: self.given(source(0), k, lanes))

        def by_squares() -> Stmt:
            return columns.load_squares(rows, lambda lane, k: self.given(source(lane), k, lanes))

        def by_lanes() -> Stmt:
            def of_lane(lane: PrimExpr) -> Stmt:
                return columns.load_lane(lane, rows, partial(self.given, source(lane)))

            return loop("lane", lanes, of_lane)

        def mirror(k: PrimExpr) -> Stmt:
            im, re = columns.data.load(columns.at(self.n - rows - k), lanes)
            return columns.data.store(columns.at(k + rows), (-im, re), lanes)

        square = at_least(rows, lanes) if self.is_dense and lanes > 1 else False
        given = branch(is_wide, by_rows, lambda: branch(square, by_squares, by_lanes))
        return sequence([given, each(self.n - rows, mirror)]) if self.frame.kind == "to real" else given

    def _store(self, columns: Columns, target: Callable[[Index], PrimExpr], is_wide: PrimExpr | bool) -> Stmt:
        """Store the results of columns in the same ways."""
        lanes, kept = self.lanes, self.frame.kept

        def by_rows() -> Stmt:
            return columns.store_rows(kept, lambda k, value: self.put(target(0), k, value, lanes))

        def by_squares() -> Stmt:
            return columns.store_squares(kept, lambda lane, k, value: self.put(target(lane), k, value, lanes))

        def by_lanes() -> Stmt:
            def of_lane(lane: PrimExpr) -> Stmt:
                return columns.store_lane(lane, kept, partial(self.put, target(lane)))

            return loop("lane", lanes, of_lane)

        square = at_least(kept, lanes) if self.is_dense and lanes > 1 else False
        return branch(is_wide, by_rows, lambda: branch(square, by_squares, by_lanes))

    # Few or long sequences: one after the other

    def _by_matrix(self) -> Stmt:
        frame = self.frame
        matrix = Matrix(self.points, self.dtype, self.lanes)
        allocation, (work,) = pairs(self.dtype, self.points)

        def transform(number: PrimExpr) -> Stmt:
            bound, source, target = self.bases(number)
            begin = [*bound, *matrix.allocation]
            if frame.kind == "complex" and self.is_dense:
                whole = matrix.transform(partial(self.given, source), partial(self.put, target))
                return sequence([*begin, whole])
            return sequence(
                [
                    *begin,
                    *allocation,
                    self.enter(source, work.store),
                    matrix.transform(work.load, work.store),
                    self.leave(work.load, target),
                ]
            )

        sequences = self._shared(loop("sequence", frame.total, transform), 1)
        return sequence([*self.make_roots(), *matrix.prepare(), sequences])

    def make_roots(self) -> list[Stmt]:
        """Return the statements that make what ``enter`` and ``leave`` need."""
        return [] if self.is_packed is False else self.roots.make()

    def enter(self, source: PrimExpr, put: Callable[[PrimExpr, Number], Stmt]) -> Stmt:
        """Give the points of a sequence to ``put``."""

        def plain() -> Stmt:
            if self.frame.kind != "to real":
                return each(self.points, lambda k: put(k, self.given(source, k)))
            is_mirrored, own = tirx.Var("is_mirrored", "bool"), tirx.Var("own", "int64")

            def mirror(k: PrimExpr) -> Stmt:
                im, re = self.given(source, own)
                value = tirx.Select(is_mirrored, -im, im), re
                bound = tirx.Bind(own, tirx.min(k, self.n - k)), tirx.Bind(is_mirrored, k > self.n - k)
                return sequence([*bound, put(k, value)])

            return each(self.points, mirror)

        def packed() -> Stmt:
            return each(self.points, lambda k: put(k, self._packed(source, k)))

        return branch(self.is_packed, packed, plain)

    def _packed(self, source: PrimExpr, k: PrimExpr) -> Number:
        """Return a point that stands for two real numbers, or for two frequencies."""
        inner = self.frame.inner
        if self.frame.kind == "from real":
            return self.load(source + k * 2 * inner, 1)[0], self.load(source + (k * 2 + 1) * inner, 1)[0]
        x, (re, im) = self.load(source + k * inner, 1), self.load(source + (self.points - k) * inner, 1)
        zero = tirx.const(0, self.dtype)  # instead of the imaginary parts of the first and the last frequency
        x, im = (x[0], tirx.Select(k == 0, zero, x[1])), tirx.Select(k == 0, zero, im)
        total, difference = (x[0] + re, x[1] - im), (x[0] - re, x[1] + im)
        cosine, sine = cast(self.roots.root(k), self.dtype)
        turned = times(difference, (sine, cosine))  # i exp(2 pi i k / n)
        return swapped((total[0] + turned[0], total[1] + turned[1]))

    def leave(self, get: Callable[[PrimExpr], Number], target: PrimExpr) -> Stmt:
        """Store a result, whose points ``get`` returns."""

        def plain() -> Stmt:
            return each(self.frame.kept, lambda k: self.put(target, k, get(k)))

        def packed() -> Stmt:
            if self.frame.kind == "from real":
                return each(self.frame.kept, lambda k: self.put(target, k, self._unpacked(get, k)))
            return each(self.points, lambda k: self._put_both(target, k, get(k)))

        return branch(self.is_packed, packed, plain)

    def _unpacked(self, get: Callable[[PrimExpr], Number], k: PrimExpr) -> Number:
        """Return a frequency of real numbers, two of which were a point."""
        last = k == self.points
        x = get(tirx.if_then_else(last, as_expr(0), k))
        re, im = get(tirx.if_then_else(tirx.any(k == 0, last), as_expr(0), self.points - k))
        half = tirx.const(0.5, self.dtype)
        total, difference = (x[0] + re, x[1] - im), (x[0] - re, x[1] + im)
        cosine, sine = cast(self.roots.root(k), self.dtype)
        turned = times(difference, (sine, -cosine))  # -i exp(-2 pi i k / n)
        return (total[0] + turned[0]) * half, (total[1] + turned[1]) * half

    def _put_both(self, target: PrimExpr, k: PrimExpr, value: Number) -> Stmt:
        """Store the two real numbers of a point."""
        re, im = self._result(value)
        places = (target + (k * 2 + part) * self.frame.inner for part in (0, 1))
        return sequence(
            [self.store(place, (part, part), 1) for place, part in zip(places, (re, im), strict=True)]
        )

    def _by_convolution(self) -> Stmt:
        """Transform sequences as convolutions with a chirp."""
        known = static_int(self.points)
        if known is not None:
            return _Convolution(self, 1 << (2 * known - 2).bit_length()).statements()
        size, padded = State(), tirx.Var("padded", "int64")
        return sequence(
            [
                tirx.AllocBuffer(size.array),
                size.set(1),
                tirx.While(size.get() < as_expr(self.points) * 2 - 1, size.set(size.get() * 2)),
                tirx.Bind(padded, size.get()),
                _Convolution(self, padded).statements(),
            ]
        )


def _choose(condition: PrimExpr | bool, yes: Callable[[], PrimExpr], no: Callable[[], PrimExpr]) -> PrimExpr:
    """Return one of two values, or which one only the call knows."""
    if isinstance(condition, bool):
        return yes() if condition else no()
    return tirx.if_then_else(condition, yes(), no())


class _Convolution:
    """Transforms as convolutions with a chirp, of a length that is a power of two.

    ``X[k] = c[k] sum(x[j] c[j] / c[k - j])`` with ``c[k] = exp(-i pi k**2 / n)``.
    """

    def __init__(self, fourier: Fourier, size: Extent) -> None:
        self.fourier, self.n, self.size = fourier, as_expr(fourier.points), as_expr(size)
        self.dtype = fourier.dtype
        self.matrix = Matrix(size, self.dtype, fourier.lanes, (4, 2))
        sizes = self.n, self.size, self.size
        self.allocation, (self.chirp, self.spectrum, self.work) = pairs(self.dtype, *sizes)

    def statements(self) -> Stmt:
        """Return the statements; the first task is to transform what each sequence is convolved with."""
        angles = Roots(builders.as_index(self.n) * 2)

        def fill_chirp(k: PrimExpr) -> Stmt:
            root = angles.root(tirx.floormod(k * k, self.n * 2))
            return self.chirp.store(k, cast(root, self.dtype))

        return sequence(
            [
                *self.fourier.make_roots(),
                *self.matrix.prepare(),
                *angles.make(),
                *self.allocation,
                *self.matrix.allocation,
                loop("k", self.n, fill_chirp),
                loop("task", as_expr(self.fourier.frame.total) * 2 + 1, self._do),
            ]
        )

    def _do(self, task: PrimExpr) -> Stmt:
        """Transform the inverse chirp (task 0), a sequence times the chirp, or the product of both."""
        work = self.work
        bound, source, target = self.fourier.bases(tirx.floordiv(tirx.max(task - 1, as_expr(0)), 2))
        is_product, is_first = tirx.floormod(task, 2) == 0, task == 0

        def put(k: PrimExpr, value: Number) -> Stmt:
            return work.store(k, times(value, self.chirp.load(k)))

        def get(k: PrimExpr) -> Number:
            return times(swapped(work.load(k)), self.chirp.load(k))

        def pad(k: PrimExpr) -> Stmt:
            zero = tirx.const(0, self.dtype)
            return work.store(self.n + k, (zero, zero))

        padded = sequence([self.fourier.enter(source, put), loop("k", self.size - self.n, pad)])
        enter = tirx.IfThenElse(is_product, loop("k", self.size, self._multiply), padded)
        leave = tirx.IfThenElse(is_product, self.fourier.leave(get, target), None)
        return sequence(
            [
                *bound,
                tirx.IfThenElse(is_first, loop("k", self.size, self._fill_filter), enter),
                self.matrix.transform(work.load, work.store),
                tirx.IfThenElse(is_first, loop("k", self.size, self._keep), leave),
            ]
        )

    def _fill_filter(self, k: PrimExpr) -> Stmt:
        distance = tirx.min(k, self.size - k)
        re, im = self.chirp.load(tirx.min(distance, self.n - 1))
        inside, zero = distance < self.n, tirx.const(0, self.dtype)
        return self.work.store(k, (tirx.Select(inside, re, zero), tirx.Select(inside, -im, zero)))

    def _keep(self, k: PrimExpr) -> Stmt:
        re, im = self.work.load(k)
        divisor = self.size.astype(self.dtype)
        return self.spectrum.store(k, (re / divisor, im / divisor))

    def _multiply(self, k: PrimExpr) -> Stmt:
        value = [tirx.Var(name, self.dtype) for name in ("re", "im")]
        bound = map(tirx.Bind, value, swapped(times(self.work.load(k), self.spectrum.load(k))))
        return sequence([*bound, self.work.store(k, (value[0], value[1]))])
