"""Import counts of elements: in bins, of each integer, of distinct ones.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.unique.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.loops import emit_loop
from nnmagic.importers.onnx.operators.indexing import runs
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.operators.reductions import sorted_along
from nnmagic.importers.torch.registry import operator
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import ANY


@operator("histc")
def _histc(call: AtenCall) -> Value:
    """Count the elements in bins of one width; the last one has its end, too."""
    bins = call.integer("bins", 100)
    data = convert(call["self"], call.dtype)
    data = call.reshape(data, [product(data.shape)])
    low, high = (scalar_constant(call.number(name), call.dtype) for name in ("min", "max"))
    counts = call.full([bins], scalar_constant(0, call.dtype))
    if data.shape == (0,):
        return counts
    if call.number("min") == call.number("max"):
        low, high = (op(name, data) for name in ("min", "max"))
        same = low.equal(high)
        low, high = same.choose(low - 1, low), same.choose(high + 1, high)
    inside = op("logical_and", data >= low, data <= high)
    place = op("floor", (inside.choose(data, low) - low) * bins / (high - low)).cast("int64")
    place = place.minimum(bins - 1)
    return op("scatter_elements", counts, place, inside.cast(call.dtype), axis=0, reduction="add")


@operator("bincount")
def _bincount(call: AtenCall) -> Value:
    """Count each integer, or add up the weights of its places."""
    data = call["self"].cast("int64")
    least = constant(np.array([call.integer("minlength", 0) - 1]))
    known = op("concatenate", [data, least], axis=0)
    none = constant(np.array([0]))  # of no numbers, none is negative
    smallest = op("min", op("concatenate", [data, none], axis=0))
    call.block.check(smallest >= 0, "bincount takes no negative numbers")
    length = op("max", known, axis=(0,), keepdims=True) + 1
    weights = call.get("weights")
    added = data * 0 + 1 if weights is None else convert(weights, call.dtype)
    counts = shapes.full([ANY], scalar_constant(0, call.dtype), vector=length)
    return op("scatter_elements", counts, data, added, axis=0, reduction="add")


@operator("_unique2", "unique_consecutive", "unique_dim")
def _unique(call: AtenCall) -> list[Value]:
    """Return the distinct elements, in order or as they follow each other, which one each is, and counts.

    With ``dim`` they are the slices along an axis, and all three are results.
    """
    data, of_slices = call["self"], call.argument("dim") is not None
    axis = call.axis("dim", data.rank) if of_slices else 0
    order = [axis, *(at for at in range(data.rank) if at != axis)]
    items = shapes.transpose(data, order) if of_slices else call.reshape(data, [product(data.shape)])
    none = constant(np.zeros(0, "int64"))
    if 0 in items.shape[1:]:
        raise UnsupportedError("slices without elements are not supported")
    if 0 in items.shape:
        return [data if of_slices else items, none if of_slices else call.reshape(none, data.shape), none]
    places = None
    if call.own_name == "_unique2":
        places = sorted_along(call, items, 0, descending=False)[1]
    elif call.own_name == "unique_dim":
        places = _order_of_rows(call, items)
    first, number, counts = runs(items if places is None else op("take", items, places, axis=0))
    if places is not None:
        first = op("take", places, first, axis=0)
        number = op("scatter_elements", number * 0, places, number, axis=0)
    found = op("take", items, first, axis=0)
    if of_slices:
        return [shapes.transpose(found, np.argsort(order).tolist()), number, counts]
    inverse = call.reshape(number, data.shape) if call.flag("return_inverse") else none
    return [found, inverse, counts if call.flag("return_counts") else none]


def _order_of_rows(call: AtenCall, items: Value) -> Value:
    """Return where slices along the first axis stand in order: that of the first element that differs."""
    table = call.reshape(items, [items.shape[0], product(items.shape[1:])])
    columns = call.block.bind(shapes.transpose(table, [1, 0]))
    count = call.block.bind(shapes.size_along(columns, 0))

    def sort_by_column(_block: OnnxBlock, step: Value, carried: Sequence[Value]) -> tuple[None, list[Value]]:
        column = op("take", columns, count - 1 - step, axis=0, mode="clip")
        keys = op("take", column, carried[0], axis=0, mode="clip")
        return None, [op("take", carried[0], sorted_along(call, keys, 0, descending=False)[1], axis=0)]

    start = [shapes.counting(items, 0)]
    return emit_loop(call.block, start, count, None, sort_by_column).carried[0]
