"""Read and write the words that sorts compare: a key, or a key beside the index of its element.

Keys are integers in the order of the elements, as radix sorts of floats have them (Herf, 2001).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import tvm
from tvm import tirx

from nnmagic.engine.relax.legalize.selection import LEAST_RATIO, MOST_SELECTED
from nnmagic.engine.relax.legalize.sort_keys import from_sort_key, join_zeros, key_dtype, sort_key
from nnmagic.engine.relax.legalize.sorting_network import SortedColumns
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    at_least,
    branch,
    loop,
    sequence,
    static_int,
    vector_loop,
)
from nnmagic.engine.relax.tir.transposition import transpose
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Stmt
from nnmagic.relay.types import is_float

#: The bytes of the vectors. LLVM splits those that the machine has not.
VECTOR_BYTES = 64

#: The bits of an index beside a key of 32 bits.
INDEX_BITS = 32

SequenceIndex: TypeAlias = Callable[[Index, Index], list[Index]]


class SequenceWords:
    """The words of a tensor's sequences along an axis, and what is made of them."""

    def __init__(self, data: Buffer, axis: int, outputs: dict[str, Buffer], ascending: bool) -> None:
        self.data, self.axis, self.outputs, self.ascending = data, axis, outputs, ascending
        self.dtype = builders.dtype_of(data)
        shape = [builders.as_index(dim) for dim in data.ty.shape]
        self.length = shape[axis]
        self.other = [*shape[:axis], *shape[axis + 1 :]]
        self.inner = shape[axis + 1 :]
        self.total = builders.product(self.other)
        result = next(iter(outputs.values()))
        self.count = builders.as_index(result.ty.shape[axis])
        #: Whether the elements may be few enough to be found without sorting the others.
        few = static_int(self.count)
        self.selects = few is not None and few <= MOST_SELECTED and axis == len(self.other)
        self.selects = self.selects and at_least(self.length, LEAST_RATIO * (few or 0)) is not False
        self.by_index = "indices" in outputs or self.selects
        self.kind = key_dtype(self.dtype)
        self.packed = self.by_index and self.kind == "int32"
        word = "int64" if self.packed else self.kind
        self.words = [word, "int64"] if self.by_index and not self.packed else [word]
        self.lanes = VECTOR_BYTES * 8 // int(tvm.DataType(word).bits)

    def _key(self, index: Sequence[Index]) -> PrimExpr:
        """Return the key of an element; a lower key comes first."""
        key = sort_key(tirx.BufferLoad(self.data, list(index)))
        if self.by_index and is_float(self.dtype):
            key = join_zeros(key)
        return key if self.ascending else key ^ tirx.const(-1, self.kind)

    def _word(self, index: Sequence[Index]) -> list[PrimExpr]:
        """Return the word of an element: its key, with its index along the axis if that is wanted."""
        key = self._key(index)
        at = as_expr(index[self.axis]).astype("int64")
        if self.packed:
            wide = tirx.shift_left(key.astype("int64"), tirx.const(INDEX_BITS, "int64"))
            return [tirx.bitwise_or(wide, at)]
        return [key, at] if self.by_index else [key]

    def _store_outputs(self, words: Sequence[PrimExpr], at: Sequence[Index]) -> Stmt:
        """Store what all outputs have at an index for the words of a place."""
        return sequence([self._store_output(name, words, at) for name in self.outputs])

    def _store_output(self, name: str, words: Sequence[PrimExpr], at: Sequence[Index]) -> Stmt:
        return tirx.BufferStore(self.outputs[name], self._result(name, words, at), at)

    def _result(self, name: str, words: Sequence[PrimExpr], index: Sequence[Index]) -> PrimExpr:
        """Return an element of an output, the one at ``index``, from its word."""
        if not self.by_index:
            key = words[0] if self.ascending else words[0] ^ tirx.const(-1, self.kind)
            return from_sort_key(key, self.dtype)
        at = words[-1] & tirx.const((1 << INDEX_BITS) - 1, "int64") if self.packed else words[-1]
        if name == "values":
            return tirx.BufferLoad(self.data, [*index[: self.axis], at, *index[self.axis + 1 :]])
        return at.astype(builders.dtype_of(self.outputs[name]))

    def index(self, sequence_: Index, at: Index) -> list[Index]:
        """Return the index of an element of a sequence along the axis, counted over the other axes."""
        result: list[Index] = []
        quotient = as_expr(sequence_)
        for position, dim in enumerate(reversed(self.other)):
            is_first = position == len(self.other) - 1
            size = builders.maximum(dim, 1)
            result.insert(0, quotient if is_first else tirx.floormod(quotient, as_expr(size)))
            quotient = quotient if is_first else tirx.floordiv(quotient, as_expr(size))
        result.insert(self.axis, at)
        return result

    def _load(self, columns: SortedColumns, index: SequenceIndex) -> Stmt:
        by_columns = partial(self._load_columns, columns, index)
        if self.axis != len(self.other):
            return by_columns()
        return branch(
            at_least(self.length, columns.lanes), partial(self._load_rows, columns, index), by_columns
        )

    def _store(self, columns: SortedColumns, name: str, index: SequenceIndex) -> Stmt:
        by_columns = partial(self._store_columns, columns, name, index)
        if self.axis != len(self.other):
            return by_columns()
        return branch(
            at_least(self.count, columns.lanes), partial(self._store_rows, columns, name, index), by_columns
        )

    def _load_columns(self, columns: SortedColumns, index: SequenceIndex) -> Stmt:
        def copy(row: PrimExpr) -> Stmt:
            def element(lane: PrimExpr) -> Stmt:
                values = self._word(index(lane, row))
                return sequence(store_elements(columns.parts, row * columns.lanes + lane, values))

            return vector_loop(columns.lanes, element)

        return loop("row", self.length, copy)

    def _store_columns(self, columns: SortedColumns, name: str, index: SequenceIndex) -> Stmt:
        def copy(row: PrimExpr) -> Stmt:
            def element(lane: PrimExpr) -> Stmt:
                words = [tirx.BufferLoad(part, [row * columns.lanes + lane]) for part in columns.parts]
                at = index(lane, row)
                return self._store_output(name, words, at)

            return vector_loop(columns.lanes, element)

        return loop("row", self.count, copy)

    def _load_rows(self, columns: SortedColumns, index: SequenceIndex) -> Stmt:
        """Load the sequences, which are rows, by squares of them that are transposed."""
        lanes = columns.lanes

        def copy(number: PrimExpr) -> Stmt:
            start = tirx.min(number * lanes, as_expr(self.length) - lanes)
            squares = [builders.local_array(lanes * lanes, word, "square") for word in self.words]
            statements: list[Stmt] = [tirx.AllocBuffer(square) for square in squares]

            def element(row: int, lane: PrimExpr) -> Stmt:
                words = self._word(index(row, start + lane))
                return sequence(store_elements(squares, row * lanes + lane, words))

            statements += [vector_loop(lanes, partial(element, row)) for row in range(lanes)]
            for square, part in zip(squares, columns.parts, strict=True):
                statements += transpose_columns(square, part, start * lanes, lanes)
            return sequence(statements)

        return loop("square", builders.round_up_div(self.length, lanes), copy)

    def _store_rows(self, columns: SortedColumns, name: str, index: SequenceIndex) -> Stmt:
        lanes = columns.lanes

        def copy(number: PrimExpr) -> Stmt:
            start = tirx.min(number * lanes, as_expr(self.count) - lanes)
            squares = [builders.local_array(lanes * lanes, word, "square") for word in self.words]
            statements: list[Stmt] = [tirx.AllocBuffer(square) for square in squares]
            for square, part in zip(squares, columns.parts, strict=True):
                statements += transpose_columns(part, square, 0, lanes, start * lanes)

            def element(row: int, lane: PrimExpr) -> Stmt:
                words = [tirx.BufferLoad(square, [row * lanes + lane]) for square in squares]
                at = index(row, start + lane)
                return self._store_output(name, words, at)

            statements += [vector_loop(lanes, partial(element, row)) for row in range(lanes)]
            return sequence(statements)

        return loop("square", builders.round_up_div(self.count, lanes), copy)

    def _order_zeros(self, columns: SortedColumns, index: SequenceIndex) -> Stmt:
        """Put zeros of both signs in the order of the data, in the sequences that have them."""
        (words,), lanes = columns.parts, self.lanes
        has = builders.local_array(lanes, self.kind, "has_negative_zero")
        zero, one = tirx.const(0, self.kind), tirx.const(1, self.kind)

        def clear(lane: PrimExpr) -> Stmt:
            return tirx.BufferStore(has, zero, [lane])

        def look(row: PrimExpr) -> Stmt:
            def look_at(lane: PrimExpr) -> Stmt:
                is_negative = words[row * lanes + lane] == self._negative_zero()
                return tirx.BufferStore(has, tirx.Select(is_negative, one, has[lane]), [lane])

            return vector_loop(lanes, look_at)

        def reorder(lane: PrimExpr) -> Stmt:
            return tirx.IfThenElse(has[lane] != zero, self._move_zeros(partial(index, lane)), None)

        loops = [vector_loop(lanes, clear), loop("row", self.length, look), loop("lane", lanes, reorder)]
        return sequence([tirx.AllocBuffer(has), *loops])

    def _negative_zero(self) -> PrimExpr:
        """Return the word of -0, which the keys put on one side of 0."""
        return tirx.const(-1 if self.ascending else 0, self.kind)

    def _move_zeros(self, index: Callable[[Index], list[Index]]) -> Stmt:
        """Put the zeros of a sequence in the order of the data."""
        result = self.outputs["values"]
        position = builders.local_array(1, "int64", "position")

        def add(value: PrimExpr) -> Stmt:
            return tirx.BufferStore(position, position[0] + value.astype("int64"), [0])

        def count(at: PrimExpr) -> Stmt:
            return add(self._key(index(at)) < tirx.const(-1, self.kind))

        def put(at: PrimExpr) -> Stmt:
            value = tirx.BufferLoad(self.data, index(at))
            store = tirx.BufferStore(result, value, index(position[0]))
            inside = tirx.IfThenElse(position[0] < as_expr(self.count), store, None)
            is_zero = value == tirx.const(0, self.dtype)
            return tirx.IfThenElse(is_zero, sequence([inside, add(as_expr(1))]), None)

        start = tirx.BufferStore(position, as_expr(0), [0])
        counts = loop("at", self.length, count)
        return sequence([tirx.AllocBuffer(position), start, counts, loop("at", self.length, put)])


def store_elements(buffers: Sequence[Buffer], at: PrimExpr, values: Sequence[PrimExpr]) -> list[Stmt]:
    """Return statements that store the parts of a word."""
    return [tirx.BufferStore(buffer, value, [at]) for buffer, value in zip(buffers, values, strict=True)]


def transpose_columns(
    source: Buffer, target: Buffer, to: Index, lanes: int, start: Index = 0, stride: Index | None = None
) -> list[Stmt]:
    """Transpose a square between flat buffers; the target's rows are ``stride`` apart, or neighbours."""
    dtype = builders.dtype_of(source)
    rows = [builders.load(source, start + row * lanes, lanes, dtype) for row in range(lanes)]
    statements, columns = transpose(rows, dtype)
    distance = lanes if stride is None else stride
    statements += [
        builders.store(target, to + row * distance, lanes, value) for row, value in enumerate(columns)
    ]
    return statements
