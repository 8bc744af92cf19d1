"""Schedule matrix products: register tiles with the epilogue at their ends, panels, threads.

The right matrix is walked in panels as wide as a tile. A panel is packed first where many tiles need it and
its rows lie so far apart that the cache's sets run out (measured: from half a megabyte on), or where its
columns are contiguous (0.3 cycles an element, by transposing blocks of a vector's width). With few rows the
product is limited by memory and reads the matrix as it is stored: along its rows, or along the inner
dimension as dot products. Threads share the batch, panels, or tiles of rows, whatever there is enough of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import tirx
from tvm.sym import Analyzer

from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.matmul import microkernels
from nnmagic.engine.relax.schedules.matmul.analysis import PRODUCT, Product, read_product
from nnmagic.engine.relax.schedules.matmul.microkernels import (
    DotTile,
    Finish,
    Matrix,
    Tile,
    TileAccess,
)
from nnmagic.engine.relax.schedules.matmul.packing import PanelPacking
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The bytes of a matrix from which on its rows are packed for many tiles.
_FAR_BYTES = 1 << 19

#: How many tiles of rows make packing a panel worth it.
_MANY_TILES = 4

#: The rows up to which dot products are computed where the inner dimension is contiguous in both matrices.
_FEW_ROWS = 4

#: The sums of a tile of dot products.
_DOT_SUMS = 16

#: The bytes up to which a packed matrix is walked once for each tile of rows: it stays in the second cache.
_NEAR_BYTES = 1 << 19

#: The length that a dynamic dimension counts as in the work of a product.
_DYNAMIC_LENGTH = 64

#: The size that a dynamic panel counts as: too large for the caches.
_DYNAMIC_SIZE = 1 << 40


def _schedule_product(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Give the kernel of a product loops for the machine; return one of another form as it is."""
    product = read_product(function)
    if product is None or 0 in (product.count, product.rows, product.columns):
        return function
    if any("bfloat16" in builders.dtype_of(factor.buffer) for factor in (product.left, product.right)):
        return function
    views = [builders.flat_view(factor.buffer) for factor in (product.left, product.right)]
    (left_view, _), (right_view, _) = views
    one_matrix = product.is_one_matrix
    count: Extent = 1 if one_matrix else product.count
    rows = builders.as_index(product.count * product.rows) if one_matrix else product.rows
    threads = machine.uses_threads(Work.MATMUL_MULTIPLICATIONS, _count_multiplications(product))
    share_batch = threads and builders.static_int(count) != 1

    def multiply(number: PrimExpr) -> Stmt:
        batch = _unravel(number, product.sizes)
        first = dict.fromkeys(product.batch, builders.as_expr(0))
        names = first if one_matrix else dict(zip(product.batch, batch, strict=True))

        def finish(row: PrimExpr, column: PrimExpr, value: PrimExpr) -> Stmt:
            if not one_matrix:
                return product.finish(batch, row, column, value)
            height = builders.as_expr(product.rows)
            outer = _unravel(tirx.floordiv(row, height), product.sizes)
            return product.finish(outer, tirx.floormod(row, height), column, value)

        loops = _MatrixLoops(
            rows,
            product.columns,
            product.depth,
            product.dtype,
            product.left.matrix(left_view, names),
            product.right.matrix(right_view, names),
            finish,
            unrolled=not product.has_long_epilogue,
        )
        return loops.statements(machine, threads=threads and not share_batch)

    body = [
        *product.allocations(),
        *product.loops_before(),
        *(declaration for _, declaration in views),
        builders.parallel_loop("place", count, multiply, wanted=share_batch),
        *product.loops_after(),
    ]
    return tirx.PrimFunc(function.params, builders.sequence(body), function.ret_type, function.attrs)


SCHEDULES[PRODUCT] = _schedule_product


def _count_multiplications(product: Product) -> int:
    multiplications = 1
    for size in (product.count, product.rows, product.columns, product.depth):
        number = builders.static_int(size)
        multiplications *= _DYNAMIC_LENGTH if number is None else number
    return multiplications


def _unravel(number: PrimExpr, sizes: Sequence[Extent]) -> list[PrimExpr]:
    """Return the indices of a matrix in the batch from its number."""
    indices: list[PrimExpr] = []
    for axis, size in reversed(list(enumerate(sizes))):
        extent = builders.as_expr(size)
        indices.insert(0, number if axis == 0 else tirx.floormod(number, extent))
        number = tirx.floordiv(number, extent)
    return indices


@dataclass(frozen=True, slots=True)
class _Panels:
    """How the result is divided: panels of columns, and in each of them tiles of rows.

    size: how many elements a packed panel has. pack: whether panels are packed.
    """

    tile: Tile
    count: Extent
    heights: Extent
    size: Extent
    pack: bool


@dataclass(frozen=True, slots=True)
class _MatrixLoops:
    """The loops of one product of two matrices; ``finish`` stores a sum."""

    rows: Extent
    columns: Extent
    depth: Extent
    dtype: str
    left: Matrix
    right: Matrix
    finish: Finish
    unrolled: bool = True

    def statements(self, machine: CpuModel, *, threads: bool) -> Stmt:
        """Compute the product; ``threads`` share the work."""
        width = self.right.panel
        rest = self.columns % width if width else 0
        if rest == 0:
            return self._all_columns(machine, threads=threads)
        whole = self.columns - rest

        def finish(row: PrimExpr, column: PrimExpr, value: PrimExpr) -> Stmt:
            return self.finish(row, column + whole, value)

        last = self._right_from(builders.as_expr(whole))
        parts = (replace(self, columns=whole), replace(self, columns=rest, right=last, finish=finish))
        return builders.sequence([part._all_columns(machine, threads=threads) for part in parts])

    def _all_columns(self, machine: CpuModel, *, threads: bool) -> Stmt:
        rows, columns = builders.static_int(self.rows), builders.static_int(self.columns)
        lanes = machine.lanes(self.dtype)
        if self._has_contiguous_depth(lanes):
            return self._dot_products(lanes, threads=threads)
        tile = microkernels.choose_tile(rows, columns, lanes, machine, self.right.panel)
        fast = self._tiles(tile, threads=threads)
        if rows is not None and columns is not None:
            return fast
        enough = tirx.all(
            builders.as_expr(self.rows) >= tile.rows, builders.as_expr(self.columns) >= tile.width
        )
        small = Tile(1, (0,), 1) if columns is None else Tile(1, tile.starts, tile.lanes, 2)
        return tirx.IfThenElse(Analyzer().simplify(enough), fast, self._tiles(small, threads=False))

    def _has_contiguous_depth(self, lanes: int) -> bool:
        """Return whether there are few rows, and the inner dimension is contiguous in both matrices."""
        rows, depth = builders.static_int(self.rows), builders.static_int(self.depth)
        return (
            rows is not None
            and rows <= _FEW_ROWS
            and depth is not None
            and depth >= lanes
            and builders.static_int(self.right.row) == 1
            and builders.static_int(self.right.column) != 1
            and builders.static_int(self.left.column) == 1
            and builders.static_int(self.columns) is not None
        )

    def _dot_products(self, lanes: int, *, threads: bool) -> Stmt:
        """Multiply few rows of the left matrix with each column of the right one."""
        rows, columns = int(self.rows), int(self.columns)
        width = min(columns, max(1, _DOT_SUMS // rows))
        width = 1 << (width.bit_length() - 1)

        def multiply_panel(p: PrimExpr) -> Stmt:
            start = builders.minimum(p * width, columns - width) if columns % width else p * width
            right = Matrix(self.right.buffer, self.right.index(0, start), self.right.column, self.right.row)

            def finish(r: Index, j: PrimExpr, value: PrimExpr) -> Stmt:
                return self.finish(builders.as_expr(r), start + j, value)

            return DotTile(rows, width, lanes, self.dtype, self.left, right).statements(self.depth, finish)

        return builders.parallel_loop(
            "panel", builders.round_up_div(columns, width), multiply_panel, wanted=threads
        )

    def _tiles(self, tile: Tile, *, threads: bool) -> Stmt:
        """Compute the result in panels of columns and tiles of rows."""
        heights = builders.round_up_div(self.rows, tile.rows)
        panels = _Panels(
            tile,
            builders.round_up_div(self.columns, tile.width),
            heights,
            builders.as_index(self.depth * tile.width),
            self._should_pack(tile, heights),
        )
        if self._should_share_rows(panels):
            return self._rows_first(panels, threads=threads)
        return self._panels_first(panels, threads=threads)

    def _should_share_rows(self, panels: _Panels) -> bool:
        """Return whether the outer loop is over rows: there are many tiles, and packed panels stay near."""
        count, high = builders.static_int(panels.count), builders.static_int(panels.heights)
        if count is None or (high is not None and high < 2 * count):
            return False
        size = builders.static_int(panels.size) or _DYNAMIC_SIZE
        bytes_ = size * (count or 1) * builders.item_bytes(self.dtype)
        return not panels.pack or bytes_ <= _NEAR_BYTES or count == 1

    def _panels_first(self, panels: _Panels, *, threads: bool) -> Stmt:
        tile = panels.tile

        def compute_panel(p: PrimExpr) -> Stmt:
            first = self._first_column(p, tile)
            if not panels.pack:
                return builders.loop("tile", panels.heights, lambda t: self._tile(tile, t, first))
            packed = self._declare_packed(panels.size, "panel")
            return builders.sequence(
                [
                    tirx.AllocBuffer(packed),
                    self._pack(packed, 0, tile, first),
                    builders.loop("tile", panels.heights, lambda t: self._tile(tile, t, first, (packed, 0))),
                ]
            )

        return builders.parallel_loop("panel", panels.count, compute_panel, wanted=threads)

    def _rows_first(self, panels: _Panels, *, threads: bool) -> Stmt:
        tile, size = panels.tile, panels.size
        packed = None
        statements = []
        if panels.pack:
            packed = self._declare_packed(builders.as_index(size * panels.count), "panels")
            statements = [
                tirx.AllocBuffer(packed),
                builders.loop(
                    "panel",
                    panels.count,
                    lambda p: self._pack(packed, p * size, tile, self._first_column(p, tile)),
                ),
            ]

        def compute_tile(t: PrimExpr, p: PrimExpr) -> Stmt:
            source = None if packed is None else (packed, p * size)
            return self._tile(tile, t, self._first_column(p, tile), source)

        def compute_tiles(t: PrimExpr) -> Stmt:
            return builders.loop("panel", panels.count, lambda p: compute_tile(t, p))

        statements.append(builders.parallel_loop("tile", panels.heights, compute_tiles, wanted=threads))
        return builders.sequence(statements)

    def _should_pack(self, tile: Tile, heights: Extent) -> bool:
        high = builders.static_int(heights)
        if self.right.panel:
            return False
        if builders.static_int(self.right.column) != 1:
            return tile.lanes > 1
        if high is not None and high < _MANY_TILES:
            return False
        size = builders.static_int(builders.as_index(self.depth * self.columns))
        return size is None or size * builders.item_bytes(self.dtype) >= _FAR_BYTES

    def _declare_packed(self, size: Extent, name: str) -> Buffer:
        """Declare the buffer of packed panels; TVM has no buffers without elements."""
        size = max(1, size) if isinstance(size, int) else tirx.max(size, builders.as_expr(1))
        return tirx.decl_buffer((size,), self.dtype, name, data_alignment=64)

    def _pack(self, packed: Buffer, offset: Index, tile: Tile, first: Index) -> Stmt:
        right = self._right_from(first)
        return PanelPacking(packed, offset, tile, self.depth, right, self.dtype).statements()

    def _first_column(self, p: PrimExpr, tile: Tile) -> Index:
        """Return the first column of a panel; the last one ends with the matrix."""
        number = builders.static_int(self.columns)
        regular = number is not None and number % tile.width == 0
        return p * tile.width if regular else builders.minimum(p * tile.width, self.columns - tile.width)

    def _right_from(self, first: Index) -> Matrix:
        """Return the right matrix from a column on."""
        right = self.right
        if not right.panel:
            return Matrix(right.buffer, right.index(0, first), right.row, right.column)
        width = builders.as_expr(right.panel)
        panel = tirx.floordiv(first, width) * (self.depth * right.panel)
        return Matrix(right.buffer, panel + tirx.floormod(first, width), right.row, right.column)

    def _tile(
        self, tile: Tile, t: PrimExpr, first: Index, packed: tuple[Buffer, Index] | None = None
    ) -> Stmt:
        """Compute a tile from column ``first`` on; ``packed``: the buffer and offset of its packed panel."""
        number = builders.static_int(self.rows)
        regular = tile.rows == 1 or (number is not None and number % tile.rows == 0)
        top = t * tile.rows if regular else builders.minimum(t * tile.rows, self.rows - tile.rows)
        right = self._right_from(first)

        def load_right(k: Index, start: int) -> PrimExpr:
            if packed is None:
                return builders.load(right.buffer, right.index(k, start), tile.lanes, self.dtype)
            buffer, offset = packed
            return builders.load(buffer, offset + k * tile.width + start, tile.lanes, self.dtype)

        access = TileAccess(
            lambda r, k: self.left.element(top + r, k, self.dtype),
            load_right,
            lambda r, j, value: self.finish(top + r, first + j, value),
        )
        return microkernels.register_tile(tile, self.depth, self.dtype, access, unrolled=self.unrolled)
