"""Build what the loops of Fourier transforms compute with: arrays of complex numbers, and roots of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from tvm import tirx

from nnmagic.engine.relax.tir import builders, vector_math
from nnmagic.engine.relax.tir.builders import as_expr, bound, loop, sequence, shared, static_int
from nnmagic.engine.relax.tir.transposition import transpose
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: Roots are computed with so many digits.
WIDE = "float64"

#: A complex number, or a vector of them.
Number: TypeAlias = tuple[PrimExpr, PrimExpr]


def times(a: Number, b: Number) -> Number:
    """Return the product of complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def swap(a: Number) -> Number:
    """Return ``i conj(a)``: a transform of such numbers gives those of the inverse transform."""
    return a[1], a[0]


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
        self.allocation, (self.fine, self.coarse) = pairs(WIDE, self.size, self.size)

    def make(self) -> list[Stmt]:
        """Return the statements that make the tables."""
        size = State()
        statements, (length,) = bound(length=self.length)

        def fill(table: PrimExpr) -> Callable[[PrimExpr], Stmt]:
            return partial(self._fill, length, table)

        grow = sequence([size.set(size.get() * 2), self.shift.set(self.shift.get() + 1)])
        return [
            tirx.AllocBuffer(self.shift.array),
            tirx.AllocBuffer(size.array),
            self.shift.set(0),
            size.set(1),
            tirx.While(size.get() * size.get() < as_expr(self.length), grow),
            tirx.Bind(self.size, size.get()),
            *self.allocation,
            *statements,
            shared(loop("table", 2, lambda table: loop("k", self.size, fill(table))), self.fine.array),
        ]

    def _fill(self, length: PrimExpr, table: PrimExpr, k: PrimExpr) -> Stmt:
        """Store a root, from an angle up to an eighth of a turn; beyond the last one any number."""
        one = tirx.const(1, WIDE)
        turn = builders.local_array(3, "int64", "turn")
        words = builders.local_array(3, WIDE, "parts")
        number, quarter, low = (turn[as_expr(at)] for at in range(3))
        angle, sine, cosine = (words[as_expr(at)] for at in range(3))
        is_far = low * 2 > length
        near = tirx.Select(is_far, length - low, low).astype(WIDE)
        turned = tirx.Select(is_far, sine, cosine), tirx.Select(is_far, cosine, sine)
        is_odd = (quarter & 1) == 1
        re, im = tirx.Select(is_odd, turned[1], turned[0]), tirx.Select(is_odd, turned[0], turned[1])
        is_left = tirx.any(quarter == 1, quarter == 2)
        root = re * tirx.Select(is_left, -one, one), im * tirx.Select(quarter >= 2, one, -one)
        values = (
            tirx.const(math.pi / 2, WIDE) * near / length.astype(WIDE),
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
                tirx.AllocBuffer(words),
                *(tirx.BufferStore(turn, value, [at]) for at, value in enumerate(integers)),
                *(tirx.BufferStore(words, value, [at]) for at, value in enumerate(values)),
                self.fine.store(table * self.size * 2 + k, root),
            ]
        )

    def root(self, number: PrimExpr) -> Number:
        """Return a root, in float64; the number is below the length."""
        low = number & (self.size - 1)
        high = tirx.shift_right(number, self.shift.get())
        return times(self.coarse.load(high), self.fine.load(low))


def each(count: Extent, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Return a loop, which may have no rounds."""
    return tirx.Evaluate(0) if static_int(count) == 0 else loop("k", count, body)


def transpose_square(rows: Sequence[Number]) -> tuple[list[Stmt], list[Number]]:
    """Return the columns of a square of vectors, and the statements that they need."""
    dtype = builders.dtype_of(rows[0][0]).split("x")[0]
    parts = [transpose(values, dtype) for values in zip(*rows, strict=True)]
    statements = [statement for before, _ in parts for statement in before]
    return statements, list(zip(*(columns for _, columns in parts), strict=True))
