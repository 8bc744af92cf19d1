"""Write the loops of a large product: blocks of rows, columns and the inner dimension that stay in the cache.

Where the right matrix is large, its rows lie so far apart that the sets of the first cache run out. Where the
inner dimension is long, no tile stays there from one to the next. And where the left matrix is transposed, as
in the gradient of a layer's weights, a tile uses a part of each line, and lines that lie a power of two apart
push each other out. So both matrices are packed by blocks, as in Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication" (2008): panels of columns for all rows, tiles of rows for all panels
of a group. The sums of a block of the inner dimension are added to those of the blocks before it, in memory.
Of a matrix times its own transpose, only tiles on and above the diagonal are computed, and the others copied.
Without blocks 100x100000 by 100000x100 took ten times as long as in NumPy's OpenBLAS, with them as long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.matmul import matrix_product, microkernels
from nnmagic.engine.relax.schedules.matmul.microkernels import Matrix, Tile, TileAccess
from nnmagic.engine.relax.schedules.matmul.packing import PanelPacking, RowPacking
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The length of a block along the inner dimension, and from which one on there are several.
_CHUNK, _LONG = 256, 1024

#: How many rows a tile has at least: the second cache, where panels are, has no more than a vector a cycle.
_LEAST_ROWS = 4

#: How many panels make packing tiles of rows worth it, for an inner dimension that is not known to be long.
_MANY_PANELS, _DEEP = 4, 256

#: How many tiles of rows are packed together: their elements of one inner index fill lines of the cache.
_BLOCK_TILES = 8

#: The rows and columns of a block that is copied across the diagonal.
_MIRRORED = 16

#: The bytes of sums that are kept between two blocks of the inner dimension.
_MOST_SUMS = 1 << 22


def blocked_version(
    product: matrix_product.MatrixProduct, machine: CpuModel, *, threads: bool
) -> matrix_product.Version:
    """Return the loops by blocks, and when they pay; ``threads`` share them."""
    rows, columns = map(builders.static_int, (product.rows, product.columns))
    lanes = machine.lanes(product.dtype)
    tile = microkernels.choose_tile(rows, columns, lanes, machine, least_rows=_LEAST_ROWS)
    return _pays(product, tile), lambda: _blocked_loops(product, tile, threads=threads)


def _pays(product: matrix_product.MatrixProduct, tile: Tile) -> PrimExpr | bool:
    """Return whether blocks pay: always, never, or the condition on the sizes."""
    if product.right.panel or tile.rows < _LEAST_ROWS or tile.lanes == 1:
        return False
    enough = _all_of(product.rows >= matrix_product.MANY_TILES * tile.rows, product.columns >= tile.width)
    # Packing reads and writes the right matrix once more, which pays where the inner dimension is
    # long, or where the matrix comes from beyond the cache.
    is_large = _any_of(product.depth > _LONG, product.depth * product.columns >= product.far_size)
    if _has_contiguous_rows(product.left):
        deep = True if isinstance(product.depth, int) else product.depth >= _DEEP
        is_large = _any_of(is_large, _all_of(deep, product.columns > (_MANY_PANELS - 1) * tile.width))
    return _all_of(enough, is_large)


def _all_of(*conditions: PrimExpr | bool) -> PrimExpr | bool:
    if False in [condition for condition in conditions if isinstance(condition, bool)]:
        return False
    dynamic = [condition for condition in conditions if not isinstance(condition, bool)]
    return tirx.all(*dynamic) if dynamic else True


def _any_of(*conditions: PrimExpr | bool) -> PrimExpr | bool:
    if True in [condition for condition in conditions if isinstance(condition, bool)]:
        return True
    dynamic = [condition for condition in conditions if not isinstance(condition, bool)]
    return tirx.any(*dynamic) if dynamic else False


def _has_contiguous_rows(matrix: Matrix) -> bool:
    return builders.static_int(matrix.row) == 1 and builders.static_int(matrix.column) != 1


def _blocked_loops(product: matrix_product.MatrixProduct, tile: Tile, *, threads: bool) -> Stmt:
    """Compute a product that has at least a tile's rows and columns."""
    chunk, depth = _CHUNK, product.depth
    if isinstance(depth, int):
        # As few blocks as chunks of _CHUNK give, of equal length: 1100 = 4 * 275 rather than 4 *
        # 256 + 76.
        chunk = -(-depth // -(-depth // _CHUNK)) if depth > _LONG else depth
    return _BlockedLoops(product, tile, chunk, threads).statements()


@dataclass(frozen=True, slots=True)
class _BlockedLoops:
    """The loops; ``chunk`` is the length of a block along the inner dimension."""

    product: matrix_product.MatrixProduct
    tile: Tile
    chunk: int
    threads: bool

    @property
    def heights(self) -> Extent:
        """Return how many tiles of rows there are."""
        return builders.round_up_div(self.product.rows, self.tile.rows)

    @property
    def panels(self) -> Extent:
        """Return how many panels of columns there are."""
        return builders.round_up_div(self.product.columns, self.tile.width)

    @property
    def sums_of_tile(self) -> int:
        """Return how many sums a tile has."""
        return self.tile.rows * self.tile.row_size

    def statements(self) -> Stmt:
        """Loop over groups of panels, and over groups of tiles of rows."""
        item = builders.item_bytes(self.product.dtype)
        # Goto and van de Geijn, Anatomy of high-performance matrix multiplication (2008): the
        # packed block of the right matrix stays in the second cache while all tiles of rows pass it
        # by.
        wide = _at_most(self.panels, matrix_product.NEAR_BYTES // (self.chunk * self.tile.width * item))
        high = _at_most(self.heights, _MOST_SUMS // (wide * self.sums_of_tile * item))
        packed = matrix_product.declare_packed_panels(
            wide * self.chunk * self.tile.width, self.product.dtype, "panels"
        )
        allocations = [tirx.AllocBuffer(packed)]
        tiles = builders.minimum(high, self.heights)
        sums, rows = None, None
        if self.chunk != self.product.depth:
            size = builders.as_index(tiles * (wide * self.sums_of_tile))
            sums = matrix_product.declare_packed_panels(size, self.product.dtype, "sums")
            allocations.append(tirx.AllocBuffer(sums))
        if _has_contiguous_rows(self.product.left):
            count = builders.round_up_div(tiles, _BLOCK_TILES) * _BLOCK_TILES
            size = builders.as_index(count * (self.chunk * self.tile.rows))
            rows = matrix_product.declare_packed_panels(size, self.product.dtype, "rows")
            allocations.append(tirx.AllocBuffer(rows))

        def compute_group(g: PrimExpr) -> Stmt:
            def compute_rows(q: PrimExpr) -> Stmt:
                group = _Group(
                    self,
                    packed,
                    sums,
                    rows,
                    g * wide,
                    builders.minimum(wide, self.panels - g * wide),
                    q * high,
                    builders.minimum(high, self.heights - q * high),
                )
                return group.statements()

            return builders.loop("rows", builders.round_up_div(self.heights, high), compute_rows)

        groups = builders.loop("columns", builders.round_up_div(self.panels, wide), compute_group)
        return builders.sequence([*allocations, groups, *self._mirror()])

    def where_needed(self, tile: Index, panel: Index, statement: Stmt) -> Stmt:
        """Return a statement that is done for tiles that are not copied from across the diagonal."""
        if self.product.mirror is None:
            return statement
        # A tile that touches the diagonal is computed whole. Below it, elements are copies of those
        # across.
        is_above = self.first_column(panel) + self.tile.width > self.first_row(tile)
        return tirx.IfThenElse(is_above, statement, None)

    def _mirror(self) -> list[Stmt]:
        """Copy what is above the diagonal below it, in blocks."""
        mirror, size = self.product.mirror, self.product.rows
        if mirror is None:
            return []

        def copy_rows(b: PrimExpr) -> Stmt:
            first = b * _MIRRORED
            height = builders.minimum(_MIRRORED, size - first)

            def copy_block(c: PrimExpr) -> Stmt:
                columns = range(_MIRRORED)
                return builders.loop(
                    "row",
                    height,
                    lambda i: builders.sequence([mirror(c * _MIRRORED + j, first + i) for j in columns]),
                )

            def copy_to_diagonal(i: PrimExpr) -> Stmt:
                return builders.loop("column", i, lambda j: mirror(first + j, first + i))

            return builders.sequence(
                [builders.loop("block", b, copy_block), builders.loop("row", height, copy_to_diagonal)]
            )

        blocks = builders.round_up_div(size, _MIRRORED)
        return [builders.parallel_loop("rows", blocks, copy_rows, wanted=self.threads)]

    def first_column(self, number: Index) -> Index:
        """Return the first column of a panel; the last one ends with the matrix."""
        return matrix_product.start_of(number, self.tile.width, self.product.columns)

    def first_row(self, number: Index) -> Index:
        """Return the first row of a tile; the last one ends with the matrix."""
        return matrix_product.start_of(number, self.tile.rows, self.product.rows)


def _at_most(count: Extent, most: int) -> int:
    return max(1, min(count, most) if isinstance(count, int) else most)


@dataclass(frozen=True, slots=True)
class _Group:
    """Some panels and tiles of rows.

    packed: the panels. sums: of all tiles, if there are several blocks of the inner dimension. rows: the
    tiles of the left matrix, if they are packed.
    """

    loops: _BlockedLoops
    packed: Buffer
    sums: Buffer | None
    rows: Buffer | None
    first_panel: Index
    panels: Extent
    first_tile: Index
    tiles: Extent

    def statements(self) -> Stmt:
        """Compute the group, for one block of the inner dimension after the other."""
        loops = self.loops
        if self.sums is None:
            return self._multiply(0, loops.chunk)

        def multiply(c: PrimExpr) -> Stmt:
            start = c * loops.chunk
            return self._multiply(start, builders.minimum(loops.chunk, loops.product.depth - start))

        lanes, dtype = loops.tile.lanes, loops.product.dtype
        size = self.panels * (loops.sums_of_tile // lanes)
        zero = builders.broadcast(tirx.const(0, dtype), lanes)

        def clear(t: PrimExpr) -> Stmt:
            return builders.loop(
                "v", size, lambda v: builders.store(self.sums, (t * size + v) * lanes, lanes, zero)
            )

        def finish(t: PrimExpr) -> Stmt:
            def finish_tile(p: PrimExpr) -> Stmt:
                finish = microkernels.finish_kept(loops.tile, self.sums, self._sums(t, p), self._finish(t, p))
                return loops.where_needed(self.first_tile + t, self.first_panel + p, finish)

            return builders.loop("panel", self.panels, finish_tile)

        chunks = builders.round_up_div(loops.product.depth, loops.chunk)
        return builders.sequence(
            [
                # The order of the three: sums of all blocks of the inner dimension are added in
                # memory, and the epilogue, such as a ReLU, may only see the finished sums.
                builders.loop("tile", self.tiles, clear),
                builders.loop("chunk", chunks, multiply),
                builders.parallel_loop("tile", self.tiles, finish, wanted=loops.threads),
            ]
        )

    def _sums(self, t: PrimExpr, p: PrimExpr) -> Index:
        """Return where the sums of a tile begin."""
        return (t * self.panels + p) * self.loops.sums_of_tile

    def _finish(self, t: PrimExpr, p: PrimExpr) -> microkernels.Finish:
        loops = self.loops
        top, first = loops.first_row(self.first_tile + t), loops.first_column(self.first_panel + p)
        return lambda r, j, value: loops.product.finish(top + r, first + j, value)

    def _multiply(self, start: Index, depth: Extent) -> Stmt:
        """Multiply a block of the inner dimension: pack panels and rows, then compute all tiles.

        Threads share the tiles by panels, and by so many tiles of rows as are packed together.
        """
        count = _at_most(self.tiles, _BLOCK_TILES)
        panels = builders.as_index(self.panels)

        def multiply(number: PrimExpr) -> Stmt:
            block, panel = (number, 0) if panels == 1 else (number // panels, number % panels)
            first = block * count
            here = builders.minimum(count, self.tiles - first)
            return builders.loop("tile", here, lambda t: self._tile(first + t, panel, start, depth))

        index = builders.as_index(builders.round_up_div(self.tiles, count) * panels)
        threads = self.loops.threads
        return builders.sequence(
            [
                self._pack_panels(start, depth),
                *self._pack_rows(start, depth, count),
                builders.parallel_loop("part", index, multiply, wanted=threads),
            ]
        )

    def _pack_panels(self, start: Index, depth: Extent) -> Stmt:
        """Pack all panels: row by row if rows are contiguous, so that memory is read in long pieces."""
        loops, product, tile = self.loops, self.loops.product, self.loops.tile
        right = replace(product.right, base=product.right.index(start, 0))

        def packing(p: PrimExpr) -> PanelPacking:
            first = loops.first_column(self.first_panel + p)
            offset, based = p * (loops.chunk * tile.width), replace(right, base=right.index(0, first))
            return PanelPacking(self.packed, offset, tile, depth, based, product.dtype)

        # Columns of a transposed matrix are contiguous: each panel is read along them, one at a
        # time.
        if builders.static_int(right.column) != 1:
            return builders.parallel_loop(
                "panel", self.panels, lambda p: packing(p).statements(), wanted=loops.threads
            )

        def copy_row(k: PrimExpr) -> Stmt:
            return builders.loop("panel", self.panels, lambda p: packing(p).copy_row(k))

        return builders.parallel_loop("k", depth, copy_row, wanted=loops.threads)

    def _pack_rows(self, start: Index, depth: Extent, count: int) -> list[Stmt]:
        """Pack the tiles of rows, ``count`` together, if the left matrix is transposed."""
        loops, product, tile = self.loops, self.loops.product, self.loops.tile
        if self.rows is None:
            return []
        left = replace(product.left, base=product.left.index(0, start))

        def pack(b: PrimExpr) -> Stmt:
            offset = b * (count * loops.chunk * tile.rows)
            packing = RowPacking(self.rows, offset, tile, count, loops.chunk, depth, left, product.dtype)
            return packing.statements(lambda t: loops.first_row(self.first_tile + b * count + t))

        blocks = builders.round_up_div(self.tiles, count)
        return [builders.parallel_loop("block", blocks, pack, wanted=loops.threads)]

    def _tile(self, t: PrimExpr, p: Index, start: Index, depth: Extent) -> Stmt:
        """Multiply a tile of rows with a panel."""
        loops, product, tile = self.loops, self.loops.product, self.loops.tile
        top = loops.first_row(self.first_tile + t)

        def load_left(r: int, k: Index) -> PrimExpr:
            if self.rows is None:
                return product.left.element(top + r, start + k, product.dtype)
            at = t * (loops.chunk * tile.rows) + k * tile.rows + r
            return builders.load(self.rows, at, 1, product.dtype)

        def load_right(k: Index, column: int) -> PrimExpr:
            at = p * (loops.chunk * tile.width) + k * tile.width + column
            return builders.load(self.packed, at, tile.lanes, product.dtype)

        access = TileAccess(load_left, load_right, self._finish(t, p))
        kept = None if self.sums is None else (self.sums, self._sums(t, p))
        multiply = microkernels.register_tile(
            tile, depth, product.dtype, access, unrolled=product.unrolled, kept=kept
        )
        return loops.where_needed(self.first_tile + t, self.first_panel + p, multiply)
