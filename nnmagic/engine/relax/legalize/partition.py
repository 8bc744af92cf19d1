"""Put some elements of a sequence in their sorted places, with no higher one before and no lower one behind.

The elements are moved, or their indices.

A sample tells between which two elements the wanted one lies, most likely; a pass moves what is lower to the
front, what is higher to the end, and goes on with the few between them (Floyd and Rivest, Expected time
bounds for selection, CACM 18, 1975). Where the sample misleads, the pass after it goes on in the front or the
end; where all lie between the bounds, the next ones are one element, so that what equals it is in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import tvm
from tvm import tirx

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.blocked.layout import lanes_for
from nnmagic.engine.relax.legalize.extern_loops import independent_kernel
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.sort_keys import join_zeros, sort_key, sort_keys
from nnmagic.engine.relax.legalize.sort_loops import SequenceSort, sort_along
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt
from nnmagic.relay.types import is_float

#: The elements of a sample, and how far from the wanted one the bounds are: of short and of long sequences.
_SAMPLE, _MARGIN, _LONG_SAMPLE, _LONG_MARGIN = 64, 13, 256, 26

#: Shorter sequences are sorted, many at once.
_LEAST = 1 << 11

#: Sequences from this length on are long.
_LONG = 1 << 15

#: The dtypes whose elements AVX-512 moves together.
_MOVED_TOGETHER = ("float32", "float64", "int32", "int64", "uint32", "uint64")

_Load: TypeAlias = Callable[[PrimExpr], PrimExpr]
_Store: TypeAlias = Callable[[PrimExpr, PrimExpr], Stmt]

#: So few elements are sorted by insertion.
_FEW = 64

#: Most rounds leave a quarter to a half of the elements; where these do not suffice, all are sorted.
_ROUNDS = 40

#: The bytes of the vectors whose lanes AVX-512 moves together.
_VECTOR_BYTES = 64

_FRONT, _COUNT, _SIDE, _LEFT, _ABOVE, _KEPT, _PLACED, _FAILED, _AT, _NARROW = range(10)


def _partition(call: OpCall) -> Value:
    return _partitioned(call, "values", tensor_dtype(call.args[0]))


def _argpartition(call: OpCall) -> Value:
    return _partitioned(call, "indices", "int64")


def _partitioned(call: OpCall, output: str, dtype: str) -> Value:
    """Return the "values" or the "indices" of the elements."""
    data, kth = call.args
    axis = integer(call.attrs["axis"]) % len(shape_of(data))
    if builders.is_for_gpu() or static_int(shape_of(kth)[0]) == 0:
        return call.te(lambda x: sort_along(x, axis, [(output, dtype)], ascending=True), data)

    def compute(x: Tensor, places: Tensor) -> Tensor:
        def emit(data: Buffer, kth: Buffer, result: Buffer) -> Stmt:
            return _Partition(data, kth, {output: result}, axis).emit()

        return independent_kernel(emit, [(x.shape, dtype)], [x, places], "partition")

    return call.te(compute, data, kth)


@dataclass(frozen=True)
class _Source:
    """Where a round reads: what it moves from a place, an element or an index, and the element itself."""

    item: _Load
    number: _Load


@dataclass(frozen=True)
class _Result:
    """A sequence of the result."""

    load: _Load
    put: _Store


class _Partition:
    """The loops that partition the sequences along an axis."""

    def __init__(self, data: Buffer, kth: Buffer, outputs: dict[str, Buffer], axis: int) -> None:
        self.data, self.kth = data, kth
        ((name, self.result),) = outputs.items()
        self.by_index = name == "indices"
        self.sort = SequenceSort(data, axis, outputs, ascending=True)
        self.length, self.dtype = self.sort.length, builders.dtype_of(data)
        #: The dtype of what is moved.
        self.moved = builders.dtype_of(self.result)
        #: What is between the bounds, in two halves that take turns, and what is above them.
        self.spare = tirx.decl_buffer((self.length * 3,), self.moved, "spare")
        self.lanes = self._lanes()
        self.sample = builders.local_array(_LONG_SAMPLE, self.sort.kind, "sample")
        self.state = builders.local_array(10, "int64", "state")
        self.bounds = builders.local_array(2, self.sort.kind, "bounds")

    def _lanes(self) -> int:
        """Return how many elements move together: 1 where no instruction does that."""
        is_contiguous = self.sort.axis == len(self.sort.other)
        if (
            not is_contiguous
            or self.dtype not in _MOVED_TOGETHER
            or lanes_for("float64") != _VECTOR_BYTES // 8
        ):
            return 1
        return _VECTOR_BYTES * 8 // int(tvm.DataType(self.moved).bits)

    def emit(self) -> Stmt:
        if 0 in (static_int(self.length), static_int(self.sort.total)):
            return tirx.Evaluate(0)
        sequences = loop("sequence", self.sort.total, self._of_sequence)
        static_length = static_int(self.length)
        # A sort beside the partition is chosen by the length at run time otherwise.
        if static_length is None:  # both ways would take long to compile
            return sequences if static_int(self.sort.total) == 1 else self.sort.emit()
        return self.sort.independent(sequences, 1) if static_length >= _LEAST else self.sort.emit()

    def _of_sequence(self, number: PrimExpr) -> Stmt:
        index = partial(self.sort.index, number)

        def element(at: PrimExpr) -> PrimExpr:
            return tirx.BufferLoad(self.data, index(at))

        source = _Source(item=(lambda at: at) if self.by_index else element, number=element)
        result = _Result(
            load=lambda at: tirx.BufferLoad(self.result, index(at)),
            put=lambda at, value: tirx.BufferStore(self.result, value, index(at)),
        )

        def copy_all(at: PrimExpr) -> Stmt:
            return result.put(at, source.item(at))

        count = self.kth.ty.shape[0]
        nothing = tirx.all(self._get(_PLACED) == 0, self._get(_FAILED) == 0)
        return sequence(
            [
                *map(tirx.AllocBuffer, (self.spare, self.sample, self.state, self.bounds)),
                self._set(_PLACED, as_expr(0)),
                self._set(_FAILED, as_expr(0)),
                loop("place", count, partial(self._of_place, source, result, element)),
                tirx.IfThenElse(self._get(_FAILED) != 0, self.sort.sort_long(number), None),
                tirx.IfThenElse(nothing, loop("at", self.length, copy_all), None),
            ]
        )

    def _of_place(
        self, source: _Source, result: _Result, element: Callable[[PrimExpr], PrimExpr], j: PrimExpr
    ) -> Stmt:
        """Bring the element of a place to it: what is before it is lower, what is behind it higher."""
        wanted = self.kth[j]
        again = sequence(
            [
                self._set(_FRONT, self._get(_PLACED)),
                self._set(_COUNT, as_expr(self.length) - self._get(_FRONT)),
                self._set(_SIDE, as_expr(0)),
                loop("at", self._get(_COUNT), partial(self._take_back, result)),
            ]
        )
        first = sequence(
            [
                self._set(_FRONT, as_expr(0)),
                self._set(_COUNT, as_expr(self.length)),
                self._set(_SIDE, as_expr(0)),
                tirx.IfThenElse(
                    self._get(_COUNT) > _FEW,
                    self._round(wanted, source, result),
                    loop("at", self.length, lambda at: tirx.BufferStore(self.spare, source.item(at), [at])),
                ),
            ]
        )

        def item(at: PrimExpr) -> PrimExpr:
            place = self._get(_SIDE) * self.length + at
            return self.spare[place]

        from_spare = _Source(item, (lambda at: element(item(at))) if self.by_index else item)

        def go_on(_number: PrimExpr) -> Stmt:
            return tirx.IfThenElse(self._get(_COUNT) > _FEW, self._round(wanted, from_spare, result), None)

        select = sequence(
            [
                self._set(_NARROW, as_expr(0)),
                tirx.IfThenElse(self._get(_PLACED) == 0, first, again),
                loop("round", _ROUNDS, go_on),
                tirx.IfThenElse(
                    self._get(_COUNT) > _FEW,
                    # After so many rounds the sample was of no use again and again: sorting
                    # everything bounds the time.
                    self._set(_FAILED, as_expr(1)),
                    self._finish(from_spare, result.put),
                ),
            ]
        )
        is_open = tirx.all(self._get(_FAILED) == 0, wanted >= self._get(_PLACED), wanted < self.length)
        return tirx.IfThenElse(is_open, select, None)

    def _get(self, item: int) -> PrimExpr:
        return self.state[as_expr(item)]

    def _set(self, item: int, value: PrimExpr) -> Stmt:
        return tirx.BufferStore(self.state, value, [as_expr(item)])

    def _take_back(self, result: _Result, at: PrimExpr) -> Stmt:
        """Have the next round read an element of the result."""
        place = self._get(_SIDE) * self.length + at
        return tirx.BufferStore(self.spare, result.load(self._get(_FRONT) + at), [place])

    def _round(self, wanted: PrimExpr, source: _Source, result: _Result) -> Stmt:
        """Move the elements below and above two bounds around the wanted one; keep the others."""
        put = result.put
        count, front = self._get(_COUNT), self._get(_FRONT)
        is_long = count >= _LONG
        size = tirx.Select(is_long, as_expr(_LONG_SAMPLE), as_expr(_SAMPLE))
        margin = tirx.Select(is_long, as_expr(_LONG_MARGIN), as_expr(_MARGIN))
        # Where a round removed nothing, as among many equal elements, the bounds are the wanted
        # element's own: what is equal to it is placed, and the rest gets smaller.
        margin = margin * (as_expr(1) - self._get(_NARROW))
        target = tirx.floordiv((wanted - front) * size, count)
        low, high = target - margin, target + margin
        kind = self.sort.kind
        bounds = [
            # A bound outside of the sample is none: all elements are on its inner side.
            tirx.if_then_else(low < 0, tirx.min_value(kind), self.sample[tirx.max(low, as_expr(0))]),
            tirx.if_then_else(high >= size, tirx.max_value(kind), self.sample[tirx.min(high, size - 1)]),
        ]
        end = front + count - self._get(_ABOVE)
        vectors = tirx.floordiv(count, self.lanes) if self.lanes > 1 else as_expr(0)
        move = partial(self._move, source, put)

        def place_above(at: PrimExpr) -> Stmt:
            return put(end + at, self.spare[as_expr(self.length) * 2 + at])

        return sequence(
            [
                loop("at", size, partial(self._insert, source, count, size)),
                *(tirx.BufferStore(self.bounds, bound, [k]) for k, bound in enumerate(bounds)),
                self._set(_LEFT, front),
                self._set(_ABOVE, as_expr(0)),
                self._set(_KEPT, as_expr(0)),
                *(
                    [loop("vector", vectors, partial(self._move_together, source, put))]
                    if self.lanes > 1
                    else []
                ),
                loop("at", count - vectors * self.lanes, lambda at: move(vectors * self.lanes + at)),
                loop("at", self._get(_ABOVE), place_above),
                self._choose(wanted, result),
            ]
        )

    def _insert(self, source: _Source, count: PrimExpr, size: PrimExpr, at: PrimExpr) -> Stmt:
        """Insert an element of the sample in front of those that are higher."""
        key = tirx.Var("key", self.sort.kind)

        def shift(step: PrimExpr) -> Stmt:
            place = at - step
            lower = tirx.all(place == self._get(_AT), self.sample[place - 1] > key)
            moved = sequence(
                [tirx.BufferStore(self.sample, self.sample[place - 1], [place]), self._set(_AT, place - 1)]
            )
            return tirx.IfThenElse(lower, moved, None)

        # The sample is taken at equal distances, from the middle of each: sorted input gives exact
        # quantiles.
        place = tirx.floordiv(at * count, size) + tirx.floordiv(count, size * 2)
        return sequence(
            [
                tirx.Bind(key, self._key(source, place)),
                self._set(_AT, at),
                loop("step", at, shift),
                tirx.BufferStore(self.sample, key, [self._get(_AT)]),
            ]
        )

    def _choose(self, wanted: PrimExpr, result: _Result) -> Stmt:
        """Go on with the elements among which the wanted one is; kept ones that are all equal are placed."""
        front, count, remaining = map(self._get, (_FRONT, _COUNT, _LEFT))
        end = front + count - self._get(_ABOVE)
        inside = tirx.all(wanted >= remaining, wanted < end)

        def place_kept(at: PrimExpr) -> Stmt:
            between = (as_expr(1) - self._get(_SIDE)) * self.length
            return result.put(remaining + at, self.spare[between + at])

        keep = sequence(
            [
                self._set(_NARROW, (self._get(_KEPT) == count).astype("int64")),
                self._set(_FRONT, remaining),
                self._set(_COUNT, self._get(_KEPT)),
                self._set(_SIDE, as_expr(1) - self._get(_SIDE)),
            ]
        )
        go_behind = sequence([self._set(_FRONT, end), self._set(_COUNT, self._get(_ABOVE))])
        place = sequence(
            [
                loop("at", self._get(_KEPT), place_kept),
                self._set(_NARROW, as_expr(0)),
                tirx.IfThenElse(
                    inside,
                    sequence([self._set(_FRONT, end), self._set(_COUNT, as_expr(0))]),
                    tirx.IfThenElse(wanted < remaining, self._set(_COUNT, remaining - front), go_behind),
                ),
                loop("at", self._get(_COUNT), partial(self._take_back, result)),
            ]
        )
        are_equal = self.bounds[0] == self.bounds[1]
        return tirx.IfThenElse(tirx.all(inside, tirx.Not(are_equal)), keep, place)

    def _ends(self) -> tuple[PrimExpr, PrimExpr]:
        """Return the places in the spare memory of the next element between the bounds, and above them."""
        between = (as_expr(1) - self._get(_SIDE)) * self.length + self._get(_KEPT)
        return between, as_expr(self.length) * 2 + self._get(_ABOVE)

    def _key(self, source: _Source, at: PrimExpr) -> PrimExpr:
        """Return what the element is ordered by; indices of equal zeros keep their order as in a sort."""
        key = sort_key(source.number(at))
        return join_zeros(key) if self.by_index and is_float(self.dtype) else key

    def _move(self, source: _Source, put: _Store, at: PrimExpr) -> Stmt:
        """Move one element: it is stored at all ends, and stored over where it does not belong."""
        value, key = tirx.Var("value", self.moved), tirx.Var("key", self.sort.kind)
        below, above = tirx.Var("below", "int64"), tirx.Var("above", "int64")
        return sequence(
            [
                tirx.Bind(value, source.item(at)),
                tirx.Bind(key, self._key(source, at)),
                tirx.Bind(below, (key < self.bounds[0]).astype("int64")),
                tirx.Bind(above, (key > self.bounds[1]).astype("int64")),
                # No branch depends on the element, which would be predicted wrongly half of the
                # time: it is stored at all three ends, and only one of them moves on.
                put(self._get(_LEFT), value),
                *(tirx.BufferStore(self.spare, value, [end]) for end in self._ends()),
                self._set(_LEFT, self._get(_LEFT) + below),
                self._set(_ABOVE, self._get(_ABOVE) + above),
                self._set(_KEPT, self._get(_KEPT) + as_expr(1) - below - above),
            ]
        )

    def _move_together(self, source: _Source, put: _Store, at: PrimExpr) -> Stmt:
        """Move the elements of a vector: those for each end are stored together, with others behind them."""
        lanes, kind = self.lanes, self.sort.kind
        vector, places = builders.vector_type(self.moved, lanes), builders.ramp(at * lanes, lanes)
        value = tirx.Var("values", vector)
        number = tirx.Var("numbers", builders.vector_type(self.dtype, lanes))
        key = tirx.Var("keys", builders.vector_type(kind, lanes))
        low, high = (builders.broadcast(self.bounds[k], lanes) for k in (0, 1))
        below, above = key < low, key > high

        def packed(mask: PrimExpr) -> PrimExpr:
            # AVX-512's vpcompress moves the chosen lanes to the front; what is behind them is
            # overwritten by the next vector.
            name = "llvm.experimental.vector.compress"
            return tirx.call_llvm_pure_intrin(vector, name, value, mask, value)

        def count(mask: PrimExpr) -> PrimExpr:
            ones = mask.astype(builders.vector_type("int64", lanes))
            return tirx.call_llvm_pure_intrin("int64", "llvm.vector.reduce.add", ones)

        between, beyond = self._ends()
        lower, higher = tirx.Var("lower", "int64"), tirx.Var("higher", "int64")
        rest = tirx.Not(tirx.Or(below, above))
        return sequence(
            [
                tirx.Bind(value, source.item(places)),
                tirx.Bind(number, source.number(places)),
                tirx.Bind(key, sort_keys(number, lanes)),
                tirx.Bind(lower, count(below)),
                tirx.Bind(higher, count(above)),
                put(builders.ramp(self._get(_LEFT), lanes), packed(below)),
                tirx.BufferStore(self.spare, packed(rest), [builders.ramp(between, lanes)]),
                tirx.BufferStore(self.spare, packed(above), [builders.ramp(beyond, lanes)]),
                self._set(_LEFT, self._get(_LEFT) + lower),
                self._set(_ABOVE, self._get(_ABOVE) + higher),
                self._set(_KEPT, self._get(_KEPT) + as_expr(lanes) - lower - higher),
            ]
        )

    def _finish(self, source: _Source, put: _Store) -> Stmt:
        """Put the few elements that are left in order, by counting those before each."""
        count, front = self._get(_COUNT), self._get(_FRONT)

        def put_one(at: PrimExpr) -> Stmt:
            def look(other: PrimExpr) -> Stmt:
                key, its = self._key(source, at), self._key(source, other)
                # Equal elements are ordered by their positions, so that each gets a place of its
                # own.
                before = tirx.any(its < key, tirx.all(its == key, other < at))
                return self._set(_AT, self._get(_AT) + before.astype("int64"))

            return sequence(
                [
                    self._set(_AT, as_expr(0)),
                    loop("other", count, look),
                    put(front + self._get(_AT), source.item(at)),
                ]
            )

        return sequence([loop("at", count, put_one), self._set(_PLACED, front + count)])


RULES.update({"numpy.partition": _partition, "numpy.argpartition": _argpartition})
