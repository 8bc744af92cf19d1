"""Sort the columns of a matrix by a network of comparisons, a vector of columns at once.

The rows of the matrix are vectors, one lane for each column. Which rows are compared depends on their number
only, so no input is slower than another. Blocks of rows are sorted in registers by Batcher's odd-even merge
sort; then pairs of sorted runs become one by bitonic merges, whose last steps are done in registers, too.
Knuth, The Art of Computer Programming, volume 3, section 5.2.2, algorithm M, and section 5.3.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm import tirx

from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Stmt

#: How many vectors are sorted in registers.
BLOCK = 16

#: More than the levels of merges that a matrix in memory needs.
_MOST_LEVELS = 40

#: A row of the matrix: a vector of keys, or one of keys and one of indices, which make equal keys differ.
_Row = Sequence[PrimExpr]


@dataclass(frozen=True, slots=True)
class Columns:
    """A matrix that is sorted by columns, row after row in memory, for each part of its elements.

    parts: the keys; or keys and indices. rows: a multiple of ``block``, which is a power of two.
    """

    parts: tuple[Buffer, ...]
    lanes: int
    rows: Index
    block: int

    def load(self, row: Index) -> _Row:
        """Return the row ``row``."""
        lanes = self.lanes
        return [builders.load(part, row * lanes, lanes, builders.dtype_of(part)) for part in self.parts]

    def store(self, row: Index, values: _Row) -> list[Stmt]:
        """Return the statements that replace the row ``row``."""
        pairs = zip(self.parts, values, strict=True)
        return [builders.store(part, row * self.lanes, self.lanes, value) for part, value in pairs]


def sort_columns(columns: Columns) -> Stmt:
    """Sort each column, the smallest element first."""
    rows, block = columns.rows, columns.block
    known = builders.static_int(rows)
    blocks = builders.round_up_div(rows, block)
    statements = [loop("block", blocks, lambda at: _in_registers(columns, at * block, batcher_pairs(block)))]
    levels = _MOST_LEVELS if known is None else max(known // block - 1, 0).bit_length()

    def merge_if_needed(level: PrimExpr) -> Stmt:
        run = tirx.shift_left(as_expr(block), level)
        merge = _merge_runs(columns, level, run)
        return merge if known is not None else tirx.IfThenElse(run < rows, merge, None)

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


def _merge_runs(columns: Columns, level: PrimExpr, run: PrimExpr) -> Stmt:
    """Merge neighbouring sorted runs, each of ``run`` rows, the block times 2 to the level.

    Rows behind the last one count as the highest. They stay there: the upper of two rows gets the higher
    elements.
    """
    rows, block = as_expr(columns.rows), columns.block

    def compare(first: Index, second: Index) -> Stmt:
        return _exchange(columns, first, second)

    def mirror(at: PrimExpr) -> Stmt:
        """Compare the rows of a run with those of the next one, in reverse."""
        end = (at + 1) * (run * 2)
        skipped = tirx.max(end - rows, as_expr(0))
        first = at * (run * 2) + skipped
        count = tirx.max(run - skipped, as_expr(0))
        return loop("row", count, lambda row: compare(first + row, end - 1 - skipped - row))

    def clean(step: PrimExpr) -> Stmt:
        """Compare rows at half the distance as before."""
        stride = tirx.shift_right(run, step + 1)

        def clean_group(at: PrimExpr) -> Stmt:
            first = at * (stride * 2)
            count = tirx.max(tirx.min(stride, rows - first - stride), as_expr(0))
            return loop("row", count, lambda row: compare(first + row, first + stride + row))

        return loop("group", _shifted_up(rows, level - step), clean_group)

    def finish(at: PrimExpr) -> Stmt:
        return _in_registers(columns, at * block, _bitonic_pairs(block))

    def _shifted_up(value: PrimExpr, level: PrimExpr) -> PrimExpr:
        """Return how many groups of the block times 2 to the level cover the value."""
        bits = level + (block.bit_length() - 1)
        return tirx.shift_right(value + tirx.shift_left(as_expr(1), bits) - 1, bits)

    return sequence(
        [
            loop("pair", _shifted_up(rows, level + 1), mirror),
            loop("step", level, clean),
            loop("block", builders.round_up_div(columns.rows, block), finish),
        ]
    )


def _in_registers(columns: Columns, first: Index, pairs: Iterator[tuple[int, int]]) -> Stmt:
    """Load a block of rows, compare these pairs of them, and store them."""
    block, lanes = columns.block, columns.lanes
    arrays = [builders.local_array(block * lanes, builders.dtype_of(part), "rows") for part in columns.parts]
    registers = Columns(tuple(arrays), lanes, block, block)
    moves = [each for row in range(block) for each in registers.store(row, columns.load(first + row))]
    compared = [_exchange(registers, low, high) for low, high in pairs]
    back = [each for row in range(block) for each in columns.store(first + row, registers.load(row))]
    return sequence([*map(tirx.AllocBuffer, arrays), *moves, *compared, *back])


def _exchange(columns: Columns, first: Index, second: Index) -> Stmt:
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
        swap = builders.local_array(lanes, "uint8", "swap")
        statements += [tirx.AllocBuffer(swap), builders.store(swap, 0, lanes, _is_higher(lanes, *rows))]
        is_set = builders.load(swap, 0, lanes, "uint8") > builders.broadcast(tirx.const(0, "uint8"), lanes)
        results = [(tirx.Select(is_set, b, a), tirx.Select(is_set, a, b)) for a, b in rows]
    statements += [
        builders.store(array, 0, lanes, low) for array, (low, _) in zip(arrays, results, strict=True)
    ]
    statements += columns.store(second, [high for _, high in results])
    statements += columns.store(
        first, [builders.load(each, 0, lanes, builders.dtype_of(each)) for each in arrays]
    )
    return sequence(statements)


def _is_higher(lanes: int, keys: tuple[PrimExpr, PrimExpr], indices: tuple[PrimExpr, PrimExpr]) -> PrimExpr:
    """Return 1 where the first pair of a key and an index is higher than the second one.

    TVM simplifies no vectors of truth values, and takes signed integers that a condition compares for
    indices.
    """
    conditions = keys[0] > keys[1], keys[0] == keys[1], indices[0] > indices[1]
    higher, equal, later = (tirx.Cast(builders.vector_type("uint8", lanes), each) for each in conditions)
    return tirx.bitwise_or(higher, tirx.bitwise_and(equal, later))
