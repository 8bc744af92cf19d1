"""Import counts of elements: in bins, of each integer, of distinct ones.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.unique.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
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


@operator("_unique2", "unique_consecutive", note="of all elements")
def _unique(call: AtenCall) -> list[Value]:
    """Return the distinct elements, in order or as they follow each other, which one each is, and counts."""
    data = call["self"]
    if call.argument("dim") is not None:
        raise UnsupportedError("rows along an axis are not supported", "leave `dim` out")
    flat = call.reshape(data, [product(data.shape)])
    if 0 in flat.shape:
        none = constant(np.zeros(0, "int64"))
        return [flat, call.reshape(none, data.shape), none]
    ordered, places = flat, None
    if call.own_name == "_unique2":
        ordered, places = sorted_along(call, flat, 0, descending=False)
    first, number, counts = runs(ordered)
    if places is not None:
        number = op("scatter_elements", number * 0, places, number, axis=0)
    none = constant(np.zeros(0, "int64"))
    inverse = call.reshape(number, data.shape) if call.flag("return_inverse") else none
    counts = counts if call.flag("return_counts") else none
    return [op("take", ordered, first, axis=0), inverse, counts]
