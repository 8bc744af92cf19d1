"""Describe a product of two matrices, and the sizes that decide how its loops are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import tirx

from nnmagic.engine.relax.schedules.matmul.microkernels import DotTile, Finish, Matrix
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The bytes of a matrix from which on its rows are packed for many tiles.
FAR_BYTES = 1 << 19

#: How many tiles of rows make packing a panel worth it.
MANY_TILES = 4

#: The rows up to which dot products are computed where the inner dimension is contiguous in both matrices.
FEW_ROWS = 4

#: The sums of a tile of dot products.
_DOT_SUMS = 16

#: The bytes up to which a packed matrix is walked once for each tile of rows: it stays in the second cache.
NEAR_BYTES = 1 << 19

#: Loops, and when they are chosen: always, never, or by a condition on the sizes.
Version: TypeAlias = tuple[PrimExpr | bool, Callable[[], Stmt]]


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """One product of two matrices. ``finish`` stores a sum; ``unrolled``: for each vector of a tile.

    mirror: copies an element across the diagonal, where the result is symmetric.
    """

    rows: Extent
    columns: Extent
    depth: Extent
    dtype: str
    left: Matrix
    right: Matrix
    finish: Finish
    unrolled: bool = True
    mirror: Callable[[PrimExpr, PrimExpr], Stmt] | None = None

    @property
    def is_static(self) -> bool:
        """Return whether all sizes are known at compile time."""
        return all(isinstance(size, int) for size in (self.rows, self.columns, self.depth))

    @property
    def far_size(self) -> int:
        """Return from how many elements on the rows of the right matrix lie too far apart for the cache.

        From FAR_BYTES on they do; so do fewer where most of them share a few of the 64 sets of the first
        cache, and push each other out (measured: 10 to 50 percent of the time).
        """
        item = builders.item_bytes(self.dtype)
        if not isinstance(self.columns, int):
            return FAR_BYTES // item
        # Rows that are 4096 bytes apart (64 sets of lines of 64 bytes) fall into one set; with a
        # row of gcd g bytes modulo 4096, they use 4096 / g of the sets.
        lines = 16 * min(64, 4096 // math.gcd(self.columns * item, 4096))
        return min(FAR_BYTES // item, lines * self.columns + 1)

    def transposed(self) -> MatrixProduct:
        """Return the product that has the same sums, as the transpose of its result."""

        def finish(row: PrimExpr, column: PrimExpr, value: PrimExpr) -> Stmt:
            return self.finish(column, row, value)

        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            left=self.right.transposed(),
            right=self.left.transposed(),
            finish=finish,
            mirror=None,
        )

    def split_panels(self) -> list[MatrixProduct]:
        """Split off the columns of a last panel that is not full."""
        width = self.right.panel
        remainder = self.columns % width if width else 0
        # Only full panels, or one panel that is not full.
        if remainder in (0, self.columns):
            return [self]
        multiple = self.columns - remainder

        def finish(row: PrimExpr, column: PrimExpr, value: PrimExpr) -> Stmt:
            return self.finish(row, column + multiple, value)

        last = self.right_from(builders.as_expr(multiple))
        return [replace(self, columns=multiple), replace(self, columns=remainder, right=last, finish=finish)]

    def right_from(self, first: Index) -> Matrix:
        """Return the right matrix from a column on."""
        right = self.right
        return replace(right, base=right.index(0, first))

    def has_contiguous_depth(self) -> bool:
        """Return whether the inner dimension is contiguous in both matrices, and the columns are not."""
        return (
            builders.static_int(self.right.row) == 1
            and (self.columns == 1 or builders.static_int(self.right.column) != 1)
            and builders.static_int(self.left.column) == 1
        )

    def dot_tile(self, rows: int, width: int, lanes: int, top: Index, start: Index) -> Stmt:
        """Compute a tile of dot products from a row and a column on."""
        lhs = Matrix(self.left.buffer, self.left.index(top, 0), self.left.row, self.left.column)
        rhs = Matrix(self.right.buffer, self.right.index(0, start), self.right.column, self.right.row)

        def finish(r: Index, j: PrimExpr, value: PrimExpr) -> Stmt:
            return self.finish(builders.as_expr(top + r), start + j, value)

        return DotTile(rows, width, lanes, self.dtype, lhs, rhs).statements(self.depth, finish)


def start_of(number: Index, size: int, end: Extent) -> Index:
    """Return where a tile or panel of a size begins; the last one ends with the matrix."""
    if size == 1 or (isinstance(end, int) and end % size == 0):
        # Where tiles divide the matrix evenly, no minimum is in the index, which LLVM then knows to
        # be linear.
        return number * size
    return builders.minimum(number * size, end - size)


def dot_width(rows: int, columns: int | None) -> int:
    """Return how many columns a tile of dot products has: a power of two."""
    width = max(1, _DOT_SUMS // rows) if columns is None else min(columns, max(1, _DOT_SUMS // rows))
    return 1 << (width.bit_length() - 1)


def declare_packed_panels(size: Extent, dtype: str, name: str) -> Buffer:
    """Declare the buffer of packed panels; TVM has no buffers without elements."""
    size = max(1, size) if isinstance(size, int) else tirx.max(size, builders.as_expr(1))
    return tirx.decl_buffer((size,), dtype, name, data_alignment=64)
