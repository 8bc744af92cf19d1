"""Write the butterflies of fast Fourier transforms (Cooley and Tukey, 1965), and their twiddle factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from tvm import tirx

from nnmagic.engine.relax.legalize.fourier_numbers import Pair, State, local_pair
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import sequence, shared, static_int
from nnmagic.engine.relax.tir.types import Extent, Stmt

#: The factors that have passes of their own; a length with another prime factor is convolved.
RADICES = (13, 11, 7, 5, 4, 3, 2)


def factorize(length: int, radices: Sequence[int] = RADICES) -> list[int] | None:
    """Return a length as a product of radices, the largest first; None if it has another prime factor."""
    factors = []
    for radix in radices:
        while length % radix == 0:
            factors.append(radix)
            length //= radix
    return factors if length == 1 else None


def butterfly(radix: int, lanes: int, a: Pair) -> list[Stmt]:
    """Transform ``radix`` vectors in a small array."""
    if radix in (2, 4):
        return _butterfly_of_two(lanes, a) if radix == 2 else _butterfly_of_four(lanes, a)
    half, dtype = radix // 2, a.dtype
    statements, sums = local_pair(half * lanes, dtype)
    allocation, buffer = local_pair(half * lanes, dtype)
    statements += allocation
    for k in range(half):
        (x, y), (z, w) = a.load((k + 1) * lanes, lanes), a.load((radix - 1 - k) * lanes, lanes)
        statements.append(sums.store(k * lanes, (x + z, y + w), lanes))
        statements.append(buffer.store(k * lanes, (x - z, y - w), lanes))
    for j in range(1, half + 1):
        (re, im), sine_re, sine_im = a.load(0, lanes), None, None
        for k in range(half):
            # The multiple is reduced before pi is multiplied: the rounding error of an angle is
            # that of one turn at most.
            angle = 2 * math.pi * ((k + 1) * j % radix) / radix
            cosine, sine = (
                builders.broadcast(tirx.const(value, dtype), lanes)
                for value in (math.cos(angle), math.sin(angle))
            )
            (x, y), (z, w) = sums.load(k * lanes, lanes), buffer.load(k * lanes, lanes)
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
        static_length = static_int(length)
        factors = None if static_length is None else factorize(static_length, radices)
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
        first, second, third = states = [State(), State(), State()]

        def push(radix: int) -> Stmt:
            grow = [each.set(each.get() * radix) for each in (second, first)]
            divided = third.set(tirx.floordiv(third.get(), radix))
            return sequence([tirx.IfThenElse(second.get() < first.get(), *grow), divided])

        begin = zip(states, (1, 1, self.length), strict=True)
        variables = zip((self.first, self.second, self.rest), states, strict=True)
        divisions = [
            tirx.While(tirx.floormod(third.get(), radix) == 0, push(radix)) for radix in self.radices
        ]
        return [
            *(tirx.AllocBuffer(state.array) for state in states),
            *(state.set(value) for state, value in begin),
            shared(sequence(divisions), third.array),
            *(tirx.Bind(variable, state.get()) for variable, state in variables),
        ]
