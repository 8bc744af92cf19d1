"""Sort the columns of a matrix by a network of comparisons, a vector of columns at once.

The rows of the matrix are vectors, one lane for each column. Which rows are compared depends on their number
only, so no input is slower than another. Blocks of rows are sorted in registers by Batcher's odd-even merge
sort; then pairs of sorted runs become one by bitonic merges, whose last steps are done in registers, too.
Knuth, The Art of Computer Programming, volume 3, section 5.2.2, algorithm M, and section 5.3.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence, shared
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Stmt

#: How many vectors are sorted in registers.
BLOCK = 16

#: More than the levels of merges that a matrix in memory needs.
_MOST_LEVELS = 40

#: A row of the matrix: a vector of keys, or one of keys and one of indices, which make equal keys differ.
_Row = Sequence[PrimExpr]


@dataclass(frozen=True, slots=True)
class SortedColumns:
    """A matrix that is sorted by columns, row after row in memory, for each part of its elements.

    parts: the keys; or keys and indices. rows: a multiple of ``block``, which is a power of two. calls:
    whether blocks are sorted by a function, which all kernels share; calls of it pay for many rows.
    """

    parts: tuple[Buffer, ...]
    lanes: int
    rows: Index
    block: int
    calls: bool = False

    def load(self, row: Index) -> _Row:
        """Return the row ``row``."""
        lanes = self.lanes
        return [builders.load(part, row * lanes, lanes, builders.dtype_of(part)) for part in self.parts]

    def store(self, row: Index, values: _Row) -> list[Stmt]:
        """Return the statements that replace the row ``row``."""
        pairs = zip(self.parts, values, strict=True)
        return [builders.store(part, row * self.lanes, self.lanes, value) for part, value in pairs]


def sort_columns(columns: SortedColumns) -> Stmt:
    """Sort each column, the smallest element first."""
    rows, block = columns.rows, columns.block
    static_rows = builders.static_int(rows)
    blocks = builders.round_up_div(rows, block)
    statements = [loop("block", blocks, lambda at: _in_registers(columns, at * block, batcher_pairs(block)))]
    # Each level of merges doubles the runs.
    levels = _MOST_LEVELS if static_rows is None else max(static_rows // block - 1, 0).bit_length()

    def merge_if_needed(level: PrimExpr) -> Stmt:
        run = tirx.shift_left(as_expr(block), level)
        merge = _merge_runs(columns, level, run)
        return merge if static_rows is not None else tirx.IfThenElse(run < rows, merge, None)

    if levels:
        statements.append(loop("level", levels, merge_if_needed))
    return sequence(statements)


def batcher_pairs(count: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs that odd-even merge sort compares to sort ``count`` elements, a power of two."""
    p = count // 2
    while p:
        q, r, d = count // 2, 0, p
        while True:
            yield from ((i, i + d) for i in range(count - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


def _bitonic_pairs(count: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs whose comparison sorts a bitonic sequence of ``count`` elements."""
    stride = count // 2
    while stride:
        yield from ((i, i + stride) for i in range(count) if not i & stride)
        stride //= 2


def _merge_runs(columns: SortedColumns, level: PrimExpr, run: PrimExpr) -> Stmt:
    """Merge neighbouring sorted runs, each of ``run`` rows, the block times 2 to the level.

    Rows behind the last one count as the highest. They stay there: the upper of two rows gets the higher
    elements.
    """
    rows = as_expr(columns.rows)

    def compare(first: Index, second: Index) -> Stmt:
        return _exchange(columns, first, second)

    def mirror(at: PrimExpr) -> Stmt:
        """Compare the rows of a run with those of the next one, in reverse."""
        # Comparing row k with the k-th from the end of the pair makes both halves bitonic, with
        # every element of the lower half below those of the upper (Batcher, Sorting networks and
        # their applications, 1968).
        end = (at + 1) * (run * 2)
        skipped = tirx.max(end - rows, as_expr(0))
        # Rows beyond the end count as the highest: a comparison with one of them changes nothing,
        # so it is skipped.
        first = at * (run * 2) + skipped
        count = tirx.max(run - skipped, as_expr(0))
        return loop("row", count, lambda row: compare(first + row, end - 1 - skipped - row))

    pairs = _groups(columns, rows, level + 1)
    return sequence([loop("pair", pairs, mirror), _clean_runs(columns, level, run)])


def _clean_runs(columns: SortedColumns, level: Index, run: PrimExpr) -> Stmt:
    """Sort runs that are bitonic: compare rows at half the length of a run, at a fourth, and so on."""
    rows, block = as_expr(columns.rows), columns.block

    def clean(step: PrimExpr) -> Stmt:
        stride = tirx.shift_right(run, step + 1)

        def clean_group(at: PrimExpr) -> Stmt:
            first = at * (stride * 2)
            count = tirx.max(tirx.min(stride, rows - first - stride), as_expr(0))
            return loop("row", count, lambda row: _exchange(columns, first + row, first + stride + row))

        return loop("group", _groups(columns, rows, level - step), clean_group)

    def finish(at: PrimExpr) -> Stmt:
        return _in_registers(columns, at * block, _bitonic_pairs(block))

    blocks = loop("block", builders.round_up_div(columns.rows, block), finish)
    return sequence([loop("step", level, clean), blocks])


def _groups(columns: SortedColumns, rows: PrimExpr, level: PrimExpr) -> PrimExpr:
    """Return how many groups of the block times 2 to the level cover the rows."""
    bits = as_expr(level) + (columns.block.bit_length() - 1)
    return tirx.shift_right(rows + tirx.shift_left(as_expr(1), bits) - 1, bits)


def merge_columns(columns: SortedColumns, level: Index) -> Stmt:
    """Merge sorted columns to one sequence, column after column.

    The number of rows is the block times 2 to the level. Neighbours are merged, then pairs of these, and
    so on.
    """
    rows = as_expr(columns.rows)
    half = tirx.shift_right(rows, as_expr(1))

    def mirror(width: int, stage: PrimExpr) -> Stmt:
        rounds = loop("row", half, partial(_mirror_lanes, columns, width))
        return tirx.IfThenElse(stage == width.bit_length() - 1, rounds, None)

    def merge(stage: PrimExpr) -> Stmt:
        widths = [1 << bit for bit in range(columns.lanes.bit_length() - 1)]
        mirrors = [mirror(width, stage) for width in widths]
        return sequence([*mirrors, _clean_runs(columns, level, rows)])

    return loop("stage", columns.lanes.bit_length() - 1, merge)


def _mirror_lanes(columns: SortedColumns, width: int, row: PrimExpr) -> Stmt:
    """Compare a row with the one as far from the end, the lanes of groups of ``2 * width`` in reverse.

    The lower elements go to the first half of each group. Then compare lanes at half the distance, and so on.
    """
    lanes, last = columns.lanes, as_expr(columns.rows) - 1
    arrays = [builders.local_array(4 * lanes, builders.dtype_of(part), "rows") for part in columns.parts]
    registers = SortedColumns(tuple(arrays), lanes, 4, 4)

    def shuffle(target: int, source: int, distance: int) -> list[Stmt]:
        # XOR of the lane's number is the permutation of a butterfly: distance 2 * width - 1
        # reverses a group, a power of two exchanges halves.
        order = [lane ^ distance for lane in range(lanes)]
        return registers.store(target, [tirx.Shuffle([each], order) for each in registers.load(source)])

    def choose(low: int, high: int, bit: int) -> list[Stmt]:
        order = [lanes + lane if lane & bit else lane for lane in range(lanes)]
        pairs = zip(registers.load(low), registers.load(high), strict=True)
        return registers.store(low, [tirx.Shuffle(list(pair), order) for pair in pairs])

    statements: list[Stmt] = [tirx.AllocBuffer(array) for array in arrays]
    statements += [*registers.store(0, columns.load(row)), *registers.store(1, columns.load(last - row))]
    statements += [*shuffle(2, 1, 2 * width - 1), *shuffle(3, 0, 2 * width - 1)]
    for at in (0, 1):
        statements += [_exchange(registers, at, at + 2), *choose(at, at + 2, width)]
    distance = width // 2
    while distance:
        for at in (0, 1):
            statements += shuffle(at + 2, at, distance)
            statements += [_exchange(registers, at, at + 2), *choose(at, at + 2, distance)]
        distance //= 2
    statements += [*columns.store(row, registers.load(0)), *columns.store(last - row, registers.load(1))]
    return sequence(statements)


def _in_registers(columns: SortedColumns, first: Index, pairs: Iterator[tuple[int, int]]) -> Stmt:
    """Load a block of rows, compare these pairs of them, and store them."""
    block, lanes = columns.block, columns.lanes
    arrays = [builders.local_array(block * lanes, builders.dtype_of(part), "rows") for part in columns.parts]
    registers = SortedColumns(tuple(arrays), lanes, block, block)
    moves = [register for row in range(block) for register in registers.store(row, columns.load(first + row))]
    compared = [_exchange(registers, low, high) for low, high in pairs]
    back = [register for row in range(block) for register in columns.store(first + row, registers.load(row))]
    steps = sequence([*map(tirx.AllocBuffer, arrays), *moves, *compared, *back])
    return shared(steps, columns.parts[0]) if columns.calls else steps


def _exchange(columns: SortedColumns, first: Index, second: Index) -> Stmt:
    """Give the lower elements of two rows to the first one, and the higher elements to the second.

    What is computed lies in small arrays, since TVM's simplifier substitutes variables.
    """
    lanes = columns.lanes
    rows = list(zip(columns.load(first), columns.load(second), strict=True))
    arrays = [builders.local_array(lanes, builders.dtype_of(part), "low") for part in columns.parts]
    statements: list[Stmt] = [tirx.AllocBuffer(array) for array in arrays]
    if len(rows) == 1:
        results = [(tirx.min(a, b), tirx.max(a, b)) for a, b in rows]
    else:
        swap = builders.local_array(lanes, "int64", "swap")
        statements += [tirx.AllocBuffer(swap), builders.store(swap, 0, lanes, _swap_mask(lanes, *rows))]
        mask = builders.load(swap, 0, lanes, "int64")
        # A swap without a branch: XOR with the difference exchanges both parts where the mask is
        # set.
        differences = [tirx.bitwise_and(a ^ b, mask) for a, b in rows]
        results = [(a ^ change, b ^ change) for (a, b), change in zip(rows, differences, strict=True)]
    statements += [
        builders.store(array, 0, lanes, low) for array, (low, _) in zip(arrays, results, strict=True)
    ]
    statements += columns.store(second, [high for _, high in results])
    statements += columns.store(
        first, [builders.load(each, 0, lanes, builders.dtype_of(each)) for each in arrays]
    )
    return sequence(statements)


def _swap_mask(lanes: int, keys: tuple[PrimExpr, PrimExpr], indices: tuple[PrimExpr, PrimExpr]) -> PrimExpr:
    """Return -1 where the first pair of a key and an index is higher than the second one, else 0.

    A mask, because TVM cannot analyse vectors of truth values.
    """
    conditions = keys[0] > keys[1], keys[0] == keys[1], indices[0] > indices[1]
    higher, equal, later = (
        tirx.Cast(builders.vector_type("uint8", lanes), condition) for condition in conditions
    )
    swap = tirx.bitwise_or(higher, tirx.bitwise_and(equal, later))
    zero = builders.broadcast(tirx.const(0, "int64"), lanes)
    return zero - tirx.Cast(builders.vector_type("int64", lanes), swap)
