"""Legalize histograms over bins of one width: each thread counts for itself, and the counts are added up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import te, tirx

from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.independent_loops import INDEPENDENT, independent_loop
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt

#: The most pieces that threads share, the least elements of one, and the most bins that each can count in.
_MOST_PIECES, _LEAST_ELEMENTS, _MOST_BINS = 16, 1 << 15, 1 << 13

#: How many elements have their bins computed in vectors before they are counted.
_BLOCK = 256

#: How many operations an element counts as.
_OPERATIONS = 8


def _histogram(call: OpCall) -> Value:
    def compute(data: Tensor, edges: Tensor) -> Tensor:
        def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            return _Histogram(*ins, *outs).emit()

        shape = [edges.shape[0] - 1]
        return te.extern(
            [shape], [data, edges], emit, dtype=["int64"], name="counts", attrs={KIND: INDEPENDENT}
        )

    return call.te(compute, *call.args)


class _Histogram:
    """The loops that count the elements of data between edges of equal distance.

    As NumPy does it, the place of an element among the bins is computed, and corrected by the edges; near an
    edge only can there be something to correct. What is outside has a bin of its own, behind the others and
    one that stays empty.
    """

    def __init__(self, data: Buffer, edges: Buffer, counts: Buffer) -> None:
        self.data, self.edges, self.counts = data, edges, counts
        self.dtype = dtype_of(data)
        self.length = builders.as_index(data.ty.shape[0])
        self.bins = builders.as_index(counts.ty.shape[0])
        self.all_bins = self.bins + 3
        self.pieces = self._count_pieces()

    def _count_pieces(self) -> int:
        bins, length = static_int(self.bins), static_int(self.length)
        if bins is None or bins > _MOST_BINS:
            return 1
        return _MOST_PIECES if length is None else max(1, min(_MOST_PIECES, length // _LEAST_ELEMENTS))

    def emit(self) -> Stmt:
        """Return the loops."""
        bins = tirx.decl_buffer((self.all_bins * self.pieces,), "int64", "own")
        size = builders.round_up_div(self.length, self.pieces)
        counts = loop("piece", self.pieces, lambda chunk: self._count_piece(bins, chunk, size))
        if isinstance(counts, tirx.For) and self.pieces > 1:
            counts = independent_loop(counts, (static_int(size) or _LEAST_ELEMENTS) * _OPERATIONS)

        def add(at: PrimExpr) -> Stmt:
            total: PrimExpr = bins[at]
            for chunk in range(1, self.pieces):
                total = total + bins[self.all_bins * chunk + at]
            return tirx.BufferStore(self.counts, total, [at])

        return sequence([tirx.AllocBuffer(bins), counts, loop("bin", self.bins, add)])

    def _count_piece(self, bins: Buffer, chunk: PrimExpr, size: Extent) -> Stmt:
        """Count the elements of a piece in its own bins."""
        limits = tirx.decl_buffer((self.all_bins,), self.dtype, "limits")
        scale = builders.local_array(2, self.dtype, "scale")
        numbers = builders.local_array(_BLOCK, "int32", "numbers")
        number, near = (builders.local_array(1, "int32", name) for name in ("number", "near"))
        infinity, last = tirx.const(float("inf"), self.dtype), as_expr(self.bins)
        first_bin = chunk * self.all_bins
        begin = builders.local_array(2, "int64", "begin")

        def count() -> Stmt:
            place = first_bin + number[0].astype("int64")
            return tirx.BufferStore(bins, bins[place] + as_expr(1), [place])

        def count_element(at: PrimExpr) -> Stmt:
            """Count an element in the bin between whose edges it is."""
            value, computed = self.data[at], self._number(self._place(self.data[at]), self.data[at])
            below, above = (
                (value < limits[number[0].astype("int64")]),
                (value >= limits[number[0].astype("int64") + 1]),
            )
            corrected = number[0] - below.astype("int32") + above.astype("int32")
            return sequence(
                [tirx.BufferStore(number, computed, [0]), tirx.BufferStore(number, corrected, [0]), count()]
            )

        def find(at: PrimExpr) -> Stmt:
            """Find the bin of an element of a block, and whether rounding may have changed it."""
            value = self.data[begin[0] + at]
            place = (value - self.edges[0]) * scale[0]
            distance = tirx.abs(place - tirx.nearbyint(place))
            return sequence(
                [
                    tirx.BufferStore(numbers, self._number(place, value), [at]),
                    tirx.BufferStore(near, near[0] | (distance < scale[1]).astype("int32"), [0]),
                ]
            )

        def count_found(at: PrimExpr) -> Stmt:
            return sequence([tirx.BufferStore(number, numbers[at], [0]), count()])

        def count_block(block: PrimExpr) -> Stmt:
            return sequence(
                [
                    tirx.BufferStore(begin, chunk * size + block * _BLOCK, [0]),
                    tirx.BufferStore(near, tirx.const(0, "int32"), [0]),
                    loop("at", _BLOCK, find),
                    tirx.IfThenElse(
                        near[0] == 0,
                        loop("at", _BLOCK, count_found),
                        loop("at", _BLOCK, lambda at: count_element(begin[0] + at)),
                    ),
                ]
            )

        length = tirx.max(tirx.min(as_expr(self.length) - chunk * size, as_expr(size)), as_expr(0))
        blocks = tirx.floordiv(length, _BLOCK)
        arrays = [limits, scale, numbers, number, near, begin]
        return sequence(
            [
                *map(tirx.AllocBuffer, arrays),
                loop("bin", self.all_bins, lambda at: tirx.BufferStore(bins, as_expr(0), [first_bin + at])),
                loop("bin", self.bins, lambda at: tirx.BufferStore(limits, self.edges[at], [at])),
                tirx.BufferStore(limits, infinity, [last]),
                tirx.BufferStore(limits, -infinity, [last + 1]),
                tirx.BufferStore(limits, infinity, [last + 2]),
                *(tirx.BufferStore(scale, value, [at]) for at, value in enumerate(self._scale())),
                loop("block", blocks, count_block),
                tirx.BufferStore(begin, chunk * size + blocks * _BLOCK, [0]),
                loop("at", tirx.floormod(length, _BLOCK), lambda at: count_element(begin[0] + at)),
            ]
        )

    def _scale(self) -> list[PrimExpr]:
        """Return the number of bins in a unit of distance, and how far from an edge rounding matters."""
        bins = as_expr(self.bins)
        first, last = self.edges[0], self.edges[bins]
        count, width = bins.astype(self.dtype), last - first
        far = tirx.max(tirx.abs(first), tirx.abs(last))
        unit = tirx.const(16 * float(np.finfo(self.dtype).eps), self.dtype)
        return [count / width, unit * count * (tirx.const(1, self.dtype) + far / width)]

    def _place(self, value: PrimExpr) -> PrimExpr:
        """Return how many bins are before a value, as NumPy computes it."""
        bins = as_expr(self.bins)
        first, last = self.edges[0], self.edges[bins]
        return (value - first) / (last - first) * bins.astype(self.dtype)

    def _number(self, place: PrimExpr, value: PrimExpr) -> PrimExpr:
        """Return the number of the bin of a value at that place as an int32; the last edge is inside."""
        bins = as_expr(self.bins)
        inside = tirx.And(value >= self.edges[0], value <= self.edges[bins])
        place = tirx.min(place, (bins - 1).astype(self.dtype))
        return tirx.Select(inside, place, (bins + 1).astype(self.dtype)).astype("int32")


RULES["numpy.histogram"] = _histogram
