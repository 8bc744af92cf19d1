"""Write the loops of a large product: blocks of rows, columns and the inner dimension that stay in the cache.

Where the inner dimension is long, a tile of rows or of columns does not stay in the first cache from one tile
to the next; where the left matrix is transposed, as in the gradient of a layer's weights, lines of the cache
that lie a power of two apart push each other out even if it is short. So both matrices are packed by blocks,
as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): panels of columns for
all rows, tiles of rows for all panels of a group. The sums of a part of the inner dimension are added to
those of the parts before it, in memory. Measured with NumPy's OpenBLAS beside it, on a core with AVX-512:
100x100000 by 100000x100 took ten times as long as there without blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.matmul import microkernels
from nnmagic.engine.relax.schedules.matmul.matrix_product import (
    MANY_TILES,
    NEAR_BYTES,
    MatrixProduct,
    Version,
    declare_packed,
)
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

#: The bytes of sums that are kept between two blocks of the inner dimension.
_MOST_SUMS = 1 << 22


def blocked_version(product: MatrixProduct, machine: CpuModel, *, threads: bool) -> Version:
    """Return the loops by blocks, and when they pay. ``threads`` share blocks of rows."""
    lanes = machine.lanes(product.dtype)
    rows, columns = (size if isinstance(size, int) else None for size in (product.rows, product.columns))
    tile = microkernels.choose_tile(rows, columns, lanes, machine, least_rows=_LEAST_ROWS)
    return _pays(product, tile), lambda: _blocked_loops(product, tile, threads=threads)


def _pays(product: MatrixProduct, tile: Tile) -> PrimExpr | bool:
    """Return whether blocks pay: always, never, or the condition on the sizes."""
    if product.right.panel or tile.rows < _LEAST_ROWS or tile.lanes == 1:
        return False
    enough = _all_of(product.rows >= MANY_TILES * tile.rows, product.columns >= tile.width)
    is_long = _all_of(enough, product.depth > _LONG)
    if is_long is True or not _has_contiguous_rows(product.left):
        return is_long
    deep = True if isinstance(product.depth, int) else product.depth >= _DEEP
    is_transposed = _all_of(enough, deep, product.columns > (_MANY_PANELS - 1) * tile.width)
    if is_long is False or is_transposed is True:
        return is_transposed
    return is_long if is_transposed is False else tirx.Or(is_long, is_transposed)


def _all_of(*conditions: PrimExpr | bool) -> PrimExpr | bool:
    if False in [each for each in conditions if isinstance(each, bool)]:
        return False
    dynamic = [each for each in conditions if not isinstance(each, bool)]
    return tirx.all(*dynamic) if dynamic else True


def _has_contiguous_rows(matrix: Matrix) -> bool:
    return builders.static_int(matrix.row) == 1 and builders.static_int(matrix.column) != 1


def _blocked_loops(product: MatrixProduct, tile: Tile, *, threads: bool) -> Stmt:
    """Compute a product that has at least a tile's rows and columns."""
    chunk, depth = _CHUNK, product.depth
    if isinstance(depth, int):
        chunk = -(-depth // -(-depth // _CHUNK)) if depth > _LONG else depth
    return _BlockedLoops(product, tile, chunk, threads).statements()


@dataclass(frozen=True, slots=True)
class _BlockedLoops:
    """The loops; ``chunk`` is the length of a block along the inner dimension."""

    product: MatrixProduct
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
        wide = _at_most(self.panels, NEAR_BYTES // (self.chunk * self.tile.width * item))
        high = _at_most(self.heights, _MOST_SUMS // (wide * self.sums_of_tile * item))
        packed = declare_packed(wide * self.chunk * self.tile.width, self.product.dtype, "panels")
        allocations = [tirx.AllocBuffer(packed)]
        sums = None
        if self.chunk != self.product.depth:
            size = builders.minimum(high, self.heights) * (wide * self.sums_of_tile)
            sums = declare_packed(builders.as_index(size), self.product.dtype, "sums")
            allocations.append(tirx.AllocBuffer(sums))

        def compute_group(g: PrimExpr) -> Stmt:
            def compute_rows(q: PrimExpr) -> Stmt:
                group = _Group(
                    self,
                    packed,
                    sums,
                    g * wide,
                    builders.minimum(wide, self.panels - g * wide),
                    q * high,
                    builders.minimum(high, self.heights - q * high),
                )
                return group.statements()

            return builders.loop("rows", builders.round_up_div(self.heights, high), compute_rows)

        groups = builders.loop("columns", builders.round_up_div(self.panels, wide), compute_group)
        return builders.sequence([*allocations, groups])

    def first_column(self, number: Index) -> Index:
        """Return the first column of a panel; the last one ends with the matrix."""
        return _start(number, self.tile.width, self.product.columns)

    def first_row(self, number: Index) -> Index:
        """Return the first row of a tile; the last one ends with the matrix."""
        return _start(number, self.tile.rows, self.product.rows)


def _at_most(count: Extent, most: int) -> int:
    return max(1, min(count, most) if isinstance(count, int) else most)


def _start(number: Index, size: int, end: Extent) -> Index:
    if isinstance(end, int) and end % size == 0:
        return number * size
    return builders.minimum(number * size, end - size)


@dataclass(frozen=True, slots=True)
class _Group:
    """Some panels and tiles of rows; packed and sums: of all panels, and of all their tiles."""

    loops: _BlockedLoops
    packed: Buffer
    sums: Buffer | None
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
                return microkernels.finish_kept(loops.tile, self.sums, self._sums(t, p), self._finish(t, p))

            return builders.loop("panel", self.panels, finish_tile)

        chunks = builders.round_up_div(loops.product.depth, loops.chunk)
        return builders.sequence(
            [
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
        """Multiply a block of the inner dimension: pack the panels, then go by blocks of rows."""
        loops, product = self.loops, self.loops.product
        size = loops.chunk * loops.tile.width

        def pack(p: PrimExpr) -> Stmt:
            first = loops.first_column(self.first_panel + p)
            right = replace(product.right, base=product.right.index(start, first))
            return PanelPacking(self.packed, p * size, loops.tile, depth, right, product.dtype).statements()

        count = _at_most(self.tiles, _BLOCK_TILES)
        blocks = builders.round_up_div(self.tiles, count)
        return builders.sequence(
            [
                builders.parallel_loop("panel", self.panels, pack, wanted=loops.threads),
                builders.parallel_loop(
                    "block",
                    blocks,
                    lambda b: self._multiply_rows(b * count, count, start, depth),
                    wanted=loops.threads,
                ),
            ]
        )

    def _multiply_rows(self, first: Index, count: int, start: Index, depth: Extent) -> Stmt:
        """Multiply ``count`` tiles of rows, or those that are left, with all panels."""
        loops, product, tile = self.loops, self.loops.product, self.loops.tile
        left = replace(product.left, base=product.left.index(0, start))
        statements, packing = [], None
        if _has_contiguous_rows(left):
            block = declare_packed(count * loops.chunk * tile.rows, product.dtype, "block")
            packing = RowPacking(block, tile, count, depth, left, product.dtype)
            tops = packing.statements(lambda t: loops.first_row(self.first_tile + first + t))
            statements = [tirx.AllocBuffer(block), tops]

        def multiply(p: PrimExpr, t: PrimExpr) -> Stmt:
            offset = p * (loops.chunk * tile.width)
            top = loops.first_row(self.first_tile + first + t)

            def load_left(r: int, k: Index) -> PrimExpr:
                if packing is None:
                    return left.element(top + r, k, product.dtype)
                return builders.load(packing.block, packing.offset(t) + k * tile.rows + r, 1, product.dtype)

            def load_right(k: Index, column: int) -> PrimExpr:
                return builders.load(self.packed, offset + k * tile.width + column, tile.lanes, product.dtype)

            access = TileAccess(load_left, load_right, self._finish(first + t, p))
            kept = None if self.sums is None else (self.sums, self._sums(first + t, p))
            return microkernels.register_tile(
                tile, depth, product.dtype, access, unrolled=product.unrolled, kept=kept
            )

        here = builders.minimum(count, self.tiles - first)
        tiles = builders.loop(
            "panel", self.panels, lambda p: builders.loop("tile", here, lambda t: multiply(p, t))
        )
        return builders.sequence([*statements, tiles])
