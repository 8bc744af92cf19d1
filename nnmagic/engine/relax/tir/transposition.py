"""Exchange the rows and columns of a square of vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from nnmagic.engine.relax.tir.builders import load, local_array, store
from nnmagic.engine.relax.tir.types import PrimExpr, Stmt


def transpose(rows: Sequence[PrimExpr], dtype: str) -> tuple[list[Stmt], list[PrimExpr]]:
    """Return the columns of a square, as vectors, and the statements before; it has a power of two of rows.

    Each step exchanges parts of two rows: first single elements of neighbours, at last halves. The vectors
    are in local arrays, which LLVM keeps in registers: TVM would write the value of a variable again wherever
    it is used, and that of a column has as many shuffles as the square has vectors.
    """
    lanes = len(rows)
    steps = lanes.bit_length() - 1
    squares = [local_array(lanes * lanes, dtype, "square") for _ in range(steps + 1)]
    statements: list[Stmt] = [tirx.AllocBuffer(buffer) for buffer in squares]
    statements += [store(squares[0], number * lanes, lanes, row) for number, row in enumerate(rows)]
    for step in range(steps):
        distance = 1 << step
        lower = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        upper = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        for row in range(lanes):
            if row & distance:
                continue
            pair = [load(squares[step], at * lanes, lanes, dtype) for at in (row, row + distance)]
            for target, selection in ((row, lower), (row + distance, upper)):
                mixed = tirx.Shuffle(pair, [tirx.IntImm("int32", lane) for lane in selection])
                statements.append(store(squares[step + 1], target * lanes, lanes, mixed))
    return statements, [load(squares[steps], lane * lanes, lanes, dtype) for lane in range(lanes)]
