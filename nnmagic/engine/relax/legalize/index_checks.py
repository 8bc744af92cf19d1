"""Clamp, wrap and check the indices that tensors hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax, te, tirx

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import OpCall, Rule, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.reshaping import element_count, reshape_to
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.callbacks import INDEX_IN_RANGE
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr


def clamp(index: Index, dim: Extent) -> PrimExpr:
    """Return the nearest index that exists."""
    return tirx.max(tirx.min(index.astype("int64"), dim - 1), tirx.const(0, "int64"))


def clamp_from_end(index: Index, dim: Extent) -> PrimExpr:
    """Count a negative index from the end, then clamp."""
    i = index.astype("int64")
    return clamp(tirx.Select(i < 0, i + dim, i), dim)


def wrap(index: Index, dim: Extent) -> PrimExpr:
    """Return the index modulo the dimension."""
    return tirx.floormod(index.astype("int64"), tirx.max(dim, tirx.const(1, "int64")))


def clip_to_range(value: PrimExpr, low: Extent, high: Extent) -> PrimExpr:
    """Clip a number to a range, its dtype kept; NaN becomes ``low``."""
    least, most = (tirx.convert(bound).astype(scalar_functions.dtype_of(value)) for bound in (low, high))
    return tirx.Select(value > least, tirx.Select(value < most, value, most), least)


def refuse_empty(rule: Rule, axes: Callable[[OpCall, list[Extent]], Sequence[Extent]]) -> Rule:
    """Refuse to index an empty dimension, of those that ``axes`` returns, and apply the rule otherwise."""

    def check_and_apply(call: OpCall) -> Value:
        data, *indices = call.args[0] if len(call.args) == 1 else call.args[:2]
        counts = [element_count(shape_of(tensor)) for tensor in indices]
        if 0 not in counts:
            no_indices = [count == 0 for count in counts if not isinstance(count, int)]
            for dim in axes(call, shape_of(data)):
                if not isinstance(dim, int) or dim == 0:
                    present = as_expr(dim) > 0
                    call.require(tirx.any(present, *no_indices), "there is no element to take")
        return rule(call)

    return check_and_apply


def require_indices_in_range(call: OpCall, indices: Value, dim: Extent, *, from_end: bool = False) -> None:
    """Have the program raise IndexError for the first index that is not in ``range(dim)``.

    from_end: negative ones count from the end.
    """

    def place(index: Index, size: Extent) -> PrimExpr:
        place = index.astype("int64")
        return tirx.Select(place < 0, place + size, place) if from_end else place

    def find_bad_index(x: Tensor, shape: Sequence[Extent]) -> Tensor:
        (size,), (count,) = shape, x.shape
        k = te.reduce_axis((0, count), "k")
        index = place(x(k), size)
        bad = tirx.any(index < 0, index >= size)
        far = tirx.const(2**62, "int64")
        position = te.compute((), lambda: te.min(tirx.Select(bad, k.var.astype("int64"), far), axis=k))
        last = tirx.max(count - 1, 0)

        def element(i: Index) -> PrimExpr:
            bad_index = place(x(tirx.min(position(), last)), size)
            # Two numbers go to the check: whether there is a bad index, and the first of them.
            report = tirx.Select(i == 0, tirx.const(1, "int64"), bad_index)
            return tirx.if_then_else(position() < far, report, tirx.const(0, "int64"))

        return te.compute((2,), element)

    size = relax.ShapeExpr([dim])
    if not shape_of(indices) and tensor_dtype(indices) == "int64":
        report = indices
    elif not shape_of(indices):
        report = call.emit(relax.op.astype(indices, "int64"))
    else:
        own = shape_of(indices)
        flat = indices if len(own) == 1 else call.emit(reshape_to(indices, [element_count(own)]))
        report = call.emit(call.te(find_bad_index, flat, size))
    call.emit(relax.Call(relax.ExternFunc(INDEX_IN_RANGE), [report, size], ty_args=[relax.TupleType([])]))
