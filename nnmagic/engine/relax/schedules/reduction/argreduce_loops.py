"""Where the best element of a row stands (argmax, argmin): groups of vectors first, then the elements of one.

Of each group of vectors the best elements are found, lane by lane, and each lane keeps the best so far with
the number of its group: one comparison of places a group, not one an element. At the row's end the lanes'
best gives the value and its group, which is still in the cache; its elements are compared with the value. A
group that the row's length leaves over overlaps with the one before. Knows TIR only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from nnmagic.engine.relax.schedules.reduction import argreduce
from nnmagic.engine.relax.tir.builders import over_lanes, sequence
from nnmagic.engine.relax.tir.vectorizable_isnan import make_isnan_vectorizable

#: How many vectors are a group.
VECTORS = 4

_NOWHERE = {"first": 2**31 - 1, "last": -1}


@dataclass(frozen=True, slots=True)
class ArgReduce:
    """A row of ``width`` elements, a group or more; ``element``: the number and the value at an index.

    ``ahead``: what fetches the data that comes after the vector at an index.
    """

    place: str
    width: int
    vector: int
    dtype: str
    element: Callable[[Any], tuple[Any, Any]]
    ahead: Callable[[Any], list[Any]]
    alloc: Callable[[int, str, str], Any]

    def statements(self) -> tuple[list[Any], Any, Any]:
        """The loops, and what holds the number and the value of the best element after them."""
        group = VECTORS * self.vector
        count, rest = divmod(self.width, group)
        fresh = self.alloc(self.vector, self.dtype, "fresh")
        best = self.alloc(self.vector, self.dtype, "best")
        where = self.alloc(self.vector, "int32", "group")

        def compared(start: Any, number: Any) -> list[Any]:
            def keeps(lane: Any) -> Any:
                return self._keeps(tirx.BufferLoad(best, [lane]), tirx.BufferLoad(fresh, [lane]))

            def place(lane: Any) -> Any:
                return _stored(where, tirx.Select(keeps(lane), tirx.BufferLoad(where, [lane]), number), lane)

            def value(lane: Any) -> Any:
                held, new = tirx.BufferLoad(best, [lane]), tirx.BufferLoad(fresh, [lane])
                return _stored(best, self._better(held, new), lane)

            return [
                *self._best_of_group(fresh, start),
                over_lanes(self.vector, place),
                over_lanes(self.vector, value),
            ]

        zero = tirx.const(0, "int64")
        result = self._best_of_group(best, zero)
        result.append(over_lanes(self.vector, lambda lane: _stored(where, tirx.const(0, "int32"), lane)))
        if count > 1:
            turn = tirx.Var("turn", "int64")
            body = sequence(compared((turn + 1) * group, (turn + 1).astype("int32")))
            result.append(tirx.For(turn, zero, tirx.const(count - 1, "int64"), tirx.ForKind.SERIAL, body))
        if rest:
            result += compared(tirx.const(self.width - group, "int64"), tirx.const(count, "int32"))
        return self._found(result, best, where)

    def _best_of_group(self, target: Any, start: Any) -> list[Any]:
        """The best of the vectors of a group, lane by lane."""
        made: list[Any] = []
        for at in range(VECTORS):
            made += self.ahead(start + at * self.vector)
        for at in range(VECTORS):

            def one(lane: Any, at: int = at) -> Any:
                new = self.element(start + at * self.vector + lane)[1]
                if at == 0:
                    return _stored(target, new, lane)
                held = tirx.BufferLoad(target, [lane])
                return _stored(target, self._better(held, new), lane)

            made.append(over_lanes(self.vector, one))
        return made

    def _found(self, result: list[Any], best: Any, where: Any) -> tuple[list[Any], Any, Any]:
        """The best of the lanes, its group, and its place there."""
        group = VECTORS * self.vector
        first = self.place.endswith("first")
        nowhere = tirx.const(_NOWHERE["first" if first else "last"], "int32")
        nearer = tirx.min if first else tirx.max
        value = self._folded(result, best, self._better)

        def number(of: Any, element: Any) -> Any:
            same = element == value
            if self.dtype.startswith("float"):
                same = tirx.any(same, tirx.isnan(element))  # then the best is NaN, too
            return tirx.Select(same, of, nowhere)

        groups = self.alloc(self.vector, "int32", "groups")
        result.append(
            over_lanes(
                self.vector,
                lambda lane: _stored(
                    groups, number(tirx.BufferLoad(where, [lane]), tirx.BufferLoad(best, [lane])), lane
                ),
            )
        )
        start = self._folded(result, groups, nearer).astype("int64") * group
        if self.width % group:
            start = tirx.min(start, tirx.const(self.width - group, "int64"))
        numbers = self.alloc(self.vector, "int32", "numbers")
        for at in range(VECTORS):

            def one(lane: Any, at: int = at) -> Any:
                found = number(*self.element(start + at * self.vector + lane))
                return _stored(
                    numbers, nearer(tirx.BufferLoad(numbers, [lane]), found) if at else found, lane
                )

            result.append(over_lanes(self.vector, one))
        return result, self._folded(result, numbers, nearer), value

    def _folded(self, result: list[Any], array: Any, both: Callable[[Any, Any], Any]) -> Any:
        """One of all lanes, by halves."""
        count = self.vector
        while count > 1:
            count //= 2
            half = self.alloc(count, str(array.ty.dtype), "half")

            def one(lane: Any, count: int = count, array: Any = array, half: Any = half) -> Any:
                left, right = tirx.BufferLoad(array, [lane]), tirx.BufferLoad(array, [lane + count])
                return _stored(half, both(left, right), lane)

            result.append(over_lanes(count, one))
            array = half
        return tirx.BufferLoad(array, [tirx.const(0, "int64")])

    def _better(self, held: Any, new: Any) -> Any:
        """The better value of two, of equal ones either: an instruction, and one for NaN.

        As the instruction is, a NaN that is held stays; whether the new one is NaN needs nobody to wait for.
        """
        better = new > held if self.place.startswith("max") else new < held
        chosen = tirx.Select(better, new, held)
        if not self.dtype.startswith("float"):
            return chosen
        return tirx.Select(new <= tirx.const(float("inf"), self.dtype), chosen, new)

    def _keeps(self, a: Any, b: Any) -> Any:
        return argreduce.KEEPS[self.place][0](a, b)


def _stored(array: Any, value: Any, lane: Any) -> Any:
    return tirx.BufferStore(array, make_isnan_vectorizable(value), [lane])
