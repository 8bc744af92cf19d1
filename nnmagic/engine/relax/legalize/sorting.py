"""Legalize sorting, the largest elements, searching."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.binary_search import find_places
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, te_of, tensor_dtype
from nnmagic.engine.relax.legalize.sort_loops import sort_along
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.tir.types import Extent
from nnmagic.relay.expr import Attrs


def sort_order(data: Tensor, axis: int, *, ascending: bool, dtype: str = "int32") -> Tensor:
    """Return the indices that sort the data along an axis; equal elements keep their order."""
    return sort_along(data, axis, [("indices", dtype)], ascending=ascending)


def _sort(attrs: Attrs, data: Tensor) -> Tensor:
    outputs = [("values", scalar_functions.dtype_of(data))]
    return sort_along(data, integer(attrs["axis"]), outputs, ascending=bool(attrs["is_ascend"]))


def _argsort(attrs: Attrs, data: Tensor) -> Tensor:
    return sort_order(
        data, integer(attrs["axis"]), ascending=bool(attrs["is_ascend"]), dtype=str(attrs["dtype"]) or "int32"
    )


def _topk(call: OpCall) -> Value:
    """Lower to the first k of the sorted elements; for k < 1 to all."""
    shape, k = shape_of(call.args[0]), integer(call.attrs["k"])
    axis = integer(call.attrs["axis"]) % len(shape)
    call.require(k <= shape[axis], f"k is {k}, more elements than axis {axis} has")
    return topk_of_count(call, k if k > 0 else shape[axis])


def topk_of_count(call: OpCall, count: Extent) -> Value:
    """Lower to so many of the sorted elements, their indices, or both."""
    attrs = call.attrs
    kind, dtype = str(attrs["ret_type"]), str(attrs["dtype"])
    if kind != "values" and not dtype:
        call.refuse("the indices need a dtype")
    axis = integer(attrs["axis"])
    outputs = [("values", tensor_dtype(call.args[0]))] if kind != "indices" else []
    if kind != "values":
        outputs.append(("indices", dtype))
    sizes = [] if isinstance(count, int) else [relax.ShapeExpr([count])]

    def compute(data: Tensor, *counts: Sequence[Extent]) -> Tensors:
        size = counts[0][0] if counts else count
        return sort_along(data, axis, outputs, ascending=bool(attrs["is_ascend"]), count=size)

    return call.te(compute, call.args[0], *sizes)


def _searchsorted(attrs: Attrs, ordered: Tensor, values: Tensor) -> Tensor:
    return find_places(ordered, values, right=bool(attrs["right"]), dtype=str(attrs["dtype"]))


RULES.update(
    {"sort": te_of(_sort), "argsort": te_of(_argsort), "topk": _topk, "searchsorted": te_of(_searchsorted)}
)
