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
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The factors that have passes of their own; a length with another prime factor is convolved.
RADICES = (7, 5, 4, 3, 2)

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
    """An array of complex numbers, whose real and imaginary parts lie apart."""

    def __init__(self, size: Index, dtype: str, name: str, *, local: bool = False) -> None:
        self.dtype = dtype

        def array(part: str) -> Buffer:
            if local:
                return builders.local_array(int(size), dtype, f"{name}_{part}", 64)
            return tirx.decl_buffer((as_expr(size),), dtype, f"{name}_{part}", data_alignment=64)

        self.parts = array("re"), array("im")

    def allocate(self) -> list[Stmt]:
        """Return the statements that make the array."""
        return [each for part in self.parts for each in (tirx.AllocBuffer(part), tirx.Evaluate(part.data))]

    def load(self, at: Index, lanes: int = 1) -> Number:
        """Return an element, or as many as a vector has lanes."""
        re, im = (builders.load(part, at, lanes, self.dtype) for part in self.parts)
        return re, im

    def store(self, at: Index, value: Number, lanes: int = 1) -> list[Stmt]:
        """Return the statements that store an element or a vector."""
        return [builders.store(part, at, lanes, each) for part, each in zip(self.parts, value, strict=True)]

    def put(self, at: Index, value: Number, lanes: int = 1) -> Stmt:
        """Return them as one statement."""
        return sequence(self.store(at, value, lanes))


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
        self.shift = State()
        self.size = tirx.Var("size", "int64")
        self.fine = Pair(self.size, _WIDE, "fine")
        self.coarse = Pair(self.size, _WIDE, "coarse")

    def make(self) -> list[Stmt]:
        """Return the statements that make the tables."""
        length = as_expr(self.length)
        size = State()
        grow = sequence([size.set(size.get() * 2), self.shift.set(self.shift.get() + 1)])
        return [
            tirx.AllocBuffer(self.shift.array),
            tirx.AllocBuffer(size.array),
            self.shift.set(0),
            size.set(1),
            tirx.While(size.get() * size.get() < length, grow),
            tirx.Bind(self.size, size.get()),
            *self.fine.allocate(),
            *self.coarse.allocate(),
            loop("k", self.size, lambda k: sequence(self.fine.store(k, self._exact(k)))),
            loop("k", self.size, lambda k: sequence(self.coarse.store(k, self._exact(k * self.size)))),
        ]

    def _exact(self, number: PrimExpr) -> Number:
        """Return a root, from an angle up to an eighth of a turn; beyond the last one any number."""
        length = as_expr(self.length)
        number = tirx.min(number, length - 1)
        quarter = tirx.floordiv(number * 4, length)
        rest = number * 4 - quarter * length
        is_far = rest * 2 > length
        near = tirx.Select(is_far, length - rest, rest).astype(_WIDE)
        angle = tirx.const(math.pi / 2, _WIDE) * near / length.astype(_WIDE)
        sine, cosine = tirx.sin(angle), tirx.cos(angle)
        x, y = tirx.Select(is_far, sine, cosine), tirx.Select(is_far, cosine, sine)
        is_odd, one = (quarter & 1) == 1, tirx.const(1, _WIDE)
        re, im = tirx.Select(is_odd, y, x), tirx.Select(is_odd, x, y)
        is_left = tirx.any(quarter == 1, quarter == 2)
        return re * tirx.Select(is_left, -one, one), im * tirx.Select(quarter >= 2, one, -one)

    def root(self, number: PrimExpr) -> Number:
        """Return a root, in float64; the number is below the length."""
        low = number & (self.size - 1)
        high = tirx.shift_right(number, self.shift.get())
        return times(self.coarse.load(high), self.fine.load(low))


def butterfly(radix: int, dtype: str, lanes: int, into: Pair, a: Callable[[int], Number]) -> list[Stmt]:
    """Transform ``radix`` vectors; the results go into a small array."""
    if radix == 2:
        (x, y), (z, w) = a(0), a(1)
        return [*into.store(0, (x + z, y + w), lanes), *into.store(lanes, (x - z, y - w), lanes)]
    if radix == 4:
        return _butterfly_of_four(lanes, into, a)
    half = radix // 2
    sums = Pair(half * lanes, dtype, "sums", local=True)
    rest = Pair(half * lanes, dtype, "rest", local=True)
    statements = [*sums.allocate(), *rest.allocate()]
    for k in range(half):
        (x, y), (z, w) = a(k + 1), a(radix - 1 - k)
        statements += sums.store(k * lanes, (x + z, y + w), lanes)
        statements += rest.store(k * lanes, (x - z, y - w), lanes)
    total = list(a(0))
    for k in range(half):
        total = [part + each for part, each in zip(total, sums.load(k * lanes, lanes), strict=True)]
    statements += into.store(0, (total[0], total[1]), lanes)
    for j in range(1, half + 1):
        re, im = a(0)
        sine_re, sine_im = (builders.broadcast(tirx.const(0, dtype), lanes) for _ in range(2))
        for k in range(half):
            angle = 2 * math.pi * ((k + 1) * j % radix) / radix
            cosine, sine = (
                builders.broadcast(tirx.const(value, dtype), lanes)
                for value in (math.cos(angle), math.sin(angle))
            )
            x, y = sums.load(k * lanes, lanes)
            z, w = rest.load(k * lanes, lanes)
            re, im = re + cosine * x, im + cosine * y
            sine_re, sine_im = sine_re + sine * z, sine_im + sine * w
        statements += into.store(j * lanes, (re + sine_im, im - sine_re), lanes)
        statements += into.store((radix - j) * lanes, (re - sine_im, im + sine_re), lanes)
    return statements


def _butterfly_of_four(lanes: int, into: Pair, a: Callable[[int], Number]) -> list[Stmt]:
    half = Pair(4 * lanes, into.dtype, "half", local=True)
    statements = half.allocate()
    for k in (0, 1):
        (x, y), (z, w) = a(k), a(k + 2)
        statements += half.store(k * lanes, (x + z, y + w), lanes)
        statements += half.store((k + 2) * lanes, (x - z, y - w), lanes)
    (x, y), (z, w) = (half.load(k * lanes, lanes) for k in (0, 1))
    statements += into.store(0, (x + z, y + w), lanes)
    statements += into.store(2 * lanes, (x - z, y - w), lanes)
    (x, y), (z, w) = (half.load(k * lanes, lanes) for k in (2, 3))
    statements += into.store(lanes, (x + w, y - z), lanes)
    statements += into.store(3 * lanes, (x - w, y + z), lanes)
    return statements


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
            *(tirx.While(tirx.floormod(rest.get(), radix) == 0, push(radix)) for radix in self.radices),
            *(tirx.Bind(variable, state.get()) for variable, state in variables),
        ]


class Columns:
    """The transform of as many sequences as a vector has lanes, element by element: Stockham's passes.

    ``data`` has two arrays of ``length`` vectors, and ``side`` says in which one the elements are.
    """

    def __init__(self, dtype: str, lanes: int, length: Extent, radices: Sequence[int]) -> None:
        self.dtype, self.lanes, self.length, self.radices = dtype, lanes, length, radices
        self.data = Pair(length * (2 * lanes), dtype, "columns")
        self.side, self.left, self.stride = State(), State(), State()

    def allocate(self) -> list[Stmt]:
        """Return the statements that make the arrays."""
        states = [tirx.AllocBuffer(each.array) for each in (self.side, self.left, self.stride)]
        return [*self.data.allocate(), *states]

    def at(self, row: Index, lane: Index = 0) -> PrimExpr:
        """Return where a row's element is."""
        return (self.side.get() * self.length + row) * self.lanes + lane

    def transform(self, rows: Extent, roots: Pair) -> Stmt:
        """Transform the first ``rows`` rows, whose roots of one are given."""
        begin = [self.left.set(rows), self.stride.set(1)]
        radices, known = self.radices, static_int(rows)
        if known is not None:
            radices = sorted(set(factorize(known, radices) or ()), reverse=True)
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
            turns = Pair(radix, self.dtype, "turns", local=True)
            statements = turns.allocate()
            for j in range(1, radix):
                statements += turns.store(j, roots.load(p * stride * j))

            def transform(q: PrimExpr) -> Stmt:
                given = Pair(radix * lanes, self.dtype, "given", local=True)
                made = Pair(radix * lanes, self.dtype, "made", local=True)
                inner = [*given.allocate(), *made.allocate()]
                for k in range(radix):
                    place = source + ((p + step * k) * stride + q) * lanes
                    inner += given.store(k * lanes, self.data.load(place, lanes), lanes)
                inner += butterfly(radix, self.dtype, lanes, made, lambda k: given.load(k * lanes, lanes))
                for j in range(radix):
                    value = made.load(j * lanes, lanes)
                    turned = times(value, spread(turns.load(j), lanes)) if j else value
                    place = target + ((p * radix + j) * stride + q) * lanes
                    inner += self.data.store(place, turned, lanes)
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
        return each(rows, lambda k: sequence(self.data.store(self.at(k, lane), source(k))))

    def store_lane(self, lane: Index, rows: Extent, sink: Callable[[PrimExpr, Number], Stmt]) -> Stmt:
        """Store the elements of a lane."""
        return each(rows, lambda k: sink(k, self.data.load(self.at(k, lane))))

    def load_rows(self, rows: Extent, source: Callable[[PrimExpr], Number]) -> Stmt:
        """Fill all lanes: ``source`` returns the vector of a row."""
        return each(rows, lambda k: sequence(self.data.store(self.at(k), source(k), self.lanes)))

    def store_rows(self, rows: Extent, sink: Callable[[PrimExpr, Number], Stmt]) -> Stmt:
        """Store the vectors of rows."""
        return each(rows, lambda k: sink(k, self.data.load(self.at(k), self.lanes)))

    def load_squares(self, rows: Extent, source: Callable[[int, PrimExpr], Number]) -> Stmt:
        """Fill all lanes: ``source`` returns the elements of a lane from a row on, as a vector."""
        lanes = self.lanes

        def copy(first: PrimExpr) -> Stmt:
            statements, turned = transposed([source(lane, first) for lane in range(lanes)], lanes)
            for row, value in enumerate(turned):
                statements += self.data.store(self.at(first + row), value, lanes)
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
        self.first, self.second = self.halves.first, self.halves.second
        self.roots = Roots(length)
        self.turns = [Pair(size, dtype, "turns") for size in (self.first, self.second)]
        self.near = Pair(self.first * lanes, dtype, "near")
        self.middle = Pair(as_expr(length) + lanes, dtype, "middle")
        longest = builders.maximum(self.first, self.second)
        self.columns = Columns(dtype, lanes, longest, radices)

    def prepare(self) -> list[Stmt]:
        """Return the statements that factor the length and make the tables."""

        def fill(turns: Pair, step: Extent) -> Callable[[PrimExpr], Stmt]:
            return lambda k: sequence(turns.store(k, cast(self.roots.root(k * step), self.dtype)))

        def fill_near(k: PrimExpr) -> Stmt:
            def store(lane: PrimExpr) -> Stmt:
                root = self.roots.root(k * tirx.min(lane, as_expr(self.second) - 1))
                return sequence(self.near.store(k * self.lanes + lane, cast(root, self.dtype)))

            return loop("lane", self.lanes, store)

        return [
            *self.halves.make(),
            *self.roots.make(),
            *(statement for each in (*self.turns, self.near) for statement in each.allocate()),
            loop("k", self.first, fill(self.turns[0], self.second)),
            loop("k", self.second, fill(self.turns[1], self.first)),
            loop("k", self.first, fill_near),
        ]

    def allocate(self) -> list[Stmt]:
        """Return the statements that make the arrays of a transform."""
        return [*self.middle.allocate(), *self.columns.allocate()]

    def transform(self, load: Load, store: Store) -> Stmt:
        """Transform the elements that ``load`` returns, and give the results to ``store``."""
        return sequence([self._transform_columns(load), self._transform_rows(store)])

    def _groups(self, count: Extent, body: Callable[[PrimExpr], list[Stmt]]) -> Stmt:
        """Do something for groups of as many columns as there are lanes, which may overlap."""

        def of_group(group: PrimExpr) -> Stmt:
            start = tirx.Var("start", "int64")
            last = builders.maximum(count - self.lanes, 0)
            begin = tirx.Bind(start, tirx.min(group * self.lanes, as_expr(last)))
            return sequence([begin, self.columns.side.set(0), *body(start)])

        return loop("group", builders.round_up_div(count, self.lanes), of_group)

    def _transform_columns(self, load: Load) -> Stmt:
        columns, lanes, rows, count = self.columns, self.lanes, self.first, self.second

        def body(start: PrimExpr) -> list[Stmt]:
            def turn(k: PrimExpr, value: Number) -> Stmt:
                root = spread(cast(self.roots.root(start * k), self.dtype), lanes)
                factor = times(root, self.near.load(k * lanes, lanes))
                return sequence(self.middle.store(k * count + start, times(value, factor), lanes))

            def by_lanes() -> Stmt:
                few = builders.minimum(count, lanes)
                return loop(
                    "lane",
                    few,
                    lambda lane: columns.load_lane(lane, rows, lambda k: load(k * count + lane, 1)),
                )

            def by_rows() -> Stmt:
                return columns.load_rows(rows, lambda k: load(k * count + start, lanes))

            return [
                branch(at_least(count, lanes), by_rows, by_lanes),
                columns.transform(rows, self.turns[0]),
                columns.store_rows(rows, turn),
            ]

        return self._groups(count, body)

    def _transform_rows(self, store: Store) -> Stmt:
        columns, lanes, rows, count = self.columns, self.lanes, self.second, self.first
        few = builders.minimum(count, lanes)

        def body(start: PrimExpr) -> list[Stmt]:
            def load_lane(lane: PrimExpr) -> Stmt:
                return columns.load_lane(lane, rows, lambda k: self.middle.load((start + lane) * rows + k))

            def load_squares() -> Stmt:
                return columns.load_squares(
                    rows, lambda lane, k: self.middle.load((start + lane) * rows + k, lanes)
                )

            def store_lane(lane: PrimExpr) -> Stmt:
                return columns.store_lane(lane, rows, lambda k, value: store(k * count + lane, value, 1))

            def store_rows() -> Stmt:
                return columns.store_rows(rows, lambda k, value: store(k * count + start, value, lanes))

            by_lanes = partial(loop, "lane", few, load_lane)
            is_wide = at_least(count, lanes)
            return [
                branch(at_least(rows, lanes), lambda: branch(is_wide, load_squares, by_lanes), by_lanes),
                columns.transform(rows, self.turns[1]),
                branch(is_wide, store_rows, partial(loop, "lane", few, store_lane)),
            ]

        return self._groups(count, body)


@dataclass(frozen=True, slots=True)
class Frame:
    """The sizes of a transform along the middle one of three axes.

    outer, inner: those of the other axes. given, length, kept: that of the axis of the operand, of the
    transform and of the result. is_half: the operand is the first half of a spectrum whose other half is the
    conjugate.
    """

    outer: Extent
    inner: Extent
    given: Extent
    length: Extent
    kept: Extent
    is_half: bool = False

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

    def emit(self) -> Stmt:
        """Return the loops."""
        frame, known = self.frame, static_int(self.frame.length)
        if known == 0 or static_int(frame.total) == 0:
            return tirx.Evaluate(0)
        value = tirx.const(1, _WIDE)
        if self.exponent:
            size = self.n.astype(_WIDE)
            value = value / (size if self.exponent == -1 else tirx.sqrt(size))
        scale = tirx.Bind(self.scale, value.astype(self.dtype))
        halves = Halves(frame.length)
        if known is not None and not halves.is_known:
            return sequence([scale, self._by_convolution()])
        is_short = self.n <= _LONGEST_COLUMN if known is None else known <= _LONGEST_COLUMN
        choice = branch(
            at_least(frame.total * 2, self.lanes),
            lambda: branch(is_short, self._by_columns, self._by_matrix),
            self._by_matrix,
        )
        if known is None:
            choice = tirx.IfThenElse(halves.rest == 1, choice, self._by_convolution())
        return sequence([scale, *halves.make(), choice])

    def given(self, base: PrimExpr, k: PrimExpr, lanes: int = 1) -> Number:
        """Return elements of a sequence; for the inverse transform with their parts exchanged."""
        if self.frame.is_half:
            re, im = self.load(base + tirx.min(k, self.n - k) * self.frame.inner, lanes)
            value = re, tirx.Select(k > self.n - k, -im, im)
        else:
            value = self.load(base + k * self.frame.inner, lanes)
        return swapped(value) if self.inverse else value

    def put(self, base: PrimExpr, k: PrimExpr, value: Number, lanes: int = 1) -> Stmt:
        """Store elements of a result."""
        if self.exponent:
            factor = builders.broadcast(self.scale, lanes)
            value = value[0] * factor, value[1] * factor
        return self.store(base + k * self.frame.inner, swapped(value) if self.inverse else value, lanes)

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
        roots, turns = Roots(self.frame.length), Pair(self.n, self.dtype, "turns")

        def fill(k: PrimExpr) -> Stmt:
            return sequence(turns.store(k, cast(roots.root(k), self.dtype)))

        groups = branch(
            at_least(self.frame.inner, self.lanes),
            lambda: self._of_neighbours(turns),
            lambda: self._of_any(turns),
        )
        return sequence([*roots.make(), *turns.allocate(), loop("k", self.n, fill), groups])

    def _columns(self) -> Columns:
        return Columns(self.dtype, self.lanes, self.n, RADICES)

    def _of_any(self, turns: Pair) -> Stmt:
        """Transform groups of any sequences; the last group repeats one."""
        frame, lanes = self.frame, self.lanes

        def transform(group: PrimExpr) -> Stmt:
            columns = self._columns()
            arrays = [builders.local_array(lanes, "int64", name) for name in ("sources", "targets")]

            def find(lane: PrimExpr) -> Stmt:
                number = tirx.min(group * lanes + lane, as_expr(frame.total) - 1)
                begins = (frame.begin(number, size) for size in (frame.given, frame.kept))
                stores = zip(arrays, begins, strict=True)
                return sequence([tirx.BufferStore(array, begin, [lane]) for array, begin in stores])

            def source(lane: Index) -> Callable[..., Number]:
                return partial(self.given, arrays[0][as_expr(lane)])

            def target(lane: Index) -> Callable[..., Stmt]:
                return partial(self.put, arrays[1][as_expr(lane)])

            load, store = self._copies(columns, source, target)
            return sequence(
                [
                    *columns.allocate(),
                    *map(tirx.AllocBuffer, arrays),
                    loop("lane", lanes, find),
                    columns.side.set(0),
                    load,
                    columns.transform(frame.length, turns),
                    store,
                ]
            )

        return self._shared(loop("group", builders.round_up_div(frame.total, lanes), transform), lanes)

    def _copies(
        self,
        columns: Columns,
        source: Callable[[Index], Callable[..., Number]],
        target: Callable[[Index], Callable[..., Stmt]],
    ) -> tuple[Stmt, Stmt]:
        """Return the statements that load sequences, and store them: by squares where they are long enough."""
        frame, lanes = self.frame, self.lanes

        def load_squares() -> Stmt:
            return columns.load_squares(self.n, lambda lane, k: source(lane)(k, lanes))

        def load_lanes() -> Stmt:
            return loop("lane", lanes, lambda lane: columns.load_lane(lane, self.n, source(lane)))

        def store_squares() -> Stmt:
            return columns.store_squares(frame.kept, lambda lane, k, value: target(lane)(k, value, lanes))

        def store_lanes() -> Stmt:
            return loop("lane", lanes, lambda lane: columns.store_lane(lane, frame.kept, target(lane)))

        has_squares = self.is_dense and lanes > 1
        load = branch(at_least(frame.length, lanes), load_squares, load_lanes)
        store = branch(at_least(frame.kept, lanes), store_squares, store_lanes)
        return (
            load if has_squares and not frame.is_half else load_lanes(),
            store if has_squares else store_lanes(),
        )

    def _of_neighbours(self, turns: Pair) -> Stmt:
        """Transform groups of sequences that are neighbours in memory; the last group may repeat some."""
        frame, lanes = self.frame, self.lanes
        inner, across = as_expr(frame.inner), as_expr(builders.round_up_div(frame.inner, lanes))

        def transform(group: PrimExpr) -> Stmt:
            columns = self._columns()
            first = tirx.min(tirx.floormod(group, across) * lanes, inner - lanes)
            bound, source, target = self.bases(tirx.floordiv(group, across) * inner + first)
            return sequence(
                [
                    *columns.allocate(),
                    *bound,
                    columns.side.set(0),
                    columns.load_rows(self.n, lambda k: self.given(source, k, lanes)),
                    columns.transform(frame.length, turns),
                    columns.store_rows(frame.kept, lambda k, value: self.put(target, k, value, lanes)),
                ]
            )

        return self._shared(loop("group", frame.outer * across, transform), lanes)

    # Few or long sequences: one after the other

    def _by_matrix(self) -> Stmt:
        frame = self.frame
        matrix = Matrix(frame.length, self.dtype, self.lanes)
        is_whole = frame.length is frame.kept and not frame.is_half and self.is_dense
        work = Pair(self.n, self.dtype, "work")

        def transform(number: PrimExpr) -> Stmt:
            bound, source, target = self.bases(number)
            begin = [*bound, *matrix.allocate()]
            if is_whole:
                return sequence(
                    [*begin, matrix.transform(partial(self.given, source), partial(self.put, target))]
                )
            return sequence(
                [
                    *begin,
                    *work.allocate(),
                    each(self.n, lambda k: sequence(work.store(k, self.given(source, k)))),
                    matrix.transform(work.load, work.put),
                    each(frame.kept, lambda k: self.put(target, k, work.load(k))),
                ]
            )

        return sequence([*matrix.prepare(), self._shared(loop("sequence", frame.total, transform), 1)])

    def _by_convolution(self) -> Stmt:
        """Transform sequences as convolutions with a chirp."""
        known = static_int(self.frame.length)
        if known is not None:
            return _Convolution(self, 1 << (2 * known - 2).bit_length()).statements()
        size, padded = State(), tirx.Var("padded", "int64")
        return sequence(
            [
                tirx.AllocBuffer(size.array),
                size.set(1),
                tirx.While(size.get() < self.n * 2 - 1, size.set(size.get() * 2)),
                tirx.Bind(padded, size.get()),
                _Convolution(self, padded).statements(),
            ]
        )


class _Convolution:
    """Transforms as convolutions with a chirp, of a length that is a power of two.

    ``X[k] = c[k] sum(x[j] c[j] / c[k - j])`` with ``c[k] = exp(-i pi k**2 / n)``.
    """

    def __init__(self, fourier: Fourier, size: Extent) -> None:
        self.fourier, self.n, self.size, dtype = fourier, fourier.n, as_expr(size), fourier.dtype
        self.dtype = dtype
        self.matrix = Matrix(size, dtype, fourier.lanes, (4, 2))
        self.chirp, self.spectrum = Pair(self.n, dtype, "chirp"), Pair(self.size, dtype, "spectrum")
        self.work = Pair(self.size, dtype, "work")

    def statements(self) -> Stmt:
        """Return the statements; the first task is to transform what each sequence is convolved with."""
        angles = Roots(builders.as_index(self.fourier.frame.length) * 2)

        def fill_chirp(k: PrimExpr) -> Stmt:
            root = angles.root(tirx.floormod(k * k, self.n * 2))
            return sequence(self.chirp.store(k, cast(root, self.dtype)))

        arrays = (self.chirp, self.spectrum, self.work)
        return sequence(
            [
                *self.matrix.prepare(),
                *angles.make(),
                *(statement for each in arrays for statement in each.allocate()),
                *self.matrix.allocate(),
                loop("k", self.n, fill_chirp),
                loop("task", as_expr(self.fourier.frame.total) * 2 + 1, self._do),
            ]
        )

    def _do(self, task: PrimExpr) -> Stmt:
        """Transform the inverse chirp (task 0), a sequence times the chirp, or the product of both."""
        frame, work = self.fourier.frame, self.work
        number = tirx.floordiv(tirx.max(task - 1, as_expr(0)), 2)
        bound, source, target = self.fourier.bases(number)
        is_product, is_first = tirx.floormod(task, 2) == 0, task == 0

        def gather(k: PrimExpr) -> Stmt:
            return sequence(work.store(k, times(self.fourier.given(source, k), self.chirp.load(k))))

        def pad(k: PrimExpr) -> Stmt:
            zero = tirx.const(0, self.dtype)
            return sequence(work.store(self.n + k, (zero, zero)))

        def scatter(k: PrimExpr) -> Stmt:
            value = times(swapped(work.load(k)), self.chirp.load(k))
            return self.fourier.put(target, k, value)

        padded = sequence([loop("k", self.n, gather), loop("k", self.size - self.n, pad)])
        enter = tirx.IfThenElse(is_product, loop("k", self.size, self._multiply), padded)
        leave = tirx.IfThenElse(is_product, each(frame.kept, scatter), None)
        return sequence(
            [
                *bound,
                tirx.IfThenElse(is_first, loop("k", self.size, self._fill_filter), enter),
                self.matrix.transform(work.load, work.put),
                tirx.IfThenElse(is_first, loop("k", self.size, self._keep), leave),
            ]
        )

    def _fill_filter(self, k: PrimExpr) -> Stmt:
        distance = tirx.min(k, self.size - k)
        re, im = self.chirp.load(tirx.min(distance, self.n - 1))
        inside, zero = distance < self.n, tirx.const(0, self.dtype)
        return sequence(self.work.store(k, (tirx.Select(inside, re, zero), tirx.Select(inside, -im, zero))))

    def _keep(self, k: PrimExpr) -> Stmt:
        re, im = self.work.load(k)
        divisor = self.size.astype(self.dtype)
        return sequence(self.spectrum.store(k, (re / divisor, im / divisor)))

    def _multiply(self, k: PrimExpr) -> Stmt:
        value = [tirx.Var(name, self.dtype) for name in ("re", "im")]
        bound = map(tirx.Bind, value, swapped(times(self.work.load(k), self.spectrum.load(k))))
        return sequence([*bound, *self.work.store(k, (value[0], value[1]))])
