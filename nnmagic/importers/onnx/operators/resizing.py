"""Import Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import Node, normalize_axis
from nnmagic.importers.onnx.operators.interpolation import as_dtype, cubic, item, rounded
from nnmagic.importers.onnx.operators.open_resizing import open_axes, resize_open
from nnmagic.importers.onnx.operators.pooling import along_axis
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import (
    Value,
    check_made,
    constant,
    count_up,
    op,
    sizes_of,
)
from nnmagic.relay.types import ANY, Dim


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one axis is resized; ``scale`` and ``roi`` are float64 scalars."""

    axis: int
    old: int
    new: int
    scale: Value
    roi: tuple[Value, Value] | None


def _coordinates(mode: str, axis: _Axis) -> Value:
    """Return the place in the old axis of each element of the new one."""
    x = constant(count_up(axis.new).astype("float64"))
    scale, length = axis.scale, axis.scale * float(axis.old)
    half = (x + 0.5) / scale - 0.5
    match mode:
        case "half_pixel":
            return half
        case "half_pixel_symmetric":
            return half + axis.old / 2 * (1 - axis.new / length)
        case "pytorch_half_pixel":
            return half if axis.new > 1 else half * 0 - 0.5
        case "asymmetric":
            return x / scale
        case "align_corners":
            safe = length.equal(1).choose(length.like(2), length)
            return length.equal(1).choose(x * 0, x * float(axis.old - 1) / (safe - 1))
        case "tf_crop_and_resize":
            if axis.roi is None:
                raise UnsupportedError("tf_crop_and_resize needs the input 'roi'")
            first, last = axis.roi
            safe = length.equal(1).choose(length.like(2), length)
            along = length.equal(1).choose(
                (last - first) * (float(axis.old - 1) / 2) + x * 0,
                x * (last - first) * float(axis.old - 1) / (safe - 1),
            )
            return along + first * float(axis.old - 1)
    raise UnsupportedError(f"the coordinate transformation {mode!r} is not known")


def _weights(node: Node, mode: str, x: Value, axis: _Axis) -> Value:
    """Return the matrix (old, new) with which an axis is resized."""
    reach = 2 if mode == "cubic" else 1
    antialias = bool(node.integer("antialias"))
    stretch = axis.scale.minimum(1.0) if antialias else constant(1.0, "float64")
    margin = reach + 2
    if antialias:
        margin = int(np.ceil(reach * max(axis.old / max(axis.new - 1, 0.5), 1))) + 2
    x = (
        x.maximum(float(-margin + reach)).minimum(float(axis.old - 1 + margin - reach))
        if not antialias
        else x
    )
    check_made(axis.old + 2 * margin, max(axis.old, axis.new))
    places = np.arange(-margin, axis.old + margin).astype("float64")
    distance = op("abs", op("expand_dims", x, axis=0) - constant(places[:, None])) * stretch
    weight = (
        cubic(distance, node.number("cubic_coeff_a", -0.75))
        if mode == "cubic"
        else (1 - distance).maximum(0.0)
    )
    outside = (places < 0) | (places > axis.old - 1)
    if node.integer("exclude_outside"):
        weight = constant(outside[:, None]).choose(weight * 0, weight)
    if node.integer("exclude_outside") or antialias:
        weight = weight / op("sum", weight, axis=(0,), keepdims=True)
    fold = np.zeros((axis.old, len(places)))
    fold[np.clip(places, 0, axis.old - 1).astype(int), count_up(len(places))] = 1
    known = weight.known
    if known is not None:
        return constant(fold @ known)
    return op("nn.matmul", constant(fold), weight)


def _nearest(node: Node, x: Value, axis: _Axis) -> Value:
    return rounded(node, x, axis.scale).maximum(0.0).minimum(float(axis.old - 1)).cast("int64")


def _resize_axes(node: Node, data: Value, axes: Sequence[_Axis], transformation: str, mode: str) -> Value:
    dtype = data.dtype
    result = data if dtype in ("float32", "float64") or mode == "nearest" else data.cast("float32")
    outside: Value | None = None
    for axis in axes:
        x = _coordinates(transformation, axis)
        if mode == "nearest":
            result = op("take", result, _nearest(node, x, axis), axis=axis.axis, mode="clip")
        elif mode in ("linear", "cubic"):
            result = along_axis(result, axis.axis, _weights(node, mode, x, axis).cast(result.dtype))
        else:
            raise UnsupportedError(f"the mode {mode!r} is not known")
        if transformation == "tf_crop_and_resize":
            beyond = op("logical_or", x < 0, x > float(axis.old - 1))
            beyond = shapes.unsqueeze(beyond, range(1, data.rank - axis.axis))
            outside = beyond if outside is None else op("logical_or", outside, beyond)
    if outside is not None:
        result = outside.choose(result.like(node.number("extrapolation_value")), result)
    return as_dtype(result, dtype)


@operator("Resize", note="axes of open size without antialias and exclude_outside")
def _resize(node: Node) -> Value:
    data, mode = node[0], node.text("mode", "nearest")
    declared = node.output_shape()
    if node.since < 11:
        return _upsample_by(node, node[1], "asymmetric")
    axes = [normalize_axis(axis, data.rank) for axis in node.ints("axes") or range(data.rank)]
    roi = node.get(1)
    scales, sizes = node.get(2), node.get(3)
    scales = None if scales is not None and scales.shape == (0,) else scales
    transformation = node.text("coordinate_transformation_mode", "half_pixel")
    if (scales is None) == (sizes is None):
        raise UnsupportedError("one of the inputs 'scales' and 'sizes' must be given")
    if not shapes.is_static([data.shape[axis] for axis in axes]):
        opened = open_axes(node, axes, scales, sizes)
        if opened is not None:
            return resize_open(node, data, opened, transformation, mode)
    factors = _factors(node, axes, scales, sizes)
    planned = []
    for number, axis in enumerate(axes):
        factor, fixed = factors[number]
        size = data.shape[axis]
        if fixed is None and factor.known is not None and float(factor.known) == 1.0:
            continue  # the axis stays
        if not isinstance(size, int):
            raise UnsupportedError("the sizes of its axes must be known", "fix them with shapes={...}")
        old = int(size)
        if fixed is not None:
            new = fixed
        elif factor.known is not None:
            new = int(np.floor(float(factor.known) * old + 1e-9))
        elif declared is not None:
            new = declared[axis]
            length = op("floor", factor * float(old) + 1e-6).cast("int64")
            node.block.require(length, np.array(new), f"Resize: the new size of axis {axis}")
        else:
            raise node.unknown(2)
        region = None
        if roi is not None and roi.shape != (0,):
            region = (item(roi, number).cast("float64"), item(roi, number + len(axes)).cast("float64"))
        same = factor.known is not None and float(factor.known) == 1.0 and new == old
        if not same or transformation == "tf_crop_and_resize":
            planned.append(_Axis(axis, old, new, factor, region))
    return _resize_axes(node, data, planned, transformation, mode)


def _factors(
    node: Node, axes: Sequence[int], scales: Value | None, sizes: Value | None
) -> list[tuple[Value, int | None]]:
    """Return the scale of each axis, and its new size, where that is given rather than the scale."""
    data, declared = node[0], node.output_shape()
    if scales is not None:
        return [(item(scales, number).cast("float64"), None) for number in range(len(axes))]
    assert sizes is not None
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    stated = sizes_of(sizes)
    if policy == "stretch" and stated is not None and not shapes.is_static(stated):
        return [_factor(size, data.shape[axis]) for size, axis in zip(stated, axes, strict=True)]
    old = [shapes.static_shape(data)[axis] for axis in axes]
    if policy == "stretch":
        new = node.static(3, lambda: declared and [declared[axis] for axis in axes])
        return [(constant(size / have, "float64"), size) for size, have in zip(new, old, strict=True)]
    ratios = [item(sizes, number).cast("float64") / float(have) for number, have in enumerate(old)]
    if policy not in ("not_larger", "not_smaller"):
        raise UnsupportedError(f"the keep_aspect_ratio_policy {policy!r} is not known")
    scale = ratios[0]
    for ratio in ratios[1:]:
        scale = scale.minimum(ratio) if policy == "not_larger" else scale.maximum(ratio)
    found: list[tuple[Value, int | None]] = []
    for axis, have in zip(axes, old, strict=True):
        length = op("floor", scale * float(have) + 0.5).cast("int64")
        if length.known is not None:
            size = int(length.known)
        elif declared is not None:
            size = declared[axis]
            node.block.require(length, np.array(size), f"Resize: the new size of axis {axis}")
        else:
            raise node.unknown(3)
        found.append((scale, size))
    return found


def _factor(size: Dim, old: Dim) -> tuple[Value, int | None]:
    """Return the scale and the new size of an axis; an axis that stays has the scale 1."""
    if size == old != ANY:
        return constant(1.0, "float64"), None
    if not (isinstance(size, int) and isinstance(old, int)):
        raise UnsupportedError("the sizes of its axes must be known", "fix them with shapes={...}")
    return constant(size / old, "float64"), int(size)


def _upsample_by(node: Node, scales: Value, transformation: str) -> Value:
    """Resize as before opset 11: by scales, from the asymmetric place."""
    data, declared = node[0], node.output_shape()
    mode = {"bilinear": "linear"}.get(node.text("mode", "nearest"), node.text("mode", "nearest"))
    if not shapes.is_static(data.shape):
        opened = open_axes(node, range(data.rank), scales, None)
        if opened is not None:
            return resize_open(node, data, opened, transformation, mode)
    planned = []
    for axis in range(data.rank):
        factor = item(scales, axis).cast("float64")
        size = data.shape[axis]
        if factor.known is not None and float(factor.known) == 1.0:
            continue
        if not isinstance(size, int):
            raise UnsupportedError("the sizes of its axes must be known", "fix them with shapes={...}")
        if factor.known is not None:
            new = int(np.floor(float(factor.known) * int(size) + 1e-9))
        elif declared is not None:
            new = declared[axis]
            length = op("floor", factor * float(size) + 1e-6).cast("int64")
            node.block.require(length, np.array(new), f"{node.op_type}: the new size of axis {axis}")
        else:
            raise node.unknown(1)
        planned.append(_Axis(axis, int(size), new, factor, None))
    return _resize_axes(node, data, planned, transformation, mode)


@operator("Upsample")
def _upsample(node: Node) -> Value:
    if node.since < 7:
        scales = constant([1.0, 1.0, node.number("height_scale"), node.number("width_scale")], "float32")
    elif node.since < 9:
        scales = constant(np.asarray(node.floats("scales"), "float32"))
    else:
        scales = node[1]
    return _upsample_by(node, scales, "asymmetric")
