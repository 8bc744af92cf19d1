"""Write the loops of one product of two matrices of static sizes: panels of columns, tiles of rows.

The right matrix is walked in panels as wide as a tile. A panel is packed first where its columns are
contiguous (0.3 cycles an element, by transposing blocks of a vector's width). With few rows the product is
limited by memory and reads the matrix as it is stored: along its rows, or along the inner dimension as dot
products. ``blocked_loops`` has the loops for matrices that do not stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.matmul import matrix_product, microkernels
from nnmagic.engine.relax.schedules.matmul.blocked_loops import blocked_version
from nnmagic.engine.relax.schedules.matmul.microkernels import Tile, TileAccess
from nnmagic.engine.relax.schedules.matmul.packing import PanelPacking
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Stmt


def static_loops(product: matrix_product.MatrixProduct, machine: CpuModel, *, threads: bool) -> Stmt:
    """Compute a product of static sizes; ``threads`` share the work."""
    return builders.sequence(
        [_StaticLoops(panel).all_columns(machine, threads=threads) for panel in product.split_panels()]
    )


@dataclass(frozen=True, slots=True)
class _Panels:
    """How the result is divided: panels of columns, and in each of them tiles of rows.

    size: how many elements a packed panel has. pack: whether panels are packed.
    """

    tile: Tile
    count: int
    heights: int
    size: int
    pack: bool


@dataclass(frozen=True, slots=True)
class _StaticLoops:
    """The loops of a product whose sizes are known at compile time."""

    product: matrix_product.MatrixProduct

    def all_columns(self, machine: CpuModel, *, threads: bool) -> Stmt:
        """Compute the product, whose columns are not in panels, or in full ones."""
        product = self.product
        lanes = machine.lanes(product.dtype)
        # Each element of the right matrix is used `rows` times only: packing would double the
        # traffic.
        if (
            product.rows <= matrix_product.FEW_ROWS
            and product.depth >= lanes
            and product.has_contiguous_depth()
        ):
            return self._dot_products(lanes, threads=threads)
        pays, blocked_loops = blocked_version(product, machine, threads=threads)
        if pays:
            return blocked_loops()
        tile = microkernels.choose_tile(product.rows, product.columns, lanes, machine, product.right.panel)
        return self._tiles(tile, threads=threads)

    def _dot_products(self, lanes: int, *, threads: bool) -> Stmt:
        """Multiply few rows of the left matrix with each column of the right one."""
        rows, columns = self.product.rows, self.product.columns
        width = matrix_product.dot_width(rows, columns)

        def multiply_panel(p: PrimExpr) -> Stmt:
            return self.product.dot_tile(rows, width, lanes, 0, matrix_product.start_of(p, width, columns))

        return builders.parallel_loop(
            "panel", builders.round_up_div(columns, width), multiply_panel, wanted=threads
        )

    def _tiles(self, tile: Tile, *, threads: bool) -> Stmt:
        """Compute the result in panels of columns and tiles of rows."""
        product = self.product
        heights = -(-product.rows // tile.rows)
        panels = _Panels(
            tile,
            -(-product.columns // tile.width),
            heights,
            product.depth * tile.width,
            self._should_pack(tile),
        )
        if self._should_share_rows(panels):
            return self._rows_first(panels, threads=threads)
        return self._panels_first(panels, threads=threads)

    def _should_share_rows(self, panels: _Panels) -> bool:
        """Return whether the outer loop is over rows: there are many tiles, and packed panels stay near."""
        # Threads share the outer loop, so it should be the longer one. Panels outside need one
        # packed panel per thread; rows outside need all of them packed before.
        if panels.heights < 2 * panels.count:
            return False
        size = panels.size or 1 << 40
        bytes_ = size * (panels.count or 1) * builders.item_bytes(self.product.dtype)
        return not panels.pack or bytes_ <= matrix_product.NEAR_BYTES or panels.count == 1

    def _panels_first(self, panels: _Panels, *, threads: bool) -> Stmt:
        tile = panels.tile

        def compute_panel(p: PrimExpr) -> Stmt:
            first = self._first_column(p, tile)
            if not panels.pack:
                return builders.loop("tile", panels.heights, lambda t: self._tile(tile, t, first))
            # Allocated inside of the parallel loop: each task has a panel of its own.
            packed = matrix_product.declare_packed_panels(panels.size, self.product.dtype, "panel")
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
            packed = matrix_product.declare_packed_panels(size * panels.count, self.product.dtype, "panels")
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

    def _should_pack(self, tile: Tile) -> bool:
        right = self.product.right
        return not right.panel and builders.static_int(right.column) != 1 and tile.lanes > 1

    def _pack(self, packed: Buffer, offset: Index, tile: Tile, first: Index) -> Stmt:
        product = self.product
        right = product.right_from(first)
        return PanelPacking(packed, offset, tile, product.depth, right, product.dtype).statements()

    def _first_column(self, p: PrimExpr, tile: Tile) -> Index:
        """Return the first column of a panel; the last one ends with the matrix."""
        return matrix_product.start_of(p, tile.width, self.product.columns)

    def _tile(
        self, tile: Tile, t: PrimExpr, first: Index, packed: tuple[Buffer, Index] | None = None
    ) -> Stmt:
        """Compute a tile from column ``first`` on; ``packed``: the buffer and offset of its packed panel."""
        product = self.product
        top = matrix_product.start_of(t, tile.rows, product.rows)
        right = product.right_from(first)

        def load_right(k: Index, start: int) -> PrimExpr:
            if packed is None:
                return builders.load(right.buffer, right.index(k, start), tile.lanes, product.dtype)
            buffer, offset = packed
            return builders.load(buffer, offset + k * tile.width + start, tile.lanes, product.dtype)

        access = TileAccess(
            lambda r, k: product.left.element(top + r, k, product.dtype),
            load_right,
            lambda r, j, value: product.finish(top + r, first + j, value),
        )
        return microkernels.register_tile(
            tile, product.depth, product.dtype, access, unrolled=product.unrolled
        )
