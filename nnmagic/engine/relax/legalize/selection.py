"""Select the few lowest words of a sequence in one pass over it.

The lowest words so far are kept in order. Most blocks of a sequence hold none that is lower than the last of
these, which a minimum in vectors tells; the others are looked at word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, loop, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt

#: The most words that are selected: each new one moves the others.
MOST_SELECTED = 10

#: Sequences that are shorter than so many times the words that are selected are sorted.
LEAST_RATIO = 8

_BLOCK = 64


def select_lowest(
    word: Callable[[PrimExpr], Sequence[PrimExpr]], length: Extent, kept: Sequence[Buffer]
) -> list[Stmt]:
    """Return statements that fill arrays with the lowest words of a sequence, in order.

    Equal words keep theirs.

    Args:
        word: returns the parts of the word at a place; the first part is compared.
        length: of the sequence, at least that of the arrays.
        kept: an array for each part.

    """
    count = int(kept[0].ty.shape[0])
    block = builders.local_array(_BLOCK, builders.dtype_of(kept[0]), "block")
    lowest = builders.local_array(1, builders.dtype_of(kept[0]), "lowest")

    def put(at: PrimExpr, source: PrimExpr) -> Stmt:
        stores = [
            tirx.BufferStore(buffer, value, [at]) for buffer, value in zip(kept, word(source), strict=True)
        ]
        return sequence([*stores, _bubble(kept, at)])

    def put_if_lower(value: PrimExpr, source: PrimExpr) -> Stmt:
        return tirx.IfThenElse(value < kept[0][count - 1], put(as_expr(count - 1), source), None)

    def look_at_block(number: PrimExpr) -> Stmt:
        first = number * _BLOCK + count

        def load(at: PrimExpr) -> Stmt:
            return tirx.BufferStore(block, word(first + at)[0], [at])

        def find_lowest(at: PrimExpr) -> Stmt:
            return tirx.BufferStore(lowest, tirx.min(lowest[0], block[at]), [0])

        return sequence(
            [
                loop("at", _BLOCK, load),
                tirx.BufferStore(lowest, block[0], [0]),
                loop("at", _BLOCK, find_lowest),
                tirx.IfThenElse(
                    lowest[0] < kept[0][count - 1],
                    loop("at", _BLOCK, lambda at: put_if_lower(block[at], first + at)),
                    None,
                ),
            ]
        )

    remaining = as_expr(length) - count
    blocks = tirx.floordiv(remaining, _BLOCK)
    return [
        *map(tirx.AllocBuffer, (block, lowest)),
        loop("at", count, lambda at: put(at, at)),
        loop("block", blocks, look_at_block),
        loop(
            "at",
            tirx.floormod(remaining, _BLOCK),
            lambda at: put_if_lower(word(blocks * _BLOCK + count + at)[0], blocks * _BLOCK + count + at),
        ),
    ]


def _bubble(kept: Sequence[Buffer], last: PrimExpr) -> Stmt:
    """Move the last word in front of those that are higher."""

    def exchange(step: PrimExpr) -> Stmt:
        at = last - step
        lower = tirx.Var("lower", "bool")
        stores: list[Stmt] = [tirx.Bind(lower, kept[0][at] < kept[0][at - 1])]
        for buffer in kept:
            lhs, rhs = (tirx.Var(name, builders.dtype_of(buffer)) for name in ("left", "right"))
            stores += [
                tirx.Bind(lhs, buffer[at - 1]),
                tirx.Bind(rhs, buffer[at]),
                tirx.BufferStore(buffer, tirx.Select(lower, rhs, lhs), [at - 1]),
                tirx.BufferStore(buffer, tirx.Select(lower, lhs, rhs), [at]),
            ]
        return sequence(stores)

    return loop("step", last, exchange)
