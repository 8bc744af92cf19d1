"""Schedule of matrix products: register tiles with the epilogue at their ends, panels, threads. Knows TIR.

The right matrix is walked in panels as wide as a tile. Where many tiles need a panel and its rows lie so far
apart that the cache's sets run out (measured: from half a megabyte on), or where its columns are contiguous,
a panel is first copied together (0.3 cycles an element, by exchanging blocks of a vector's width). With few
rows the product is limited by memory and reads the matrix as it lies: along its rows, or along the inner
dimension as dot products. Threads share places in the batch, panels, or tiles of rows, whatever there is
enough of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm.sym import Analyzer

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.matmul import microkernels
from nnmagic.engine.relax.schedules.matmul.analysis import PRODUCT, Product, read
from nnmagic.engine.relax.schedules.matmul.microkernels import Matrix, Tile
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import Place

#: From how many multiplications on threads are worth being started: about 20 us of one core.
_PARALLEL_WORK = 1 << 21

#: From how many bytes of a matrix on its rows are copied together for many tiles.
_FAR = 1 << 19

#: How many tiles of rows make copying a panel worth it.
_MANY = 4

#: How many rows are computed as dot products where the inner dimension is contiguous in both matrices.
_FEW = 4

#: How large a packed matrix may be that is walked once for each tile of rows: it stays in the second cache.
_NEAR = 1 << 19


def schedule_product(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    """The kernel of a product with loops for the machine; the kernel itself where it has another form."""
    product = read(function)
    if product is None or 0 in (product.count, product.rows, product.columns):
        return function
    if any("bfloat16" in str(one.ty.dtype) for one in (product.left.buffer, product.right.buffer)):
        return function
    views = [builders.flat(factor.buffer) for factor in (product.left, product.right)]
    whole = product.whole
    count: Place = 1 if whole else product.count
    rows = builders.as_index(product.count * product.rows) if whole else product.rows
    shared = _worth_threads(product, machine)
    batched = shared and builders.static_int(count) != 1

    def one(place: Any) -> Any:
        batch = _unravelled(place, product.sizes)
        at = {} if whole else dict(zip(product.batch, batch, strict=True))
        nothing = dict.fromkeys(product.batch, builders.expr(0))

        def finish(row: Any, column: Any, value: Any) -> Any:
            if not whole:
                return product.finished(batch, row, column, value)
            outer = _unravelled(tirx.floordiv(row, builders.expr(product.rows)), product.sizes)
            return product.finished(outer, tirx.floormod(row, builders.expr(product.rows)), column, value)

        left = product.left.matrix(views[0][0], at or nothing)
        right = product.right.matrix(views[1][0], at or nothing)
        job = Job(
            rows,
            product.columns,
            product.depth,
            product.dtype,
            left,
            right,
            finish,
            unrolled=not product.costly,
        )
        return job.loops(machine, shared=shared and not batched)

    loops = builders.parallel("place", count, one, wanted=batched)
    body = [*product.allocated(), *(stage.loops() for stage in product.before)]
    body += [declared for _, declared in views]
    body += [loops, *product.unfused()]
    return tirx.PrimFunc(function.params, builders.sequence(body), function.ret_type, function.attrs)


SCHEDULES[PRODUCT] = schedule_product


def _worth_threads(product: Product, machine: CpuModel) -> bool:
    if not machine.parallel:
        return False
    work = 1
    for size in (product.count, product.rows, product.columns, product.depth):
        number = builders.static_int(size)
        work *= 64 if number is None else number
    return work >= _PARALLEL_WORK


def _unravelled(place: Any, sizes: Sequence[Place]) -> list[Any]:
    """The indices of a place in the batch."""
    found: list[Any] = []
    for n, size in reversed(list(enumerate(sizes))):
        found.insert(0, place if n == 0 else tirx.floormod(place, builders.expr(size)))
        place = tirx.floordiv(place, builders.expr(size))
    return found


class Job:
    """One product of two matrices, as loops. ``finish`` makes of a sum the statement that stores it."""

    def __init__(
        self,
        rows: Place,
        columns: Place,
        depth: Place,
        dtype: str,
        left: Matrix,
        right: Matrix,
        finish: Callable[[Any, Any, Any], Any],
        *,
        unrolled: bool = True,
    ) -> None:
        self.rows, self.columns, self.depth = rows, columns, depth
        self.dtype = dtype
        self.left, self.right = left, right
        self.finish = finish
        self.unrolled = unrolled

    def loops(self, machine: CpuModel, *, shared: bool) -> Any:
        """The statement that computes it; ``shared``: by several threads."""
        width = self.right.panel
        rest = self.columns % width if width else 0
        if rest == 0:
            return self._all_columns(machine, shared=shared)
        whole = self.columns - rest
        last = self._based(builders.expr(whole))

        def finish(row: Any, column: Any, value: Any) -> Any:
            return self.finish(row, column + whole, value)

        parts = []
        for columns, right, end in ((whole, self.right, self.finish), (rest, last, finish)):
            job = Job(
                self.rows, columns, self.depth, self.dtype, self.left, right, end, unrolled=self.unrolled
            )
            parts.append(job._all_columns(machine, shared=shared))
        return builders.sequence(parts)

    def _all_columns(self, machine: CpuModel, *, shared: bool) -> Any:
        rows, columns = builders.static_int(self.rows), builders.static_int(self.columns)
        lanes = machine.lanes(self.dtype)
        if self._along_depth(lanes):
            return self._dots(lanes, shared=shared)
        tile = microkernels.tile_for(rows, columns, lanes, machine, self.right.panel)
        fast = self._panels(tile, shared=shared)
        if rows is not None and columns is not None:
            return fast
        enough = tirx.all(builders.expr(self.rows) >= tile.rows, builders.expr(self.columns) >= tile.width)
        if columns is None:
            rest = self._panels(Tile(1, (0,), 1), shared=False)
        else:
            rest = self._panels(Tile(1, tile.starts, tile.lanes, 2), shared=False)
        return tirx.IfThenElse(Analyzer().simplify(enough), fast, rest)

    def _along_depth(self, lanes: int) -> bool:
        rows, depth = builders.static_int(self.rows), builders.static_int(self.depth)
        return (
            rows is not None
            and rows <= _FEW
            and depth is not None
            and depth >= lanes
            and builders.static_int(self.right.row) == 1
            and builders.static_int(self.right.column) != 1
            and builders.static_int(self.left.column) == 1
            and builders.static_int(self.columns) is not None
        )

    def _dots(self, lanes: int, *, shared: bool) -> Any:
        """Few rows of the left matrix with each column of the right one."""
        rows, columns = int(self.rows), int(self.columns)
        width = min(columns, max(1, 16 // rows))
        width = 1 << (width.bit_length() - 1)

        def some(p: Any) -> Any:
            start = builders.smaller(p * width, columns - width) if columns % width else p * width
            right = Matrix(self.right.buffer, self.right.at(0, start), self.right.column, self.right.row)
            return microkernels.dot_tile(
                rows,
                width,
                self.depth,
                lanes,
                self.dtype,
                self.left,
                right,
                lambda r, j, value: self.finish(builders.expr(r), start + j, value),
            )

        return builders.parallel("panel", builders.round_up_div(columns, width), some, wanted=shared)

    def _panels(self, tile: Tile, *, shared: bool) -> Any:
        """The result in panels of columns and tiles of rows."""
        panels = builders.round_up_div(self.columns, tile.width)
        heights = builders.round_up_div(self.rows, tile.rows)
        pack = self._packing(tile, heights)
        size = builders.as_index(self.depth * tile.width)
        count, high = builders.static_int(panels), builders.static_int(heights)
        by_rows = count is not None and (high is None or high >= 2 * count)
        if pack and by_rows:
            bytes_ = (
                (builders.static_int(size) or 1 << 40) * (count or 1) * tvm.DataType(self.dtype).bits // 8
            )
            by_rows = bytes_ <= _NEAR or count == 1
        if by_rows:
            return self._rows_first(tile, panels, heights, size, pack=pack, shared=shared)

        def panel(p: Any) -> Any:
            first = self._first(p, tile)
            if not pack:
                return builders.loop("tile", heights, lambda t: self._tile(tile, t, first, None, 0))
            room = tirx.decl_buffer((self._room(size),), self.dtype, "panel", data_alignment=64)
            return builders.sequence(
                [
                    tirx.AllocBuffer(room),
                    microkernels.packed(room, 0, tile, self.depth, self._based(first), self.dtype),
                    builders.loop("tile", heights, lambda t: self._tile(tile, t, first, room, 0)),
                ]
            )

        return builders.parallel("panel", panels, panel, wanted=shared)

    def _rows_first(
        self, tile: Tile, panels: Place, heights: Place, size: Place, *, pack: bool, shared: bool
    ) -> Any:
        room = None
        made = []
        if pack:
            room = tirx.decl_buffer(
                (self._room(builders.as_index(size * panels)),), self.dtype, "panels", data_alignment=64
            )
            made = [
                tirx.AllocBuffer(room),
                builders.loop(
                    "panel",
                    panels,
                    lambda p: microkernels.packed(
                        room, p * size, tile, self.depth, self._based(self._first(p, tile)), self.dtype
                    ),
                ),
            ]
        made.append(
            builders.parallel(
                "tile",
                heights,
                lambda t: builders.loop(
                    "panel", panels, lambda p: self._tile(tile, t, self._first(p, tile), room, p * size)
                ),
                wanted=shared,
            )
        )
        return builders.sequence(made)

    def _packing(self, tile: Tile, heights: Place) -> bool:
        high = builders.static_int(heights)
        if self.right.panel:
            return False
        if builders.static_int(self.right.column) != 1:
            return tile.lanes > 1
        if high is not None and high < _MANY:
            return False
        size = builders.static_int(builders.as_index(self.depth * self.columns))
        return size is None or size * tvm.DataType(self.dtype).bits // 8 >= _FAR

    def _room(self, size: Place) -> Place:
        """A buffer of no elements would be none."""
        return max(1, size) if isinstance(size, int) else tirx.max(size, builders.expr(1))

    def _first(self, p: Any, tile: Tile) -> Any:
        """The first column of a panel."""
        number = builders.static_int(self.columns)
        regular = number is not None and number % tile.width == 0
        return p * tile.width if regular else builders.smaller(p * tile.width, self.columns - tile.width)

    def _based(self, first: Any) -> Matrix:
        """The right matrix from a column on."""
        right = self.right
        if right.panel:
            place = tirx.floordiv(first, builders.expr(right.panel)) * (self.depth * right.panel)
            return Matrix(
                right.buffer,
                place + tirx.floormod(first, builders.expr(right.panel)),
                right.row,
                right.column,
            )
        return Matrix(right.buffer, right.at(0, first), right.row, right.column)

    def _tile(self, tile: Tile, t: Any, first: Any, room: Any, place: Place) -> Any:
        number = builders.static_int(self.rows)
        regular = tile.rows == 1 or (number is not None and number % tile.rows == 0)
        top = t * tile.rows if regular else builders.smaller(t * tile.rows, self.rows - tile.rows)
        right = self._based(first)

        def vector(k: Any, start: int) -> Any:
            if room is not None:
                return builders.load(room, place + k * tile.width + start, tile.lanes, self.dtype)
            return builders.load(right.buffer, right.at(k, start), tile.lanes, self.dtype)

        return microkernels.register_tile(
            tile,
            self.depth,
            self.dtype,
            lambda r, k: self.left.value(top + r, k, self.dtype),
            vector,
            lambda r, j, value: self.finish(top + r, first + j, value),
            unrolled=self.unrolled,
        )
