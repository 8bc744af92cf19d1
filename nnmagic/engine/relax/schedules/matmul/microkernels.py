"""Products of matrices as register tiles: the rows and vectors of sums that stay in registers, and packing.

A tile of the result is ``rows`` times some vectors; for each step of the inner dimension the vectors of the
right matrix are read once and each element of the left one is spread over a vector and multiplied with them.
Where a dimension is no multiple of the tile, the last tile begins earlier: it computes some elements again,
which costs less than other code for the rest. Measured on a Zen 5 core with vectors of 64 bytes: 8 rows times
2 vectors reach 95 percent of the peak from 128x128x128 on (NumPy's OpenBLAS: half), so no library is called.
Knows TIR only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import Place


@dataclass(frozen=True, slots=True)
class Tile:
    """How many rows, where in a panel its vectors of ``lanes`` start, and in how many parts a sum is summed
    up: that many sums do not wait for each other.
    """

    rows: int
    starts: tuple[int, ...]
    lanes: int
    parts: int = 1

    @property
    def width(self) -> int:
        """How many columns a panel has."""
        return self.starts[-1] + self.lanes


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in a flat buffer: element (i, j) stands at ``base + i * row + j * column``.

    ``panel``: the columns stand in panels of so many, each with its rows one after the other; ``column`` is
    not used then.
    """

    buffer: Any
    base: Place
    row: Place
    column: Place
    panel: int = 0

    def at(self, i: Place, j: Place) -> Place:
        """The place of an element."""
        return self.base + i * self.row + j * self.column

    def value(self, i: Place, j: Place, dtype: str) -> Any:
        """An element."""
        return builders.load(self.buffer, self.at(i, j), 1, dtype)


#: The elements of the left matrix: (row in the tile, inner index) -> number.
Left = Callable[[int, Any], Any]
#: The vectors of the right matrix: (inner index, start in the panel) -> vector.
Right = Callable[[Any, int], Any]
#: What becomes of a finished sum: (row in the tile, column in the panel, sum) -> statement.
Finish = Callable[[Any, Any, Any], Any]


def register_tile(
    tile: Tile, depth: Place, dtype: str, left: Left, right: Right, finish: Finish, *, unrolled: bool = True
) -> Any:
    """One tile of the result. ``unrolled``: the ends are written out; long ones are a loop over the rows."""
    lanes, count = tile.lanes, len(tile.starts)
    kind = builders.vector_type(dtype, lanes)
    size = count * lanes
    sums = [
        [
            tirx.decl_buffer((size,), dtype, f"sum{r}", scope="local", data_alignment=64)
            for r in range(tile.rows)
        ]
        for _ in range(tile.parts)
    ]
    zero = builders.spread(tirx.const(0, dtype), lanes)
    made = [tirx.AllocBuffer(one) for part in sums for one in part]
    made += [
        builders.store(one, n * lanes, lanes, zero) for part in sums for one in part for n in range(count)
    ]

    def step(k: Any, part: int) -> list[Any]:
        vectors = [tirx.Var(f"right{n}", kind) for n in range(count)]
        done = [tirx.Bind(v, right(k, start)) for v, start in zip(vectors, tile.starts, strict=True)]
        for r in range(tile.rows):
            factor = tirx.Var(f"left{r}", kind)
            done.append(tirx.Bind(factor, builders.spread(left(r, k), lanes)))
            one = sums[part][r]
            for n, vector in enumerate(vectors):
                total = builders.load(one, n * lanes, lanes, dtype) + factor * vector
                done.append(builders.store(one, n * lanes, lanes, total))
        return done

    parts = tile.parts
    if parts == 1:
        made.append(builders.loop("k", depth, lambda k: builders.sequence(step(k, 0))))
    else:
        number = builders.static_int(depth)
        turns = number // parts if number is not None else tirx.floordiv(depth, tirx.const(parts, "int64"))
        made.append(
            builders.loop(
                "k",
                turns,
                lambda k: builders.sequence(
                    [s for part in range(parts) for s in step(k * parts + part, part)]
                ),
            )
        )
        if number is None or number % parts:
            made.append(
                builders.loop(
                    "k", depth - turns * parts, lambda k: builders.sequence(step(turns * parts + k, 0))
                )
            )
        for r in range(tile.rows):
            for n in range(count):
                values = [builders.load(part[r], n * lanes, lanes, dtype) for part in sums]
                made.append(builders.store(sums[0][r], n * lanes, lanes, _added(values)))
    if unrolled:
        for r in range(tile.rows):
            for n, start in enumerate(tile.starts):
                made.append(_ended(finish, r, start, sums[0][r], n * lanes, lanes))
    else:
        kept = tirx.decl_buffer((tile.rows * size,), dtype, "kept", data_alignment=64)
        made.append(tirx.AllocBuffer(kept))
        for r in range(tile.rows):
            made += [
                builders.store(
                    kept, r * size + n * lanes, lanes, builders.load(sums[0][r], n * lanes, lanes, dtype)
                )
                for n in range(count)
            ]
        made.append(
            builders.loop(
                "r",
                tile.rows,
                lambda r: builders.sequence(
                    [
                        _ended(finish, r, start, kept, r * size + n * lanes, lanes)
                        for n, start in enumerate(tile.starts)
                    ]
                ),
            )
        )
    return builders.sequence(made)


def _ended(finish: Finish, r: Any, start: int, sums: Any, place: Any, lanes: int) -> Any:
    return builders.over_lanes(
        lanes, lambda lane: finish(r, lane + start, tirx.BufferLoad(sums, [lane + place]))
    )


def _added(values: Sequence[Any]) -> Any:
    found = list(values)
    while len(found) > 1:
        found = [a + b for a, b in zip(found[::2], found[1::2], strict=False)] + (
            found[-1:] if len(found) % 2 else []
        )
    return found[0]


def dot_tile(
    rows: int, columns: int, depth: Place, lanes: int, dtype: str, left: Matrix, right: Matrix, finish: Finish
) -> Any:
    """Sums along the inner dimension, which is contiguous in both: ``right``'s rows are the result's columns.

    ``left`` and ``right`` are based at the tile's first row and column. For few rows, where exchanging the
    right matrix's rows and columns would cost more than the product.
    """
    kind = builders.vector_type(dtype, lanes)
    sums = [
        [
            tirx.decl_buffer((lanes,), dtype, f"sum{r}_{c}", scope="local", data_alignment=64)
            for c in range(columns)
        ]
        for r in range(rows)
    ]
    rest = tirx.decl_buffer((rows * columns,), dtype, "rest", scope="local", data_alignment=64)
    zero = builders.spread(tirx.const(0, dtype), lanes)
    made = [tirx.AllocBuffer(rest), *(tirx.AllocBuffer(one) for row in sums for one in row)]
    made += [builders.store(one, 0, lanes, zero) for row in sums for one in row]
    number = builders.static_int(depth)
    turns = number // lanes if number is not None else tirx.floordiv(depth, tirx.const(lanes, "int64"))

    def step(k: Any) -> Any:
        factors = [tirx.Var(f"left{r}", kind) for r in range(rows)]
        done = [
            tirx.Bind(one, builders.load(left.buffer, left.at(r, k * lanes), lanes, dtype))
            for r, one in enumerate(factors)
        ]
        for c in range(columns):
            vector = tirx.Var(f"right{c}", kind)
            done.append(tirx.Bind(vector, builders.load(right.buffer, right.at(c, k * lanes), lanes, dtype)))
            for r, factor in enumerate(factors):
                one = sums[r][c]
                done.append(
                    builders.store(one, 0, lanes, builders.load(one, 0, lanes, dtype) + factor * vector)
                )
        return builders.sequence(done)

    made.append(builders.loop("k", turns, step))
    for r in range(rows):
        for c in range(columns):
            made.append(
                tirx.BufferStore(
                    rest,
                    _lanes_added(builders.load(sums[r][c], 0, lanes, dtype), lanes),
                    [builders.expr(r * columns + c)],
                )
            )
    if number is None or number % lanes:

        def single(k: Any) -> Any:
            at = turns * lanes + k
            return builders.sequence(
                [
                    builders.store(
                        rest,
                        r * columns + c,
                        1,
                        builders.load(rest, r * columns + c, 1, dtype)
                        + left.value(r, at, dtype) * right.value(c, at, dtype),
                    )
                    for r in range(rows)
                    for c in range(columns)
                ]
            )

        made.append(builders.loop("k", depth - turns * lanes, single))
    for r in range(rows):
        made.append(_ended(finish, r, 0, rest, r * columns, columns))
    return builders.sequence(made)


def _lanes_added(vector: Any, lanes: int) -> Any:
    dtype = str(vector.ty.dtype)
    while lanes > 1:
        lanes //= 2
        halves = [list(range(lanes)), list(range(lanes, 2 * lanes))]
        var = tirx.Var("part", dtype)
        low, high = (tirx.Shuffle([var], half) for half in halves)
        bound = vector
        vector = tirx.Let(var, bound, low + high)
        dtype = str(vector.ty.dtype)
    return vector


def packed(panel: Any, place: Place, tile: Tile, depth: Place, right: Matrix, dtype: str) -> Any:
    """Fills a panel: for each inner index the columns that a tile needs, contiguous, in the dtype of sums.

    ``right`` is based at the panel's first column. Where its columns are contiguous they are exchanged with
    the rows in blocks of as many as a vector has lanes.
    """
    width, lanes = tile.width, tile.lanes
    if builders.static_int(right.column) == 1 or lanes == 1:
        return builders.loop(
            "k",
            depth,
            lambda k: builders.sequence(
                [
                    builders.store(
                        panel,
                        place + k * width + start,
                        lanes,
                        builders.load(right.buffer, right.at(k, start), lanes, dtype),
                    )
                    for start in tile.starts
                ]
            ),
        )

    def one_by_one(k: Any) -> Any:
        return builders.loop(
            "j",
            width,
            lambda j: builders.store(panel, place + k * width + j, 1, right.value(k, j, dtype)),
        )

    slowly = builders.loop("k", depth, one_by_one)
    if builders.static_int(right.row) != 1 or dtype not in {"float32", "float64"}:
        return slowly

    def block(kb: Any, start: Any) -> Any:
        k0 = (
            kb * lanes
            if (builders.static_int(depth) or 1) % lanes == 0
            else builders.smaller(kb * lanes, depth - lanes)
        )
        made: list[Any] = []
        kind = builders.vector_type(dtype, lanes)

        def named(values: Sequence[Any]) -> list[Any]:
            found = [tirx.Var("row", kind) for _ in values]
            made.extend(tirx.Bind(var, value) for var, value in zip(found, values, strict=True))
            return found

        rows = named(
            [builders.load(right.buffer, right.at(k0, start + c), lanes, dtype) for c in range(lanes)]
        )
        step = 1
        while step < lanes:
            rows = named(exchanged(rows, step, lanes))
            step *= 2
        made += [
            builders.store(panel, place + (k0 + q) * width + start, lanes, row) for q, row in enumerate(rows)
        ]
        return builders.sequence(made)

    quickly = builders.loop(
        "v",
        len(tile.starts),
        lambda v: builders.loop(
            "kb",
            builders.round_up_div(depth, lanes),
            lambda kb: block(kb, builders.smaller(v * lanes, width - lanes)),
        ),
    )
    number = builders.static_int(depth)
    if number is not None:
        return quickly if number >= lanes else slowly
    return tirx.IfThenElse(depth >= lanes, quickly, slowly)


def exchanged(rows: Sequence[Any], step: int, lanes: int) -> list[Any]:
    """One stage of exchanging rows and columns: blocks of ``step`` beside the diagonal change places."""
    found = list(rows)
    low = [i if not i & step else lanes + i - step for i in range(lanes)]
    high = [i + step if not i & step else lanes + i for i in range(lanes)]
    for n in range(lanes):
        if not n & step:
            pair = [rows[n], rows[n | step]]
            found[n], found[n | step] = tirx.Shuffle(pair, low), tirx.Shuffle(pair, high)
    return found


def tile_for(rows: int | None, columns: int | None, lanes: int, machine: CpuModel, width: int = 0) -> Tile:
    """The tile that covers the result with the least work; of unknown sizes, the best for large ones.

    ``width``: what the columns of a tile must divide (a packed matrix has panels), 0 for anything.
    """
    if columns is not None:
        lanes = min(lanes, 1 << (max(1, columns).bit_length() - 1))
    vectors = None if columns is None else -(-columns // lanes)
    best: tuple[float, int, int] | None = None
    for r in range(1, min(rows or 99, 14) + 1):
        for v in range(1, min(vectors or 99, 8) + 1):
            if width and width % (v * lanes):
                continue
            if (r * v + v + 1 > machine.registers) if r > 1 else v > machine.registers // 2:
                continue
            tiles = 1 / r if rows is None else -(-rows // r)
            panels = 1 / v if vectors is None else -(-vectors // v)
            parts = _parts(r, v)
            cycles = max(r * v, r + v, 8 / parts) + 0.01 * abs(r - 8) + 0.02 * abs(v - 2)
            cost = (tiles * panels * cycles, -r, v)
            if best is None or cost < best:
                best = cost
    assert best is not None
    _, minus_rows, v = best
    r = -minus_rows
    if vectors is None or columns is None or vectors > v or width:
        starts = tuple(n * lanes for n in range(v))
    else:
        starts = tuple(min(n * lanes, columns - lanes) for n in range(v))
    return Tile(r, starts, lanes, _parts(r, v))


def _parts(rows: int, vectors: int) -> int:
    """A sum takes 4 cycles, and 2 are begun in each: with fewer than 8 sums the machine would wait."""
    sums = rows * vectors
    return 1 if sums >= 8 else 2 if sums >= 4 else 4
