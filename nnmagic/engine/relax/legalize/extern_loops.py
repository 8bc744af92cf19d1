"""Compute tensors by loops of our own, for elements that are no expression of their index alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.independent_loops import INDEPENDENT
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, Stmt

#: Marks a kernel whose first statement copies its first operand, which the rest of it changes.
COPIES_FIRST = "nnmagic.copies_first"

#: Marks a kernel that copies a result at the end of a program, because other values may be in its memory.
COPIES_RESULT = "nnmagic.copies_result"


def fill_by_loops(
    emit: Callable[..., None], result: tuple[Sequence[Extent], str], *operands: Tensor
) -> Tensor:
    """Return a tensor of a shape and dtype that the loops of ``emit`` fill.

    ``emit`` takes the buffers of the operands and that of the result. TVM's fusion does not follow what such
    loops read, so their kernels must be OPAQUE.
    """

    def loops(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        with IRBuilder() as builder:
            with T.seq_scope():
                emit(*ins, outs[0])
            return builder.get()

    shape, dtype = result
    inputs = [tirx.decl_buffer(operand.shape, operand.dtype, operand.op.name) for operand in operands]
    output = tirx.decl_buffer(shape, dtype, "found")
    return te.extern(
        [shape], list(operands), loops, dtype=dtype, in_buffers=inputs, out_buffers=[output], name="found"
    )


def independent_kernel(
    emit: Callable[..., Stmt],
    results: Sequence[tuple[Sequence[Extent], str]],
    operands: Sequence[Tensor],
    name: str,
) -> Any:
    """Return tensors of shapes and dtypes that loops fill whose marked rounds threads may share; one alone.

    ``emit`` takes the buffers of the operands and those of the results.
    """

    def loops(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return emit(*ins, *outs)

    shapes, dtypes = map(list, zip(*results, strict=True))
    return te.extern(shapes, list(operands), loops, dtype=dtypes, name=name, attrs={KIND: INDEPENDENT})


@contextmanager
def grid(shape: Sequence[Extent]) -> Iterator[list[Index]]:
    """Open loops over all indices of a shape."""
    if not shape:
        yield []
        return
    with T.grid(*shape) as index:  # of one loop it gives the variable itself
        yield [index] if isinstance(index, tirx.Var) else list(index)
