"""Write the loops of one product of two matrices, some of whose sizes are dynamic.

Rows are covered by tiles of full height, then by lower ones; so each size takes the time of a kernel that was
compiled for it, about. A kernel has several versions, and chooses one by the sizes when it runs: one row
reads the right matrix as it is stored, as do few rows where columns are contiguous; what does not stay in the
cache is computed by blocks. Fewer columns than a panel has are packed with zeros beyond them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.matmul import microkernels
from nnmagic.engine.relax.schedules.matmul.blocked_loops import blocked_version
from nnmagic.engine.relax.schedules.matmul.matrix_product import (
    FEW_ROWS,
    NEAR_BYTES,
    MatrixProduct,
    Version,
    declare_packed_panels,
    dot_width,
    start_of,
)
from nnmagic.engine.relax.schedules.matmul.microkernels import Tile, TileAccess
from nnmagic.engine.relax.schedules.matmul.packing import PanelPacking
from nnmagic.engine.relax.schedules.matmul.static_loops import static_loops
from nnmagic.engine.relax.schedules.thread_choice import choose_threads
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var

#: The rows of a tile where the columns fill no panel.
_NARROW_ROWS = 4

#: The inner size from which on an epilogue is a loop over a tile's rows, which LLVM compiles faster.
_LONG_SUM = 512

#: Computes a tile from a row on.
_ComputeTile = Callable[[Tile, Index], Stmt]


def dynamic_loops(product: MatrixProduct, machine: CpuModel, *, threads: bool) -> Stmt:
    """Compute a product with dynamic sizes; ``threads``: whether threads may share it if it is worth them."""

    def build(panel: MatrixProduct, *, parallel: bool) -> Stmt:
        if panel.is_static:
            return static_loops(panel, machine, threads=parallel)
        return _choose(_DynamicLoops(panel, machine, parallel).versions())

    def build_part(panel: MatrixProduct) -> Stmt:
        if panel.is_static:
            return build_small(panel)
        blocked = blocked_version(panel, machine, threads=threads and machine.parallel)
        return _choose(iter([blocked, (True, lambda: build_small(panel))]))

    def build_small(panel: MatrixProduct) -> Stmt:
        if not threads:
            return build(panel, parallel=False)
        factors = (panel.rows, panel.columns, panel.depth)
        return choose_threads(
            machine, Work.MATMUL_MULTIPLICATIONS, factors, lambda parallel: build(panel, parallel=parallel)
        )

    return builders.sequence([build_part(panel) for panel in product.split_panels()])


def _bind(name: str, value: Index) -> tuple[Var, Stmt]:
    """Bind an index to a variable: what loops and an epilogue share is computed once, before both."""
    var = tirx.Var(name, "int64")
    return var, tirx.Bind(var, builders.as_expr(value))


def _choose(versions: Iterator[Version]) -> Stmt:
    """Return the first version whose condition holds; the last one's is True."""
    condition, build = next(versions)
    number = builders.static_int(condition)
    if number is not None and not isinstance(condition, bool):
        condition = bool(number)
    if condition is True:
        return build()
    if condition is False:
        return _choose(versions)
    return tirx.IfThenElse(condition, build(), _choose(versions))


@dataclass(frozen=True, slots=True)
class _RowTiles:
    """How tiles cover the rows: lower tiles cover those that fill no tile."""

    rows: Extent
    tile: Tile
    machine: CpuModel

    @property
    def count(self) -> Extent:
        """Return how many tiles there are; all lower ones together count as one."""
        return builders.round_up_div(self.rows, self.tile.rows)

    def compute(self, number: PrimExpr, compute: _ComputeTile) -> Stmt:
        """Compute a tile."""
        rows, height = self.rows, self.tile.rows
        if height == 1 or isinstance(rows, int):
            return compute(self.tile, start_of(number, height, rows))
        whole = tirx.floordiv(rows, builders.as_expr(height))
        full, rest = compute(self.tile, number * height), self._compute_rest(whole * height, compute)
        return tirx.IfThenElse(number < whole, full, rest)

    def _compute_rest(self, top: PrimExpr, compute: _ComputeTile) -> Stmt:
        """Compute the rows from ``top`` on, fewer than a tile has, by tiles of 1, 2, 4, ... rows."""
        statements: list[Stmt] = []
        rest = self.rows - top
        # Each bit of the number of rows that are left over selects one lower tile: 7 rows are tiles
        # of 4, 2 and 1. So no row is computed twice, and log2(rows) kernels serve all sizes.
        height = 1 << ((self.tile.rows - 1).bit_length() - 1)
        while height:
            lower = tirx.floormod(rest, builders.as_expr(2 * height))
            begin = top + rest - lower
            statements.append(tirx.IfThenElse(lower >= height, compute(self._lower(height), begin), None))
            height //= 2
        return builders.sequence(statements)

    def _lower(self, rows: int) -> Tile:
        parts = microkernels.count_parts(rows, self.tile.vectors, self.machine)
        return replace(self.tile, rows=rows, parts=parts)


@dataclass(frozen=True, slots=True)
class _DynamicPanels:
    """Panels of columns: how many, and the first column of each.

    packed: the buffer of the packed panels; None where the matrix is read as it is stored.
    shared: the buffer holds all panels, not one.
    """

    tile: Tile
    columns: Extent
    packed: Buffer | None = None
    shared: bool = False

    @property
    def count(self) -> Extent:
        """Return how many panels there are."""
        return builders.round_up_div(self.columns, self.tile.width)

    def first_column(self, number: PrimExpr) -> Index:
        """Return the first column of a panel; the last panel ends with the matrix."""
        return start_of(number, self.tile.width, self.columns)


@dataclass(frozen=True, slots=True)
class _DynamicLoops:
    """The loops: with threads, or without."""

    product: MatrixProduct
    machine: CpuModel
    threads: bool

    @property
    def lanes(self) -> int:
        """Return how many elements a vector has."""
        return self.machine.lanes(self.product.dtype)

    def versions(self) -> Iterator[Version]:
        """Yield the versions by the number of rows."""
        product = self.product
        dots = product.has_contiguous_depth()
        if isinstance(product.rows, int):
            if dots and product.rows <= FEW_ROWS:
                yield True, lambda: self._dot_products(product.rows)
            yield from self._column_versions()
            return
        yield tirx.EQ(product.rows, builders.as_expr(1)), self._one_row
        if dots:
            yield tirx.all(product.rows > 1, product.rows <= FEW_ROWS), lambda: self._dot_products(2)
        yield from self._column_versions()

    def _one_row(self) -> Stmt:
        """Compute one row, by the loops for one if the other sizes are static."""
        row = replace(self.product, rows=1)
        if row.is_static:
            return static_loops(row, self.machine, threads=self.threads)
        return _choose(replace(self, product=row).versions())

    def _dot_products(self, height: int) -> Stmt:
        """Multiply few rows, at least as many as a tile has, with each column."""
        product = self.product
        columns = product.columns
        heights = builders.round_up_div(product.rows, height)
        widest = dot_width(height, columns if isinstance(columns, int) else None)

        def all_panels(width: int) -> Stmt:
            panels = _DynamicPanels(Tile(1, (0,), width), columns)

            def compute_panel(p: PrimExpr) -> Stmt:
                first, bind_first = _bind("first", panels.first_column(p))

                def compute_tile(t: PrimExpr) -> Stmt:
                    top, bind_top = _bind("top", builders.minimum(t * height, product.rows - height))
                    return builders.sequence(
                        [bind_top, product.dot_tile(height, width, self.lanes, top, first)]
                    )

                return builders.sequence([bind_first, builders.loop("tile", heights, compute_tile)])

            return builders.parallel_loop("panel", panels.count, compute_panel, wanted=self.threads)

        if isinstance(columns, int):
            return all_panels(widest)
        return tirx.IfThenElse(columns >= widest, all_panels(widest), all_panels(1))

    def _column_versions(self) -> Iterator[Version]:
        """Yield the versions by the number of columns, and by whether panels are packed."""
        product = self.product
        rows, columns = map(builders.static_int, (product.rows, product.columns))
        tile = microkernels.choose_tile(rows, columns, self.lanes, self.machine, product.right.panel)
        enough = True if columns is not None else product.columns >= tile.width
        yield enough, lambda: self._tiles(tile, packed=self._is_packed(tile))
        if rows == 1 and builders.static_int(product.right.column) == 1:
            vector, element = (Tile(1, (0,), lanes, 4) for lanes in (self.lanes, 1))
            yield product.columns >= self.lanes, lambda: self._tiles(vector, packed=False)
            yield True, lambda: self._tiles(element, packed=False)
        yield True, self._narrow_tiles

    def _is_packed(self, tile: Tile) -> bool:
        """Return whether panels are packed."""
        right = self.product.right
        # Vectors of neighbouring columns exist in memory only if columns are contiguous, or once
        # they are packed.
        return not right.panel and builders.static_int(right.column) != 1 and tile.lanes > 1

    def _tiles(self, tile: Tile, *, packed: bool) -> Stmt:
        """Compute the result in panels, which are packed or not, and tiles of rows."""
        product = self.product
        rows = _RowTiles(product.rows, tile, self.machine)
        panels = _DynamicPanels(tile, product.columns)
        if not packed:
            return self._share(rows, panels)
        size = builders.as_index(product.depth * tile.width)
        # Threads pack all panels before they share the tiles: with one buffer, a panel would be
        # overwritten while another thread still reads it.
        if self.threads or panels.count == 1:
            buffer = declare_packed_panels(builders.as_index(size * panels.count), product.dtype, "panels")
            panels = replace(panels, packed=buffer, shared=True)
            pack = builders.parallel_loop(
                "panel", panels.count, lambda p: self._pack(panels, p), wanted=self.threads
            )
            return builders.sequence([tirx.AllocBuffer(buffer), pack, self._share(rows, panels)])
        buffer = declare_packed_panels(size, product.dtype, "panel")
        panels = replace(panels, packed=buffer)

        def compute_panel(p: PrimExpr) -> Stmt:
            tiles = builders.loop("tile", rows.count, lambda t: self._tile(rows, panels, t, p))
            return builders.sequence([self._pack(panels, p), tiles])

        return builders.sequence(
            [tirx.AllocBuffer(buffer), builders.loop("panel", panels.count, compute_panel)]
        )

    def _share(self, rows: _RowTiles, panels: _DynamicPanels) -> Stmt:
        """Loop over panels and tiles, whichever is better outside; threads share the outer loop."""
        high, count = rows.count, panels.count
        if high == 1 or count == 1:
            kind = "tile" if count == 1 else "panel"
            zero = builders.as_expr(0)
            return builders.parallel_loop(
                kind,
                high if count == 1 else count,
                lambda i: self._tile(rows, panels, *((i, zero) if count == 1 else (zero, i))),
                wanted=self.threads,
            )
        # The outer loop should be the longer one, as threads share it, but panels outside read each
        # panel once: rows must be clearly more.
        rows_outside = builders.as_expr(high) >= builders.as_expr(count) * 2
        # Rows outside read all panels for each tile of rows, which pays only while the packed
        # panels stay in the cache.
        if panels.packed is not None:
            near = NEAR_BYTES // builders.item_bytes(self.product.dtype)
            size = builders.as_expr(self.product.depth) * builders.as_expr(self.product.columns)
            rows_outside = tirx.all(rows_outside, size <= near)
        row_major = tirx.Var("rows_outside", "bool")
        high, count = builders.as_expr(high), builders.as_expr(count)

        def compute_outer(o: PrimExpr) -> Stmt:
            def compute_inner(i: PrimExpr) -> Stmt:
                # One body serves both orders of the loops: two copies of the micro-kernel would
                # double the code.
                t, bind_t = _bind("t", tirx.Select(row_major, o, i))
                p, bind_p = _bind("p", tirx.Select(row_major, i, o))
                return builders.sequence([bind_t, bind_p, self._tile(rows, panels, t, p)])

            return builders.loop("inner", tirx.Select(row_major, count, high), compute_inner)

        outer = tirx.Select(row_major, high, count)
        return builders.sequence(
            [
                tirx.Bind(row_major, rows_outside),
                builders.parallel_loop("outer", outer, compute_outer, wanted=self.threads),
            ]
        )

    def _pack(self, panels: _DynamicPanels, number: PrimExpr) -> Stmt:
        product = self.product
        first, bind = _bind("first", panels.first_column(number))
        size = product.depth * panels.tile.width
        offset = number * size if panels.shared else 0
        right = product.right_from(first)
        packing = PanelPacking(panels.packed, offset, panels.tile, product.depth, right, product.dtype)
        return builders.sequence([bind, packing.statements()])

    def _tile(self, rows: _RowTiles, panels: _DynamicPanels, t: PrimExpr, p: PrimExpr) -> Stmt:
        """Compute a tile in a panel."""
        product = self.product
        first, bind_first = _bind("first", panels.first_column(p))
        right = product.right_from(first)
        if panels.packed is None:
            buffer, step, start = right.buffer, right.row, right.index(0, 0)
        else:
            buffer, step = panels.packed, panels.tile.width
            start = p * (product.depth * step) if panels.shared else 0
        base, bind_base = _bind("right", start)

        def load_right(k: Index, column: int) -> PrimExpr:
            return builders.load(buffer, base + k * step + column, panels.tile.lanes, product.dtype)

        def compute(tile: Tile, top: Index) -> Stmt:
            return self._register_tile(tile, top, first, load_right)

        return builders.sequence([bind_first, bind_base, rows.compute(t, compute)])

    def _register_tile(
        self,
        tile: Tile,
        top: Index,
        first: Index,
        load_right: Callable[[Index, int], PrimExpr],
        used: PrimExpr | None = None,
    ) -> Stmt:
        """Compute a tile from a row and a column on; ``used``: how many of its columns there are."""
        product = self.product
        row, bind_row = _bind("top", top)
        left, bind_left = _bind("left", product.left.index(row, 0))

        def load_left(r: int, k: Index) -> PrimExpr:
            index = left + r * product.left.row + k * product.left.column
            return builders.load(product.left.buffer, index, 1, product.dtype)

        access = TileAccess(
            load_left, load_right, lambda r, j, value: product.finish(row + r, first + j, value)
        )
        long = isinstance(product.depth, int) and product.depth >= _LONG_SUM
        compute = microkernels.register_tile(
            tile, product.depth, product.dtype, access, unrolled=product.unrolled and not long, used=used
        )
        return builders.sequence([bind_row, bind_left, compute])

    def _narrow_tiles(self) -> Stmt:
        """Compute fewer columns than a panel has, vector by vector, with zeros in the lanes beyond them."""
        product = self.product
        lanes = self.lanes
        height = min(_NARROW_ROWS, product.rows) if isinstance(product.rows, int) else _NARROW_ROWS
        tile = Tile(height, (0,), lanes, microkernels.count_parts(height, 1, self.machine))
        rows = _RowTiles(product.rows, tile, self.machine)
        packed = declare_packed_panels(builders.as_index(product.depth * lanes), product.dtype, "panel")

        def compute_panel(p: PrimExpr) -> Stmt:
            first, bind_first = _bind("first", p * lanes)
            used, bind_used = _bind("used", builders.minimum(lanes, product.columns - first))

            def load_right(k: Index, column: int) -> PrimExpr:
                return builders.load(packed, k * lanes + column, lanes, product.dtype)

            def compute(tile: Tile, top: Index) -> Stmt:
                return self._register_tile(tile, top, first, load_right, used)

            right = product.right_from(first)
            packing = PanelPacking(packed, 0, tile, product.depth, right, product.dtype)
            return builders.sequence(
                [
                    bind_first,
                    bind_used,
                    packing.pad(used),
                    builders.parallel_loop(
                        "tile", rows.count, lambda t: rows.compute(t, compute), wanted=self.threads
                    ),
                ]
            )

        panels = builders.round_up_div(product.columns, lanes)
        return builders.sequence([tirx.AllocBuffer(packed), builders.loop("panel", panels, compute_panel)])
