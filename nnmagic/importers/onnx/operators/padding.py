"""Import Pad and CenterCropPad.

The standard: https://onnx.ai/onnx/operators/onnx__Pad.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode, normalize_axis
from nnmagic.importers.onnx.operators.slicing import positions, spread
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, check_new_array, constant, count_up, op, with_shape
from nnmagic.relay.types import ANY, Dim

#: The end of a slice that goes on to the last element.
_FAR = 2**48


@operator("Pad")
def _pad(node: OnnxNode) -> Value:
    data, mode = node[0], node.text("mode", "constant")
    declared = node.output_shape()
    fill: Value | None
    if node.since < 11:
        pads = node.ints("pads") or node.ints("paddings") or []
        fill = data.like(node.number("value"))
        axes = list(range(data.rank))
    else:
        fill = node.get(2)
        if node.get(3) is not None and node[3].known is None:
            return _pad_dynamic_axes(node, mode, fill)
        axes = node.static(3) if node.get(3) is not None else list(range(data.rank))
        axes = [normalize_axis(axis, data.rank) for axis in axes]
        if node[1].known is None:
            return dynamic_pad(node, axes, mode, fill, declared)
        pads = node.static(1)
        if mode == "wrap" and not shapes.is_static([data.shape[axis] for axis in axes]):
            return dynamic_pad(node, axes, mode, fill, declared)
    return _pad_known(data, axes, pads, mode, fill)


def _pad_known(data: Value, axes: Sequence[int], pads: Sequence[int], mode: str, fill: Value | None) -> Value:
    before, after = [0] * data.rank, [0] * data.rank
    if len(pads) != 2 * len(axes):
        raise UnsupportedError(f"pads has {len(pads)} items for {len(axes)} axes")
    for number, axis in enumerate(axes):
        before[axis], after[axis] = pads[number], pads[number + len(axes)]
    return pad(data, before, after, mode, fill)


def _pad_dynamic_axes(node: OnnxNode, mode: str, fill: Value | None) -> Value:
    """Pad axes that are given at the call."""
    rank, axes, pads = node[0].rank, node[3], node[1]
    count = axes.shape[0]
    if node.output_shape() is None or not isinstance(count, int):
        raise node.unknown(3)
    halves = [shapes.slice_axis(pads, 0, first, first + int(count)) for first in (0, int(count))]
    widths = op("concatenate", [spread(half, axes, rank, 0) for half in halves], axis=0)
    return dynamic_pad(replace(node, inputs=[node[0], widths]), range(rank), mode, fill, node.output_shape())


def pad(data: Value, before: Sequence[int], after: Sequence[int], mode: str, fill: Value | None) -> Value:
    """Pad each axis; negative numbers cut elements off."""
    for axis in range(data.rank):
        first, last = min(before[axis], 0), min(after[axis], 0)
        if first or last:
            data = shapes.slice_axis(data, axis, -first, last if last else _FAR)
    widths = [(max(0, b), max(0, a)) for b, a in zip(before, after, strict=True)]
    if not any(any(pair) for pair in widths):
        return data
    if mode == "constant":
        value = data.like(0) if fill is None else shapes.scalar(fill)
        if data.dtype == "bool":
            return op("nn.pad", data.cast("uint8"), value.cast("uint8"), pad_width=tuple(widths)).cast("bool")
        return op("nn.pad", data, value, pad_width=tuple(widths), pad_mode="constant")
    if mode not in ("edge", "reflect", "wrap"):
        raise UnsupportedError(f"the mode {mode!r} is not known")
    for axis, (first, last) in enumerate(widths):
        if first or last:
            data = _pad_axis(data, axis, first, last, mode)
    return data


def _pad_axis(data: Value, axis: int, first: int, last: int, mode: str) -> Value:
    size = data.shape[axis]
    if not isinstance(size, int):
        name = {"edge": "edge", "reflect": "reflect"}.get(mode)
        if name is None:
            raise UnsupportedError(f"the mode {mode!r} needs an axis of known size", "give it a fixed shape")
        widths = tuple((first, last) if at == axis else (0, 0) for at in range(data.rank))
        return op("nn.pad", data, data.like(0), pad_width=widths, pad_mode=name)
    numpy_mode = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}[mode]
    if not size:
        raise UnsupportedError("an axis without elements cannot be padded from its own")
    check_new_array(int(size) + first + last)
    indices = np.pad(count_up(int(size)), (first, last), numpy_mode)  # type: ignore[call-overload]  # one of its modes
    return op("take", data, constant(indices.astype("int64")), axis=axis, mode="clip")


def dynamic_pad(
    node: OnnxNode, axes: Sequence[int], mode: str, fill: Value | None, declared: tuple[int, ...] | None
) -> Value:
    """Pad by widths that are given at the call; the declared shape says how large the result is."""
    data, pads = node[0], node[1].cast("int64")
    value = data.like(0) if fill is None else shapes.scalar(fill)
    if data.dtype == "bool":
        data, value = data.cast("uint8"), value.cast("uint8")
    for number, axis in enumerate(axes):
        before, after = (
            shapes.scalar(shapes.slice_axis(pads, 0, at, at + 1)) for at in (number, number + len(axes))
        )
        size = shapes.size_along(data, axis)
        length = before + size + after
        dim: Dim = ANY
        if declared is not None:
            dim = declared[axis]
            node.block.require(length, np.array(dim), f"Pad: the length of axis {axis}")
        at = positions(length, dim) - before
        new = [*data.shape[:axis], dim, *data.shape[axis + 1 :]]
        if mode == "edge":
            data = with_shape(op("take", data, at, axis=axis, mode="clip"), new)
        elif mode == "wrap":  # what is left where negative widths have cut elements off
            first = (-before).maximum(0)
            left = (size - first + after.minimum(0)).maximum(1)
            at = first + op("floor_mod", at - first, left)
            data = with_shape(op("take", data, at, axis=axis, mode="clip"), new)
        elif mode == "reflect":
            period = (2 * size - 2).maximum(1)
            folded = op("floor_mod", at, period)
            data = with_shape(op("take", data, folded.minimum(period - folded), axis=axis, mode="clip"), new)
        elif mode == "constant":
            inside = op("logical_and", at >= 0, at < size)
            inside = shapes.unsqueeze(inside, range(1, data.rank - axis))
            data = with_shape(op("take", data, at, axis=axis, mode="clip"), new)
            data = inside.choose(data, value)
        else:
            raise UnsupportedError(f"the mode {mode!r} is not known")
    return data.cast(node[0].dtype) if node[0].dtype != "bool" else data.cast("bool")


@operator("CenterCropPad")
def _center_crop_pad(node: OnnxNode) -> Value:
    """Pad each axis by half of what it lacks, rounded towards 0; what it has too much is a negative width."""
    data, wanted = node[0], node[1].cast("int64")
    axes = [normalize_axis(axis, data.rank) for axis in node.ints("axes") or range(data.rank)]
    if wanted.shape != (len(axes),):
        raise UnsupportedError(f"the input 'shape' must have {len(axes)} sizes")
    sizes = [shapes.scalar(shapes.slice_axis(wanted, 0, at, at + 1)) for at in range(len(axes))]
    lacking = [size - shapes.size_along(data, axis) for size, axis in zip(sizes, axes, strict=True)]
    first = [op("trunc_divide", width, width.like(2)) for width in lacking]
    widths = [*first, *(width - half for width, half in zip(lacking, first, strict=True))]
    pads = op("concatenate", [shapes.unsqueeze(width, [0]) for width in widths], axis=0)
    if pads.known is not None:
        return _pad_known(data, axes, pads.known.tolist(), "constant", None)
    padded = replace(node, inputs=[data, pads])
    result = dynamic_pad(padded, axes, "constant", None, node.output_shape())
    new: list[Dim] = list(result.shape)
    for axis, size in zip(axes, sizes, strict=True):
        new[axis] = int(size.known) if size.known is not None else new[axis]
    return with_shape(result, new)
