"""Sort unsigned integers digit by digit, the lowest first: in linear time, whatever their order is.

Each pass counts the digits, turns the counts into positions, and moves every element to the next position of
its digit, so that equal digits keep their order. Knuth, The Art of Computer Programming, volume 3, section
5.2.5.

A least-significant-digit radix sort (Knuth, The Art of Computer Programming, volume 3, section 5.2.5, 1998).
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt

#: The bits of a digit: the lines that a pass writes to fit into the first-level cache.
DIGIT_BITS = 9


# In a pass, the total already includes the digit at hand, so that its elements begin at ``total - count``:
# an exclusive prefix sum. Elements are moved in order, so that those of equal digits stay in order, without
# which the passes before would be in vain. A digit that is 0 in all words would leave the order as it is.
def radix_sort(
    arrays: Sequence[Buffer], length: Extent, lowest_bit: int, largest: PrimExpr, side: Buffer
) -> Stmt:
    """Sort the first ``length`` elements of arrays that are twice as long, by the first of these.

    The words of the first array are compared from ``lowest_bit`` on; ``largest`` is the largest of what these
    bits are, unsigned; higher digits are not looked at. The result lies behind ``length * side[0]`` elements.
    """
    words, dtype = arrays[0], builders.dtype_of(arrays[0])
    counts = builders.local_array(1 << DIGIT_BITS, "int64", "counts")
    total = builders.local_array(1, "int64", "total")
    one, kind = as_expr(1), builders.dtype_of(largest)

    def run_pass(number: PrimExpr) -> Stmt:
        shift = (number * DIGIT_BITS + lowest_bit).astype(dtype)
        source, target = side[0] * length, (one - side[0]) * length

        def digit(at: PrimExpr) -> PrimExpr:
            word = tirx.BufferLoad(words, [source + at])
            low = tirx.shift_right(word, shift) & tirx.const((1 << DIGIT_BITS) - 1, dtype)
            return low.astype("int64")

        def count(at: PrimExpr) -> Stmt:
            return tirx.BufferStore(counts, counts[digit(at)] + one, [digit(at)])

        def accumulate(at: PrimExpr) -> Stmt:
            return sequence(
                [
                    tirx.BufferStore(total, total[0] + counts[at], [0]),
                    tirx.BufferStore(counts, total[0] - counts[at], [at]),
                ]
            )

        def move(at: PrimExpr) -> Stmt:
            to = target + counts[digit(at)]
            moves = [tirx.BufferStore(array, tirx.BufferLoad(array, [source + at]), [to]) for array in arrays]
            return sequence([*moves, count(at)])

        body = sequence(
            [
                loop("digit", 1 << DIGIT_BITS, lambda at: tirx.BufferStore(counts, as_expr(0), [at])),
                loop("at", length, count),
                tirx.BufferStore(total, as_expr(0), [0]),
                loop("digit", 1 << DIGIT_BITS, accumulate),
                loop("at", length, move),
                tirx.BufferStore(side, one - side[0], [0]),
            ]
        )
        return tirx.IfThenElse(
            tirx.shift_right(largest, (number * DIGIT_BITS).astype(kind)) > tirx.const(0, kind), body, None
        )

    bits = int(tvm.DataType(dtype).bits) - lowest_bit
    return sequence(
        [
            *map(tirx.AllocBuffer, (counts, total)),
            tirx.BufferStore(side, as_expr(0), [0]),
            loop("digit", -(-bits // DIGIT_BITS), run_pass),
        ]
    )
