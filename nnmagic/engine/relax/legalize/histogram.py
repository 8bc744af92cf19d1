"""Legalize histograms over bins of one width: each thread counts for itself, and the counts are added up."""

from __future__ import annotations

import numpy as np
from tvm import tirx

from nnmagic.engine.relax.legalize.extern_loops import independent_kernel
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.independent_loops import independent_loop
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
        result = [edges.shape[0] - 1], "int64"
        return independent_kernel(
            lambda *buffers: _Histogram(*buffers).emit(), [result], [data, edges], "counts"
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
            # Each piece has bins of its own, so that threads need no atomic additions.
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
        begin = builders.local_array(2, "int64", "begin")
        counter = _BinCounter(self, bins, chunk * self.all_bins, limits, scale, begin)
        infinity, last = tirx.const(float("inf"), self.dtype), as_expr(self.bins)
        zero = as_expr(0)
        length = tirx.max(tirx.min(as_expr(self.length) - chunk * size, as_expr(size)), zero)
        blocks = tirx.floordiv(length, _BLOCK)

        def count_block(block: PrimExpr) -> Stmt:
            start = tirx.BufferStore(begin, chunk * size + block * _BLOCK, [0])
            return sequence([start, *counter.count_block()])

        def clear(at: PrimExpr) -> Stmt:
            return tirx.BufferStore(bins, zero, [chunk * self.all_bins + at])

        return sequence(
            [
                *map(tirx.AllocBuffer, (limits, scale, begin, *counter.arrays)),
                loop("bin", self.all_bins, clear),
                loop("bin", self.bins, lambda at: tirx.BufferStore(limits, self.edges[at], [at])),
                # The last bin has no upper limit, as the last edge is inside. The bin of what is
                # outside, behind an empty one, has limits that correct nothing: -inf below and inf
                # above.
                tirx.BufferStore(limits, infinity, [last]),
                tirx.BufferStore(limits, -infinity, [last + 1]),
                tirx.BufferStore(limits, infinity, [last + 2]),
                *(tirx.BufferStore(scale, value, [at]) for at, value in enumerate(self._scale())),
                loop("block", blocks, count_block),
                tirx.BufferStore(begin, chunk * size + blocks * _BLOCK, [0]),
                loop("at", tirx.floormod(length, _BLOCK), counter.count_element),
            ]
        )

    def _scale(self) -> list[PrimExpr]:
        """Return the number of bins in a unit of distance, and how far from an edge rounding matters."""
        bins = as_expr(self.bins)
        first, last = self.edges[0], self.edges[bins]
        count, width = bins.astype(self.dtype), last - first
        far = tirx.max(tirx.abs(first), tirx.abs(last))
        unit = tirx.const(16 * float(np.finfo(self.dtype).eps), self.dtype)
        # A bound of the rounding errors of a place, in bins: the edges themselves are rounded,
        # which counts the more the larger they are beside their distance (1e6 and 1e6 + 1).
        return [count / width, unit * count * (tirx.const(1, self.dtype) + far / width)]

    def place(self, value: PrimExpr) -> PrimExpr:
        """Return how many bins are before a value, as NumPy computes it."""
        bins = as_expr(self.bins)
        first, last = self.edges[0], self.edges[bins]
        return (value - first) / (last - first) * bins.astype(self.dtype)

    def number(self, place: PrimExpr, value: PrimExpr) -> PrimExpr:
        """Return the number of the bin of a value at that place as an int32; the last edge is inside."""
        bins = as_expr(self.bins)
        inside = tirx.And(value >= self.edges[0], value <= self.edges[bins])
        # The last edge belongs to the last bin, as NumPy has it, and its place would be one more.
        place = tirx.min(place, (bins - 1).astype(self.dtype))
        return tirx.Select(inside, place, (bins + 1).astype(self.dtype)).astype("int32")


class _BinCounter:
    """The statements that count elements, from ``begin`` on, in bins whose edges are ``limits``."""

    def __init__(
        self,
        histogram: _Histogram,
        bins: Buffer,
        first: PrimExpr,
        limits: Buffer,
        scale: Buffer,
        begin: Buffer,
    ) -> None:
        self._of, self._bins, self._first = histogram, bins, first
        self._limits, self._scale, self._begin = limits, scale, begin
        self._numbers = builders.local_array(_BLOCK, "int32", "numbers")
        self._number, self._near = (builders.local_array(1, "int32", name) for name in ("number", "near"))
        #: The arrays that it needs.
        self.arrays = (self._numbers, self._number, self._near)

    def count_element(self, at: PrimExpr) -> Stmt:
        """Count an element in the bin between whose edges it is."""
        value, number = self._of.data[self._begin[0] + at], self._number
        computed = self._of.number(self._of.place(value), value)
        bin_ = number[0].astype("int64")
        below, above = value < self._limits[bin_], value >= self._limits[bin_ + 1]
        corrected = number[0] - below.astype("int32") + above.astype("int32")
        stores = (tirx.BufferStore(number, each, [0]) for each in (computed, corrected))
        return sequence([*stores, self._count()])

    def count_block(self) -> list[Stmt]:
        """Count a block of elements: by their computed bins, unless rounding may have changed one."""
        return [
            tirx.BufferStore(self._near, tirx.const(0, "int32"), [0]),
            loop("at", _BLOCK, self._find),
            # Most blocks have no element near an edge; their bins, which vectors found, are
            # final.
            tirx.IfThenElse(
                self._near[0] == 0,
                loop("at", _BLOCK, self._count_computed),
                loop("at", _BLOCK, self.count_element),
            ),
        ]

    def _count(self) -> Stmt:
        place = self._first + self._number[0].astype("int64")
        return tirx.BufferStore(self._bins, self._bins[place] + as_expr(1), [place])

    def _count_computed(self, at: PrimExpr) -> Stmt:
        return sequence([tirx.BufferStore(self._number, self._numbers[at], [0]), self._count()])

    def _find(self, at: PrimExpr) -> Stmt:
        """Find the bin of an element of a block, and whether rounding may have changed it."""
        value = self._of.data[self._begin[0] + at]
        place = (value - self._of.edges[0]) * self._scale[0]
        distance = tirx.abs(place - tirx.nearbyint(place))
        near = self._near[0] | (distance < self._scale[1]).astype("int32")
        stores = [
            tirx.BufferStore(self._numbers, self._of.number(place, value), [at]),
            tirx.BufferStore(self._near, near, [0]),
        ]
        return sequence(stores)


RULES["numpy.histogram"] = _histogram
