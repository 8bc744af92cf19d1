"""Import operators that sample images: at the places of a grid, in regions.

The standard: https://onnx.ai/onnx/operators/onnx__GridSample.html
"""

from __future__ import annotations

import math
from functools import reduce
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, check_new_array, constant, count_up, op, with_shape


@operator("GridSample", note="of two and three axes")
def _grid_sample(node: OnnxNode) -> Value:
    data, grid = node[0], node[1]
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(
        node.text("mode", "linear"), node.text("mode", "linear")
    )
    rank = data.rank - 2
    if rank not in (2, 3):
        raise UnsupportedError(f"images of {rank} axes are not supported")
    moved = shapes.transpose(grid, [0, grid.rank - 1, *range(1, grid.rank - 1)])
    return op(
        "image.grid_sample",
        data,
        moved,
        method=mode,
        layout="NCHW" if rank == 2 else "NCDHW",
        padding_mode=node.text("padding_mode", "zeros"),
        align_corners=bool(node.integer("align_corners")),
    )


@operator("AffineGrid")
def _affine_grid(node: OnnxNode) -> Value:
    """Map the places of an image's pixels, from -1 to 1, by matrices."""
    matrices = node[0]
    declared = node.output_shape()
    batch = matrices.shape[0]
    rank = int(cast(int, matrices.shape[1]))
    sizes = node.static(1) if node[1].known is not None else None
    if sizes is None:
        if declared is None:
            raise node.unknown(1)
        sizes = [0, 0, *declared[1 : 1 + rank]]
        given = shapes.slice_axis(node[1], 0, 2, 2 + rank)
        node.block.require(given, np.array(sizes[2:]), "AffineGrid: size")
    images = sizes[2:]
    check_new_array(rank + 1, *images)
    lines = []
    for size in images:
        if node.integer("align_corners"):
            lines.append(np.linspace(-1, 1, size) if size > 1 else np.zeros(1))
        else:
            lines.append((count_up(size) * 2 + 1) / size - 1)
    mesh = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*(item.reshape(-1) for item in mesh[::-1]), np.ones(math.prod(images))])
    from nnmagic.importers.onnx.operators.products import matmul

    mapped = matmul(matrices, constant(points, matrices.dtype))
    return shapes.reshape(shapes.transpose(mapped, [0, 2, 1]), [batch, *images, rank])


@operator("RoiAlign", note="with a sampling_ratio, or as before opset 16")
def _roi_align(node: OnnxNode) -> Value:
    data, rois, batch_indices = node[0], node[1], node[2]
    samples = node.integer("sampling_ratio")
    mode = node.text("mode", "avg")
    default = "half_pixel" if node.since >= 16 else "output_half_pixel"
    half = node.text("coordinate_transformation_mode", default) == "half_pixel"
    if samples < 1:
        if half or mode != "avg":
            message = "sampling_ratio 0 is supported for means of output_half_pixel only"
            raise UnsupportedError(message, "export the model with a sampling_ratio")
        numbered = [shapes.unsqueeze(batch_indices.cast(rois.dtype), [1]), rois]
        return op(
            "vision.roi_align",
            data,
            op("concatenate", numbered, axis=1),
            pooled_size=(node.integer("output_height", 1), node.integer("output_width", 1)),
            spatial_scale=node.number("spatial_scale", 1.0),
            sample_ratio=-1,
            mode="avg",
        )
    check_new_array(*(node.integer(f"output_{side}", 1) * samples for side in ("height", "width")))
    scaled = rois * node.number("spatial_scale", 1.0) - (0.5 if half else 0.0)
    pooled = [node.integer("output_height", 1), node.integer("output_width", 1)]
    places = []
    for axis, bins in enumerate(pooled):
        first, last = (shapes.slice_axis(scaled, 1, at, at + 1) for at in (1 - axis, 3 - axis))
        extent = last - first
        if not half:
            extent = extent.maximum(1)
        steps = (count_up(bins * samples) // samples) + (count_up(bins * samples) % samples + 0.5) / samples
        places.append(first + extent / bins * scaled.like(steps[None, :]))
    height, width = (shapes.size_along(data, axis).cast(rois.dtype) for axis in (2, 3))
    y, x = shapes.unsqueeze(places[0], [2]), shapes.unsqueeze(places[1], [1])
    inside = op("logical_and", op("logical_and", y >= -1, y <= height), (x >= -1) & (x <= width))
    y, x = y.maximum(0).minimum(height - 1), x.maximum(0).minimum(width - 1)
    terms = _corner_terms(data, batch_indices, y, x)
    split = [pooled[0], samples, pooled[1], samples]

    def reduce_samples(name: str, term: Value) -> Value:
        masked = op("reshape", term * inside.cast(data.dtype), newshape=(*term.type.shape[:1], -1, *split))
        return op(name, masked, axis=(3, 5))

    if mode == "avg":
        first, *others = terms
        result = reduce_samples("mean", sum(others, first))
    elif mode == "max":
        first, *others = (reduce_samples("max", term) for term in terms)
        result = reduce(Value.maximum, others, first)
    else:
        raise UnsupportedError(f"the mode {mode!r} is not known")
    result = shapes.transpose(result, [1, 0, 2, 3])
    return with_shape(result, [rois.shape[0], *result.shape[1:]])


def _corner_terms(data: Value, batch_indices: Value, y: Value, x: Value) -> list[Value]:
    """Return the four weighted neighbours (C, R, H, W) of places (R, H, W) in images (N, C, H, W)."""
    channels = data.shape[1]
    if not isinstance(channels, int):
        raise UnsupportedError("the number of channels must be known", "fix it with shapes={...}")
    flat = op("reshape", shapes.transpose(data, [1, 0, 2, 3]), newshape=(int(channels), -1))
    height, width = (shapes.size_along(data, axis) for axis in (2, 3))
    begins = shapes.take(shapes.counting(data, 0) * (height * width), batch_indices, 0)
    begins = shapes.unsqueeze(begins, [1, 2])
    terms = []
    low_y, low_x = op("floor", y), op("floor", x)
    for down in (0, 1):
        for right in (0, 1):
            row = (low_y + down).cast("int64").minimum(height - 1)
            column = (low_x + right).cast("int64").minimum(width - 1)
            taken = op("take", flat, begins + row * width + column, axis=1, mode="clip")
            terms.append(taken * (_share(y - low_y, down) * _share(x - low_x, right)))
    return terms


def _share(fraction: Value, upper: int) -> Value:
    return fraction if upper else 1 - fraction
