"""Import Slice, with bounds that are known while importing or at the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import Node, normalize_axis
from nnmagic.importers.onnx.operators.constants import arange
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, op, sizes_of, with_shape, with_sizes
from nnmagic.relay.types import ANY, Dim

#: The end of a slice that goes on to the last element.
_FAR = 2**31 - 1


@operator("Slice")
def _slice(node: Node) -> Value:
    data = node[0]
    if node.since < 10:
        starts, ends = node.ints("starts") or [], node.ints("ends") or []
        axes, steps = node.ints("axes") or list(range(len(starts))), [1] * len(starts)
        return _static_slice(data, starts, ends, axes, steps)
    length = node[1].shape[0] if node[1].rank == 1 else None
    if not isinstance(length, int):
        raise node.unknown(1)
    count = int(length)
    if node.get(3) is not None and node[3].known is None:
        return _slice_dynamic_axes(node)
    axes = node.static(3) if node.get(3) is not None else list(range(count))
    axes = [normalize_axis(axis, data.rank) for axis in axes]
    first, last = sizes_of(node[1]), sizes_of(node[2])
    by = np.ones(count, "int64") if node.get(4) is None else node[4].known
    if first is None or last is None or by is None or not shapes.is_static([*first, *last]):
        return _dynamic_slice(node, axes, first, last)
    starts, ends = ([int(cast(int, item)) for item in items] for items in (first, last))
    return _static_slice(data, starts, ends, axes, by.tolist())


def spread(values: Value, axes: Value, rank: int, default: Value | int) -> Value:
    """Return a vector with one item for each axis: those of ``values`` at ``axes``, else the default."""
    axes, values = axes.cast("int64"), values.cast("int64")
    counted = (axes < 0).choose(axes + rank, axes)
    mask = op("expand_dims", constant(np.arange(rank), "int64"), axis=1).equals(counted)
    there = op("any", mask, axis=1)
    total = op("sum", mask.choose(values, values.like(0)), axis=1)
    return there.choose(total, total.like(default) if isinstance(default, int) else default)


def _slice_dynamic_axes(node: Node) -> Value:
    """Slice axes that are given at the call."""
    data, axes = node[0], node[3]
    if node.output_shape() is None:
        raise node.unknown(3)
    rank = data.rank
    inputs: list[Value | None] = [
        data,
        spread(node[1], axes, rank, 0),
        spread(node[2], axes, rank, shapes.shape_of(data)),
        None,
        spread(node[4], axes, rank, 1) if node.get(4) is not None else None,
    ]
    return _dynamic_slice(replace(node, inputs=inputs), range(rank), None, None)


def _static_slice(
    data: Value, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Value:
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise UnsupportedError("starts, ends, axes and steps are of other lengths")
    if 0 in steps:
        raise UnsupportedError("a step is 0")
    sizes = data.sizes
    result = data
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = normalize_axis(axis, data.rank)
        first, last = max(-_FAR, min(start, _FAR)), max(-_FAR, min(end, _FAR))
        size = data.shape[at]
        result = shapes.slice_axis(result, at, first, last, step)
        if not isinstance(size, int):
            result = with_shape(
                result, [*result.shape[:at], _sliced(size, first, last, step), *result.shape[at + 1 :]]
            )
    if sizes is not None and result.rank == 1 and len(starts) == 1:
        return with_sizes(result, sizes[slice(starts[0], ends[0], steps[0])])
    return result


def _sliced(size: Dim, first: int, last: int, step: int) -> Dim:
    """Return the size of a slice of a dynamic axis, as far as it can be said."""
    if (first, step) == (0, 1) and last == _FAR:
        return size
    return ANY


def _dynamic_slice(
    node: Node, axes: Sequence[int], starts: tuple[Dim, ...] | None, ends: tuple[Dim, ...] | None
) -> Value:
    """Slice with bounds that are known at the call: of one size or another, all steps forward or known."""
    data = node[0]
    steps = node.get(4)
    declared = node.output_shape()
    count = len(axes)
    result = data
    for number, axis in enumerate(axes):
        size = shapes.size_along(result, axis)

        def item(value: Value, number: int = number) -> Value:
            return shapes.scalar(shapes.slice_axis(value.cast("int64"), 0, number, number + 1))

        start, end = item(node[1]), item(node[2])
        step = constant(1, "int64") if steps is None else item(steps)
        forward = step > 0
        start, end = ((value < 0).choose(value + size, value) for value in (start, end))
        low = forward.choose(constant(0, "int64"), constant(-1, "int64"))
        high = forward.choose(size, size - 1)
        first = op("maximum", start, constant(0, "int64")).minimum(high)
        last = op("minimum", op("maximum", end, low), forward.choose(size, size))
        span = last - first
        length = op("floor_divide", span + forward.choose(step - 1, step + 1), step).maximum(0)
        dim = _length(starts, ends, number, data.shape[axis], step)
        if declared is not None:
            dim = declared[axis]
            node.block.require(length, np.array(dim), f"Slice: the length of axis {axis}")
        places = positions(length, dim) * step + first
        result = op("take", result, places, axis=axis, mode="clip")
        result = with_shape(result, [*result.shape[:axis], dim, *result.shape[axis + 1 :]])
    assert count == len(axes)
    return result


def _length(
    starts: tuple[Dim, ...] | None, ends: tuple[Dim, ...] | None, number: int, size: Dim, step: Value
) -> Dim:
    """Return the length of a slice whose bounds are sizes."""
    if starts is None or ends is None or step.known is None or int(step.known) != 1:
        return ANY
    start, end = starts[number], ends[number]
    if start == 0 and (end == size or (isinstance(end, int) and end >= _FAR)):
        return size
    if isinstance(size, int) and start == 0:
        return ANY
    return ANY


def positions(length: Value, dim: Dim) -> Value:
    """Return 0, 1, … up to a length, which ``dim`` is, where it is known while importing."""
    if isinstance(dim, int):
        return constant(np.arange(int(dim)), "int64")
    return arange(constant(0, "int64"), length, constant(1, "int64"), "int64")
