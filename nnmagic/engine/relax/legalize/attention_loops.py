"""Write the loops of attention: ``softmax(scores(q @ k.T)) @ v``, for blocks of keys with a running maximum.

Queries fill the lanes of vectors, so each maximum, exponential and sum is one of vectors, and keys and values
are read where they are. For a block of queries, each block of keys gives scores, which stay in the first
cache; what was summed for the keys before is scaled to the new maximum (Milakov and Gimelshein,
arXiv:1805.02867; Dao et al., arXiv:2205.14135). Exponentials are scaled by a power of two below one part of
the keys: no sum of products with values is larger than the largest value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from nnmagic.engine.relax.legalize.attention_rows import QueryRow, larger
from nnmagic.engine.relax.schedules.independent_loops import independent_loop
from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.matmul.microkernels import (
    Matrix,
    Tile,
    TileAccess,
    choose_tile,
    count_parts,
    register_tile,
)
from nnmagic.engine.relax.schedules.matmul.packing import PanelPacking
from nnmagic.engine.relax.schedules.thread_choice import choose_threads
from nnmagic.engine.relax.tir import builders, vector_math
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt
from nnmagic.engine.relax.tir.vector_math.core import FLOAT32, FLOAT64

#: The vectors of queries in a block if there are so many, and its tiles of keys.
_MOST_VECTORS = 2
_TILES = 8

#: The queries below which each is computed alone, where only the call knows how many there are.
_FEW_QUERIES = 8


@dataclass(frozen=True, slots=True)
class ScoreOperand:
    """An array that takes part in the scores; one matrix of queries and keys for each index of the batch.

    matrix: returns the matrix of an index of the batch: rows are queries, columns keys. per_query: whether
    its rows differ.
    """

    matrix: Callable[[PrimExpr], Matrix]
    per_query: bool


#: Applies a step to a score: (score, operand's element or None, number of the query, number of the key).
_Apply = Callable[[PrimExpr, PrimExpr | None, PrimExpr, PrimExpr], PrimExpr]


@dataclass(frozen=True, slots=True)
class ScoreStep:
    """One step from a product of a query and a key to their score."""

    apply: _Apply
    operand: ScoreOperand | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention: sizes, operands, and where the result goes.

    batch, rows, keys, depth, width: how many pairs of matrices there are, queries, keys, elements of a query,
    elements of a value. query, key, value: return the matrix of an index of the batch. causal: whether the
    scores of keys after the query are -inf.
    """

    batch: Extent
    rows: Extent
    keys: Extent
    depth: Extent
    width: Extent
    dtype: str
    query: Callable[[PrimExpr], Matrix]
    key: Callable[[PrimExpr], Matrix]
    value: Callable[[PrimExpr], Matrix]
    steps: Sequence[ScoreStep]
    result: Buffer
    causal: bool = False

    def loops(self, machine: CpuModel) -> Stmt:
        """Return the loops; threads share the blocks of queries if there is enough work."""
        shape = _BlockShape(self, machine)

        def block(batch: PrimExpr, number: PrimExpr) -> Stmt:
            return _QueryBlock(self, shape, batch, number * shape.queries).statements()

        blocks = self._share(machine, builders.round_up_div(self.rows, shape.queries), block)
        if builders.static_int(self.rows) is not None:
            return blocks
        rows = self._share(machine, self.rows, lambda *at: QueryRow(self, machine, *at).statements())
        return tirx.IfThenElse(self.rows < _FEW_QUERIES, rows, blocks)

    def _share(self, machine: CpuModel, count: Extent, compute: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        """Compute so many parts of each index of the batch, shared by threads if there is enough work."""

        def part(place: PrimExpr) -> Stmt:
            size = builders.as_expr(count)
            return compute(tirx.floordiv(place, size), tirx.floormod(place, size))

        def build(threads: bool) -> Stmt:
            loop = builders.loop("place", builders.as_index(self.batch * count), part)
            shared = threads and isinstance(loop, tirx.For)
            return independent_loop(loop, Work.ROW_OPERATIONS.value) if shared else loop

        factors = (self.batch, self.rows, self.keys, self.depth, 2)
        return choose_threads(machine, Work.MATMUL_MULTIPLICATIONS, factors, build)

    def score(
        self, value: PrimExpr, operands: Sequence[PrimExpr | None], row: Index, column: Index
    ) -> PrimExpr:
        """Apply the steps to a product; ``operands`` are the elements of theirs."""
        for step, operand in zip(self.steps, operands, strict=True):
            value = step.apply(value, operand, builders.as_expr(row), builders.as_expr(column))
        return value

    def scale(self) -> PrimExpr:
        """Return a power of two between a half and one part of the keys, over the scale of exponentials."""
        unit = 1 / vector_math.exp_scale(self.dtype)
        keys = builders.static_int(self.keys)
        if keys is not None:
            return tirx.const(unit / (1 << keys.bit_length()), self.dtype)
        form = FLOAT64 if self.dtype == "float64" else FLOAT32
        bits = tirx.reinterpret(form.integer, builders.as_expr(self.keys).astype(self.dtype))
        # Clearing the mantissa leaves the power of two below the number of keys (IEEE 754 keeps the
        # exponent above it): no logarithm, and division by it is exact.
        power = tirx.reinterpret(self.dtype, bits & tirx.const(-(1 << form.mantissa), form.integer))
        return tirx.const(unit / 2, self.dtype) / tirx.max(power, tirx.const(1, self.dtype))

    def without_keys(self) -> PrimExpr:
        """Return 1 if there are no keys, whose sum of exponentials must not be 0, else 0."""
        one, zero = tirx.const(1, self.dtype), tirx.const(0, self.dtype)
        if builders.static_int(self.keys) is not None:
            return zero if self.keys else one
        return tirx.Select(self.keys < 1, one, zero)


class _BlockShape:
    """How many queries and keys a block has, and the tiles of its products."""

    def __init__(self, attention: Attention, machine: CpuModel) -> None:
        self.machine = machine
        self.lanes = machine.lanes(attention.dtype)
        rows = builders.static_int(attention.rows)
        self.vectors = 1 if rows is not None and rows <= self.lanes else _MOST_VECTORS
        self.queries = self.vectors * self.lanes
        self.tile_rows = choose_tile(None, self.queries, self.lanes, machine).rows
        keys = self.tile_rows * _TILES
        static = builders.static_int(attention.keys)
        self.keys = keys if static is None else min(keys, static)

    def tile(self, rows: int) -> Tile:
        """Return a tile of so many rows, and as many columns as a block has queries."""
        starts = tuple(range(0, self.queries, self.lanes))
        return Tile(rows, starts, self.lanes, count_parts(rows, self.vectors, self.machine))

    def tiles(self, count: Extent, compute: Callable[[Tile, Index], Stmt]) -> list[Stmt]:
        """Compute so many rows in tiles: ``compute`` gets a tile and its first row."""
        full_tiles = (
            count // self.tile_rows if isinstance(count, int) else tirx.floordiv(count, self.tile_rows)
        )
        done = full_tiles * self.tile_rows
        tile = self.tile(self.tile_rows)
        statements = []
        if not isinstance(full_tiles, int) or full_tiles:
            statements.append(builders.loop("tile", full_tiles, lambda t: compute(tile, t * self.tile_rows)))
        remaining = count - done
        if not isinstance(remaining, int):
            statements.append(builders.loop("row", remaining, lambda i: compute(self.tile(1), done + i)))
        elif remaining:
            statements.append(compute(self.tile(remaining), done))
        return statements


class _QueryBlock:
    """The statements for one block of queries, those from ``first`` on of an index of the batch."""

    def __init__(self, attention: Attention, shape: _BlockShape, batch: PrimExpr, first: PrimExpr) -> None:
        self.attention, self.shape, self.batch, self.first = attention, shape, batch, first
        lanes, dtype = shape.queries, attention.dtype
        query = attention.query(batch)
        self.query = Matrix(query.buffer, query.index(first, 0), query.row, query.column)
        self.key = attention.key(batch)
        self.value = attention.value(batch)
        self.used = builders.minimum(lanes, attention.rows - first)
        rows = builders.static_int(attention.rows)
        if rows is not None and rows % lanes == 0:
            self.used = lanes

        def array(size: Extent, name: str) -> Buffer:
            size = builders.maximum(size, 1)
            return tirx.decl_buffer((size * lanes,), dtype, name, data_alignment=64)

        self.queries = array(attention.depth, "queries")
        self.scores = array(shape.keys, "scores")
        self.sums = array(attention.width, "sums")
        self.largest, self.total, self.factor = (array(1, name) for name in ("largest", "total", "factor"))
        self.packed = {
            number: array(shape.keys, f"operand{number}")
            for number, step in enumerate(attention.steps)
            if step.operand is not None and step.operand.per_query
        }
        self.scale = tirx.Var("scale", dtype)
        self.skipped = tirx.decl_buffer((builders.maximum(attention.width, 1),), dtype, "skipped")

    def _number(self, value: float) -> PrimExpr:
        return tirx.const(value, self.attention.dtype)

    def statements(self) -> Stmt:
        """Compute the block's rows of the result."""
        attention, shape = self.attention, self.shape
        buffers = [self.queries, self.scores, self.sums, self.largest, self.total, self.factor]
        buffers += self.packed.values()
        keys, size = attention.keys, shape.keys
        end = builders.minimum(keys, self.first + shape.queries) if attention.causal else keys
        statements = [
            *map(tirx.AllocBuffer, buffers),
            tirx.Bind(self.scale, attention.scale()),
            self._pack(self.queries, self.query.transposed(), attention.depth),
            self._fill(self.largest, 1, -math.inf),
            self._fill(self.total, 1, 0),
            self._fill(self.sums, attention.width, 0),
            *self._blocks(end),
        ]
        if attention.causal:
            done = builders.minimum(keys, builders.round_up_div(end, size) * size)
            statements += self._add_skipped(done)
        return builders.sequence([*statements, *self._finish()])

    def _blocks(self, end: Index) -> list[Stmt]:
        """Add the keys up to the end, block by block."""
        attention, keys, size = self.attention, self.attention.keys, self.shape.keys
        needed = builders.round_up_div(builders.as_index(end), size)
        if not isinstance(keys, int):  # all blocks by the same code: the last may have fewer keys

            def block(n: PrimExpr) -> Stmt:
                statements, (count,) = builders.bound(count=builders.minimum(size, keys - n * size))
                return builders.sequence([*statements, self._block(n * size, count)])

            return [builders.loop("keys", needed, block)]
        start = keys // size * size
        full = builders.minimum(keys // size, needed)
        statements = [builders.loop("keys", builders.as_index(full), lambda n: self._block(n * size, size))]
        if keys > start:
            last = self._block(start, keys - start)
            statements.append(
                tirx.IfThenElse(builders.as_expr(end) > start, last, None) if attention.causal else last
            )
        return statements

    def _fill(self, buffer: Buffer, rows: Extent, value: float) -> Stmt:
        lanes = self.shape.lanes
        vector = builders.broadcast(self._number(value), lanes)
        return builders.loop(
            "i", rows * self.shape.vectors, lambda i: builders.store(buffer, i * lanes, lanes, vector)
        )

    def _pack(self, panel: Buffer, right: Matrix, depth: Extent) -> Stmt:
        """Copy a matrix whose columns are the block's queries; those beyond the last are zeros."""
        tile = self.shape.tile(self.shape.tile_rows)
        packing = PanelPacking(panel, 0, tile, depth, right, self.attention.dtype)
        used = builders.static_int(self.used)
        if used is not None:
            return packing.statements() if used == self.shape.queries else packing.pad(builders.as_expr(used))
        return tirx.IfThenElse(self.used == self.shape.queries, packing.statements(), packing.pad(self.used))

    def _block(self, start: Index, count: Extent) -> Stmt:
        """Add a block of keys."""
        statements = [self._pack_operand(number, start, count) for number in self.packed]
        statements += self.shape.tiles(count, lambda tile, top: self._score(tile, start, top))
        statements += [self._exponentials(n * self.shape.lanes, count) for n in range(self.shape.vectors)]
        statements += self.shape.tiles(
            self.attention.width, lambda tile, top: self._add_values(tile, start, count, top)
        )
        return builders.sequence(statements)

    def _score(self, tile: Tile, start: Index, top: Index) -> Stmt:
        """Compute the scores of a tile of keys."""
        dtype, width = self.attention.dtype, self.shape.queries

        def finish(row: PrimExpr, lane: PrimExpr, value: PrimExpr) -> Stmt:
            at = top + row
            operands = [
                self._operand(number, step, start, at, lane)
                for number, step in enumerate(self.attention.steps)
            ]
            score = self.attention.score(value, operands, self.first + lane, start + at)
            return tirx.BufferStore(self.scores, score, [at * width + lane])

        access = TileAccess(
            lambda r, d: self.key.element(d, start + top + r, dtype),
            lambda d, j: builders.load(self.queries, d * width + j, tile.lanes, dtype),
            finish,
        )
        return register_tile(tile, self.attention.depth, dtype, access)

    def _pack_operand(self, number: int, start: Index, count: Extent) -> Stmt:
        operand = self.attention.steps[number].operand
        assert operand is not None
        matrix = operand.matrix(self.batch)
        block = Matrix(matrix.buffer, matrix.index(self.first, start), matrix.column, matrix.row)
        return self._pack(self.packed[number], block, count)

    def _operand(
        self, number: int, step: ScoreStep, start: Index, key: Index, lane: Index
    ) -> PrimExpr | None:
        """Return the element of a step's operand for a key of the block and a query."""
        if step.operand is None:
            return None
        if number in self.packed:
            return tirx.BufferLoad(self.packed[number], [key * self.shape.queries + lane])
        return step.operand.matrix(self.batch).element(0, start + key, self.attention.dtype)

    def _exponentials(self, offset: int, count: Extent) -> Stmt:
        """Turn the scores of a vector of queries into exponentials; find the factor of what was added."""
        lanes, dtype, width = self.shape.lanes, self.attention.dtype, self.shape.queries
        largest, total, base = (
            builders.local_array(lanes, dtype, name, 64) for name in ("maximum", "total_of_block", "base")
        )

        def element(buffer: Buffer, at: Index) -> PrimExpr:
            return tirx.BufferLoad(buffer, [at])

        def load(buffer: Buffer, at: Index) -> PrimExpr:
            return builders.load(buffer, at, lanes, dtype)

        def find_largest(c: PrimExpr) -> Stmt:
            score, most = load(self.scores, c * width + offset), load(largest, 0)
            return builders.store(largest, 0, lanes, larger(most, score))

        def power(c: PrimExpr) -> Stmt:
            at = c * width + offset

            def power_of_lane(lane: PrimExpr) -> Stmt:
                distance = element(self.scores, at + lane) - element(base, lane)
                value = vector_math.scaled_exp(distance) * self.scale
                return tirx.BufferStore(self.scores, value, [at + lane])

            return builders.sequence(
                [
                    builders.vector_loop(lanes, power_of_lane),
                    builders.store(total, 0, lanes, load(total, 0) + load(self.scores, at)),
                ]
            )

        def find_factor(lane: PrimExpr) -> Stmt:
            distance = element(self.largest, lane + offset) - element(base, lane)
            return tirx.BufferStore(self.factor, vector_math.exp(distance), [lane + offset])

        lowest, zero = (builders.broadcast(self._number(value), lanes) for value in (-math.inf, 0.0))
        most = load(largest, 0)
        total_before = load(self.total, offset) * load(self.factor, offset)
        return builders.sequence(
            [
                *map(tirx.AllocBuffer, (largest, total, base)),
                builders.store(largest, 0, lanes, load(self.largest, offset)),
                builders.store(total, 0, lanes, zero),
                builders.loop("key", count, find_largest),
                # A base of -inf would make NaN of scores that are -inf.
                builders.store(base, 0, lanes, tirx.Select(most == lowest, zero, most)),
                builders.loop("key", count, power),
                builders.vector_loop(lanes, find_factor),
                builders.store(self.total, offset, lanes, total_before + load(total, 0)),
                builders.store(self.largest, offset, lanes, most),
            ]
        )

    def _add_values(self, tile: Tile, start: Index, count: Extent, top: Index) -> Stmt:
        """Add the values of the block's keys, for a tile of elements of a value."""
        dtype, width = self.attention.dtype, self.shape.queries

        def finish(row: PrimExpr, lane: PrimExpr, value: PrimExpr) -> Stmt:
            at = (top + row) * width + lane
            before = tirx.BufferLoad(self.sums, [at]) * tirx.BufferLoad(self.factor, [lane])
            return tirx.BufferStore(self.sums, before + value, [at])

        access = TileAccess(
            lambda r, c: self.value.element(start + c, top + r, dtype),
            lambda c, j: builders.load(self.scores, c * width + j, tile.lanes, dtype),
            finish,
        )
        return register_tile(tile, count, dtype, access)

    def _add_skipped(self, done: Index) -> list[Stmt]:
        """Add the values of the keys that were skipped, times 0: NaN where they are not finite."""
        attention = self.attention
        at_zero = [builders.as_expr(0)]
        clear = builders.loop(
            "i", attention.width, lambda j: tirx.BufferStore(self.skipped, self._number(0), [j])
        )
        weight = tirx.BufferLoad(self.factor, at_zero)  # a literal 0 would be the product

        def add(c: PrimExpr) -> Stmt:
            def add_element(j: PrimExpr) -> Stmt:
                value = self.value.element(done + c, j, attention.dtype) * weight
                return tirx.BufferStore(self.skipped, tirx.BufferLoad(self.skipped, [j]) + value, [j])

            return builders.loop("j", attention.width, add_element)

        def spread(j: PrimExpr) -> Stmt:
            lanes, width = self.shape.lanes, self.shape.queries

            def spread_vector(n: PrimExpr) -> Stmt:
                at = j * width + n * lanes
                value = builders.broadcast(tirx.BufferLoad(self.skipped, [j]), lanes)
                total = builders.load(self.sums, at, lanes, attention.dtype) + value
                return builders.store(self.sums, at, lanes, total)

            return builders.loop("n", self.shape.vectors, spread_vector)

        some = builders.sequence(
            [
                tirx.AllocBuffer(self.skipped),
                tirx.BufferStore(self.factor, self._number(0), at_zero),
                clear,
                builders.loop("key", attention.keys - done, add),
                builders.loop("j", attention.width, spread),
            ]
        )
        return [tirx.IfThenElse(builders.as_expr(done) < attention.keys, some, None)]

    def _finish(self) -> list[Stmt]:
        """Divide by the sums of the exponentials, and store the rows of the result."""
        attention, lanes, width = self.attention, self.shape.lanes, self.shape.queries
        dtype = attention.dtype
        one = self._number(1)
        none = attention.without_keys()

        def invert(n: PrimExpr) -> Stmt:
            total = builders.load(self.total, n * lanes, lanes, dtype) + builders.broadcast(none, lanes)
            return builders.store(self.total, n * lanes, lanes, builders.broadcast(one, lanes) / total)

        def divide(j: PrimExpr) -> Stmt:
            def divide_vector(n: PrimExpr) -> Stmt:
                at = j * width + n * lanes
                share = builders.load(self.total, n * lanes, lanes, dtype)
                return builders.store(
                    self.sums, at, lanes, builders.load(self.sums, at, lanes, dtype) * share
                )

            return builders.loop("n", self.shape.vectors, divide_vector)

        return [
            builders.loop("n", self.shape.vectors, invert),
            builders.loop("j", attention.width, divide),
            self._store_rows(),
        ]

    def _store_rows(self) -> Stmt:
        attention, lanes, width = self.attention, self.shape.lanes, self.shape.queries
        offset = (self.batch * attention.rows + self.first) * attention.width
        size = builders.static_int(attention.width)
        if size is not None and size >= lanes:
            starts = tuple(min(start, size - lanes) for start in range(0, size, lanes))
            right = Matrix(self.sums, builders.as_expr(0), 1, width)
            tile = Tile(self.shape.tile_rows, starts, lanes)
            packing = PanelPacking(attention.result, offset, tile, self.used, right, attention.dtype)
            return packing.statements()

        def store_row(r: PrimExpr) -> Stmt:
            def store(j: PrimExpr) -> Stmt:
                value = tirx.BufferLoad(self.sums, [j * width + r])
                return tirx.BufferStore(attention.result, value, [offset + r * attention.width + j])

            return builders.loop("j", attention.width, store)

        return builders.loop("r", self.used, store_row)
