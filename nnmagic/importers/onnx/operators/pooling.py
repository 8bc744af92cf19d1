"""Import pooling: the largest element, mean or norm of each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import Node
from nnmagic.importers.onnx.operators.convolutions import SPATIAL, padded_open, window
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.operators.reductions import neutral
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, check_made, constant, count_up, op, with_shape
from nnmagic.relay.types import Dim


def window_counts(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    *,
    ceil: bool,
) -> list[int]:
    """Return the number of windows of each axis; none begins in the padding behind the data."""
    counts = []
    for axis, size in enumerate(sizes):
        room = size + before[axis] + after[axis] - (kernel[axis] - 1) * dilations[axis] - 1
        count = (-(-room // strides[axis]) if ceil else room // strides[axis]) + 1
        if ceil and (count - 1) * strides[axis] >= size + before[axis]:
            count -= 1
        if count < 1:
            raise UnsupportedError(f"a window of {kernel[axis]} does not fit {size} elements")
        counts.append(count)
    return counts


def _places(count: int, kernel: int, stride: int, dilation: int, before: int) -> np.ndarray:
    """Return the indices of each window's elements along an axis, (count, kernel); some lie outside."""
    check_made(count, kernel)
    places: np.ndarray = count_up(count)[:, None] * stride + count_up(kernel)[None, :] * dilation
    return places - before


def _parameters(node: Node) -> tuple[list[int], list[int], list[int], list[int], list[int], bool]:
    kernel = node.ints("kernel_shape") or []
    if node[0].rank != len(kernel) + 2:
        raise UnsupportedError(f"kernel_shape {kernel} does not fit a tensor of rank {node[0].rank}")
    if node.text("auto_pad", "NOTSET").startswith("SAME") and node.integer("ceil_mode"):
        raise UnsupportedError("auto_pad with ceil_mode is not supported")
    return (kernel, *window(node, node[0], kernel), bool(node.integer("ceil_mode")))


def _padded_open(node: Node, fill: float) -> tuple[Node, Value, list[Dim]] | None:
    """Pad images as ``padded_open`` does; None where that is not needed, or does not help."""
    kernel, data = node.ints("kernel_shape") or [], node[0]
    if data.rank != len(kernel) + 2 or node.integer("ceil_mode") or node.output_count > 1:
        return None
    return padded_open(node, data, kernel, data.like(fill))


def _covering(
    data: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
) -> list[int] | None:
    """Return the padding behind the data with which rounding down gives the windows of rounding up.

    None if there is none. What is padded must not count.
    """
    if not shapes.is_static(data.shape[2:]):
        return None
    sizes = shapes.image_sizes(data)
    counts = window_counts(sizes, kernel, strides, dilations, before, after, ceil=True)
    behind = [
        max(0, (count - 1) * stride + (width - 1) * dilation + 1 - size - pad)
        for count, stride, width, dilation, size, pad in zip(
            counts, strides, kernel, dilations, sizes, before, strict=True
        )
    ]
    found = window_counts(sizes, kernel, strides, dilations, before, behind, ceil=False)
    return behind if found == counts else None


@operator("MaxPool")
def _max_pool(node: Node) -> list[Value]:
    return _maxima(node)


def _maxima(node: Node) -> list[Value]:
    data = node[0]
    if (opened := _padded_open(node, neutral("max", data.dtype))) is not None:
        bare, padded, sizes_ = opened
        (result,) = _maxima(replace(bare, inputs=[padded]))
        return [with_shape(result, [*result.shape[:2], *sizes_])]
    kernel, strides, dilations, before, after, ceil = _parameters(node)
    rank = len(kernel)
    covering = _covering(data, kernel, strides, dilations, before, after) if ceil else after
    if node.output_count == 1 and rank in SPATIAL and covering is not None and min([*before, *covering]) >= 0:
        letters = SPATIAL[rank]
        return [
            op(
                f"nn.max_pool{rank}d",
                data,
                pool_size=tuple(kernel),
                strides=tuple(strides),
                dilation=tuple(dilations),
                padding=(*before, *covering),
                layout=f"NC{letters}",
            )
        ]
    sizes = shapes.image_sizes(data)
    counts = window_counts(sizes, kernel, strides, dilations, before, after, ceil=ceil)
    strides_of = np.cumprod([1, *sizes[::-1]])[:-1][::-1]
    if node.integer("storage_order"):
        strides_of = np.cumprod([1, *sizes])[:-1]
    check_made(*sizes)
    grid = sum(
        count_up(size).reshape([-1 if at == axis else 1 for at in range(rank)]) * int(strides_of[axis])
        for axis, size in enumerate(sizes)
    )
    rows = shapes.unsqueeze(shapes.counting(data, 0) * shapes.size_along(data, 1), [1])
    planes = shapes.unsqueeze(rows + shapes.counting(data, 1), range(2, rank + 2))
    index = planes * math.prod(sizes) + constant(np.asarray(grid), "int64")
    values = data
    for axis in reversed(range(rank)):
        place = _places(counts[axis], kernel[axis], strides[axis], dilations[axis], before[axis])
        values, index = _largest(values, index, axis + 2, place, sizes[axis])
    return [values, index][: node.output_count]


def _largest(values: Value, index: Value, axis: int, place: np.ndarray, size: int) -> tuple[Value, Value]:
    """Return the largest element of each window along one axis, the first of equal ones, with its index."""
    clipped = constant(np.clip(place, 0, size - 1), "int64")
    windows = op("take", values, clipped, axis=axis, mode="clip")
    indices = op("take", index, clipped, axis=axis, mode="clip")
    inside = (place >= 0) & (place < size)
    if not inside.all():
        mask = constant(inside.reshape([*inside.shape, *[1] * (values.rank - axis - 1)]))
        windows = mask.choose(windows, windows.like(neutral("max", values.dtype)))
    best = op("argmax", windows, axis=(axis + 1,), keepdims=True)
    best = constant_like_first_inside(best, place, size, windows, axis)
    pick = [
        op("squeeze", op("gather", item, best, axis=axis + 1), axis=(axis + 1,))
        for item in (windows, indices)
    ]
    return pick[0], pick[1]


def constant_like_first_inside(best: Value, place: np.ndarray, size: int, windows: Value, axis: int) -> Value:
    """Return the positions of the largest elements, never one in the padding."""
    first = np.argmax((place >= 0) & (place < size), axis=1)
    floor = constant(first.reshape([-1, 1, *[1] * (windows.rank - axis - 2)]), best.dtype)
    return best.maximum(0) if not first.any() else op("maximum", best, floor)


def _window_sums(
    data: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    counts: Sequence[int],
) -> Value:
    """Return the sum of each window: a product with a matrix of ones and zeros for each axis."""
    sizes = shapes.image_sizes(data)
    for axis, size in enumerate(sizes):
        place = _places(counts[axis], kernel[axis], strides[axis], dilations[axis], before[axis])
        check_made(size, counts[axis])
        matrix = np.zeros((size, counts[axis]))
        for column, row in enumerate(place):
            np.add.at(matrix[:, column], row[(row >= 0) & (row < size)], 1)
        data = along_axis(data, axis + 2, data.like(matrix))
    return data


def along_axis(data: Value, axis: int, matrix: Value) -> Value:
    """Multiply an axis of a tensor by a matrix (old size, new size)."""
    order = [at for at in range(data.rank) if at != axis] + [axis]
    back = sorted(range(data.rank), key=lambda at: order[at])
    return shapes.transpose(matmul(shapes.transpose(data, order), matrix), back)


@operator("AveragePool")
def _average_pool(node: Node) -> Value:
    return _means(node)


def _means(node: Node) -> Value:
    data = node[0]
    if (opened := _padded_open(node, 0)) is not None:
        bare, zeros, sizes_ = opened
        result = _means(replace(bare, inputs=[zeros]))
        if not node.integer("count_include_pad"):
            ones = _padded_open(replace(node, inputs=[op("ones_like", data)]), 0)
            assert ones is not None
            result = result / _means(replace(bare, inputs=[ones[1]]))
        return with_shape(result, [*result.shape[:2], *sizes_])
    kernel, strides, dilations, before, after, ceil = _parameters(node)
    rank, padded = len(kernel), bool(node.integer("count_include_pad"))
    covering: list[int] | None = after
    if ceil:
        covering = None if padded else _covering(data, kernel, strides, dilations, before, after)
    simple = rank in SPATIAL and set(dilations) == {1}
    if simple and covering is not None and min([*before, *covering]) >= 0:
        letters = SPATIAL[rank]
        return op(
            f"nn.avg_pool{rank}d",
            data,
            pool_size=tuple(kernel),
            strides=tuple(strides),
            dilation=tuple(dilations),
            padding=(*before, *covering),
            layout=f"NC{letters}",
            count_include_pad=padded,
        )
    sizes = shapes.image_sizes(data)
    counts = window_counts(sizes, kernel, strides, dilations, before, after, ceil=ceil)
    total = _window_sums(data, kernel, strides, dilations, before, counts)
    number: np.ndarray = np.ones([1] * rank)
    for axis, size in enumerate(sizes):
        place = _places(counts[axis], kernel[axis], strides[axis], dilations[axis], before[axis])
        low, high = (-before[axis], size + after[axis]) if padded else (0, size)
        each = ((place >= low) & (place < high)).sum(axis=1)
        number = number * each.reshape([-1 if at == axis else 1 for at in range(rank)])
    return total / data.like(np.maximum(number, 1))


@operator("LpPool")
def _lp_pool(node: Node) -> Value:
    data, p = node[0], node.integer("p", 2)
    kernel, strides, dilations, before, after, ceil = _parameters(node)
    sizes = shapes.image_sizes(data)
    counts = window_counts(sizes, kernel, strides, dilations, before, after, ceil=ceil)
    return _root(_window_sums(_power(data, p), kernel, strides, dilations, before, counts), p)


def _power(data: Value, p: int) -> Value:
    if p == 1:
        return op("abs", data)
    return data * data if p == 2 else op("abs", data) ** float(p)


def _root(data: Value, p: int) -> Value:
    if p == 1:
        return data
    return op("sqrt", data) if p == 2 else data ** (1 / p)


def _spatial(node: Node) -> tuple[int, ...]:
    if node[0].rank < 3:
        raise UnsupportedError(f"a tensor of rank {node[0].rank} has no axes of an image")
    return tuple(range(2, node[0].rank))


@operator("GlobalAveragePool")
def _global_average_pool(node: Node) -> Value:
    if node[0].rank == 4:
        return op("nn.global_avg_pool2d", node[0])
    return op("mean", node[0], axis=_spatial(node), keepdims=True)


@operator("GlobalMaxPool")
def _global_max_pool(node: Node) -> Value:
    return op("max", node[0], axis=_spatial(node), keepdims=True)


@operator("GlobalLpPool")
def _global_lp_pool(node: Node) -> Value:
    p = int(node.number("p", 2))
    return _root(op("sum", _power(node[0], p), axis=_spatial(node), keepdims=True), p)


@operator("MaxUnpool")
def _max_unpool(node: Node) -> Value:
    """Put elements at their flat indices into zeros."""
    data, indices = node[0], node[1]
    kernel = node.ints("kernel_shape") or []
    rank = len(kernel)
    strides = node.ints("strides") or [1] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    own = shapes.static_shape(data)
    sizes = [
        (own[2 + axis] - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + rank]
        for axis in range(rank)
    ]
    inferred = [*own[:2], *sizes]
    declared = node.output_shape()
    shape = inferred if node.get(2) is None else node.static(2, lambda: declared)
    total = math.prod(shape)
    count = math.prod(own)
    check_made(total)
    zeros = constant(np.zeros(total), data.dtype)
    places = shapes.reshape(indices, [count])
    if shape != inferred:  # the indices are those of the inferred shape
        coordinates = []
        rest = places
        for size in reversed(inferred):
            coordinates.append(op("floor_mod", rest, rest.like(size)))
            rest = op("floor_divide", rest, rest.like(size))
        places = coordinates[-1]
        for size, coordinate in zip(shape[1:], coordinates[-2::-1], strict=True):
            places = places * size + coordinate
    in_range = op("all", op("logical_and", places >= 0, places < total))
    node.block.check(in_range, "MaxUnpool: an index is out of range")
    flat = op("scatter_elements", zeros, places, shapes.reshape(data, [count]), axis=0)
    return shapes.reshape(flat, shape)


@operator("MaxRoiPool")
def _max_roi_pool(node: Node) -> Value:
    return op(
        "vision.roi_pool",
        node[0],
        node[1],
        pooled_size=tuple(node.ints("pooled_shape") or []),
        spatial_scale=node.number("spatial_scale", 1.0),
    )
