"""Sort along an axis by loops of our own: the elements, or the indices that sort them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from tvm import tirx

from nnmagic.engine.relax.legalize.extern_loops import independent_kernel
from nnmagic.engine.relax.legalize.radix_sort import radix_sort
from nnmagic.engine.relax.legalize.selection import LEAST_RATIO, select_lowest
from nnmagic.engine.relax.legalize.sequence_words import (
    INDEX_BITS,
    SequenceWords,
    store_elements,
    transpose_columns,
)
from nnmagic.engine.relax.legalize.sort_keys import join_zeros
from nnmagic.engine.relax.legalize.sorting_network import BLOCK, SortedColumns, merge_columns, sort_columns
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.schedules.independent_loops import independent_loop
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, at_least, branch, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt
from nnmagic.relay.types import is_float


def sort_along(
    data: Tensor,
    axis: int,
    outputs: Sequence[tuple[str, str]],
    *,
    ascending: bool,
    count: Extent | None = None,
) -> Tensors:
    """Return the first ``count`` elements along an axis in order, or their indices; NaN are the highest.

    Equal elements keep their order. ``outputs``: the names, "values" or "indices", and the dtypes.
    """
    axis %= len(data.shape)
    shape = [*data.shape[:axis], data.shape[axis] if count is None else count, *data.shape[axis + 1 :]]

    def emit(source: Buffer, *results: Buffer) -> Stmt:
        names = [name for name, _ in outputs]
        return SequenceSort(source, axis, dict(zip(names, results, strict=True)), ascending).emit()

    return independent_kernel(emit, [(shape, dtype) for _, dtype in outputs], [data], "sort")


def sort_buffer(data: Buffer, ordered: Buffer) -> Stmt:
    """Return the loops that put the elements of a vector into another one, in ascending order, NaN last."""
    return SequenceSort(data, 0, {"values": ordered}, ascending=True).emit()


#: The longest sequences that the network sorts, and the longest ones if there is only one.
_LONGEST = 1 << 14
_LENGTH_OF_ONE = 512

#: Sequences that fill only this part of the lanes are sorted one after the other.
_FEW = 4

#: The longest of these for which that is faster than by their digits.
_LONGEST_OF_FEW = 1 << 13

#: The longest of these whose elements are counted, where only the call knows the length.
_LONGEST_COUNTED = 32

#: How many operations the sort of an element counts as.
_OPERATIONS = 8

#: Returns the index of an element: of a sequence of a group, or of a sequence.
_GroupIndex: TypeAlias = Callable[[PrimExpr, Index, Index], list[Index]]


def _is_short(length: Index, total: Index) -> PrimExpr | bool:
    """Return whether the network is faster: its time grows faster, but it sorts many sequences at once."""
    return length <= builders.minimum(_LONGEST, total * _LENGTH_OF_ONE)


class SequenceSort(SequenceWords):
    """The loops that sort one tensor along an axis."""

    def emit(self) -> Stmt:
        """Return the loops."""
        if 0 in (static_int(self.length), static_int(self.total), static_int(self.count)):
            return tirx.Evaluate(0)
        if builders.is_for_gpu():  # which has no long vectors
            return self._by_radix()
        if self.selects:
            enough = at_least(self.length, LEAST_RATIO * int(self.count))
            return branch(enough, self._by_selection, self._by_sorting)
        return self._by_sorting()

    def _by_sorting(self) -> Stmt:
        few = static_int(self.total)
        # The network sorts one sequence in each lane: of few sequences, most lanes would do
        # nothing.
        if few is not None and few <= self.lanes // _FEW:
            is_short = at_least(_LONGEST_OF_FEW - self.length, 0)
            sort = partial(branch, is_short, self._by_merged_columns, self._by_radix)
            if static_int(self.length) is not None:
                return sort()
            return branch(as_expr(self.length) <= _LONGEST_COUNTED, self._by_counting, sort)
        return branch(_is_short(self.length, self.total), self._by_network, self._by_radix)

    def independent(self, sequences: Stmt, of_round: int) -> Stmt:
        """Mark the loop over the sequences, so many in a round, for threads; if there is such a loop."""
        if not isinstance(sequences, tirx.For) or static_int(self.total) == 1:
            return sequences
        length = static_int(self.length) or _LENGTH_OF_ONE
        return independent_loop(sequences, of_round * length * _OPERATIONS)

    # What is sorted

    # Short sequences: a vector of them at once, by a sorting network

    def _by_network(self) -> Stmt:
        """Sort groups of as many sequences as a vector has lanes; the last ones may repeat."""
        lanes = self.lanes
        groups = builders.round_up_div(self.total, lanes)
        if self.axis == len(self.other) or len(self.inner) > 1:
            return self._sort_groups(groups, self._any_index)
        across = builders.round_up_div(self.inner[0], lanes)
        outer = builders.product(self.other[:-1])
        return branch(
            at_least(self.inner[0], lanes),
            lambda: self._sort_groups(outer * across, partial(self._index_across, across)),
            lambda: self._sort_groups(groups, self._any_index),
        )

    def _any_index(self, group: PrimExpr, lane: Index, at: Index) -> list[Index]:
        """Return the index of an element of a sequence of a group, counted over the other axes."""
        return self.index(tirx.min(group * self.lanes + lane, as_expr(self.total) - 1), at)

    def _index_across(self, across: Extent, group: PrimExpr, lane: Index, at: Index) -> list[Index]:
        """Return the index of an element of a sequence of a group, where these are neighbours in memory."""
        column = tirx.min(
            tirx.floormod(group, as_expr(across)) * self.lanes, as_expr(self.inner[0]) - self.lanes
        )
        outer = tirx.floordiv(group, as_expr(across)) * as_expr(self.inner[0])
        index = self.index(outer, at)
        return [*index[:-1], column + lane]

    def _sort_groups(self, groups: Extent, index: _GroupIndex) -> Stmt:
        length, lanes = self.length, self.lanes
        static_length = static_int(length)
        block = BLOCK if static_length is None else min(BLOCK, 1 << (static_length - 1).bit_length())
        # Rows beyond the length are the highest words, which sort to the end and are not stored.
        rows = builders.round_up_div(length, block) * block
        parts = tuple(tirx.decl_buffer((rows * lanes,), word, "words") for word in self.words)
        kept, (rows,) = _keep_in_memory(rows)
        columns = SortedColumns(parts, lanes, rows, block)
        highest = [builders.broadcast(tirx.max_value(word), lanes) for word in self.words]

        def pad(row: PrimExpr) -> Stmt:
            return sequence(columns.store(length + row, highest))

        def sort_group(group: PrimExpr) -> Stmt:
            at = partial(index, group)
            statements: list[Stmt] = [*map(tirx.AllocBuffer, parts), *kept]
            statements.append(self._load(columns, at))
            if static_length is None or static_length % block:
                statements.append(loop("row", rows - length, pad))
            statements.append(sort_columns(columns))
            statements += [self._store(columns, name, at) for name in self.outputs]
            if not self.by_index and is_float(self.dtype):
                statements.append(self._order_zeros(columns, at))
            return sequence(statements)

        return self.independent(loop("group", groups, sort_group), lanes)

    # Few sequences of few elements: the place of each is how many come before it

    def _by_counting(self) -> Stmt:
        return loop("sequence", self.total, self._sort_by_counting)

    def _sort_by_counting(self, number: PrimExpr) -> Stmt:
        index = partial(self.index, number)
        keys = builders.local_array(_LONGEST_COUNTED, self.kind, "keys")
        place = builders.local_array(1, "int64", "place")

        def pad(at: PrimExpr) -> Stmt:
            return tirx.BufferStore(keys, tirx.max_value(self.kind), [at])

        def load(at: PrimExpr) -> Stmt:
            key = self._key(index(at))
            return tirx.BufferStore(keys, join_zeros(key) if is_float(self.dtype) else key, [at])

        def put(at: PrimExpr) -> Stmt:
            def count(other: PrimExpr) -> Stmt:
                # Of equal keys, those before come first: the order is stable, and every element has
                # a place of its own.
                is_same = tirx.bitwise_and(keys[other] == keys[at], other < at)
                is_before = tirx.bitwise_or(keys[other] < keys[at], is_same)
                return tirx.BufferStore(place, place[0] + is_before.astype("int64"), [0])

            values = {"values": tirx.BufferLoad(self.data, index(at)), "indices": at}
            stores = [
                tirx.BufferStore(output, values[name].astype(builders.dtype_of(output)), index(place[0]))
                for name, output in self.outputs.items()
            ]
            inside = tirx.IfThenElse(place[0] < as_expr(self.count), sequence(stores), None)
            start = tirx.BufferStore(place, as_expr(0), [0])
            # A constant number of comparisons, with padding that is the highest key, is vectors
            # without a rest.
            return sequence([start, loop("other", _LONGEST_COUNTED, count), inside])

        arrays = [tirx.AllocBuffer(keys), tirx.AllocBuffer(place)]
        padding = loop("at", _LONGEST_COUNTED, pad)
        return sequence([*arrays, padding, loop("at", self.length, load), loop("at", self.length, put)])

    # Few sequences: the lanes have parts of one, which are merged in the end

    def _by_merged_columns(self) -> Stmt:
        return loop("sequence", self.total, self._sort_by_merged_columns)

    def _level(self) -> Index:
        """Return how often a block of rows is doubled until it has as many elements as a sequence."""
        capacities = [BLOCK * self.lanes]
        while capacities[-1] < _LONGEST_OF_FEW:
            capacities.append(2 * capacities[-1])
        static_length = static_int(self.length)
        if static_length is not None:
            return sum(static_length > capacity for capacity in capacities)
        level = as_expr(0)
        for capacity in capacities:
            level = level + (as_expr(self.length) > capacity).astype("int64")
        return level

    def _sort_by_merged_columns(self, number: PrimExpr) -> Stmt:
        length, lanes, index = self.length, self.lanes, partial(self.index, number)
        level = self._level()
        rows = BLOCK << level if isinstance(level, int) else tirx.shift_left(as_expr(BLOCK), level)
        size = rows * lanes
        matrix = [tirx.decl_buffer((size,), word, "words") for word in self.words]
        flat = [tirx.decl_buffer((size,), word, "merged") for word in self.words]
        kept, (level, rows) = _keep_in_memory(level, rows)
        size = rows * lanes
        # One sequence is dealt to all lanes, which are sorted as columns and then merged: the
        # vectors are full.
        columns = SortedColumns(tuple(matrix), lanes, rows, BLOCK, calls=True)

        def load(at: PrimExpr) -> Stmt:
            return sequence(store_elements(matrix, at, self._word(index(at))))

        def pad(at: PrimExpr) -> Stmt:
            return sequence(
                store_elements(matrix, length + at, [tirx.max_value(word) for word in self.words])
            )

        def transpose(square: PrimExpr) -> Stmt:
            start = square * lanes
            moves = [
                column
                for source, target in zip(matrix, flat, strict=True)
                for column in transpose_columns(source, target, start, lanes, start * lanes, rows)
            ]
            return sequence(moves)

        def store(at: PrimExpr) -> Stmt:
            return self._store_outputs([part[at] for part in flat], index(at))

        statements = [
            *map(tirx.AllocBuffer, [*matrix, *flat]),
            *kept,
            loop("at", length, load),
            loop("at", size - length, pad),
            sort_columns(columns),
            merge_columns(columns, level),
            loop("square", builders.round_up_div(rows, lanes), transpose),
            loop("at", self.count, store),
        ]
        if not self.by_index and is_float(self.dtype):
            statements.append(self._move_zeros(index))
        return sequence(statements)

    # The first few elements of a sequence

    def _by_selection(self) -> Stmt:
        return self.independent(loop("sequence", self.total, self._select), 1)

    def _select(self, number: PrimExpr) -> Stmt:
        index = partial(self.index, number)
        count = int(self.count)
        registers = [builders.local_array(count, word, "kept") for word in self.words]

        def store(at: PrimExpr) -> Stmt:
            return self._store_outputs([register[at] for register in registers], index(at))

        selected = select_lowest(lambda at: self._word(index(at)), self.length, registers)
        return sequence([*map(tirx.AllocBuffer, registers), *selected, loop("at", count, store)])

    # Long sequences: one after the other, by their digits

    def _by_radix(self) -> Stmt:
        return self.independent(loop("sequence", self.total, self.sort_long), 1)

    def sort_long(self, number: PrimExpr) -> Stmt:
        """Sort one sequence, its keys less the lowest one."""
        length, index = self.length, partial(self.index, number)
        # The distance from the lowest key has no sign, and its high digits of 0 cost no pass.
        unsigned = "uint32" if self.kind == "int32" and not self.by_index else "uint64"
        words = tirx.decl_buffer((length * 2,), unsigned, "words")
        order = [tirx.decl_buffer((length * 2,), "int64", "order")] * (len(self.words) - 1)
        lowest, highest = (builders.local_array(1, self.kind, name) for name in ("lowest", "highest"))
        side = builders.local_array(1, "int64", "side")

        def key_of(at: PrimExpr) -> PrimExpr:
            return self._key(index(at))

        def find_range(at: PrimExpr) -> Stmt:
            low = tirx.BufferStore(lowest, tirx.min(lowest[0], key_of(at)), [0])
            return sequence([low, tirx.BufferStore(highest, tirx.max(highest[0], key_of(at)), [0])])

        def distance(key: PrimExpr) -> PrimExpr:
            """Return how far above the lowest key a key is; without a sign all distances fit."""
            # The difference of two int64 may wrap; as unsigned it is the distance all the same.
            return tirx.reinterpret("uint64", key.astype("int64") - lowest[0].astype("int64"))

        def load(at: PrimExpr) -> Stmt:
            word = distance(key_of(at))
            if self.packed:
                shifted = tirx.shift_left(word, tirx.const(INDEX_BITS, "uint64"))
                # Key and index in one word: one array is moved, and equal keys keep their order.
                word = tirx.bitwise_or(shifted, at.astype("uint64"))
            stores = [tirx.BufferStore(words, word.astype(unsigned), [at])]
            return sequence([*stores, *(tirx.BufferStore(each, at, [at]) for each in order)])

        def store(at: PrimExpr) -> Stmt:
            place = side[0] * length + at
            if order:
                columns = [words[place], order[0][place]]
            elif self.packed:
                columns = [tirx.reinterpret("int64", words[place])]
            else:
                lifted = tirx.reinterpret("int64", words[place].astype("uint64")) + lowest[0].astype("int64")
                columns = [lifted.astype(self.kind)]
            return self._store_outputs(columns, index(at))

        buffers = [words, *order, lowest, highest, side]
        statements: list[Stmt] = [tirx.AllocBuffer(buffer) for buffer in buffers]
        statements += [
            tirx.BufferStore(lowest, tirx.max_value(self.kind), [0]),
            tirx.BufferStore(highest, tirx.min_value(self.kind), [0]),
            loop("at", length, find_range),
            loop("at", length, load),
            radix_sort([words, *order], length, INDEX_BITS if self.packed else 0, distance(highest[0]), side),
            loop("at", self.count, store),
        ]
        if not self.by_index and is_float(self.dtype):
            statements.append(self._move_zeros(index))
        return sequence(statements)


def _keep_in_memory(*values: Index) -> tuple[list[Stmt], list[Index]]:
    """Store the values that only the call knows; TVM would simplify them anew wherever they are used."""
    statements: list[Stmt] = []
    results: list[Index] = []
    for value in values:
        if static_int(value) is not None:
            results.append(value)
            continue
        array = builders.local_array(1, "int64", "size")
        statements += [tirx.AllocBuffer(array), tirx.BufferStore(array, value, [0])]
        results.append(tirx.BufferLoad(array, [0]))
    return statements, results
