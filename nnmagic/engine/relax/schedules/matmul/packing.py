"""Pack panels of the right matrix, and tiles of rows of a left one whose columns are contiguous.

Of a panel the columns of a tile are copied together, or blocks of them are transposed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx

from nnmagic.engine.relax.schedules.matmul.microkernels import Matrix, Tile
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.transposition import transpose
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The dtypes whose rows and columns are exchanged by shuffling vectors.
_SHUFFLED_DTYPES = {"float32", "float64"}


@dataclass(frozen=True, slots=True)
class PanelPacking:
    """Packing of the columns that a tile needs: contiguous for each inner index, from ``offset`` on.

    ``right`` is based at the panel's first column. The panel has the dtype of the sums.
    """

    panel: Buffer
    offset: Index
    tile: Tile
    depth: Extent
    right: Matrix
    dtype: str

    def statements(self) -> Stmt:
        """Copy vectors where rows are contiguous; where columns are, transpose blocks of vectors."""
        if builders.static_int(self.right.column) == 1 or self.tile.lanes == 1:
            return builders.loop("k", self.depth, self.copy_row)
        elements = builders.loop("k", self.depth, self._copy_elements)
        # Neither rows nor columns are contiguous, as in a strided view: there is no vector to load.
        if builders.static_int(self.right.row) != 1 or self.dtype not in _SHUFFLED_DTYPES:
            return elements
        number = builders.static_int(self.depth)
        if number is None:
            return tirx.IfThenElse(self.depth >= self.tile.lanes, self._transpose_blocks(), elements)
        return self._transpose_blocks() if number >= self.tile.lanes else elements

    def pad(self, used: PrimExpr) -> Stmt:
        """Copy the first columns, fewer than a panel has, and fill the others with zeros."""
        zero = tirx.const(0, self.dtype)

        def copy(k: PrimExpr) -> Stmt:
            def copy_element(j: PrimExpr) -> Stmt:
                return builders.store(self.panel, self._index(k, j), 1, self.right.element(k, j, self.dtype))

            def clear(j: PrimExpr) -> Stmt:
                # Lanes beyond the columns are multiplied as well: zeros keep them from reading
                # memory that nothing has written.
                return builders.store(self.panel, self._index(k, used + j), 1, zero)

            return builders.sequence(
                [builders.loop("j", used, copy_element), builders.loop("j", self.tile.width - used, clear)]
            )

        return builders.loop("k", self.depth, copy)

    def _index(self, k: Index, start: Index) -> Index:
        return self.offset + k * self.tile.width + start

    def copy_row(self, k: PrimExpr) -> Stmt:
        """Copy the vectors of an inner index, whose columns are contiguous."""
        lanes = self.tile.lanes
        stores = []
        for start in self.tile.starts:
            vector = builders.load(self.right.buffer, self.right.index(k, start), lanes, self.dtype)
            stores.append(builders.store(self.panel, self._index(k, start), lanes, vector))
        return builders.sequence(stores)

    def _copy_elements(self, k: PrimExpr) -> Stmt:
        def copy(j: PrimExpr) -> Stmt:
            return builders.store(self.panel, self._index(k, j), 1, self.right.element(k, j, self.dtype))

        return builders.loop("j", self.tile.width, copy)

    def _transpose_blocks(self) -> Stmt:
        tile, lanes = self.tile, self.tile.lanes
        return builders.loop(
            "v",
            tile.vectors,
            lambda v: builders.loop(
                "kb",
                builders.round_up_div(self.depth, lanes),
                lambda kb: self._transpose_block(kb, builders.minimum(v * lanes, tile.width - lanes)),
            ),
        )

    def _transpose_block(self, number: PrimExpr, start: Index) -> Stmt:
        """Exchange rows and columns of a block as high and wide as a vector is long."""
        lanes = self.tile.lanes
        whole = (builders.static_int(self.depth) or 1) % lanes == 0
        # The last block is moved back along the inner dimension and packs some of its rows twice.
        k0 = number * lanes if whole else builders.minimum(number * lanes, self.depth - lanes)
        columns = [
            builders.load(self.right.buffer, self.right.index(k0, start + c), lanes, self.dtype)
            for c in range(lanes)
        ]
        statements, rows = transpose(columns, self.dtype)
        statements += [
            builders.store(self.panel, self._index(k0 + q, start), lanes, row) for q, row in enumerate(rows)
        ]
        return builders.sequence(statements)


@dataclass(frozen=True, slots=True)
class RowPacking:
    """Packing of the rows that some tiles need, from ``offset`` on: contiguous for each inner index.

    ``left`` is based at the first inner index; its rows must be contiguous. All ``count`` tiles are copied
    together, because what they need of an inner index is in the same lines of the cache. Each has ``room``
    for so many inner indices, of which ``depth`` are copied.
    """

    packed: Buffer
    offset: Index
    tile: Tile
    count: int
    room: int
    depth: Extent
    left: Matrix
    dtype: str

    def statements(self, top: Callable[[int], Index]) -> Stmt:
        """Copy the tiles; ``top`` gives the first row of each."""
        height = self.tile.rows
        lanes = min(self.tile.lanes, 1 << (height.bit_length() - 1))
        starts = [min(start, height - lanes) for start in range(0, height, lanes)]

        def copy_vector(k: PrimExpr, number: int, start: int) -> Stmt:
            source = self.left.index(top(number) + start, k)
            vector = builders.load(self.left.buffer, source, lanes, self.dtype)
            at = self.offset + (number * self.room + k) * height + start
            return builders.store(self.packed, at, lanes, vector)

        def copy(k: PrimExpr) -> Stmt:
            vectors = [(number, start) for number in range(self.count) for start in starts]
            return builders.sequence([copy_vector(k, *vector) for vector in vectors])

        return builders.loop("k", self.depth, copy)
