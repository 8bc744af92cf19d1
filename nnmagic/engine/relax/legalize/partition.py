"""Put some elements of a sequence in their sorted places, with no higher one before and no lower one behind.

A sample tells between which two elements the wanted one lies, most likely; a pass moves what is lower to the
front, what is higher to the end, and goes on with the few between them (Floyd and Rivest, Expected time
bounds for selection, CACM 18, 1975). Where the sample misleads, the sequence is sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvm import te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.sort_keys import sort_key
from nnmagic.engine.relax.legalize.sort_loops import SequenceSort, sort_along
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.independent_loops import INDEPENDENT
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt

#: The elements of a sample, and how far from the wanted one the bounds are: of short and of long sequences.
_SAMPLE, _MARGIN, _LONG_SAMPLE, _LONG_MARGIN = 64, 13, 256, 26

#: Shorter sequences are sorted, many at once.
_LEAST = 1 << 11

#: Sequences from this length on are long.
_LONG = 1 << 15

#: So few elements are sorted by insertion.
_FEW = 64

#: Each round leaves a quarter to a half of the elements; where these do not suffice, all are sorted.
_ROUNDS = 40

_FRONT, _END, _COUNT, _SIDE, _LEFT, _RIGHT, _KEPT, _PLACED, _FAILED, _AT = range(10)


def _partition(call: OpCall) -> Value:
    data, kth = call.args
    axis = integer(call.attrs["axis"]) % len(shape_of(data))
    dtype = tensor_dtype(data)
    if builders.is_for_gpu() or static_int(shape_of(kth)[0]) == 0:
        return call.te(lambda x: sort_along(x, axis, [("values", dtype)], ascending=True), data)

    def compute(x: Tensor, places: Tensor) -> Tensor:
        def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
            return _Partition(ins[0], ins[1], outs[0], axis).emit()

        attrs = {KIND: INDEPENDENT}
        dtype = scalar_functions.dtype_of(x)
        return te.extern([x.shape], [x, places], emit, dtype=[dtype], name="partition", attrs=attrs)

    return call.te(compute, data, kth)


class _Partition:
    """The loops that partition the sequences along an axis."""

    def __init__(self, data: Buffer, kth: Buffer, result: Buffer, axis: int) -> None:
        self.data, self.kth, self.result = data, kth, result
        self.sort = SequenceSort(data, axis, {"values": result}, ascending=True)
        self.length, self.dtype = self.sort.length, builders.dtype_of(data)
        self.spare = tirx.decl_buffer((self.length * 2,), self.dtype, "spare")
        self.sample = builders.local_array(_LONG_SAMPLE, self.sort.kind, "sample")
        self.state = builders.local_array(10, "int64", "state")
        self.bounds = builders.local_array(2, self.sort.kind, "bounds")

    def emit(self) -> Stmt:
        if 0 in (static_int(self.length), static_int(self.sort.total)):
            return tirx.Evaluate(0)
        sequences = loop("sequence", self.sort.total, self._of_sequence)
        known = static_int(self.length)
        if known is None:  # both ways would take long to compile
            return sequences if static_int(self.sort.total) == 1 else self.sort.emit()
        return self.sort.independent(sequences, 1) if known >= _LEAST else self.sort.emit()

    def _of_sequence(self, number: PrimExpr) -> Stmt:
        index = partial(self.sort.index, number)

        def given(at: PrimExpr) -> PrimExpr:
            return tirx.BufferLoad(self.data, index(at))

        def placed(at: PrimExpr) -> PrimExpr:
            return tirx.BufferLoad(self.result, index(at))

        def put(at: PrimExpr, value: PrimExpr) -> Stmt:
            return tirx.BufferStore(self.result, value, index(at))

        def of_place(j: PrimExpr) -> Stmt:
            wanted = self.kth[j]

            def copy(at: PrimExpr) -> Stmt:
                return tirx.BufferStore(self.spare, placed(self._get(_FRONT) + at), [at])

            again = sequence(
                [
                    self._set(_FRONT, self._get(_PLACED)),
                    self._set(_COUNT, as_expr(self.length) - self._get(_FRONT)),
                    self._set(_SIDE, as_expr(0)),
                    loop("at", self._get(_COUNT), copy),
                ]
            )
            first = sequence(
                [
                    self._set(_FRONT, as_expr(0)),
                    self._set(_COUNT, as_expr(self.length)),
                    self._set(_SIDE, as_expr(0)),
                    tirx.IfThenElse(
                        self._get(_COUNT) > _FEW,
                        self._round(wanted, given, put),
                        loop("at", self.length, lambda at: tirx.BufferStore(self.spare, given(at), [at])),
                    ),
                ]
            )

            def from_spare(at: PrimExpr) -> PrimExpr:
                return self.spare[self._get(_SIDE) * self.length + at]

            def go_on(_number: PrimExpr) -> Stmt:
                goes_on = tirx.all(self._get(_COUNT) > _FEW, self._get(_FAILED) == 0)
                return tirx.IfThenElse(goes_on, self._round(wanted, from_spare, put), None)

            select = sequence(
                [
                    tirx.IfThenElse(self._get(_PLACED) == 0, first, again),
                    loop("round", _ROUNDS, go_on),
                    tirx.IfThenElse(
                        self._get(_COUNT) > _FEW,
                        self._set(_FAILED, as_expr(1)),
                        self._finish(from_spare, put),
                    ),
                ]
            )
            is_open = tirx.all(self._get(_FAILED) == 0, wanted >= self._get(_PLACED), wanted < self.length)
            return tirx.IfThenElse(is_open, select, None)

        def copy_all(at: PrimExpr) -> Stmt:
            return put(at, given(at))

        count = self.kth.ty.shape[0]
        nothing = tirx.all(self._get(_PLACED) == 0, self._get(_FAILED) == 0)
        return sequence(
            [
                *map(tirx.AllocBuffer, (self.spare, self.sample, self.state, self.bounds)),
                self._set(_PLACED, as_expr(0)),
                self._set(_FAILED, as_expr(0)),
                loop("place", count, of_place),
                tirx.IfThenElse(self._get(_FAILED) != 0, self.sort.sort_long(number), None),
                tirx.IfThenElse(nothing, loop("at", self.length, copy_all), None),
            ]
        )

    def _get(self, item: int) -> PrimExpr:
        return self.state[as_expr(item)]

    def _set(self, item: int, value: PrimExpr) -> Stmt:
        return tirx.BufferStore(self.state, value, [as_expr(item)])

    def _round(
        self,
        wanted: PrimExpr,
        source: Callable[[PrimExpr], PrimExpr],
        put: Callable[[PrimExpr, PrimExpr], Stmt],
    ) -> Stmt:
        """Move the elements that are surely lower or higher than the wanted one; keep the others."""
        one = as_expr(1)
        count, front = self._get(_COUNT), self._get(_FRONT)
        is_long = count >= _LONG
        size = tirx.Select(is_long, as_expr(_LONG_SAMPLE), as_expr(_SAMPLE))
        margin = tirx.Select(is_long, as_expr(_LONG_MARGIN), as_expr(_MARGIN))
        target = tirx.floordiv((wanted - front) * size, count)
        low, high = target - margin, target + margin

        def insert(at: PrimExpr) -> Stmt:
            """Insert an element of the sample in front of those that are higher."""
            key = tirx.Var("key", self.sort.kind)

            def shift(step: PrimExpr) -> Stmt:
                place = at - step
                lower = tirx.all(place == self._get(_AT), self.sample[place - 1] > key)
                moved = sequence(
                    [
                        tirx.BufferStore(self.sample, self.sample[place - 1], [place]),
                        self._set(_AT, place - 1),
                    ]
                )
                return tirx.IfThenElse(lower, moved, None)

            place = tirx.floordiv(at * count, size) + tirx.floordiv(count, size * 2)
            return sequence(
                [
                    tirx.Bind(key, sort_key(source(place))),
                    self._set(_AT, at),
                    loop("step", at, shift),
                    tirx.BufferStore(self.sample, key, [self._get(_AT)]),
                ]
            )

        kind = self.sort.kind
        bounds = [
            tirx.if_then_else(low < 0, tirx.min_value(kind), self.sample[tirx.max(low, as_expr(0))]),
            tirx.if_then_else(high >= size, tirx.max_value(kind), self.sample[tirx.min(high, size - 1)]),
        ]
        other = (one - self._get(_SIDE)) * self.length

        def move(at: PrimExpr) -> Stmt:
            value, key = tirx.Var("value", self.dtype), tirx.Var("key", kind)
            below, above = tirx.Var("below", "int64"), tirx.Var("above", "int64")
            return sequence(
                [
                    tirx.Bind(value, source(at)),
                    tirx.Bind(key, sort_key(value)),
                    tirx.Bind(below, (key < self.bounds[0]).astype("int64")),
                    tirx.Bind(above, (key > self.bounds[1]).astype("int64")),
                    # Stored at all ends: what is not of one is stored over by the next one.
                    put(self._get(_LEFT), value),
                    put(self._get(_RIGHT), value),
                    tirx.BufferStore(self.spare, value, [other + self._get(_KEPT)]),
                    self._set(_LEFT, self._get(_LEFT) + below),
                    self._set(_RIGHT, self._get(_RIGHT) - above),
                    self._set(_KEPT, self._get(_KEPT) + one - below - above),
                ]
            )

        inside = tirx.all(wanted >= self._get(_LEFT), wanted <= self._get(_RIGHT))
        shrinks = self._get(_KEPT) < count
        return sequence(
            [
                loop("at", size, insert),
                *(tirx.BufferStore(self.bounds, bound, [k]) for k, bound in enumerate(bounds)),
                self._set(_LEFT, front),
                self._set(_RIGHT, front + count - 1),
                self._set(_KEPT, as_expr(0)),
                loop("at", count, move),
                tirx.IfThenElse(
                    tirx.all(inside, shrinks),
                    sequence(
                        [
                            self._set(_FRONT, self._get(_LEFT)),
                            self._set(_COUNT, self._get(_KEPT)),
                            self._set(_SIDE, one - self._get(_SIDE)),
                        ]
                    ),
                    self._set(_FAILED, one),
                ),
            ]
        )

    def _finish(
        self, source: Callable[[PrimExpr], PrimExpr], put: Callable[[PrimExpr, PrimExpr], Stmt]
    ) -> Stmt:
        """Put the few elements that are left in order, by counting those before each."""
        count, front = self._get(_COUNT), self._get(_FRONT)

        def put_one(at: PrimExpr) -> Stmt:
            def look(other: PrimExpr) -> Stmt:
                key, its = sort_key(source(at)), sort_key(source(other))
                before = tirx.any(its < key, tirx.all(its == key, other < at))
                return self._set(_AT, self._get(_AT) + before.astype("int64"))

            return sequence(
                [
                    self._set(_AT, as_expr(0)),
                    loop("other", count, look),
                    put(front + self._get(_AT), source(at)),
                ]
            )

        return sequence([loop("at", count, put_one), self._set(_PLACED, front + count)])


RULES["numpy.partition"] = _partition
