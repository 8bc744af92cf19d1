"""Import operators that take, put, sort and choose elements.

The standard: https://onnx.ai/onnx/operators/onnx__Gather.html
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, count_up, op, ops, with_shape
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import ANY


@operator("Gather")
def _gather(node: OnnxNode) -> Value:
    return shapes.take(node[0], node[1], node.axis(node[0].rank))


@operator("GatherElements")
def _gather_elements(node: OnnxNode) -> Value:
    data, axis = node[0], node.axis(node[0].rank)
    return op("gather", data, _check(node, node[1], data, axis), axis=axis)


def _check(node: OnnxNode, indices: Value, data: Value, axis: int) -> Value:
    """Return indices counted from the front; a call with one that is out of range fails."""
    counted = shapes.from_end(indices, data, axis)
    if indices.known is None and 0 not in indices.shape:
        size = shapes.size_along(data, axis)
        wide = counted.cast("int64")
        in_range = op("logical_and", wide >= 0, wide < size)
        node.block.check(
            op("all", in_range) if in_range.rank else in_range, f"{node.op_type}: an index is out of range"
        )
    elif indices.known is not None and isinstance(data.shape[axis], int) and indices.known.size:
        known, size_ = cast(np.ndarray, counted.known), int(cast(int, data.shape[axis]))
        if not ((known >= 0) & (known < size_)).all():
            raise UnsupportedError(f"an index is out of range for the axis {axis} of {size_} elements")
    return counted


@operator("GatherND")
def _gather_nd(node: OnnxNode) -> Value:
    data, batch = node[0], node.integer("batch_dims")
    indices = _index_tuples(node, data, batch)
    depth = int(cast(int, indices.shape[0]))
    return op("gather_nd", data, indices, batch_dims=batch, index_rank=depth)


def _index_tuples(node: OnnxNode, data: Value, batch: int) -> Value:
    """Return tuples of indices counted from the front, along the first axis.

    A call with one that is out of range fails.
    """
    indices = node[1]
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        raise UnsupportedError("the last size of 'indices' must be known")
    limits = op(
        "concatenate",
        [op("expand_dims", shapes.size_along(data, batch + axis), axis=0) for axis in range(int(depth))],
        axis=0,
    )
    wide = indices.cast("int64")
    counted = (wide < 0).choose(wide + limits, wide)
    if 0 not in indices.shape:
        in_range = op("logical_and", counted >= 0, counted < limits)
        node.block.check(op("all", in_range), f"{node.op_type}: an index is out of range")
    return shapes.transpose(counted, [counted.rank - 1, *range(counted.rank - 1)])


#: Relay's names of what is done with elements that are there.
_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _reduction(node: OnnxNode) -> str:
    name = node.text("reduction", "none")
    if name not in _REDUCTIONS:
        raise UnsupportedError(f"the reduction {name!r} is not known")
    return _REDUCTIONS[name]


@operator("Scatter", "ScatterElements")
def _scatter_elements(node: OnnxNode) -> Value:
    data = node[0]
    axis = node.axis(data.rank)
    if 0 in node[1].shape:
        return data
    indices = _check(node, node[1], data, axis)
    return _on_numbers(
        lambda x, updates: op("scatter_elements", x, indices, updates, axis=axis, reduction=_reduction(node)),
        data,
        node[2],
    )


def _on_numbers(scatter: Callable[[Value, Value], Value], data: Value, updates: Value) -> Value:
    if data.dtype != "bool":
        return scatter(data, updates)
    return scatter(data.cast("int8"), updates.cast("int8")).cast("bool")


@operator("ScatterND")
def _scatter_nd(node: OnnxNode) -> Value:
    data = node[0]
    if 0 in node[1].shape:
        return data
    indices = _index_tuples(node, data, 0)
    return _on_numbers(
        lambda x, updates: op("scatter_nd", x, indices, updates, mode=_reduction(node)), data, node[2]
    )


@operator("TensorScatter")
def _tensor_scatter(node: OnnxNode) -> Value:
    """Write a sequence into a cache, for each row of the batch from an index on."""
    cache, update, starts = node[0], node[1], node.get(2)
    axis = node.axis(cache.rank, -2)
    mode = node.text("mode", "linear")
    if axis == 0 or mode not in ("linear", "circular"):
        raise UnsupportedError(f"axis {axis} with the mode {mode!r} is not supported")
    sizes, lengths = shapes.static_shape(cache), shapes.static_shape(update)
    batch, size, length = sizes[0], sizes[axis], lengths[axis]
    begin = constant(np.zeros(batch), "int64") if starts is None else starts.cast("int64")
    at = op("expand_dims", begin, axis=1) + constant(count_up(length), "int64")
    if mode == "circular":
        at = op("floor_mod", at, at.like(size))
    else:
        node.block.check(
            op("all", op("logical_and", at >= 0, at < size)), "TensorScatter: the update is too long"
        )
    spread = shapes.reshape(at, [batch if n == 0 else length if n == axis else 1 for n in range(cache.rank)])
    return op("scatter_elements", cache, op("broadcast_to", spread, shape=tuple(lengths)), update, axis=axis)


# -- sorting -------------------------------------------------------------------------------------------


@operator("TopK")
def _top_k(node: OnnxNode) -> list[Value]:
    data = node[0]
    axis = node.axis(data.rank, -1)
    declared = node.output_shape()
    count: int | None
    if node.since < 10:
        count = node.integer("k")
    elif node[1].known is not None or declared is not None:
        count = node.static(1, lambda: declared and [declared[axis]])[0]
    else:
        count = None
    options = {
        "axis": axis,
        "ret_type": "both",
        "is_ascend": not node.integer("largest", 1),
        "dtype": "int64",
    }
    if count is None:
        number = shapes.scalar(node[1])
        size = shapes.size_along(data, axis)
        node.block.check(number <= size, "TopK: k is larger than the axis")
        return ops("dyn.topk", data, shapes.unsqueeze(number, [0]), **options)
    size_ = data.shape[axis]
    if isinstance(size_, int) and count > size_:
        raise UnsupportedError(f"k is {count}, and the axis has {size_} elements")
    if count == 0:
        shape = [*data.shape[:axis], 0, *data.shape[axis + 1 :]]
        return [shapes.full(shape, constant(0, dtype), data) for dtype in (data.dtype, "int64")]
    if not isinstance(size_, int):
        node.block.check(
            shapes.size_along(data, axis) >= count, f"TopK: k is {count}, more than the axis has"
        )
    return ops("topk", data, k=count, **options)


@operator("NonZero")
def _non_zero(node: OnnxNode) -> Value:
    data = node[0]
    if not data.rank:
        data = shapes.reshape(data, [1])
        return shapes.slice_axis(_non_zero_rows(data), 0, 0, 0)
    return _non_zero_rows(data)


def _non_zero_rows(data: Value) -> Value:
    places = op("argwhere", op("not_equal", data, data.like(0)) if data.dtype != "bool" else data)
    return op("transpose", places.cast("int64"), axes=(1, 0))


@operator("Compress")
def _compress(node: OnnxNode) -> Value:
    data, condition = node[0], node[1]
    if node.attr("axis") is None:
        data, axis = shapes.reshape(data, [ANY if not shapes.is_static(data.shape) else _count(data)]), 0
    else:
        axis = node.axis(data.rank)
    at = op("squeeze", op("argwhere", condition).cast("int64"), axis=(1,))
    return shapes.take(data, at, axis)


def _count(data: Value) -> int:
    return math.prod(shapes.static_shape(data))


@operator("Unique", note="of axes of known size")
def _unique(node: OnnxNode) -> list[Value | None]:
    """Sort, mark where a new element begins, and count; only the declared length is kept."""
    data, is_sorted = node[0], bool(node.integer("sorted", 1))
    if node.attr("axis") is None:
        return _unique_elements(shapes.reshape(data, [product(data.shape)]), is_sorted=is_sorted)
    axis = node.axis(data.rank)
    moved = shapes.transpose(data, [axis, *(at for at in range(data.rank) if at != axis)])
    sizes = shapes.static_shape(moved)
    rows = shapes.reshape(moved, [sizes[0], math.prod(sizes[1:])])
    length, width = shapes.static_shape(rows)
    if not length:
        raise UnsupportedError("a tensor without elements is not supported")
    # two rows are equal where all columns are; rows are ordered by their first differing column
    lhs, rhs = op("expand_dims", rows, axis=1), op("expand_dims", rows, axis=0)
    equal = op("all", lhs.equal(rhs), axis=2)
    less = _row_less(lhs, rhs, width)
    number = constant(count_up(length), "int64")
    earlier = op("expand_dims", number, axis=0) < op("expand_dims", number, axis=1)
    is_first = op("logical_not", op("any", op("logical_and", equal, earlier), axis=1))
    firsts = op("expand_dims", is_first, axis=0)
    before = op("transpose", less, axes=(1, 0)) if is_sorted else earlier
    # the place of each row's value among the distinct ones
    if is_sorted:
        place = op("sum", op("logical_and", before, firsts).cast("int64"), axis=1)
    else:
        first_of = op("argmax", equal.cast("int32"), axis=1).cast("int64")
        running = op("cumsum", is_first.cast("int64"), axis=0) - 1
        place = op("take", running, first_of, axis=0, mode="clip")
    first_places = op("squeeze", op("argwhere", is_first).cast("int64"), axis=(1,))
    places = op("take", place, first_places, axis=0, mode="clip")
    kept = op("argsort", places, axis=0, dtype="int64")
    first_index = op("take", first_places, kept, axis=0, mode="clip")
    counts = op("sum", equal.cast("int64"), axis=1)
    result = op("take", data, first_index, axis=axis, mode="clip")
    return [result, first_index, place, op("take", counts, first_index, axis=0, mode="clip")]


def runs(ordered: Value) -> tuple[Value, Value, Value]:
    """Return where runs of equal elements or rows begin, the number of each one's run, and their lengths."""
    number = shapes.counting(ordered, 0)
    before = op("take", ordered, (number - 1).maximum(0), axis=0, mode="clip")
    differs = op("not_equal", ordered, before)
    if ordered.rank > 1:
        differs = op("any", differs, axis=tuple(range(1, ordered.rank)))
    begins = op("logical_or", number.equal(0), differs)
    first = op("squeeze", op("argwhere", begins), axis=(1,)).cast("int64")
    run = op("cumsum", begins.cast("int64"), axis=0, dtype="int64") - 1
    lengths = op("scatter_elements", first * 0, run, number * 0 + 1, axis=0, reduction="add")
    return first, run, lengths


def _unique_elements(data: Value, *, is_sorted: bool) -> list[Value | None]:
    """Sort, and number the runs of equal elements; unsorted are those in the order of their first places."""
    places = op("argsort", data, axis=0, dtype="int64")
    first, run, counts = runs(op("take", data, places, axis=0, mode="clip"))
    index = op("take", places, first, axis=0, mode="clip")
    if not is_sorted:
        order = op("argsort", index, axis=0, dtype="int64")
        index, counts = (op("take", item, order, axis=0, mode="clip") for item in (index, counts))
        run = op("take", op("argsort", order, axis=0, dtype="int64"), run, axis=0, mode="clip")
    inverse = op("scatter_elements", places, places, run, axis=0)
    return [op("take", data, index, axis=0, mode="clip"), index, inverse, counts]


def _row_less(lhs: Value, rhs: Value, width: int) -> Value:
    """Return whether a row is less than another, compared column by column."""
    if lhs.dtype == "bool":
        lhs, rhs = lhs.cast("int8"), rhs.cast("int8")
    smaller, same = lhs < rhs, lhs.equal(rhs)
    if width == 1:
        return shapes.squeeze(smaller, [2])
    unequal = op("logical_not", same)
    seen = op("cumsum", unequal.cast("int32"), axis=2)
    decisive = op("logical_and", unequal, seen.equal(1))
    return op("any", op("logical_and", decisive, smaller), axis=2)


@operator("ReverseSequence")
def _reverse_sequence(node: OnnxNode) -> Value:
    return op(
        "reverse_sequence",
        node[0],
        node[1],
        seq_axis=node.integer("time_axis"),
        batch_axis=node.integer("batch_axis", 1),
    )


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _array_feature_extractor(node: OnnxNode) -> Value:
    data = node[0]
    indices = shapes.reshape(node[1], [product(node[1].shape)], node[1])
    result = shapes.take(data, indices, data.rank - 1)
    return shapes.unsqueeze(result, [0]) if data.rank == 1 else result


@operator("NonMaxSuppression")
def _non_max_suppression(node: OnnxNode) -> Value:
    boxes, scores = node[0], node[1]
    if node.integer("center_point_box"):
        middle, extent = shapes.slice_axis(boxes, 2, 0, 2), shapes.slice_axis(boxes, 2, 2, 4) * 0.5
        low, high = middle - extent, middle + extent
    else:
        first, last = shapes.slice_axis(boxes, 2, 0, 2), shapes.slice_axis(boxes, 2, 2, 4)
        low, high = first.minimum(last), first.maximum(last)
    corners = op("concatenate", [low, high], axis=2)
    most = shapes.scalar(node[2]) if node.get(2) is not None else constant(0, "int64")
    overlap = shapes.scalar(node[3]) if node.get(3) is not None else constant(0.0, "float32")
    least = shapes.scalar(node[4]) if node.get(4) is not None else constant(-np.inf, "float32")
    # an overlap of exactly the threshold is allowed: Relay's operator suppresses from the threshold on
    overlap = op("reinterpret", op("reinterpret", overlap, dtype="int32") + 1, dtype="float32")
    found, count = ops(
        "vision.all_class_non_max_suppression", corners, scores, most, overlap, least, output_format="onnx"
    )
    begin, stride = constant([0], "int64"), constant([1], "int64")
    total = shapes.reshape((most <= 0).choose(constant(0, "int64"), count.cast("int64")), [1])
    return with_shape(op("dyn.strided_slice", found.cast("int64"), begin, total, stride), [ANY, 3])
