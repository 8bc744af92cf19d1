"""Import Resize and Upsample.

The standard: https://onnx.ai/onnx/operators/onnx__Resize.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode, normalize_axis
from nnmagic.importers.onnx.operators.constants import arange
from nnmagic.importers.onnx.operators.quantization import quantize
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, check_new_array, constant, op, sizes_of, with_shape
from nnmagic.relay.functions.resizing import count_taps, find_places, interpolate, interpolate_with_unit_sum
from nnmagic.relay.ops.dims import floor_divide, multiply
from nnmagic.relay.types import ANY, Dim


@dataclass(frozen=True, slots=True)
class _Axis:
    """How an axis is resized: the numbers of its new elements (count,) and its sizes, all float64."""

    axis: int
    x: Value
    old: Value
    new: Value
    scale: Value
    region: tuple[Value, Value] | None

    @property
    def widest(self) -> float | None:
        """How many old elements are as wide as a new one, at most; None where only the call knows it."""
        if self.old.known is None or self.new.known is None:
            return None
        return float(self.old.known) / max(float(self.new.known) - 0.5, 0.5)


def _plan(
    data: Value,
    axis: int,
    new: Dim,
    count: Value,
    scale: Value | None,
    region: tuple[Value, Value] | None = None,
) -> _Axis:
    """Plan an axis; the scale follows from ``count``, the new size as an int64 scalar, if none is given."""
    old, size = shapes.size_along(data, axis).cast("float64"), count.cast("float64")
    ends = constant(0, "int64"), count, constant(1, "int64")
    x = with_shape(arange(*ends, "int64"), [new]).cast("float64")
    return _Axis(axis, x, old, size, size / old if scale is None else scale, region)


def _resize_axes(node: OnnxNode, axes: Sequence[_Axis], transformation: str, mode: str) -> Value:
    data = node[0]
    result = data if data.dtype in ("float32", "float64") or mode == "nearest" else data.cast("float32")
    outside: Value | None = None
    for axis in axes:
        last = axis.old - 1
        x = find_places(transformation, axis.x, axis.old, axis.new, axis.scale, axis.region)
        if x is None and transformation == "tf_crop_and_resize":
            raise UnsupportedError("tf_crop_and_resize needs the input 'roi'")
        if x is None:
            raise UnsupportedError(f"the coordinate transformation {transformation!r} is not known")
        if mode == "nearest":
            at = _round(node, x, axis.scale).maximum(0.0).minimum(last).cast("int64")
            result = op("take", result, at, axis=axis.axis, mode="clip")
        elif mode in ("linear", "cubic"):
            result = _interpolate(node, result, axis, x, mode)
        else:
            raise UnsupportedError(f"the mode {mode!r} is not known")
        if transformation == "tf_crop_and_resize":
            beyond = op("logical_or", x < 0, x > last)
            beyond = shapes.unsqueeze(beyond, range(1, data.rank - axis.axis))
            outside = beyond if outside is None else op("logical_or", outside, beyond)
    if outside is not None:
        result = outside.choose(result.like(node.number("extrapolation_value")), result)
    return _as_dtype(result, data.dtype)


def _interpolate(node: OnnxNode, data: Value, axis: _Axis, x: Value, mode: str) -> Value:
    a = node.number("cubic_coeff_a", -0.75) if mode == "cubic" else None
    antialias, exclude = bool(node.integer("antialias")), bool(node.integer("exclude_outside"))
    if not antialias and not exclude:
        return interpolate(data, axis.axis, x, axis.old, a)
    shrink, widest = axis.scale.like(1.0), 1.0
    if antialias and axis.widest is None:
        raise UnsupportedError(
            "antialias of axes of unknown size is not supported", "fix the sizes with shapes={...}"
        )
    if antialias and axis.widest is not None:
        shrink, widest = axis.scale.minimum(1.0), axis.widest
        check_new_array(int(axis.new.known or 0), count_taps(a, widest))
    return interpolate_with_unit_sum(data, axis.axis, x, axis.old, a, shrink, widest, exclude=exclude)


@operator("Resize", note="axes of open size without antialias")
def _resize(node: OnnxNode) -> Value:
    data, mode = node[0], node.text("mode", "nearest")
    if node.since < 11:
        return _upsample_by(node, node[1])
    axes = [normalize_axis(axis, data.rank) for axis in node.ints("axes") or range(data.rank)]
    roi, scales, sizes = node.get(1), node.get(2), node.get(3)
    scales = None if scales is not None and scales.shape == (0,) else scales
    transformation = node.text("coordinate_transformation_mode", "half_pixel")
    if (scales is None) == (sizes is None):
        raise UnsupportedError("one of the inputs 'scales' and 'sizes' must be given")
    regions: list[tuple[Value, Value] | None] = [None] * len(axes)
    if roi is not None and roi.shape != (0,):
        ends = [_item(roi, number).cast("float64") for number in range(2 * len(axes))]
        regions = list(zip(ends[: len(axes)], ends[len(axes) :], strict=True))
    return _resize_by(node, axes, scales, sizes, regions, transformation, mode)


def _resize_by(
    node: OnnxNode,
    axes: Sequence[int],
    scales: Value | None,
    sizes: Value | None,
    regions: Sequence[tuple[Value, Value] | None],
    transformation: str,
    mode: str,
) -> Value:
    data = node[0]
    is_static = shapes.is_static([data.shape[axis] for axis in axes])
    target = scales if scales is not None else sizes
    if not is_static or (target is not None and target.known is None and node.output_shape() is None):
        opened = _open_axes(node, axes, scales, sizes, regions)
        if opened is not None:
            return _resize_axes(node, opened, transformation, mode)
    planned = []
    factors = _factors(node, axes, scales, sizes)
    for axis, region, (factor, fixed) in zip(axes, regions, factors, strict=True):
        stays = factor.known is not None and float(factor.known) == 1.0
        if fixed is None and stays:
            continue
        new = _scale(node, axis, factor) if fixed is None else fixed
        if not (stays and new == data.shape[axis]) or transformation == "tf_crop_and_resize":
            planned.append(_plan(data, axis, new, constant(new, "int64"), factor, region))
    return _resize_axes(node, planned, transformation, mode)


def _scale(node: OnnxNode, axis: int, factor: Value) -> int:
    """Return the new size of an axis, by its scale or, where only the call knows that, by the model."""
    old, declared = node[0].shape[axis], node.output_shape()
    if not isinstance(old, int):
        raise UnsupportedError("the sizes of its axes must be known", "fix them with shapes={...}")
    if factor.known is not None:
        return int(np.floor(float(factor.known) * int(old) + 1e-9))
    if declared is None:
        raise node.unknown(1 if node.since < 11 else 2)
    length = op("floor", factor * float(old) + 1e-6).cast("int64")
    node.block.require(length, np.array(declared[axis]), f"{node.op_type}: the new size of axis {axis}")
    return declared[axis]


def _factors(
    node: OnnxNode, axes: Sequence[int], scales: Value | None, sizes: Value | None
) -> list[tuple[Value, int | None]]:
    """Return the scale of each axis, and its new size, where that is given rather than the scale."""
    data, declared = node[0], node.output_shape()
    if scales is not None:
        return [(_item(scales, number).cast("float64"), None) for number in range(len(axes))]
    assert sizes is not None
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    stated = sizes_of(sizes)
    if policy == "stretch" and stated is not None and not shapes.is_static(stated):
        return [_factor(size, data.shape[axis]) for size, axis in zip(stated, axes, strict=True)]
    old = [shapes.static_shape(data)[axis] for axis in axes]
    if policy == "stretch":
        new = node.static(3, lambda: declared and [declared[axis] for axis in axes])
        return [(constant(size / have, "float64"), size) for size, have in zip(new, old, strict=True)]
    ratios = [_item(sizes, number).cast("float64") / float(have) for number, have in enumerate(old)]
    scale = _common_scale(policy, ratios)
    factors: list[tuple[Value, int | None]] = []
    for axis, have in zip(axes, old, strict=True):
        # ONNX's ``round_int``: halves are rounded up.
        length = op("floor", scale * float(have) + 0.5).cast("int64")
        if length.known is not None:
            size = int(length.known)
        elif declared is not None:
            size = declared[axis]
            node.block.require(length, np.array(size), f"Resize: the new size of axis {axis}")
        else:
            raise node.unknown(3)
        factors.append((scale, size))
    return factors


def _common_scale(policy: str, ratios: Sequence[Value]) -> Value:
    """Return the scale of all axes. Raises UnsupportedError."""
    if policy not in ("not_larger", "not_smaller"):
        raise UnsupportedError(f"the keep_aspect_ratio_policy {policy!r} is not known")
    return reduce(lambda lhs, rhs: lhs.op("minimum" if policy == "not_larger" else "maximum", rhs), ratios)


def _factor(size: Dim, old: Dim) -> tuple[Value, int | None]:
    """Return the scale and the new size of an axis; an axis that stays has the scale 1."""
    if size == old != ANY:
        return constant(1.0, "float64"), None
    if not (isinstance(size, int) and isinstance(old, int)):
        raise UnsupportedError("the sizes of its axes must be known", "fix them with shapes={...}")
    return constant(size / old, "float64"), int(size)


def _open_axes(
    node: OnnxNode,
    axes: Sequence[int],
    scales: Value | None,
    sizes: Value | None,
    regions: Sequence[tuple[Value, Value] | None],
) -> list[_Axis] | None:
    """Plan axes of which one has a size that the call knows; None if all that change have known sizes.

    An axis whose size the model declares as that of the data stays, and the call checks that it does.
    """
    data, opened = node[0], []
    if sizes is not None and (policy := node.text("keep_aspect_ratio_policy", "stretch")) != "stretch":
        lengths = [shapes.size_along(data, axis).cast("float64") for axis in axes]
        scale = _common_scale(
            policy, [_item(sizes, at).cast("float64") / size for at, size in enumerate(lengths)]
        )
        counts = [op("floor", scale * size + 0.5).cast("int64") for size in lengths]
        plans = zip(axes, counts, regions, strict=True)
        return [_plan(data, axis, ANY, count, scale, region) for axis, count, region in plans]
    stated = (sizes_of(sizes) if sizes is not None else None) or (ANY,) * len(axes)
    declared = node.declared[0] if node.declared else None
    for number, axis in enumerate(axes):
        old = data.shape[axis]
        stays = declared is not None and declared[axis] == old != ANY
        if sizes is not None:
            count = _item(sizes, number).cast("int64")
            if stays and stated[number] == ANY:
                node.block.require(count, np.array(old), f"Resize: the new size of axis {axis}")
            elif stated[number] != old or old == ANY:
                opened.append(_plan(data, axis, stated[number], count, None, regions[number]))
            continue
        assert scales is not None
        scale = _item(scales, number).cast("float64")
        if scale.known is None:
            size = shapes.size_along(data, axis)
            count = op("floor", size.cast("float64") * scale + 1e-6).cast("int64")
            if stays:
                node.block.require(count, np.array(old), f"Resize: the new size of axis {axis}")
            else:
                opened.append(_plan(data, axis, ANY, count, scale, regions[number]))
            continue
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
        opened.append(_plan(data, axis, new, count, scale, regions[number]))
    return None if all(each.widest is not None for each in opened) else opened


def _round(node: OnnxNode, x: Value, scale: Value) -> Value:
    """Return the old place that is nearest to each new one.

    Before opset 11 the standard does not say which that is: onnxruntime's is the one before, and where an
    axis shrinks the one behind.
    """
    if node.since < 11:
        x = x.cast("float32")  # as is 12 / 2.4, where 5 comes out
        return (scale < 1).choose(op("ceil", x), op("floor", x)).cast("float64")
    match node.text("nearest_mode", "round_prefer_floor"):
        case "round_prefer_floor":
            # Halves are rounded down: 2.5 becomes 2.
            return op("ceil", x - 0.5)
        case "round_prefer_ceil":
            return op("floor", x + 0.5)
        case "floor":
            return op("floor", x)
        case "ceil":
            return op("ceil", x)
        case other:
            raise UnsupportedError(f"the nearest_mode {other!r} is not known")


def _as_dtype(result: Value, dtype: str) -> Value:
    """Return a result in the dtype of the data, rounded to integers."""
    if result.dtype == dtype:
        return result
    if dtype.startswith(("float", "bfloat")):
        return result.cast(dtype)
    return quantize(result, None, dtype)


def _item(vector: Value, index: int) -> Value:
    """Return an element of a vector as a scalar."""
    return shapes.scalar(shapes.slice_axis(vector, 0, index, index + 1))


def _upsample_by(node: OnnxNode, scales: Value) -> Value:
    """Resize as before opset 11: by scales, from the asymmetric place."""
    mode, rank = node.text("mode", "nearest"), node[0].rank
    mode = "linear" if mode == "bilinear" else mode
    return _resize_by(node, range(rank), scales, None, [None] * rank, "asymmetric", mode)


@operator("Upsample")
def _upsample(node: OnnxNode) -> Value:
    if node.since < 7:
        scales = constant([1.0, 1.0, node.number("height_scale"), node.number("width_scale")], "float32")
    elif node.since < 9:
        scales = constant(np.asarray(node.floats("scales"), "float32"))
    else:
        scales = node[1]
    return _upsample_by(node, scales)
