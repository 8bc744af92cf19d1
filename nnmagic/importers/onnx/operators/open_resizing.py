"""Resize axes whose sizes are known only at the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import Node
from nnmagic.importers.onnx.operators.constants import arange
from nnmagic.importers.onnx.operators.interpolation import as_dtype, cubic, item, rounded
from nnmagic.importers.onnx.values import Value, constant, op, sizes_of, with_shape
from nnmagic.relay.ops.dims import floor_divide, multiply
from nnmagic.relay.types import ANY, Dim


@dataclass(frozen=True, slots=True)
class OpenAxis:
    """How an axis is resized between sizes that are known at the call: float64 scalars."""

    axis: int
    new: Dim
    places: Value
    old_size: Value
    new_size: Value
    scale: Value


def _open_axis(data: Value, axis: int, new: Dim, count: Value, scale: Value | None) -> OpenAxis:
    """Plan an axis; the scale follows from ``count``, the new size as an int64 scalar, if none is given."""
    old = shapes.size_along(data, axis).cast("float64")
    ends = constant(0, "int64"), count, constant(1, "int64")
    places = with_shape(arange(*ends, "int64"), [new]).cast("float64")
    size = count.cast("float64")
    return OpenAxis(axis, new, places, old, size, size / old if scale is None else scale)


def _open_coordinates(mode: str, axis: OpenAxis) -> Value:
    """Return the place in the old axis of each element of the new one, as `_coordinates` does."""
    half = (axis.places + 0.5) / axis.scale - 0.5
    match mode:
        case "half_pixel":
            return half
        case "pytorch_half_pixel":
            return (axis.new_size > 1).choose(half, half * 0 - 0.5)
        case "asymmetric":
            return axis.places / axis.scale
        case "align_corners":
            return axis.places * ((axis.old_size - 1) / (axis.new_size - 1).maximum(1.0))
    raise UnsupportedError(
        f"the coordinate transformation {mode!r} of axes of unknown size is not supported",
        "fix the sizes with shapes={...}",
    )


def resize_open(node: Node, data: Value, axes: Sequence[OpenAxis], transformation: str, mode: str) -> Value:
    """Resize axes whose sizes are known at the call: each element is a sum of its old neighbours."""
    if node.integer("antialias") or node.integer("exclude_outside"):
        raise UnsupportedError(
            "antialias and exclude_outside of axes of unknown size are not supported",
            "fix the sizes with shapes={...}",
        )
    result = data if data.dtype in ("float32", "float64") or mode == "nearest" else data.cast("float32")
    sharpness = node.number("cubic_coeff_a", -0.75)
    for axis in axes:
        x, last = _open_coordinates(transformation, axis), axis.old_size - 1
        if mode == "nearest":
            at = rounded(node, x, axis.scale).maximum(0.0).minimum(last).cast("int64")
            result = op("take", result, at, axis=axis.axis, mode="clip")
            continue
        if mode not in ("linear", "cubic"):
            raise UnsupportedError(f"the mode {mode!r} is not known")
        base = op("floor", x)
        total: Value | None = None
        for step in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
            place = base + step
            distance = op("abs", x - place)
            weight = 1 - distance if mode == "linear" else cubic(distance, sharpness)
            at = place.maximum(0.0).minimum(last).cast("int64")
            part = op("take", result, at, axis=axis.axis, mode="clip")
            part = part * shapes.unsqueeze(weight.cast(part.dtype), range(1, part.rank - axis.axis))
            total = part if total is None else total + part
        assert total is not None
        result = total
    return as_dtype(result, data.dtype)


def open_axes(
    node: Node, axes: Sequence[int], scales: Value | None, sizes: Value | None
) -> list[OpenAxis] | None:
    """Plan axes of which one has a size that the call knows; None if all that change have known sizes."""
    data, opened = node[0], []
    stated = None if sizes is None else sizes_of(sizes)
    stretched = node.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    if sizes is not None and (stated is None or not stretched):
        return None
    for number, axis in enumerate(axes):
        old = data.shape[axis]
        if sizes is not None and stated is not None:
            if stated[number] == old != ANY:
                continue
            count = item(sizes, number).cast("int64")
            opened.append(_open_axis(data, axis, stated[number], count, None))
            continue
        scale = item(scales, number).cast("float64") if scales is not None else None
        if scale is None or scale.known is None:
            return None
        factor = float(scale.known)
        if factor == 1:
            continue
        size = shapes.size_along(data, axis)
        if factor.is_integer():
            new, count = multiply(old, int(factor)), size * int(factor)
        elif (1 / factor).is_integer():
            divisor = int(1 / factor)
            new, count = floor_divide(old, divisor), op("floor_divide", size, size.like(divisor))
        else:
            new, count = ANY, op("floor", size.cast("float64") * factor + 1e-9).cast("int64")
        opened.append(_open_axis(data, axis, new, count, scale))
    pairs = [(data.shape[each.axis], each.new) for each in opened]
    return None if all(map(shapes.is_static, pairs)) else opened
