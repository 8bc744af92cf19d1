"""Clamp, wrap and check the indices that tensors hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm_ffi
from tvm import relax, te, tirx

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import REDUCES, OpCall, Rule, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.reshaping import element_count
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


#: Marks a kernel that looks for an index out of range.
CHECKS_INDICES = "nnmagic.checks_indices"


def require_indices_in_range(call: OpCall, indices: Value, dim: Extent, *, from_end: bool = False) -> None:
    """Have the program raise IndexError for an index that is not in ``range(dim)``, of several the largest.

    from_end: negative ones count from the end.
    """
    key = (CHECKS_INDICES, indices, tvm_ffi.StructuralKey(as_expr(dim)), from_end)
    if call.size_names.find(key):
        call.effects.append("checked")
        return
    call.size_names.define(key, value=True)

    def find_bad_index(x: Tensor, shape: Sequence[Extent]) -> Tensor:
        (size,) = shape
        axes = [te.reduce_axis((0, length)) for length in x.shape]
        index = x(*axes).astype("int64")
        place = tirx.Select(index < 0, index + size, index) if from_end else index
        # As numbers without a sign, negative ones are larger than any size.
        largest = te.compute((), lambda: te.max(place.astype("uint64"), axis=axes))
        is_bad = tirx.all(largest() >= size.astype("uint64"), element_count(x.shape) > 0)

        def element(i: Index) -> PrimExpr:
            # Two numbers go to the check: whether there is a bad index, and one of them.
            return tirx.Select(i == 0, is_bad.astype("int64"), largest().astype("int64"))

        return te.compute((2,), element)

    size = relax.ShapeExpr([dim])
    if not shape_of(indices):
        report = indices if tensor_dtype(indices) == "int64" else call.emit(relax.op.astype(indices, "int64"))
    else:
        marks = {CHECKS_INDICES: True, REDUCES: True}
        report = call.emit(call.te(find_bad_index, indices, size, primfunc_attrs=marks))
    call.emit(relax.Call(relax.ExternFunc(INDEX_IN_RANGE), [report, size], ty_args=[relax.TupleType([])]))
