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
from typing import TypeAlias

from tvm import tirx

from nnmagic.engine.relax.schedules.independent_loops import independent_loop
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The factors that have passes of their own; a length with another prime factor is convolved.
RADICES = (13, 11, 7, 5, 4, 3, 2)

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


def factorize(length: int) -> list[int] | None:
    """Return a length as a product of radices, the largest first; None if it has another prime factor."""
    factors = []
    for radix in RADICES:
        while length % radix == 0:
            factors.append(radix)
            length //= radix
    return factors if length == 1 else None


def convolution_length(length: int) -> int:
    """Return the power of two with room for the convolution of a sequence with a chirp of its length."""
    return 1 << (2 * length - 2).bit_length()


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
            loop(
                "k", self.size, lambda k: sequence(self.coarse.store(k, self._exact(k * self.size)))
            ),
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


def radices_of(length: Extent) -> Sequence[int]:
    """Return the radices that a length may have, the largest first."""
    known = static_int(length)
    factors = None if known is None else factorize(known)
    return RADICES if factors is None else sorted(set(factors), reverse=True)


class Halves:
    """Two factors of a length, of about the same size; each is a product of radices.

    ``rest`` is what has no such factor.
    """

    def __init__(self, length: PrimExpr, radices: Sequence[int]) -> None:
        self.length, self.radices = length, radices
        self.first, self.second, self.rest = State(), State(), State()

    def make(self) -> list[Stmt]:
        """Return the statements that find them: the smaller one gets the next radix."""

        def push(radix: int) -> Stmt:
            grow = [each.set(each.get() * radix) for each in (self.second, self.first)]
            divided = self.rest.set(tirx.floordiv(self.rest.get(), radix))
            return sequence([tirx.IfThenElse(self.second.get() < self.first.get(), *grow), divided])

        states = [self.first, self.second, self.rest]
        return [
            *(tirx.AllocBuffer(each.array) for each in states),
            *(each.set(value) for each, value in zip(states, (1, 1, self.length), strict=True)),
            *(tirx.While(tirx.floormod(self.rest.get(), each) == 0, push(each)) for each in self.radices),
        ]


class Columns:
    """The transform of as many sequences as a vector has lanes, element by element: Stockham's passes.

    ``data`` has two arrays of ``length`` vectors, and ``side`` says in which one the elements are.
    """

    def __init__(self, radices: Sequence[int], dtype: str, lanes: int, length: PrimExpr) -> None:
        self.radices, self.dtype, self.lanes, self.length = radices, dtype, lanes, length
        self.data = Pair(length * (2 * lanes), dtype, "columns")
        self.side, self.left, self.stride = State(), State(), State()

    def allocate(self) -> list[Stmt]:
        """Return the statements that make the arrays."""
        states = [tirx.AllocBuffer(each.array) for each in (self.side, self.left, self.stride)]
        return [*self.data.allocate(), *states]

    def at(self, row: PrimExpr, lane: Index = 0) -> PrimExpr:
        """Return where a row's element is."""
        return (self.side.get() * self.length + row) * self.lanes + lane

    def transform(self, rows: PrimExpr, roots: Pair, first: Index = 0) -> Stmt:
        """Transform the first ``rows`` rows; their roots begin at ``first``."""
        begin = [self.left.set(rows), self.stride.set(1)]
        if not self.radices:
            return sequence(begin)
        choice = self._pass(self.radices[-1], roots, first)
        for radix in self.radices[-2::-1]:
            divides = tirx.floormod(self.left.get(), radix) == 0
            choice = tirx.IfThenElse(divides, self._pass(radix, roots, first), choice)
        return sequence([*begin, tirx.While(self.left.get() > 1, choice)])

    def _pass(self, radix: int, roots: Pair, first: Index) -> Stmt:
        """Do one pass: ``left`` is the length of a transform, ``stride`` how many there are."""
        lanes, length = self.lanes, self.length
        step, stride = (tirx.Var(name, "int64") for name in ("step", "stride"))
        source, target = (tirx.Var(name, "int64") for name in ("source", "target"))

        def turn(p: PrimExpr) -> Stmt:
            turns = Pair(max(radix, 1), self.dtype, "turns", local=True)
            statements = turns.allocate()
            for j in range(1, radix):
                statements += turns.store(j, roots.load(p * stride * j + first))

            def transform(q: PrimExpr) -> Stmt:
                given = Pair(radix * lanes, self.dtype, "given", local=True)
                made = Pair(radix * lanes, self.dtype, "made", local=True)
                inner = [*given.allocate(), *made.allocate()]
                for k in range(radix):
                    place = source + ((p + step * k) * stride + q) * lanes
                    inner += given.store(k * lanes, self.data.load(place, lanes), lanes)
                inner += butterfly(
                    radix, self.dtype, lanes, made, lambda k: given.load(k * lanes, lanes)
                )
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


#: Returns the number at a place of an array; returns the statements that store one.
Source: TypeAlias = Callable[[PrimExpr], Number]
Sink: TypeAlias = Callable[[PrimExpr, Number], list[Stmt]]


class Fourier:
    """The transform along the middle one of three axes, in float32 or float64.

    Args:
        source: returns the number at a place, counted over all axes.
        sink: stores the result there.
        sizes: those of the three axes.
        dtype: that of the computation.
        inverse: whether the signs of the angles are positive.
        exponent: the results are multiplied by this power of the length.

    """

    def __init__(
        self,
        source: Source,
        sink: Sink,
        sizes: tuple[Extent, Extent, Extent],
        dtype: str,
        *,
        inverse: bool,
        exponent: float,
    ) -> None:
        self.source, self.sink, self.dtype = source, sink, dtype
        self.outer, self.length, self.inner = sizes
        self.inverse, self.exponent = inverse, exponent
        self.total = self.outer * self.inner
        self.lanes = 1 if builders.is_for_gpu() else _VECTOR_BYTES // builders.item_bytes(dtype)
        self.n = as_expr(self.length)
        self.scale = tirx.Var("scale", dtype)

    def emit(self) -> Stmt:
        """Return the loops."""
        known = static_int(self.length)
        if known == 0 or static_int(self.total) == 0:
            return tirx.Evaluate(0)
        value = tirx.const(1, _WIDE)
        if self.exponent:
            size = self.n.astype(_WIDE)
            value = value / (size if self.exponent == -1 else tirx.sqrt(size))
        scale = tirx.Bind(self.scale, value.astype(self.dtype))
        many = as_expr(self.total) * 2 >= self.lanes
        total = static_int(self.total)
        if total is not None and total * 2 < self.lanes:
            return sequence([scale, self._by_sequences()])
        if known is not None:
            if known > _LONGEST_COLUMN or factorize(known) is None:
                return sequence([scale, self._by_sequences()])
            if total is not None:
                return sequence([scale, self._by_columns()])
            return sequence([scale, tirx.IfThenElse(many, self._by_columns(), self._by_sequences())])
        halves = Halves(self.n, RADICES)
        fits = tirx.all(many, self.n <= _LONGEST_COLUMN, halves.rest.get() == 1)
        choice = tirx.IfThenElse(fits, self._by_columns(), self._by_sequences())
        return sequence([scale, *halves.make(), choice])

    def _given(self, at: PrimExpr) -> Number:
        """Return the number at a place; for the inverse transform with its parts exchanged."""
        return swapped(self.source(at)) if self.inverse else self.source(at)

    def _put(self, at: PrimExpr, value: Number) -> Stmt:
        scaled = (value[0] * self.scale, value[1] * self.scale) if self.exponent else value
        return sequence(self.sink(at, swapped(scaled) if self.inverse else scaled))

    def _base(self, number: PrimExpr) -> PrimExpr:
        """Return where a sequence begins."""
        if static_int(self.inner) == 1:
            return number * self.n
        inner = as_expr(builders.maximum(self.inner, 1))
        return tirx.floordiv(number, inner) * self.n * inner + tirx.floormod(number, inner)

    # Many sequences: as many at once as a vector has lanes

    def _by_columns(self) -> Stmt:
        roots, turns = Roots(self.length), Pair(self.n, self.dtype, "turns")

        def fill(k: PrimExpr) -> Stmt:
            return sequence(turns.store(k, cast(roots.root(k), self.dtype)))

        inner = static_int(self.inner)
        if inner is None:
            is_narrow = as_expr(self.inner) < self.lanes
            groups = tirx.IfThenElse(is_narrow, self._row_groups(turns), self._column_groups(turns))
        else:
            groups = self._row_groups(turns) if inner < self.lanes else self._column_groups(turns)
        return sequence([*roots.make(), *turns.allocate(), loop("k", self.n, fill), groups])

    def _row_groups(self, turns: Pair) -> Stmt:
        """Transform groups of sequences, each of which is copied; the last group repeats one."""

        def visit(group: PrimExpr, copy: Callable[[PrimExpr, PrimExpr, PrimExpr], Stmt]) -> Stmt:
            def of_lane(lane: PrimExpr) -> Stmt:
                base = tirx.Var("base", "int64")
                number = tirx.min(group * self.lanes + lane, as_expr(self.total) - 1)
                return sequence(
                    [
                        tirx.Bind(base, self._base(number)),
                        loop("k", self.n, lambda k: copy(k, lane, base + k * self.inner)),
                    ]
                )

            return loop("lane", self.lanes, of_lane)

        return self._groups(builders.round_up_div(self.total, self.lanes), turns, visit)

    def _column_groups(self, turns: Pair) -> Stmt:
        """Transform groups of sequences that are neighbours in memory; the last group may repeat some."""
        inner = as_expr(self.inner)
        across = builders.round_up_div(self.inner, self.lanes)

        def visit(group: PrimExpr, copy: Callable[[PrimExpr, PrimExpr, PrimExpr], Stmt]) -> Stmt:
            base = tirx.Var("base", "int64")
            column = tirx.min(tirx.floormod(group, as_expr(across)) * self.lanes, inner - self.lanes)
            begin = tirx.floordiv(group, as_expr(across)) * self.n * inner + column

            def of_row(k: PrimExpr) -> Stmt:
                return loop("lane", self.lanes, lambda lane: copy(k, lane, base + k * inner + lane))

            return sequence([tirx.Bind(base, begin), loop("k", self.n, of_row)])

        return self._groups(self.outer * across, turns, visit)

    def _groups(self, count: Extent, turns: Pair, visit: Callable[..., Stmt]) -> Stmt:
        def transform(group: PrimExpr) -> Stmt:
            columns = Columns(radices_of(self.length), self.dtype, self.lanes, self.n)

            def load(k: PrimExpr, lane: PrimExpr, place: PrimExpr) -> Stmt:
                return sequence(columns.data.store(columns.at(k, lane), self._given(place)))

            def store(k: PrimExpr, lane: PrimExpr, place: PrimExpr) -> Stmt:
                return self._put(place, columns.data.load(columns.at(k, lane)))

            return sequence(
                [
                    *columns.allocate(),
                    columns.side.set(0),
                    visit(group, load),
                    columns.transform(self.n, turns),
                    visit(group, store),
                ]
            )

        groups = loop("group", count, transform)
        length = static_int(self.length)
        if length is None or not isinstance(groups, tirx.For):
            return groups
        return independent_loop(groups, length * self.lanes * _OPERATIONS)

    # Few or long sequences: one after the other

    def _by_sequences(self) -> Stmt:
        known = static_int(self.length)
        factors = None if known is None else factorize(known)
        if factors is not None:
            return _Sequence(self, known or 1).of_each(self.total)
        padded = tirx.Var("padded", "int64")
        if known is not None:
            return _Sequence(self, convolution_length(known)).by_convolution(self.total, True)
        halves, size = Halves(self.n, RADICES), State()
        grow = tirx.While(size.get() < self.n * 2 - 1, size.set(size.get() * 2))
        return sequence(
            [
                *halves.make(),
                tirx.AllocBuffer(size.array),
                size.set(self.n),
                tirx.IfThenElse(halves.rest.get() != 1, sequence([size.set(1), grow]), None),
                tirx.Bind(padded, size.get()),
                _Sequence(self, padded).by_convolution(self.total, padded != self.n),
            ]
        )


class _Sequence:
    """The transform of one sequence at a time, as a matrix of two sizes of about the root of its length."""

    def __init__(self, fourier: Fourier, padded: Extent) -> None:
        self.fourier, self.lanes, self.dtype = fourier, fourier.lanes, fourier.dtype
        self.size = as_expr(padded)
        self.roots = Roots(padded)
        self.halves = Halves(self.size, radices_of(padded))
        self.longest = tirx.Var("longest", "int64")
        self.turns = Pair(self.longest * 2, self.dtype, "turns")
        self.near = Pair(self.longest * self.lanes, self.dtype, "near")
        self.work = Pair(self.size * 2 + self.lanes, self.dtype, "work")
        self.columns = Columns(self.halves.radices, self.dtype, self.lanes, self.longest)

    def _prepare(self) -> list[Stmt]:
        """Factor the length, and make the tables."""
        first, second = self.halves.first.get(), self.halves.second.get()

        def fill(begin: PrimExpr, rows: PrimExpr, step: PrimExpr) -> Stmt:
            def store(k: PrimExpr) -> Stmt:
                return sequence(self.turns.store(begin + k, cast(self.roots.root(k * step), self.dtype)))

            return loop("k", rows, store)

        def fill_near(k: PrimExpr) -> Stmt:
            def store(lane: PrimExpr) -> Stmt:
                root = self.roots.root(k * tirx.min(lane, second - 1))
                return sequence(self.near.store(k * self.lanes + lane, cast(root, self.dtype)))

            return loop("lane", self.lanes, store)

        return [
            *self.halves.make(),
            tirx.Bind(self.longest, tirx.max(first, second)),
            *self.roots.make(),
            *self.turns.allocate(),
            *self.near.allocate(),
            fill(as_expr(0), first, second),
            fill(self.longest, second, first),
            loop("k", first, fill_near),
        ]

    def _transform(self) -> Stmt:
        """Transform what is in ``work``: the columns of the matrix, then its rows, which become columns."""
        columns, lanes, work = self.columns, self.lanes, self.work
        first, second = self.halves.first.get(), self.halves.second.get()

        def of_half(half: PrimExpr) -> Stmt:
            rows, count = (tirx.Var(name, "int64") for name in ("rows", "count"))
            begin, target = half * self.size, (1 - half) * self.size

            def of_group(group: PrimExpr) -> Stmt:
                start = tirx.Var("start", "int64")

                def load(k: PrimExpr) -> Stmt:
                    row = work.load(begin + k * count + start, lanes)
                    return sequence(columns.data.store(columns.at(k), row, lanes))

                def load_lane(lane: PrimExpr) -> Stmt:
                    def element(k: PrimExpr) -> Stmt:
                        value = work.load(begin + (start + lane) * rows + k)
                        return sequence(columns.data.store(columns.at(k, lane), value))

                    return loop("k", rows, element)

                def turn(k: PrimExpr) -> Stmt:
                    root = spread(cast(self.roots.root(start * k), self.dtype), lanes)
                    factor = times(root, self.near.load(k * lanes, lanes))
                    value = times(columns.data.load(columns.at(k), lanes), factor)
                    return sequence(work.store(target + k * count + start, value, lanes))

                def store(k: PrimExpr) -> Stmt:
                    value = columns.data.load(columns.at(k), lanes)
                    return sequence(work.store(target + k * count + start, value, lanes))

                is_first = half == 0
                last = tirx.max(count - lanes, as_expr(0))
                by_lanes = loop("lane", tirx.min(count, as_expr(lanes)), load_lane)
                return sequence(
                    [
                        tirx.Bind(start, tirx.min(group * lanes, last)),
                        columns.side.set(0),
                        tirx.IfThenElse(is_first, loop("k", rows, load), by_lanes),
                        columns.transform(rows, self.turns, half * self.longest),
                        tirx.IfThenElse(is_first, loop("k", rows, turn), loop("k", rows, store)),
                    ]
                )

            return sequence(
                [
                    tirx.Bind(rows, tirx.Select(half == 0, first, second)),
                    tirx.Bind(count, tirx.Select(half == 0, second, first)),
                    loop("group", builders.round_up_div(count, lanes), of_group),
                ]
            )

        return loop("half", 2, of_half)

    def of_each(self, total: Extent) -> Stmt:
        """Transform each sequence, of a length without large prime factors."""
        fourier = self.fourier

        def transform(number: PrimExpr) -> Stmt:
            base = tirx.Var("base", "int64")

            def gather(k: PrimExpr) -> Stmt:
                return sequence(self.work.store(k, fourier._given(base + k * fourier.inner)))

            def scatter(k: PrimExpr) -> Stmt:
                return fourier._put(base + k * fourier.inner, self.work.load(k))

            return sequence(
                [
                    tirx.Bind(base, fourier._base(number)),
                    *self.work.allocate(),
                    *self.columns.allocate(),
                    loop("k", self.size, gather),
                    self._transform(),
                    loop("k", self.size, scatter),
                ]
            )

        prepared = self._prepare()
        return sequence([*prepared, loop("sequence", total, transform)])

    def by_convolution(self, total: Extent, convolves: PrimExpr | bool) -> Stmt:
        """Transform each sequence, as a convolution with a chirp where ``convolves`` holds."""
        fourier, n, size, work = self.fourier, self.fourier.n, self.size, self.work
        chirp, spectrum = Pair(n, self.dtype, "chirp"), Pair(size, self.dtype, "spectrum")
        angles = Roots(n * 2)
        condition = as_expr(1) == as_expr(1) if isinstance(convolves, bool) else convolves

        def fill_chirp(k: PrimExpr) -> Stmt:
            root = angles.root(tirx.floormod(k * k, n * 2))
            return sequence(chirp.store(k, cast(root, self.dtype)))

        def fill_filter(k: PrimExpr) -> Stmt:
            re, im = chirp.load(tirx.min(tirx.min(k, size - k), n - 1))
            inside, zero = tirx.any(k < n, size - k < n), tirx.const(0, self.dtype)
            value = tirx.Select(inside, re, zero), tirx.Select(inside, -im, zero)
            return sequence(work.store(k, value))

        def keep(k: PrimExpr) -> Stmt:
            re, im = work.load(k)
            divisor = size.astype(self.dtype)
            return sequence(spectrum.store(k, (re / divisor, im / divisor)))

        def multiply(k: PrimExpr) -> Stmt:
            return sequence(work.store(k, swapped(times(work.load(k), spectrum.load(k)))))

        def of_task(task: PrimExpr) -> Stmt:
            base = tirx.Var("base", "int64")
            is_even = tirx.floormod(task, 2) == 0
            number = tirx.if_then_else(condition, tirx.floordiv(task - 1, 2), task)

            def gather(k: PrimExpr) -> Stmt:
                return sequence(work.store(k, fourier._given(base + k * fourier.inner)))

            def gather_times_chirp(k: PrimExpr) -> Stmt:
                value = times(fourier._given(base + k * fourier.inner), chirp.load(k))
                return sequence(work.store(k, value))

            def pad(k: PrimExpr) -> Stmt:
                zero = tirx.const(0, self.dtype)
                return sequence(work.store(n + k, (zero, zero)))

            def scatter(k: PrimExpr) -> Stmt:
                return fourier._put(base + k * fourier.inner, work.load(k))

            def scatter_times_chirp(k: PrimExpr) -> Stmt:
                value = times(swapped(work.load(k)), chirp.load(k))
                return fourier._put(base + k * fourier.inner, value)

            padded = sequence([loop("k", n, gather_times_chirp), loop("k", size - n, pad)])
            enter = tirx.IfThenElse(is_even, loop("k", size, multiply), padded)
            enter = tirx.IfThenElse(task == 0, loop("k", size, fill_filter), enter)
            leave = tirx.IfThenElse(is_even, loop("k", n, scatter_times_chirp), None)
            leave = tirx.IfThenElse(task == 0, loop("k", size, keep), leave)
            if convolves is not True:
                enter = tirx.IfThenElse(condition, enter, loop("k", n, gather))
                leave = tirx.IfThenElse(condition, leave, loop("k", n, scatter))
            begin = fourier._base(tirx.max(number, as_expr(0)))
            return sequence([tirx.Bind(base, begin), enter, self._transform(), leave])

        tasks = tirx.if_then_else(condition, as_expr(total) * 2 + 1, as_expr(total))
        if convolves is True:
            tasks = as_expr(total) * 2 + 1
        prepared = self._prepare()
        return sequence(
            [
                *prepared,
                *angles.make(),
                *chirp.allocate(),
                *spectrum.allocate(),
                loop("k", n, fill_chirp),
                *work.allocate(),
                *self.columns.allocate(),
                loop("task", tasks, of_task),
            ]
        )
