"""Import Slice, with bounds that are known while importing or at the call.

The standard: https://onnx.ai/onnx/operators/onnx__Slice.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode, normalize_axis
from nnmagic.importers.onnx.operators.constants import arange
from nnmagic.importers.onnx.operators.products import dim_text
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, count_up, op, sizes_of, with_shape, with_sizes
from nnmagic.relay.ops import dims
from nnmagic.relay.polynomials import is_nonnegative
from nnmagic.relay.types import ANY, Dim

#: The end of a slice that goes on to the last element.
_FAR = 2**48
#: Exporters write the largest int32, or more, for it.
_OPEN_END = 2**31 - 1


@operator("Slice")
def _slice(node: OnnxNode) -> Value:
    data = node[0]
    if node.since < 10:
        starts, ends = node.ints("starts") or [], node.ints("ends") or []
        axes, steps = node.ints("axes") or list(range(len(starts))), [1] * len(starts)
        return _static_slice(node, starts, ends, axes, steps)
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
    return _static_slice(node, starts, ends, axes, by.tolist())


def spread(values: Value, axes: Value, rank: int, default: Value | int) -> Value:
    """Return a vector with one item for each axis: those of ``values`` at ``axes``, else the default."""
    axes, values = axes.cast("int64"), values.cast("int64")
    counted = (axes < 0).choose(axes + rank, axes)
    mask = op("expand_dims", constant(count_up(rank), "int64"), axis=1).equal(counted)
    there = op("any", mask, axis=1)
    total = op("sum", mask.choose(values, values.like(0)), axis=1)
    return there.choose(total, total.like(default) if isinstance(default, int) else default)


def _slice_dynamic_axes(node: OnnxNode) -> Value:
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
    node: OnnxNode, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Value:
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise UnsupportedError("starts, ends, axes and steps are of other lengths")
    if 0 in steps:
        raise UnsupportedError("a step is 0")
    sizes = node[0].sizes
    result = node[0]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = normalize_axis(axis, result.rank)
        first, last = max(-_FAR, min(start, _FAR)), max(-_FAR, min(end, _FAR))
        before = result
        if last >= _OPEN_END and not isinstance(before.shape[at], int):
            last = _FAR
        result = shapes.slice_axis(before, at, first, last, step)
        if not isinstance(before.shape[at], int):
            length = _slice_size(node, before, at, (first, last, step))
            result = with_shape(result, [*result.shape[:at], length, *result.shape[at + 1 :]])
    if sizes is not None and result.rank == 1 and len(starts) == 1:
        return with_sizes(result, sizes[slice(starts[0], ends[0], steps[0])])
    return result


def _slice_size(node: OnnxNode, data: Value, axis: int, bounds: tuple[int, int, int]) -> Dim:
    """Return the size of a slice of a dynamic axis, as far as it can be said.

    Bounds that are counted from either end are taken to be within a named axis; the call checks it.
    """
    size, (first, last, step) = data.shape[axis], bounds
    to_end = last == _FAR
    if to_end and 0 <= first < step:
        return dims.ceil_divide(dims.subtract(size, first), step)
    if size == ANY or step != 1:
        return ANY
    if first >= 0 and last >= 0 and not to_end:
        if last != first + 1:  # more than one element are clipped to the axis
            return ANY
        message = f"Slice: the axis {axis} must have {last} or more elements"
        node.block.check(shapes.size_along(data, axis) >= last, message)
        return 1
    least = max(-first, 0) if first < 0 else first + (0 if to_end else -last)
    end = 0 if to_end else last
    if first < 0 and (last >= 0 or last < first) and not to_end:
        return ANY
    message = f"Slice: the axis {axis} must have {least} or more elements"
    node.block.check(shapes.size_along(data, axis) >= least, message)
    return end - first if first < 0 else dims.add(size, end - first)


def _dynamic_slice(
    node: OnnxNode, axes: Sequence[int], starts: tuple[Dim, ...] | None, ends: tuple[Dim, ...] | None
) -> Value:
    """Slice with bounds that are known at the call: of one size or another, all steps forward or known."""
    steps, declared = node.get(4), node.output_shape()
    result = node[0]
    for number, axis in enumerate(axes):

        def item(value: Value, number: int = number) -> Value:
            return shapes.scalar(shapes.slice_axis(value.cast("int64"), 0, number, number + 1))

        start, end = item(node[1]), item(node[2])
        step = constant(1, "int64") if steps is None else item(steps)
        sliced = None
        if declared is None and starts is not None and ends is not None and step.known == 1:
            sliced = _slice_between(node, result, axis, (starts[number], ends[number]), (start, end))
        if sliced is None:
            wanted = None if declared is None else declared[axis]
            sliced = _clipped_slice(node, result, axis, (start, end, step), wanted)
        result = sliced
    return result


def _slice_between(
    node: OnnxNode, data: Value, axis: int, bounds: tuple[Dim, Dim], values: tuple[Value, Value]
) -> Value | None:
    """Slice between sizes: from one that lies within the axis to one that is clipped to it.

    Where that is not certain while importing, the bounds must lie in order within the axis; the call checks
    it. Returns None if the bounds have no names.
    """
    size, total = data.shape[axis], shapes.size_along(data, axis)
    sides: list[tuple[Dim, Value]] = []
    for bound, value in zip(bounds, values, strict=True):
        if isinstance(bound, int) and bound >= _OPEN_END:
            sides.append((size, total))
        elif isinstance(bound, int) and bound < 0:
            sides.append((dims.add(size, bound), total + int(bound)))
        else:
            sides.append((bound, value))
    (start, first), (end, last) = sides
    if (start, end) == (0, size) and size != ANY:
        return data
    if all(_is_at_most(low, high) for low, high in ((0, start), (start, end), (start, size))):
        within = dims.minimum(end, size)
        end, last = within, last if within == end else last.minimum(total)
    zero = constant(0, "int64")
    checks = []
    for low, high, test in (
        (0, start, zero <= first),
        (start, end, first <= last),
        (end, size, last <= total),
    ):
        room = dims.as_polynomial(dims.subtract(high, low))
        if room is None or (room.number is not None and room.number < 0):
            return None
        if not is_nonnegative(room):
            checks.append(test)
    for test in checks:
        shown = f"{dim_text(start)} and {dim_text(end)}"
        node.block.check(test, f"Slice: the bounds {shown} of axis {axis} must be within {dim_text(size)}")
    length = dims.subtract(end, start)
    result = op("take", data, positions(last - first, length) + first, axis=axis, mode="clip")
    return with_shape(result, [*data.shape[:axis], length, *data.shape[axis + 1 :]])


def _is_at_most(low: Dim, high: Dim) -> bool:
    """Return whether a size is certainly no larger than another."""
    room = dims.as_polynomial(dims.subtract(high, low))
    return room is not None and is_nonnegative(room)


def _clipped_slice(
    node: OnnxNode, data: Value, axis: int, bounds: tuple[Value, Value, Value], declared: int | None
) -> Value:
    """Slice one axis between any bounds, which are clipped to it."""
    size = shapes.size_along(data, axis)
    start, end, step = bounds
    forward = step > 0
    start, end = ((value < 0).choose(value + size, value) for value in (start, end))
    low = forward.choose(constant(0, "int64"), constant(-1, "int64"))
    high = forward.choose(size, size - 1)
    first = op("maximum", start, constant(0, "int64")).minimum(high)
    last = op("minimum", op("maximum", end, low), size)
    length = op("floor_divide", last - first + forward.choose(step - 1, step + 1), step).maximum(0)
    dim: Dim = ANY
    if declared is not None:
        dim = declared
        node.block.require(length, np.array(dim), f"Slice: the length of axis {axis}")
    result = op("take", data, positions(length, dim) * step + first, axis=axis, mode="clip")
    return with_shape(result, [*data.shape[:axis], dim, *data.shape[axis + 1 :]])


def positions(length: Value, dim: Dim) -> Value:
    """Return 0, 1, … up to a length, which ``dim`` is, where it is known while importing."""
    if isinstance(dim, int):
        return constant(count_up(int(dim)), "int64")
    return arange(constant(0, "int64"), length, constant(1, "int64"), "int64")
