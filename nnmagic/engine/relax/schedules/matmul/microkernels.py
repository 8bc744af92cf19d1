"""Multiply matrices in register tiles.

A tile of the result is ``rows`` times some vectors, whose sums stay in registers. Each step of the inner
dimension reads the vectors of the right matrix once, and multiplies them with each element of the left one,
broadcast to a vector. Where a dimension is no multiple of the tile, the last tile begins earlier: it computes
some elements again, which costs less than other code for the rest. Measured on a Zen 5 core with vectors of
64 bytes: 8 rows times 2 vectors reach 95 percent of the peak from 128x128x128 on (NumPy's OpenBLAS: half), so
no library is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: The alignment of arrays of sums in bytes: the longest vector.
_ALIGNMENT = 64

#: The largest tiles to try, in rows and in vectors. Of tiles that take about equally many cycles, the nearest
#: to 8 rows of 2 vectors is taken, which was measured to be fast: each row or vector off it has a small cost.
_MOST_ROWS, _MOST_VECTORS = 14, 8
_BEST_ROWS, _ROW_COST = 8, 0.01
_BEST_VECTORS, _VECTOR_COST = 2, 0.02

#: In how many parts a sum may be split.
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile: its rows, and where in a panel its vectors of ``lanes`` start.

    parts: into how many partial sums each sum is split; these do not wait for each other.
    """

    rows: int
    starts: tuple[int, ...]
    lanes: int
    parts: int = 1

    @property
    def width(self) -> int:
        """Return how many columns a panel has."""
        return self.starts[-1] + self.lanes

    @property
    def vectors(self) -> int:
        """Return how many vectors a row has."""
        return len(self.starts)

    @property
    def row_size(self) -> int:
        """Return how many sums a row has: vectors may overlap in the result."""
        return self.vectors * self.lanes


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in a flat buffer: element (i, j) is at index ``base + i * row + j * column``.

    panel: the width of the panels in which the columns are stored, each with its rows one after the other;
    ``column`` is the size of a panel then. 0 for other layouts.
    """

    buffer: Buffer
    base: Index
    row: Index
    column: Index
    panel: int = 0

    def index(self, i: Index, j: Index) -> Index:
        """Return the index of an element in the buffer."""
        if not self.panel:
            return self.base + i * self.row + j * self.column
        number, lane = _split(j, self.panel)
        return self.base + number * self.column + i * self.row + lane

    def transposed(self) -> Matrix:
        """Return the transpose; the columns must not be in panels."""
        return Matrix(self.buffer, self.base, self.column, self.row)

    def element(self, i: Index, j: Index, dtype: str) -> PrimExpr:
        """Load an element."""
        return builders.load(self.buffer, self.index(i, j), 1, dtype)


def _split(index: Index, width: int) -> tuple[Index, Index]:
    if isinstance(index, int):
        return divmod(index, width)
    return tirx.floordiv(index, builders.as_expr(width)), tirx.floormod(index, builders.as_expr(width))


#: Stores a finished sum: (row in the tile, column in the panel, sum) -> statement.
Finish = Callable[[PrimExpr, PrimExpr, PrimExpr], Stmt]


@dataclass(frozen=True, slots=True)
class TileAccess:
    """How a tile reads its operands and stores its sums.

    left: (row in the tile, inner index) -> element of the left matrix.
    right: (inner index, start in the panel) -> vector of the right matrix.
    """

    left: Callable[[int, Index], PrimExpr]
    right: Callable[[Index, int], PrimExpr]
    finish: Finish


def register_tile(
    tile: Tile,
    depth: Extent,
    dtype: str,
    access: TileAccess,
    *,
    unrolled: bool = True,
    used: PrimExpr | None = None,
    kept: tuple[Buffer, Index] | None = None,
) -> Stmt:
    """Compute one tile of the result.

    unrolled: the statements that store the sums are unrolled; long ones are a loop over the rows instead.
    used: how many columns of the tile are stored, where that is not all.
    kept: the buffer and offset of sums to which those of this part of the inner dimension are added, for
    ``finish_kept``.
    """
    sums = _TileSums(tile, dtype)
    statements = [*sums.clear(), *sums.multiply(depth, access)]
    if kept is not None:
        return builders.sequence([*statements, *sums.add_to(*kept)])
    if used is not None:
        return builders.sequence([*statements, *sums.finish_elements(access.finish, used)])
    finish = sums.finish_unrolled if unrolled else sums.finish_in_loop
    return builders.sequence([*statements, *finish(access.finish)])


def finish_kept(tile: Tile, kept: Buffer, offset: Index, finish: Finish) -> Stmt:
    """Store the sums of a tile that are in memory."""

    def finish_row(r: PrimExpr) -> Stmt:
        first = offset + r * tile.row_size
        return builders.sequence(
            [
                _finish_vector(finish, r, start, kept, first + n * tile.lanes, tile.lanes)
                for n, start in enumerate(tile.starts)
            ]
        )

    return builders.loop("r", tile.rows, finish_row)


class _TileSums:
    """The arrays of a tile's sums, one per row and part, with the statements that fill and read them."""

    def __init__(self, tile: Tile, dtype: str) -> None:
        self.tile = tile
        self.dtype = dtype
        self.parts = [
            [builders.local_array(tile.row_size, dtype, f"sum{r}", _ALIGNMENT) for r in range(tile.rows)]
            for _ in range(tile.parts)
        ]

    def clear(self) -> list[Stmt]:
        """Allocate the arrays, and fill them with zeros."""
        lanes = self.tile.lanes
        zero = builders.broadcast(tirx.const(0, self.dtype), lanes)
        arrays = [array for part in self.parts for array in part]
        stores = [
            builders.store(array, n * lanes, lanes, zero)
            for array in arrays
            for n in range(self.tile.vectors)
        ]
        return [*map(tirx.AllocBuffer, arrays), *stores]

    def multiply(self, depth: Extent, access: TileAccess) -> list[Stmt]:
        """Build the loop over the inner dimension, and add up the parts."""
        count = self.tile.parts
        if count == 1:
            return [builders.loop("k", depth, lambda k: builders.sequence(self._step(k, 0, access)))]
        number = builders.static_int(depth)
        # Each part sums every `count`-th product, so that consecutive multiply-adds do not wait for
        # each other's result. The order of the additions depends on the tile alone, never on the
        # data or the threads.
        turns = number // count if number is not None else tirx.floordiv(depth, tirx.const(count, "int64"))

        def all_parts(k: PrimExpr) -> Stmt:
            steps = [self._step(k * count + index, index, access) for index in range(count)]
            return builders.sequence([statement for step in steps for statement in step])

        def rest(k: PrimExpr) -> Stmt:
            return builders.sequence(self._step(turns * count + k, 0, access))

        statements = [builders.loop("k", turns, all_parts)]
        if number is None or number % count:
            statements.append(builders.loop("k", depth - turns * count, rest))
        return [*statements, *self._add_parts()]

    def _step(self, k: Index, part: int, access: TileAccess) -> list[Stmt]:
        """Multiply one column of the left matrix with one row of the right one."""
        tile, lanes = self.tile, self.tile.lanes
        kind = builders.vector_type(self.dtype, lanes)
        vectors = [tirx.Var(f"right{n}", kind) for n in range(tile.vectors)]
        statements = [
            tirx.Bind(vector, access.right(k, start))
            for vector, start in zip(vectors, tile.starts, strict=True)
        ]
        for r, array in enumerate(self.parts[part]):
            factor = tirx.Var(f"left{r}", kind)
            statements.append(tirx.Bind(factor, builders.broadcast(access.left(r, k), lanes)))
            for n, vector in enumerate(vectors):
                total = self._load(array, n) + factor * vector
                statements.append(builders.store(array, n * lanes, lanes, total))
        return statements

    def _add_parts(self) -> list[Stmt]:
        """Add the partial sums to those of the first part."""
        statements = []
        for r, array in enumerate(self.parts[0]):
            for n in range(self.tile.vectors):
                total = _add_pairwise([self._load(part[r], n) for part in self.parts])
                statements.append(builders.store(array, n * self.tile.lanes, self.tile.lanes, total))
        return statements

    def _load(self, array: Buffer, vector: int) -> PrimExpr:
        return builders.load(array, vector * self.tile.lanes, self.tile.lanes, self.dtype)

    def finish_unrolled(self, finish: Finish) -> list[Stmt]:
        """Store the sums, vector by vector."""
        return [
            _finish_vector(finish, r, start, array, n * self.tile.lanes, self.tile.lanes)
            for r, array in enumerate(self.parts[0])
            for n, start in enumerate(self.tile.starts)
        ]

    def finish_in_loop(self, finish: Finish) -> list[Stmt]:
        """Copy the sums to one array, and store them in a loop over its rows."""
        kept, copies = self._copy()
        return [*copies, finish_kept(self.tile, kept, 0, finish)]

    def add_to(self, kept: Buffer, offset: Index) -> list[Stmt]:
        """Add the sums to others in memory."""
        lanes, statements = self.tile.lanes, []
        for r, array in enumerate(self.parts[0]):
            for n in range(self.tile.vectors):
                at = offset + (r * self.tile.row_size + n * lanes)
                total = builders.load(kept, at, lanes, self.dtype) + self._load(array, n)
                statements.append(builders.store(kept, at, lanes, total))
        return statements

    def finish_elements(self, finish: Finish, used: PrimExpr) -> list[Stmt]:
        """Copy the sums to one array, and store the first columns of each row, one by one."""
        kept, copies = self._copy()

        def finish_row(r: PrimExpr) -> Stmt:
            def finish_element(j: PrimExpr) -> Stmt:
                return finish(r, j, tirx.BufferLoad(kept, [r * self.tile.row_size + j]))

            return builders.loop("j", used, finish_element)

        return [*copies, builders.loop("r", self.tile.rows, finish_row)]

    def _copy(self) -> tuple[Buffer, list[Stmt]]:
        """Copy the sums to one array, row by row."""
        tile, lanes = self.tile, self.tile.lanes
        saved = tirx.decl_buffer((tile.rows * tile.row_size,), self.dtype, "kept", data_alignment=_ALIGNMENT)
        copies = [
            builders.store(saved, r * tile.row_size + n * lanes, lanes, self._load(array, n))
            for r, array in enumerate(self.parts[0])
            for n in range(tile.vectors)
        ]
        return saved, [tirx.AllocBuffer(saved), *copies]


def _finish_vector(finish: Finish, row: Index, start: int, sums: Buffer, offset: Index, lanes: int) -> Stmt:
    """Store the sums from ``offset`` on, which are columns from ``start`` on of a row."""
    return builders.vector_loop(
        lanes, lambda lane: finish(row, lane + start, tirx.BufferLoad(sums, [lane + offset]))
    )


# Pairwise, as the rounding error grows with the depth of the tree of additions (Higham, The
# accuracy of floating point summation, 1993), and its levels can be computed in parallel.
def _add_pairwise(values: Sequence[PrimExpr]) -> PrimExpr:
    values = list(values)
    while len(values) > 1:
        rest = values[-1:] if len(values) % 2 else []
        values = [a + b for a, b in zip(values[::2], values[1::2], strict=False)] + rest
    return values[0]


@dataclass(frozen=True, slots=True)
class DotTile:
    """A tile of dot products: sums along the inner dimension, which is contiguous in both matrices.

    ``left`` and ``right`` are based at the tile's first row and column; ``right``'s rows are the result's
    columns. For few rows, where exchanging the right matrix's rows and columns would cost more than the
    product.
    """

    rows: int
    columns: int
    lanes: int
    dtype: str
    left: Matrix
    right: Matrix

    def statements(self, depth: Extent, finish: Finish) -> Stmt:
        """Compute the tile."""
        rows, columns, lanes = self.rows, self.columns, self.lanes
        sums = [
            [builders.local_array(lanes, self.dtype, f"sum{r}_{c}", _ALIGNMENT) for c in range(columns)]
            for r in range(rows)
        ]
        totals = builders.local_array(rows * columns, self.dtype, "rest", _ALIGNMENT)
        zero = builders.broadcast(tirx.const(0, self.dtype), lanes)
        arrays = [array for row in sums for array in row]
        statements = [tirx.AllocBuffer(totals), *map(tirx.AllocBuffer, arrays)]
        statements += [builders.store(array, 0, lanes, zero) for array in arrays]
        number = builders.static_int(depth)
        turns = number // lanes if number is not None else tirx.floordiv(depth, tirx.const(lanes, "int64"))
        statements.append(builders.loop("k", turns, lambda k: self._multiply_vectors(sums, k * lanes)))
        for position, array in enumerate(arrays):
            # The lanes are added once per dot product, after the loop; the elements that fill no
            # vector come on top one by one.
            total = _add_lanes(self._load(array), lanes)
            statements.append(tirx.BufferStore(totals, total, [builders.as_expr(position)]))
        if number is None or number % lanes:
            rest = depth - turns * lanes
            statements.append(
                builders.loop("k", rest, lambda k: self._multiply_elements(totals, turns * lanes + k))
            )
        statements += [_finish_vector(finish, r, 0, totals, r * columns, columns) for r in range(rows)]
        return builders.sequence(statements)

    def _load(self, array: Buffer) -> PrimExpr:
        return builders.load(array, 0, self.lanes, self.dtype)

    def _multiply_vectors(self, sums: Sequence[Sequence[Buffer]], k: Index) -> Stmt:
        """Multiply a vector of each row of the left matrix with one of each row of the right one."""
        kind = builders.vector_type(self.dtype, self.lanes)
        factors = [tirx.Var(f"left{r}", kind) for r in range(self.rows)]
        statements = [
            tirx.Bind(factor, builders.load(self.left.buffer, self.left.index(r, k), self.lanes, self.dtype))
            for r, factor in enumerate(factors)
        ]
        for c in range(self.columns):
            vector = tirx.Var(f"right{c}", kind)
            value = builders.load(self.right.buffer, self.right.index(c, k), self.lanes, self.dtype)
            statements.append(tirx.Bind(vector, value))
            for factor, row in zip(factors, sums, strict=True):
                total = self._load(row[c]) + factor * vector
                statements.append(builders.store(row[c], 0, self.lanes, total))
        return builders.sequence(statements)

    def _multiply_elements(self, totals: Buffer, k: Index) -> Stmt:
        """Multiply one element of each row of both matrices."""
        statements = []
        for r in range(self.rows):
            for c in range(self.columns):
                position = r * self.columns + c
                product = self.left.element(r, k, self.dtype) * self.right.element(c, k, self.dtype)
                total = builders.load(totals, position, 1, self.dtype) + product
                statements.append(builders.store(totals, position, 1, total))
        return builders.sequence(statements)


def _add_lanes(vector: PrimExpr, lanes: int) -> PrimExpr:
    """Add the lanes of a vector by halves."""
    while lanes > 1:
        lanes //= 2
        var = tirx.Var("part", builders.dtype_of(vector))
        low = tirx.Shuffle([var], list(range(lanes)))
        high = tirx.Shuffle([var], list(range(lanes, 2 * lanes)))
        vector = tirx.Let(var, vector, low + high)
    return vector


def choose_tile(
    rows: int | None, columns: int | None, lanes: int, machine: CpuModel, width: int = 0, least_rows: int = 1
) -> Tile:
    """Choose the tile that covers the result with the least work; for dynamic sizes, the best for large ones.

    width: of the panels of a packed matrix, which the columns of a tile must divide (of one row, they may be
        a multiple); 0 for other matrices.
    least_rows: of a tile, if there are so many.
    """
    if columns is not None:
        # A vector must not read beyond a row of fewer columns than it has lanes: vectors of the
        # largest power of two that fits are read instead, which overlap where they must.
        lanes = min(lanes, 1 << (max(1, columns).bit_length() - 1))
    vectors = None if columns is None else -(-columns // lanes)
    candidates = [
        # Of equal costs, the highest tile wins: it reads each vector of the right matrix least
        # often.
        (_tile_cost(r, v, rows, vectors, machine), -r, v)
        for r in range(min(rows or least_rows, least_rows), min(rows or _MOST_ROWS, _MOST_ROWS) + 1)
        for v in range(1, min(vectors or _MOST_VECTORS, _MOST_VECTORS) + 1)
        if _fits_panels(v * lanes, width, rows, columns) and _fits_registers(r, v, machine)
    ]
    _, minus_rows, v = min(candidates)
    if vectors is None or columns is None or vectors > v or width:
        starts = tuple(n * lanes for n in range(v))
    else:
        # The last vector of the columns is moved back to end with them and overlaps its neighbour:
        # both store the same sums to the shared columns, so that no masked store is needed.
        starts = tuple(min(n * lanes, columns - lanes) for n in range(v))
    return Tile(-minus_rows, starts, lanes, count_parts(-minus_rows, v, machine))


def _fits_panels(tile: int, width: int, rows: int | None, columns: int | None) -> bool:
    """Return whether a tile of so many columns reads panels of a width where they are stored."""
    if width == 0:
        return True
    if columns is not None and tile > columns:
        return False
    return width % tile == 0 or (rows == 1 and tile % width == 0)


def _fits_registers(rows: int, vectors: int, machine: CpuModel) -> bool:
    if rows == 1:
        return vectors <= machine.registers // 2
    return machine.has_registers(rows * vectors, vectors + 1)


def _tile_cost(r: int, v: int, rows: int | None, vectors: int | None, machine: CpuModel) -> float:
    """Estimate the time of a step over the whole result, in tiles of ``r`` rows and ``v`` vectors.

    Its unit is the time of one multiplication.
    """
    tiles = 1 / r if rows is None else -(-rows // r)
    panels = 1 / v if vectors is None else -(-vectors // v)
    # In the time of one multiplication: a cycle starts `units` of these, and two loads.
    loads = (r + v) * machine.units / 2
    time = max(r * v, loads, machine.busy_sums / count_parts(r, v, machine))
    preference = _ROW_COST * abs(r - _BEST_ROWS) + _VECTOR_COST * abs(v - _BEST_VECTORS)
    return tiles * panels * (time + preference)


def count_parts(rows: int, vectors: int, machine: CpuModel) -> int:
    """Choose in how many parts to sum: with fewer sums than keep the machine busy, it would wait."""
    sums = rows * vectors
    count = 1
    # Little's law: the units are busy if as many independent sums are under way as latency times
    # throughput, which is `busy_sums`. A tile of fewer sums splits each of them.
    while count < _MOST_PARTS and count * sums < machine.busy_sums:
        # Sums that do not fit in registers cost more than waiting does.
        if not machine.has_registers(2 * count * sums, vectors + 1):
            break
        count *= 2
    return count
