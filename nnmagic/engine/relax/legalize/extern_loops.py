"""Tensors that loops of our own fill, where an element is not an expression of its place alone. Knows TVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812  # the name that TVM gives it everywhere

from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Extent, PrimExpr


def fill_by_loops(
    function: Callable[..., None], result: tuple[Sequence[PrimExpr], str], *operands: Tensor
) -> Tensor:
    """A tensor of a shape and dtype; ``function`` takes the buffers of the operands and of the result.

    TVM's fusion does not follow what such loops read: their kernels are to be OPAQUE.
    """

    def filled(ins: Sequence[PrimExpr], outs: Sequence[PrimExpr]) -> PrimExpr:
        with IRBuilder() as builder:
            with T.seq_scope():
                function(*ins, outs[0])
            return builder.get()

    shape, dtype = result
    buffers = [tirx.decl_buffer(one.shape, one.dtype, one.op.name) for one in operands]
    found = tirx.decl_buffer(shape, dtype, "found")
    return te.extern(
        [shape], list(operands), filled, dtype=dtype, in_buffers=buffers, out_buffers=[found], name="found"
    )


@contextmanager
def grid(shape: Sequence[Extent]) -> Iterator[list[PrimExpr]]:
    """Loops over all places of a shape."""
    if not shape:
        yield []
        return
    with T.grid(*shape) as places:  # of one loop it gives the variable itself
        yield [places] if isinstance(places, tirx.Var) else list(places)
