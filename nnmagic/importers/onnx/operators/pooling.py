"""Import pooling: the largest element, mean or norm of each window.

The standard: https://onnx.ai/onnx/operators/onnx__MaxPool.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.convolutions import SPATIAL, padded_open, window
from nnmagic.importers.onnx.operators.padding import pad
from nnmagic.importers.onnx.operators.slicing import positions
from nnmagic.importers.onnx.registry import operator, operators
from nnmagic.importers.onnx.values import Value, check_new_array, constant, op, with_shape
from nnmagic.relay.functions.pooling import Placing, count_elements, pool, window_maxima, window_sums
from nnmagic.relay.types import ANY, Dim, neutral


def _counts(placing: Placing, sizes: Sequence[int]) -> list[int]:
    """Return the number of windows of each axis. Raises UnsupportedError where none fits."""
    counts = placing.count(sizes)
    for count, width, size in zip(counts, placing.kernel, sizes, strict=True):
        if count < 1:
            raise UnsupportedError(f"a window of {width} does not fit {size} elements")
    return counts


def _windows(placing: Placing, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the windows of images. Raises UnsupportedError where none fits, and for too many."""
    counts = _counts(placing, sizes)
    for count, width in zip(counts, placing.kernel, strict=True):
        check_new_array(count, width)
    return placing.windows(counts)


def _placing(node: OnnxNode) -> Placing:
    kernel = node.ints("kernel_shape") or []
    if node[0].rank != len(kernel) + 2:
        raise UnsupportedError(f"kernel_shape {kernel} does not fit a tensor of rank {node[0].rank}")
    if node.text("auto_pad", "NOTSET").startswith("SAME") and node.integer("ceil_mode"):
        raise UnsupportedError("auto_pad with ceil_mode is not supported")
    return Placing(kernel, *window(node, node[0], kernel), bool(node.integer("ceil_mode")))


def _padded_open(node: OnnxNode, fill: float) -> tuple[OnnxNode, Value, list[Dim]] | None:
    """Pad images as ``padded_open`` does; None where that is not needed, or does not help."""
    kernel, data = node.ints("kernel_shape") or [], node[0]
    if data.rank != len(kernel) + 2 or node.integer("ceil_mode") or node.output_count > 1:
        return None
    return padded_open(node, data, kernel, data.like(fill))


def _covering(data: Value, placing: Placing) -> list[int] | None:
    """Return the padding behind the data with which rounding down gives the windows of rounding up.

    None if there is none. What is padded must not count. Of data of open size ``_without_empty`` takes out
    windows that begin behind it.
    """
    if min(placing.after, default=0) < 0:
        return None
    if not shapes.is_static(data.shape[2:]):
        return [after + stride - 1 for after, stride in zip(placing.after, placing.strides, strict=True)]
    sizes = shapes.image_sizes(data)
    _counts(placing, sizes)
    return placing.padding_behind(sizes)


def _without_empty(result: Value, data: Value, placing: Placing) -> Value:
    """Leave out the last window of an axis of open size where it begins behind the data."""
    if not placing.ceil or shapes.is_static(data.shape[2:]) or placing.padding_of_any_size():
        return result
    for axis, (stride, before) in enumerate(zip(placing.strides, placing.before, strict=True), 2):
        most = shapes.size_along(data, axis) + (before + stride - 1)  # of windows that begin at strides
        count = op("floor_divide", most, most.like(stride)).minimum(shapes.size_along(result, axis))
        result = op("take", result, positions(count, ANY), axis=axis, mode="clip")
    return result


def _maxima(node: OnnxNode) -> list[Value]:
    data = node[0]
    if (opened := _padded_open(node, neutral("max", data.dtype))) is not None:
        bare, padded, sizes_ = opened
        (result,) = _maxima(replace(bare, inputs=[padded]))
        return [with_shape(result, [*result.shape[:2], *sizes_])]
    placing = _placing(node)
    rank = len(placing.kernel)
    after = _covering(data, placing) if placing.ceil else placing.after
    if node.output_count == 1 and rank in SPATIAL and after is not None and min(*placing.before, *after) >= 0:
        return [_without_empty(pool("max", data, placing, after), data, placing)]
    sizes = shapes.image_sizes(data)
    check_new_array(*sizes)
    order: Literal["C", "F"] = "F" if node.integer("storage_order") else "C"
    values, index = window_maxima(data, _windows(placing, sizes), order)
    rows = shapes.unsqueeze(shapes.counting(data, 0) * shapes.size_along(data, 1), [1])
    planes = shapes.unsqueeze(rows + shapes.counting(data, 1), range(2, rank + 2))
    return [values, planes * math.prod(sizes) + index][: node.output_count]


def _means(node: OnnxNode) -> Value:
    data = node[0]
    if (opened := _padded_open(node, 0)) is not None:
        bare, zeros, sizes_ = opened
        result = _means(replace(bare, inputs=[zeros]))
        if not node.integer("count_include_pad"):
            ones = _padded_open(replace(node, inputs=[op("ones_like", data)]), 0)
            assert ones is not None
            result = result / _means(replace(bare, inputs=[ones[1]]))
        return with_shape(result, [*result.shape[:2], *sizes_])
    placing, padded = _placing(node), bool(node.integer("count_include_pad"))
    after = _covering(data, placing) if placing.ceil else placing.after
    simple = len(placing.kernel) in SPATIAL and set(placing.dilations) == {1}
    if simple and after is not None and min(*placing.before, *after) >= 0:
        result = pool("avg", data, placing, after, count_include_pad=padded)
        if padded and list(after) != list(placing.after):  # what lies behind the padding does not count
            result = result / _shares(data, placing, after)
        return _without_empty(result, data, placing)
    sizes = shapes.image_sizes(data)
    windows = _windows(placing, sizes)
    counts = count_elements(windows, placing.ranges(sizes, padded=padded))
    return window_sums(data, windows) / data.like(counts)


def _shares(data: Value, placing: Placing, after: Sequence[int]) -> Value:
    """Return which share of each window lies in the data and its padding."""
    inside = [min(pair) for pair in zip(after, placing.after, strict=True)]
    ones = pad(op("ones_like", data), [0, 0, *placing.before], [0, 0, *inside], "constant", data.like(1))
    behind = [end - start for end, start in zip(after, inside, strict=True)]
    return pool("avg", ones, replace(placing, before=[0] * len(behind)), behind, count_include_pad=True)


@operator("LpPool")
def _lp_pool(node: OnnxNode) -> Value:
    data, p = _power(node[0], node.integer("p", 2)), node.integer("p", 2)
    if (opened := _padded_open(replace(node, inputs=[data]), 0)) is not None:
        bare, padded, sizes_ = opened
        sums = _sums(replace(bare, inputs=[padded]))
        return _root(with_shape(sums, [*sums.shape[:2], *sizes_]), p)
    return _root(_sums(replace(node, inputs=[data])), p)


def _sums(node: OnnxNode) -> Value:
    """Return the sum of each window; of images of open size from their means."""
    data, placing = node[0], _placing(node)
    simple = len(placing.kernel) in SPATIAL and set(placing.dilations) == {1} and not placing.ceil
    if simple and not shapes.is_static(data.shape[2:]) and min(*placing.before, *placing.after) >= 0:
        means = pool("avg", data, placing, placing.after, count_include_pad=True)
        return means * float(math.prod(placing.kernel))
    return window_sums(data, _windows(placing, shapes.image_sizes(data)))


def _power(data: Value, p: int) -> Value:
    if p == 1:
        return op("abs", data)
    return data * data if p == 2 else op("abs", data) ** float(p)


def _root(data: Value, p: int) -> Value:
    if p == 1:
        return data
    return op("sqrt", data) if p == 2 else data ** (1 / p)


def _spatial(node: OnnxNode) -> tuple[int, ...]:
    if node[0].rank < 3:
        raise UnsupportedError(f"a tensor of rank {node[0].rank} has no axes of an image")
    return tuple(range(2, node[0].rank))


@operator("GlobalAveragePool")
def _global_average_pool(node: OnnxNode) -> Value:
    if node[0].rank == 4:
        return op("nn.global_avg_pool2d", node[0])
    return op("mean", node[0], axis=_spatial(node), keepdims=True)


@operator("GlobalLpPool")
def _global_lp_pool(node: OnnxNode) -> Value:
    p = int(node.number("p", 2))
    return _root(op("sum", _power(node[0], p), axis=_spatial(node), keepdims=True), p)


@operator("MaxUnpool")
def _max_unpool(node: OnnxNode) -> Value:
    """Put elements at their flat indices into zeros."""
    data, indices = node[0], node[1]
    kernel = node.ints("kernel_shape") or []
    rank = len(kernel)
    strides = node.ints("strides") or [1] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    data_shape = shapes.static_shape(data)
    sizes = [
        (data_shape[2 + axis] - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + rank]
        for axis in range(rank)
    ]
    inferred = [*data_shape[:2], *sizes]
    declared = node.output_shape()
    shape = inferred if node.get(2) is None else node.static(2, lambda: declared)
    total = math.prod(shape)
    count = math.prod(data_shape)
    check_new_array(total)
    zeros = constant(np.zeros(total), data.dtype)
    places = shapes.reshape(indices, [count])
    if shape != inferred:  # the indices are those of the inferred shape
        coordinates = []
        flat_places = places
        for size in reversed(inferred):
            coordinates.append(op("floor_mod", flat_places, flat_places.like(size)))
            flat_places = op("floor_divide", flat_places, flat_places.like(size))
        places = coordinates[-1]
        for size, coordinate in zip(shape[1:], coordinates[-2::-1], strict=True):
            places = places * size + coordinate
    in_range = op("all", op("logical_and", places >= 0, places < total))
    node.block.check(in_range, "MaxUnpool: an index is out of range")
    flat = op("scatter_elements", zeros, places, shapes.reshape(data, [count]), axis=0)
    return shapes.reshape(flat, shape)


@operator("MaxRoiPool")
def _max_roi_pool(node: OnnxNode) -> Value:
    return op(
        "vision.roi_pool",
        node[0],
        node[1],
        pooled_size=tuple(node.ints("pooled_shape") or []),
        spatial_scale=node.number("spatial_scale", 1.0),
    )


operators(
    {
        "AveragePool": _means,
        "GlobalMaxPool": lambda node: op("max", node[0], axis=_spatial(node), keepdims=True),
        "MaxPool": _maxima,
    }
)
